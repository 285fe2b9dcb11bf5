//! Many threads on real clocks over a tiny log and a volatile cache, until the power goes.
//!
//! Each handle writes the thread's next count into both blocks of the thread's pair and adds one to
//! a total that all share. After recovery the halves of each pair agree, the counts add up to the
//! total, and no count is older than what its thread was told to be durable. Each thread also frees
//! and reuses blocks of its own all the time.

use std::sync::Arc;

use block::{BlockDevice, CacheDevice, MemoryDevice};
use jbd2::format::Checksums;
use jbd2::{Buffer, Config, Credits, Handle, Journal, LogPolicy};
use layout::{Block, BlockNr};
use rt::Mutex;
use rt::atomic::{AtomicU64, Ordering};
use testkit::Random;

use crate::harness::{Kind, Notes};

const THREADS: u64 = 8;
/// Writers in a simulated world, where every switch costs.
const SIMULATED_THREADS: u64 = 4;
const TOTAL: u64 = 0;

fn first_of_pair(thread: u64) -> u64 {
    1 + thread * 6
}

pub(crate) struct Bench {
    kind: Kind,
    pub(crate) journal: Arc<Journal>,
    buffers: Vec<Arc<Buffer>>,
    /// The last transaction that each thread knows to be durable.
    durable: Vec<AtomicU64>,
    /// Held from the start of a handle to its end only where a thread changes the total, as a file
    /// system's locks are.
    total: Mutex<()>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"))
}

fn set(handle: &mut Handle, buffer: &Arc<Buffer>, value: u64) -> jbd2::error::Result<()> {
    handle.write(buffer)?[8..16].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

impl Bench {
    /// One thread's work until the journal fails or `rounds` are done.
    fn run(&self, thread: u64, rounds: u64) -> jbd2::error::Result<()> {
        let mut random = Random::new(thread);
        let pair = first_of_pair(thread) as usize;
        for count in 1..=rounds {
            let mut handle = self.journal.start(Credits {
                blocks: 5,
                revokes: 2,
            })?;
            set(&mut handle, &self.buffers[pair], count)?;
            {
                let _guard = self.total.lock();
                let buffer = &self.buffers[TOTAL as usize];
                let mut total = handle.write(buffer)?;
                let value = number(&total) + 1;
                total[8..16].copy_from_slice(&value.to_le_bytes());
            }
            set(&mut handle, &self.buffers[pair + 1], count)?;
            let extra = pair as u64 + 2 + random.below(4);
            let buffer = &self.buffers[extra as usize];
            if random.below(2) == 0 {
                handle.forget(BlockNr::new(extra), Some(buffer), true)?;
            } else {
                set(&mut handle, buffer, count)?;
            }
            let tid = handle.finish()?;
            if random.below(8) == 0 {
                self.journal.commit(tid)?;
                self.durable[thread as usize].store(count, Ordering::SeqCst);
            }
            if random.below(64) == 0 {
                self.journal.write_back(rt::monotonic(), 16)?;
            }
        }
        Ok(())
    }

    fn check(&self, home: &MemoryDevice, context: &str) {
        let bytes = home.to_bytes();
        let at = |nr: u64| number(&bytes[nr as usize * self.kind.block_bytes as usize..]);
        let mut sum = 0;
        for thread in 0..self.durable.len() as u64 {
            let pair = first_of_pair(thread);
            let count = at(pair);
            assert_eq!(count, at(pair + 1), "thread {thread}: {context}");
            let durable = self.durable[thread as usize].load(Ordering::SeqCst);
            assert!(
                count >= durable,
                "thread {thread}: {count} of {durable}: {context}"
            );
            sum += count;
        }
        assert_eq!(sum, at(TOTAL), "{context}");
    }
}

/// A bench whose writers are at work.
pub(crate) struct Started {
    pub(crate) bench: Arc<Bench>,
    pub(crate) writers: Vec<rt::JoinHandle<jbd2::error::Result<()>>>,
}

/// Opens a journal and sets writers to work.
pub(crate) fn start(
    kind: Kind,
    policy: LogPolicy,
    threads: u64,
    rounds: u64,
    home: Arc<dyn BlockDevice>,
    log: Arc<dyn BlockDevice>,
) -> Started {
    let config = Config {
        policy,
        ..kind.config()
    };
    let journal = Journal::open(kind.location(log), home, config, Notes::new()).expect("it works");
    let new = |nr| Buffer::new(BlockNr::new(nr), Block::zeroed(1024).into_arc());
    let bench = Arc::new(Bench {
        kind,
        journal,
        buffers: (0..crate::harness::BLOCKS).map(new).collect(),
        durable: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        total: Mutex::new(()),
    });
    let writers: Vec<_> = (0..threads)
        .map(|thread| {
            let bench = Arc::clone(&bench);
            rt::spawn("writer", move || bench.run(thread, rounds))
        })
        .collect();
    Started { bench, writers }
}

fn stress(kind: Kind, policy: LogPolicy, threads: u64, rounds: u64, seed: u64) {
    let (home_memory, log_memory) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&log_memory));
    let cache = |memory: &Arc<MemoryDevice>| {
        Arc::new(CacheDevice::new(
            Arc::<MemoryDevice>::clone(memory),
            1 << 20,
        ))
    };
    let home = cache(&home_memory);
    let log = if kind.is_external {
        cache(&log_memory)
    } else {
        Arc::clone(&home)
    };
    let started = start(kind, policy, threads, rounds, home.clone(), log.clone());
    let Started { bench, writers } = started;
    let is_cut = seed.is_multiple_of(2);
    if is_cut {
        wait_a_little(seed);
        home.cut();
        log.cut();
    }
    for thread in writers {
        let result = thread.join().expect("no panic");
        assert!(is_cut || result.is_ok(), "{result:?}");
    }
    let statistics = bench.journal.stats();
    let context = format!("{kind:?} {policy:?} seed {seed} cut {is_cut}: {statistics:?}");
    if is_cut {
        home.power_cut(seed).expect("memory does not fail");
        if kind.is_external {
            log.power_cut(seed + 1).expect("memory does not fail");
        }
        let opened: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&home_memory);
        let location = kind.location(log_memory);
        jbd2::recovery::recover(&location, &opened).expect("the log is good");
    } else {
        Arc::clone(&bench.journal).close().expect("it works");
        home.flush_for_test();
    }
    bench.check(&home_memory, &context);
    assert!(bench.journal.close_quietly());
}

/// Until the power goes: some milliseconds, or some switches where time stands still.
fn wait_a_little(seed: u64) {
    if !rt::is_simulated() {
        return rt::sleep(rt::Nanos::from_millis(20 + seed * 10));
    }
    for _ in 0..Random::new(seed).below(20_000) {
        rt::point();
    }
}

/// Methods of devices and journal that only these tests need.
trait ForTest {
    fn flush_for_test(&self) {}
    fn close_quietly(&self) -> bool {
        true
    }
}

impl ForTest for CacheDevice {
    fn flush_for_test(&self) {
        let device: &dyn BlockDevice = self;
        device.flush().expect("memory does not fail");
    }
}

impl ForTest for Arc<Journal> {
    /// An aborted journal says so when it is closed again, and its daemons are gone.
    fn close_quietly(&self) -> bool {
        Arc::clone(self).close().is_err()
    }
}

#[test]
fn threads_over_an_internal_log() {
    for seed in 0..6 {
        stress(Kind::default(), LogPolicy::DEFAULT, THREADS, 3000, seed);
    }
}

#[test]
fn threads_over_an_external_log_with_checksums() {
    for seed in 0..4 {
        let kind = Kind {
            is_external: true,
            ..Kind::with_checksums(Checksums::V3)
        };
        stress(kind, LogPolicy::DEFAULT, THREADS, 3000, seed);
    }
}

#[test]
fn threads_with_the_policy_of_linux_2_4() {
    for seed in 0..4 {
        stress(Kind::default(), LogPolicy::LINUX24, THREADS, 1000, seed);
    }
}

/// The same in simulated worlds that switch tasks wherever they can.
#[test]
fn threads_in_hostile_worlds() {
    for seed in 0..200 {
        let world = match seed % 3 {
            0 => sim::Config::pct(seed, 3),
            _ => sim::Config::random(seed),
        };
        let kind = Kind {
            is_external: seed % 4 == 1,
            ..Kind::default()
        };
        let policy = if seed % 5 == 2 {
            LogPolicy::LINUX24
        } else {
            LogPolicy::DEFAULT
        };
        let id = world.replay_id();
        sim::run(world, move || {
            stress(kind, policy, SIMULATED_THREADS, 60, seed)
        })
        .unwrap_or_else(|error| panic!("{id:?}, seed {seed}: {error}"));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let hash = |seed| {
        let world = sim::Config::random(seed);
        let run = move || {
            stress(
                Kind::default(),
                LogPolicy::DEFAULT,
                SIMULATED_THREADS,
                30,
                seed,
            )
        };
        sim::run(world, run).expect("it works").trace_hash
    };
    assert_eq!(hash(4), hash(4));
    assert_ne!(hash(4), hash(6));
}
