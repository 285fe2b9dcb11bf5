//! The policy `linux24` does what a kernel of 2001-2003 did; the default policy does not.

use std::sync::Arc;

use block::{BlockDevice, Geometry, MemoryDevice, Request, Ticket, Trace};
use jbd2::{Buffer, Config, Credits, Journal, LogPolicy};
use layout::{Block, BlockNr};
use rt::{Condvar, Mutex, Nanos};
use testkit::{Behaviour, UnreliableDevice};

use crate::harness::{Kind, Notes, Small};

/// A device that keeps writes of some sectors waiting while its gate is shut.
struct Gate {
    inner: MemoryDevice,
    sectors: std::ops::Range<u64>,
    state: Mutex<GateState>,
    opened: Condvar,
    held: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    is_holding: bool,
}

impl Gate {
    fn shut(&self) {
        *self.state.lock() = GateState {
            is_shut: true,
            is_holding: false,
        };
    }

    fn open(&self) {
        self.state.lock().is_shut = false;
        self.opened.notify_all();
    }

    fn wait_until_holding(&self) {
        let mut state = self.state.lock();
        while !state.is_holding {
            self.held.wait(&mut state);
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
            .any(|request| request.is_write() && self.sectors.contains(&request.range().0.get()));
        let mut state = self.state.lock();
        while is_held && state.is_shut {
            state.is_holding = true;
            self.held.notify_all();
            self.opened.wait(&mut state);
        }
        drop(state);
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

/// Returns true if a block can be changed while its image is on its way to the log.
fn can_change_in_log_io(policy: LogPolicy) -> bool {
    let kind = Kind::default();
    let gate = Arc::new(Gate {
        inner: MemoryDevice::new(256 * 1024),
        sectors: 200..u64::MAX,
        state: Mutex::default(),
        opened: Condvar::new(),
        held: Condvar::new(),
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
    // Time passes in a simulated world only when no task can run.
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

/// Returns true if a block can be changed while its image is on its way to its final location.
fn can_change_on_its_way_home(policy: LogPolicy) -> bool {
    let kind = Kind::default();
    let gate = Arc::new(Gate {
        inner: MemoryDevice::new(256 * 1024),
        sectors: 2..4,
        state: Mutex::default(),
        opened: Condvar::new(),
        held: Condvar::new(),
    });
    let device: Arc<dyn BlockDevice> = Arc::<Gate>::clone(&gate);
    let log = kind.format(Arc::clone(&device));
    let config = Config {
        policy,
        ..kind.config()
    };
    let journal = Journal::open(log, device, config, Notes::new()).expect("the log is good");
    let buffer = buffer(1);
    write(&journal, &buffer);
    journal.commit_running().expect("it works");
    gate.shut();
    let checkpointer = {
        let journal = Arc::clone(&journal);
        rt::spawn("checkpointer", move || journal.write_back(Nanos::MAX, 10))
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
    checkpointer.join().expect("no panic").expect("it works");
    let stalled = journal.stats().stalled_log_io;
    assert_eq!(stalled == Nanos::new(0), could_change);
    journal.close().expect("it works");
    could_change
}

#[test]
fn a_block_on_its_way_home_is_not_changed() {
    for (policy, expect) in [
        (LogPolicy::LINUX24, false),
        (with(LogPolicy::LINUX24, "home", "copy"), true),
        (LogPolicy::DEFAULT, true),
        (with(LogPolicy::DEFAULT, "home", "wait"), false),
    ] {
        assert_eq!(
            simulated(move || can_change_on_its_way_home(policy)),
            expect,
            "{policy:?}"
        );
    }
}

/// A thread that wants to change a block waits for its write even if the write is still being
/// submitted, and not for the other writes of the checkpoint.
#[test]
fn a_block_in_submission_is_waited_for_alone() {
    const TIME: Nanos = Nanos::from_millis(10);
    let waited = simulated(|| {
        let kind = Kind::default();
        let home = UnreliableDevice::new(Arc::new(MemoryDevice::new(4 << 20)));
        let log = kind.format(Arc::new(MemoryDevice::new(4 << 20)));
        let config = Config {
            policy: with(LogPolicy::DEFAULT, "home", "wait"),
            is_external: true,
            ..kind.config()
        };
        let device: Arc<dyn BlockDevice> = Arc::<UnreliableDevice>::clone(&home);
        let journal = Journal::open(log, device, config, Notes::new()).expect("the log is good");
        // Four requests: no two blocks are neighbours.
        let buffers: Vec<_> = [1, 11, 21, 31].into_iter().map(buffer).collect();
        buffers.iter().for_each(|buffer| write(&journal, buffer));
        journal.commit_running().expect("it works");
        home.set(Behaviour {
            submission: TIME,
            ..Behaviour::slow(TIME)
        });
        let checkpointer = {
            let journal = Arc::clone(&journal);
            rt::spawn("checkpointer", move || journal.write_back(Nanos::MAX, 10))
        };
        rt::sleep(TIME / 2);
        let begin = rt::monotonic();
        write(&journal, &buffers[0]);
        let waited = rt::monotonic().saturating_sub(begin);
        checkpointer.join().expect("no panic").expect("it works");
        home.set(Behaviour::default());
        journal.close().expect("it works");
        waited
    });
    assert!(waited <= TIME + TIME, "{waited:?}");
}

/// The same policy, but for one part.
fn with(policy: LogPolicy, part: &str, word: &str) -> LogPolicy {
    policy.with(part, word).expect("there is such a part")
}

/// Returns the result of a run in a simulated world, in which nothing depends on the speed of this
/// machine.
fn simulated<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(sim::Config::fair(1), run).expect("it ends").value
}

#[test]
fn a_block_in_log_io_is_not_changed() {
    for (policy, expect) in [
        (LogPolicy::LINUX24, false),
        (with(LogPolicy::LINUX24, "log_io", "copy"), true),
        (LogPolicy::DEFAULT, true),
        (with(LogPolicy::DEFAULT, "log_io", "wait"), false),
    ] {
        assert_eq!(
            simulated(move || can_change_in_log_io(policy)),
            expect,
            "{policy:?}"
        );
    }
}

/// A journal whose log is on a device of its own, and a record of what its home is asked to do.
fn traced(policy: LogPolicy, log_blocks: u32) -> (Arc<Journal>, Arc<Trace>) {
    let kind = Kind {
        log_blocks,
        ..Kind::default()
    };
    let log: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(4 << 20));
    let log = kind.format(log);
    let trace = Trace::new();
    let home: Arc<dyn BlockDevice> = Arc::new(trace.attach(Arc::new(MemoryDevice::new(4 << 20))));
    let config = Config {
        policy,
        is_external: true,
        ..kind.config()
    };
    let journal = Journal::open(log, home, config, Notes::new()).expect("the log is good");
    (journal, trace)
}

/// Returns the number of commits that it takes to write this number of blocks, one in a handle,
/// while no thread waits for them.
fn commits_of(policy: LogPolicy, blocks: u64) -> u64 {
    let (journal, _) = traced(policy, 1025);
    for nr in 0..blocks {
        write(&journal, &buffer(nr));
        // The committer gets a chance to come at once when it is called.
        rt::sleep(Nanos::from_micros(1));
    }
    let commits = journal.stats().commits;
    journal.close().expect("it works");
    commits
}

#[test]
fn a_transaction_closes_when_it_is_full_or_before() {
    for (policy, expect) in [
        (LogPolicy::LINUX24, 1),
        (with(LogPolicy::LINUX24, "closing", "early"), 2),
        (with(LogPolicy::DEFAULT, "closing", "full"), 1),
        (LogPolicy::DEFAULT, 2),
    ] {
        // A transaction holds 256 blocks, three quarters are 192.
        let commits = simulated(move || commits_of(policy, 400));
        assert_eq!(commits, expect, "{policy:?}");
    }
}

/// Returns the number of blocks still owed after a thread has waited for space in a log of four
/// transactions.
fn owed_after_checkpoint(policy: LogPolicy) -> u64 {
    let (journal, _) = traced(policy, 1025);
    for first in [0, 200, 400, 600] {
        for nr in first..first + 200 {
            write(&journal, &buffer(nr));
        }
        journal.commit_running().expect("it works");
    }
    write(&journal, &buffer(900));
    let stats = journal.stats();
    assert!(stats.checkpoint_blocks > 0, "{stats:?}");
    let owed = journal.owed_bytes() / 1024;
    journal.close().expect("it works");
    owed
}

#[test]
fn a_caller_checkpoints_one_transaction_a_quarter_or_all() {
    for (extent, expect) in [("oldest", 600), ("quarter", 400), ("all", 0)] {
        let policy = with(LogPolicy::LINUX24, "extent", extent);
        let owed = simulated(move || owed_after_checkpoint(policy));
        assert_eq!(owed, expect, "{extent}");
    }
}

/// The contents of block 1 in the order in which they are written home, when it is to be while a
/// later transaction has it.
fn written_while_held(policy: LogPolicy) -> Vec<u8> {
    let (journal, trace) = traced(policy, 1025);
    let shared = buffer(1);
    write(&journal, &shared);
    journal.commit_running().expect("it works");
    write(&journal, &shared);
    journal.write_back(rt::monotonic(), 100).expect("it works");
    journal.close().expect("it works");
    let events = trace.events();
    let requests = events.iter().filter_map(|event| match event {
        block::Event::Submitted { requests, .. } => Some(requests),
        _ => None,
    });
    let written = requests.flat_map(|batch| batch.iter()).flat_map(|request| {
        let Request::Write {
            sector, payload, ..
        } = request
        else {
            return Vec::new();
        };
        let first = sector.get() / 2;
        let images = payload.iter().enumerate();
        images
            .map(|(at, image)| (first + at as u64, image[0]))
            .collect()
    });
    written
        .filter(|(nr, _)| *nr == 1)
        .map(|(_, byte)| byte)
        .collect()
}

#[test]
fn a_block_that_a_later_transaction_has_is_written_home_or_committed_first() {
    for (held, expect) in [("write", vec![1, 2]), ("commit", vec![2])] {
        let policy = with(LogPolicy::LINUX24, "held", held);
        let written = simulated(move || written_while_held(policy));
        assert_eq!(written, expect, "{held}");
    }
}

/// Returns the maximum number of batches that were on their way home at the same time.
fn batches_underway(policy: LogPolicy) -> usize {
    let (journal, trace) = traced(policy, 1025);
    for first in [0, 250, 500] {
        for nr in first..first + 250 {
            write(&journal, &buffer(2 * nr));
        }
        journal.commit_running().expect("it works");
    }
    write(&journal, &buffer(1900));
    journal.close().expect("it works");
    let (mut now, mut most) = (0_usize, 0);
    for event in trace.events().iter() {
        match event {
            block::Event::Submitted { .. } => now += 1,
            block::Event::Completed { .. } => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

#[test]
fn batches_overlap_or_are_waited_for() {
    for (batches, expect) in [("wait", 1), ("overlap", 4)] {
        // With `home=wait` each request is waited for by itself.
        let policy = with(LogPolicy::LINUX24, "home", "copy");
        let policy = with(policy, "batches", batches);
        let most = simulated(move || batches_underway(policy));
        assert_eq!(most, expect, "{batches}");
    }
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
        policy: LogPolicy::LINUX24,
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
        policy: LogPolicy::LINUX24,
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
