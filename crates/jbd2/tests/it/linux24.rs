//! The policy `linux24` does what a kernel of 2001-2003 did; the default policy does not.

use std::sync::Arc;

use block::{BlockDevice, Geometry, MemoryDevice, Request, Ticket, Trace};
use jbd2::{Buffer, Config, Credits, Journal, LogPolicy};
use layout::{Block, BlockNr};
use rt::{Condvar, Mutex, Nanos};

use crate::harness::{Kind, Notes, Small};

/// A device that keeps writes beyond a sector waiting while its gate is shut.
struct Gate {
    inner: MemoryDevice,
    from: u64,
    is_shut: Mutex<bool>,
    opened: Condvar,
    held: Condvar,
    is_holding: Mutex<bool>,
}

impl Gate {
    fn shut(&self) {
        *self.is_shut.lock() = true;
        *self.is_holding.lock() = false;
    }

    fn open(&self) {
        *self.is_shut.lock() = false;
        self.opened.notify_all();
    }

    fn wait_until_holding(&self) {
        let mut is_holding = self.is_holding.lock();
        while !*is_holding {
            self.held.wait(&mut is_holding);
        }
    }
}

impl BlockDevice for Gate {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let is_held = batch
            .iter()
            .any(|request| request.is_write() && request.range().0.get() >= self.from);
        let mut is_shut = self.is_shut.lock();
        while is_held && *is_shut {
            *self.is_holding.lock() = true;
            self.held.notify_all();
            self.opened.wait(&mut is_shut);
        }
        drop(is_shut);
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        "gate".to_owned()
    }
}

fn buffer(nr: u64) -> Arc<Buffer> {
    Buffer::new(BlockNr::new(nr), Block::zeroed(1024).into_arc())
}

fn write(journal: &Arc<Journal>, buffer: &Arc<Buffer>) {
    let mut handle = journal.start(Credits::blocks(1)).expect("it works");
    handle.write(buffer).expect("it has credits")[0] += 1;
    handle.finish().expect("it works");
}

/// Whether a block can be changed while its image is on its way to the log.
fn can_change_in_log_io(policy: LogPolicy) -> bool {
    let kind = Kind::default();
    let gate = Arc::new(Gate {
        inner: MemoryDevice::new(256 * 1024),
        from: 200,
        is_shut: Mutex::new(false),
        opened: Condvar::new(),
        held: Condvar::new(),
        is_holding: Mutex::new(false),
    });
    let device: Arc<dyn BlockDevice> = Arc::<Gate>::clone(&gate);
    let log = kind.format(Arc::clone(&device));
    let config = Config {
        policy,
        ..kind.config()
    };
    let journal = Journal::open(log, device, config, Notes::new()).expect("the log is good");
    let buffer = buffer(1);
    // The first commit also writes the journal's superblock, which is not what this is about.
    write(&journal, &buffer);
    journal.commit_running().expect("it works");
    write(&journal, &buffer);
    gate.shut();
    let committer = {
        let journal = Arc::clone(&journal);
        rt::spawn("committer", move || journal.commit_running())
    };
    gate.wait_until_holding();
    let is_done = Arc::new(Mutex::new(false));
    let writer = {
        let (journal, is_done) = (Arc::clone(&journal), Arc::clone(&is_done));
        rt::spawn("writer", move || {
            write(&journal, &buffer);
            *is_done.lock() = true;
        })
    };
    rt::sleep(Nanos::from_millis(50));
    let could_change = *is_done.lock();
    gate.open();
    writer.join().expect("no panic");
    committer.join().expect("no panic").expect("it works");
    let stalled = journal.stats().stalled_log_io;
    assert_eq!(stalled == Nanos::new(0), could_change);
    journal.close().expect("it works");
    could_change
}

#[test]
fn a_block_in_log_io_is_not_changed() {
    assert!(!can_change_in_log_io(LogPolicy::Linux24));
    assert!(can_change_in_log_io(LogPolicy::Default));
}

#[test]
fn the_caller_checkpoints_in_batches_of_64() {
    let kind = Kind {
        log_blocks: 1024,
        ..Kind::default()
    };
    let memory = Arc::new(MemoryDevice::new(4 << 20));
    let log = {
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
        kind.format(device)
    };
    let trace = Trace::new();
    let home: Arc<dyn BlockDevice> = Arc::new(trace.attach(Arc::new(MemoryDevice::new(4 << 20))));
    let config = Config {
        policy: LogPolicy::Linux24,
        is_external: true,
        ..kind.config()
    };
    let journal = Journal::open(log, home, config, Notes::new()).expect("the log is good");
    let buffers: Vec<_> = (0..3000).map(buffer).collect();
    for some in buffers.chunks(50) {
        let mut handle = journal.start(Credits::blocks(50)).expect("it works");
        for buffer in some {
            handle.write(buffer).expect("it has credits")[0] = 1;
        }
        handle.finish().expect("it works");
    }
    let statistics = journal.stats();
    assert!(
        statistics.commits >= 10,
        "each transaction closes at a quarter: {statistics:?}"
    );
    assert!(statistics.stalled_log_space > Nanos::new(0));
    assert!(statistics.tail_moves > 0);
    let batches: Vec<u64> = trace
        .events()
        .iter()
        .filter_map(|event| match event {
            block::Event::Submitted { requests, .. } => {
                let sectors: u64 = requests.iter().map(|request| request.range().1).sum();
                requests
                    .iter()
                    .any(Request::is_write)
                    .then_some(sectors / 2)
            }
            _ => None,
        })
        .collect();
    assert!(batches.iter().all(|blocks| *blocks <= 64), "{batches:?}");
    assert!(
        batches.iter().filter(|blocks| **blocks == 64).count() > 5,
        "{batches:?}"
    );
    journal.close().expect("it works");
}

#[test]
fn the_tail_moves_only_when_space_is_needed() {
    let kind = Kind {
        log_blocks: 120,
        ..Kind::default()
    };
    let (home, _) = kind.devices();
    let log = kind.format(Arc::<MemoryDevice>::clone(&home));
    let config = Config {
        policy: LogPolicy::Linux24,
        ..kind.config()
    };
    let mut small = Small::open_with(kind, home, log, config);
    for nr in 0..15 {
        small.write(nr);
        small.commit();
        small
            .journal
            .write_back(rt::monotonic(), 100)
            .expect("it works");
    }
    assert_eq!(small.journal.owed_bytes(), 0, "all is home");
    assert_eq!(
        small.journal.stats().tail_moves,
        0,
        "and nobody has moved the tail"
    );
    for nr in 0..60 {
        small.write(nr);
        small.commit();
    }
    let statistics = small.journal.stats();
    assert!(statistics.tail_moves > 0, "{statistics:?}");
    Arc::clone(&small.journal).close().expect("it works");
}
