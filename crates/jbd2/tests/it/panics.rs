//! Panics of devices in daemons and callers: the journal aborts, and no thread waits for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use block::{BlockDevice, Geometry, MemoryDevice, Request, Ticket};
use jbd2::policy::{Checkpointer, Committer, HomeIo};
use jbd2::{Buffer, Config, Credits, Error, Journal, LogPolicy};
use layout::{Block, BlockNr};
use rt::Nanos;
use rt::atomic::{AtomicBool, Ordering};
use testkit::{Behaviour, UnreliableDevice};

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

/// A device that returns too few results, or too many, aborts the journal: a commit or checkpoint
/// does not take a request without a result for done, and no thread waits for it.
#[test]
fn a_wrong_number_of_results_aborts() {
    for (surplus, in_checkpoint, home) in [
        (-1, false, HomeIo::Copy),
        (1, false, HomeIo::Copy),
        (-1, true, HomeIo::Copy),
        (1, true, HomeIo::Copy),
        (-1, true, HomeIo::Wait),
        (1, true, HomeIo::Wait),
    ] {
        let run = move || {
            let kind = Kind::default();
            let (memory, _) = kind.devices();
            kind.format(Arc::<MemoryDevice>::clone(&memory));
            let device = UnreliableDevice::new(memory);
            let shared: Arc<dyn BlockDevice> = Arc::<UnreliableDevice>::clone(&device);
            let policy = LogPolicy {
                home,
                ..LogPolicy::default()
            };
            let config = Config {
                policy,
                ..kind.config()
            };
            let location = kind.location(Arc::clone(&shared));
            let journal = Journal::open(location, shared, config, Notes::new());
            let journal = journal.expect("the log is good");
            let buffer = Buffer::new(BlockNr::new(1), Block::zeroed(1024).into_arc());
            write(&journal, &buffer).expect("it works");
            if in_checkpoint {
                journal.commit_running().expect("it works");
            }
            device.set(Behaviour {
                surplus,
                ..Behaviour::slow(Nanos::from_millis(10))
            });
            let writer = {
                let (journal, buffer) = (Arc::clone(&journal), Arc::clone(&buffer));
                rt::spawn("writer", move || {
                    rt::sleep(Nanos::from_millis(5));
                    // With `home=wait` it waits for the write of the block, and may panic too.
                    let write = || write(&journal, &buffer);
                    drop(catch_unwind(AssertUnwindSafe(write)));
                })
            };
            let call = AssertUnwindSafe(|| match in_checkpoint {
                true => journal.write_back(Nanos::MAX, 10).map(drop),
                false => journal.commit_running().map(drop),
            });
            let called = catch_unwind(call);
            assert!(!matches!(called, Ok(Ok(()))), "a request has no result");
            writer.join().expect("it does not wait for ever");
            device.set(Behaviour::default());
            journal.commit_running().expect_err("it has aborted");
            journal.close().expect_err("it has aborted");
        };
        sim::run(sim::Config::fair(1), run)
            .unwrap_or_else(|error| panic!("{surplus}, {in_checkpoint}, {home:?}: {error}"));
    }
}

/// A panic of the device at any write of two threads that fill a small log, commit and checkpoint
/// leaves neither waiting.
#[test]
fn a_panic_at_any_write_leaves_no_thread_waiting() {
    let mut panics = 0;
    for (batches, seed) in (0..60).flat_map(|batches| [(batches, 1), (batches, 2)]) {
        let run = move || fill_until_a_panic(batches);
        match sim::run(sim::Config::random(seed), run) {
            Ok(report) => panics += report.value,
            // The panic met a daemon, which ends the world.
            Err(error) if error.to_string().contains("on purpose") => {}
            Err(error) => panic!("{batches}, {seed}: {error}"),
        }
    }
    assert!(panics > 50, "few writes panicked: {panics}");
}

/// Returns the number of callers that failed.
fn fill_until_a_panic(batches: u64) -> usize {
    let kind = Kind {
        log_blocks: 40,
        ..Kind::default()
    };
    let (memory, _) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&memory));
    let device = UnreliableDevice::new(memory);
    let home: Arc<dyn BlockDevice> = Arc::<UnreliableDevice>::clone(&device);
    let policy = LogPolicy {
        checkpointer: Checkpointer::Caller,
        ..LogPolicy::default()
    };
    let config = Config {
        policy,
        ..kind.config()
    };
    let location = kind.location(Arc::clone(&home));
    let journal = Journal::open(location, home, config, Notes::new());
    let journal = journal.expect("the log is good");
    device.set(Behaviour {
        panic_after: Some(batches),
        ..Behaviour::slow(Nanos::from_millis(1))
    });
    let writers = [0, 40].map(|first| {
        let journal = Arc::clone(&journal);
        rt::spawn("writer", move || {
            let fill = || {
                for nr in first..first + 40 {
                    let nr = BlockNr::new(nr);
                    let buffer = Buffer::new(nr, Block::zeroed(1024).into_arc());
                    write(&journal, &buffer)?;
                    if nr.get().is_multiple_of(4) {
                        journal.commit_running()?;
                    }
                }
                Ok::<_, Error>(())
            };
            !matches!(catch_unwind(AssertUnwindSafe(fill)), Ok(Ok(())))
        })
    });
    let have_failed = writers.map(|writer| writer.join().expect("no panic is left"));
    device.set(Behaviour::default());
    drop(journal.close());
    have_failed
        .into_iter()
        .filter(|has_failed| *has_failed)
        .count()
}

/// A thread that waits for the write of a block, with `home=wait`, gets the results of the write.
/// If it panics, the thread that submitted the write does not wait for ever.
#[test]
fn a_panic_of_the_thread_that_wants_a_block_aborts() {
    let run = || {
        let kind = Kind::default();
        let (memory, _) = kind.devices();
        kind.format(Arc::<MemoryDevice>::clone(&memory));
        let wrong = UnreliableDevice::new(memory);
        let device = UnreliableDevice::new(Arc::<UnreliableDevice>::clone(&wrong));
        let shared: Arc<dyn BlockDevice> = Arc::<UnreliableDevice>::clone(&device);
        let config = Config {
            policy: LogPolicy {
                home: HomeIo::Wait,
                ..LogPolicy::default()
            },
            ..kind.config()
        };
        let location = kind.location(Arc::clone(&shared));
        let journal = Journal::open(location, shared, config, Notes::new());
        let journal = journal.expect("the log is good");
        let buffers = [1, 11].map(|nr| {
            let nr = BlockNr::new(nr);
            Buffer::new(nr, Block::zeroed(1024).into_arc())
        });
        for buffer in &buffers {
            write(&journal, buffer).expect("it works");
        }
        journal.commit_running().expect("it works");
        device.set(Behaviour::slow(Nanos::from_millis(10)));
        // The write of the second block has no result.
        wrong.set(Behaviour {
            of: |request| request.range().0.get() == 22,
            surplus: -1,
            ..Behaviour::default()
        });
        let checkpointer = {
            let journal = Arc::clone(&journal);
            rt::spawn("checkpointer", move || {
                let write_back = || journal.write_back(Nanos::MAX, 10);
                catch_unwind(AssertUnwindSafe(write_back))
            })
        };
        rt::sleep(Nanos::from_millis(5));
        let write = || write(&journal, &buffers[1]);
        let written = catch_unwind(AssertUnwindSafe(write));
        written.expect_err("the device breaks its contract");
        let checkpointed = checkpointer.join().expect("no panic is left");
        assert!(!matches!(checkpointed, Ok(Ok(_))), "{checkpointed:?}");
        journal.close().expect_err("it has aborted");
    };
    sim::run(sim::Config::fair(1), run).unwrap_or_else(|error| panic!("{error}"));
}

fn write(journal: &Arc<Journal>, buffer: &Arc<Buffer>) -> Result<(), Error> {
    let mut handle = journal.start(Credits::blocks(1))?;
    handle.write(buffer)?[0] += 1;
    handle.finish().map(drop)
}
