//! Panics of devices in daemons and callers: the journal aborts, and no thread waits for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use block::{BlockDevice, Geometry, MemoryDevice, Request, Ticket};
use jbd2::policy::Committer;
use jbd2::{Buffer, Config, Credits, Error, Journal, LogPolicy};
use layout::{Block, BlockNr};
use rt::Nanos;
use rt::atomic::{AtomicBool, Ordering};

use crate::harness::{Kind, Notes, Small};

/// A device that panics once when it is written to.
struct Bomb {
    inner: Arc<MemoryDevice>,
    is_armed: AtomicBool,
}

impl BlockDevice for Bomb {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let writes = batch.iter().any(|one| matches!(one, Request::Write { .. }));
        let is_hit = writes && self.is_armed.swap(false, Ordering::AcqRel);
        assert!(!is_hit, "a panic on purpose");
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        "bomb".to_owned()
    }
}

/// No thread waits for ever for a daemon that has panicked.
#[test]
fn a_panic_in_the_committer_aborts() {
    let kind = Kind::default();
    let (home, _) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&home));
    let bomb = Arc::new(Bomb {
        inner: home,
        is_armed: AtomicBool::new(false),
    });
    let device: Arc<dyn BlockDevice> = Arc::<Bomb>::clone(&bomb);
    let policy = LogPolicy {
        committer: Committer::Daemon,
        ..LogPolicy::default()
    };
    let config = Config {
        policy,
        ..kind.config()
    };
    let location = kind.location(Arc::clone(&device));
    let mut small = Small::open_with(kind, device, location, config);
    let first = small.write(1);
    small.journal.commit(first).expect("nothing is wrong yet");
    let second = small.write(2);
    bomb.is_armed.store(true, Ordering::Release);
    let error = small.journal.commit(second).expect_err("it is not durable");
    assert!(matches!(error, Error::Aborted(_)), "{error}");
    assert!(error.to_string().contains("a panic in a commit"), "{error}");
    assert!(small.journal.close().is_err());
}

/// A panic of a device in a caller's commit or checkpoint aborts the journal: other callers get an
/// error, and so does the close.
#[test]
fn a_panic_in_a_callers_thread_leaves_no_thread_waiting() {
    for in_checkpoint in [false, true] {
        let run = move || {
            let kind = Kind::default();
            let (home, _) = kind.devices();
            kind.format(Arc::<MemoryDevice>::clone(&home));
            let device = Arc::new(Bomb {
                inner: home,
                is_armed: AtomicBool::new(false),
            });
            let home: Arc<dyn BlockDevice> = Arc::<Bomb>::clone(&device);
            let location = kind.location(Arc::clone(&home));
            let journal = Journal::open(location, home, kind.config(), Notes::new());
            let journal = journal.expect("the log is good");
            let buffer = Buffer::new(BlockNr::new(1), Block::zeroed(1024).into_arc());
            let write = || {
                let mut handle = journal.start(Credits::blocks(1)).expect("it works");
                handle.write(&buffer).expect("it has credits")[0] += 1;
                handle.finish().expect("it works");
            };
            write();
            if in_checkpoint {
                journal.commit_running().expect("it works");
            }
            device.is_armed.store(true, Ordering::Release);
            let call = AssertUnwindSafe(|| match in_checkpoint {
                true => journal.write_back(Nanos::MAX, 10).map(drop),
                false => journal.commit_running().map(drop),
            });
            catch_unwind(call).expect_err("the device panics");
            device.is_armed.store(false, Ordering::Release);
            journal.commit_running().expect_err("it has aborted");
            journal.close().expect_err("it has aborted");
        };
        sim::run(sim::Config::fair(1), run).unwrap_or_else(|error| panic!("{error}"));
    }
}
