//! All that handles do, at random, in several threads over a small log: they start, extend, restart
//! and finish, with and without changes, beside commits, fast commits, checkpoints and an abort at
//! any moment.
//!
//! Each step writes the lane's next count into both blocks of the lane's pair, and adds one to a
//! total that all lanes share.
//!
//! - No handle is open when a transaction is frozen, or when its changes are collected.
//! - Every thread ends, and none waits until its patience is over.
//! - At the end no handle is counted, and no block but those that the running transaction holds.
//! - After a power cut and recovery the pairs agree with each other and with the total, and each
//!   count is at least what its lane knows to be durable.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use block::{BlockDevice, CacheDevice, DeviceError, MemoryDevice};
use layout::fast_commit::{TagType, encode};
use layout::{Block, BlockNr, Tid};
use rt::{Mutex, Nanos};
use testkit::Random;

use crate::error::Result;
use crate::format::{LogOptions, create};
use crate::policy::{Checkpointer, Closing, Committer};
use crate::recovery::{FastCommits, Holdings, settle};
use crate::shared::HANDLE_PATIENCE;
use crate::{Buffer, Client, Config, Credits, Error, Handle, Journal, Location, LogExtent};
use crate::{LogPolicy, Stats};

const BLOCK: u32 = 1024;
const LANES: usize = 4;
/// Blocks of a lane: its pair, and those that it frees and uses again.
const LANE_BLOCKS: u64 = 6;
const TOTAL: u64 = 0;
const LOG_FIRST: u64 = 100;
const AREA: u32 = 64;
/// Number of hostile worlds.
const SEEDS: u64 = 400;

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// All lanes finish their rounds, and the journal is closed.
    Close,
    /// The journal aborts at a random moment.
    Abort,
    /// A lane drops a handle after half of a step.
    Drop,
    /// A lane panics after half of a step.
    Panic,
    /// A lane panics before it has changed anything; the others go on.
    PanicUnchanged,
}

const ENDINGS: [Ending; 5] = [
    Ending::Close,
    Ending::Abort,
    Ending::Drop,
    Ending::Panic,
    Ending::PanicUnchanged,
];

impl Ending {
    fn panics(self) -> bool {
        matches!(self, Self::Panic | Self::PanicUnchanged)
    }

    /// Returns true if the journal works to the end.
    fn is_good(self) -> bool {
        matches!(self, Self::Close | Self::PanicUnchanged)
    }
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    seed: u64,
    rounds: u64,
    log_blocks: u32,
    policy: LogPolicy,
    ending: Ending,
}

impl Plan {
    fn of(seed: u64, rounds: u64) -> Self {
        let default = LogPolicy::DEFAULT;
        let policies = [
            default,
            LogPolicy {
                closing: Closing::Full,
                ..default
            },
            LogPolicy {
                checkpointer: Checkpointer::Caller,
                ..default
            },
            LogPolicy {
                restart_every: 2,
                ..default
            },
            LogPolicy {
                committer: Committer::Daemon,
                ..default
            },
            LogPolicy::LINUX24,
        ];
        let mut random = Random::new(seed);
        Self {
            seed,
            rounds,
            // The last has an area for fast commits.
            log_blocks: *random.pick(&[48, 100, 200, 1024 + AREA + 1]),
            policy: *random.pick(&policies),
            ending: ENDINGS[(seed % 5) as usize],
        }
    }
}

/// The file system. Its counts change without scheduling points.
#[derive(Default)]
struct Watch {
    /// Number of open handles.
    open: AtomicU64,
    /// True if the journal has aborted.
    has_aborted: AtomicBool,
    /// The last count of each lane.
    counts: [AtomicU64; LANES],
    /// The counts that the last collection had.
    collected: Mutex<[u64; LANES]>,
}

impl Watch {
    fn check_none_is_open(&self) {
        assert_eq!(self.open.load(Ordering::SeqCst), 0, "no handle is open");
    }
}

impl Client for Watch {
    fn commit_begins(&self, _tid: Tid) {
        self.check_none_is_open();
        rt::point();
        self.check_none_is_open();
    }

    fn write_ordered_data(&self, _tid: Tid) -> core::result::Result<bool, DeviceError> {
        Ok(false)
    }

    fn collect_changes(&self, _tid: Tid) -> Option<Vec<u8>> {
        self.check_none_is_open();
        let counts = self
            .counts
            .each_ref()
            .map(|count| count.load(Ordering::SeqCst));
        *self.collected.lock() = counts;
        self.check_none_is_open();
        let bytes: Vec<u8> = counts
            .iter()
            .flat_map(|count| count.to_le_bytes())
            .collect();
        let is_described = counts[0] % 8 != 7;
        is_described.then(|| encode(TagType::Pad, &bytes, &[]))
    }

    fn committed(&self, _tid: Tid) {}

    fn home_flushed(&self, _started: u64) {}

    fn aborted(&self, _error: &Error) {
        self.has_aborted.store(true, Ordering::SeqCst);
    }
}

/// Counts an open handle while it exists. Dropped before the handle ends.
struct Open<'w>(&'w Watch);

impl<'w> Open<'w> {
    fn new(watch: &'w Watch) -> Self {
        watch.open.fetch_add(1, Ordering::SeqCst);
        Self(watch)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Bench {
    plan: Plan,
    watch: Arc<Watch>,
    journal: Arc<Journal>,
    buffers: Vec<Arc<Buffer>>,
    /// The last count that each lane knows to be durable.
    durable: [AtomicU64; LANES],
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"))
}

impl Bench {
    fn set(&self, handle: &mut Handle<'_>, nr: u64, value: u64) -> Result<()> {
        let mut buffer = handle.write(&self.buffers[nr as usize])?;
        buffer[8..16].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// One step, which takes three blocks, and one or a revoke. `break_off` is called after half.
    fn step(
        &self,
        lane: usize,
        handle: &mut Handle<'_>,
        random: &mut Random,
        break_off: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let count = self.watch.counts[lane].load(Ordering::SeqCst) + 1;
        let pair = 1 + lane as u64 * LANE_BLOCKS;
        self.set(handle, pair, count)?;
        {
            let mut total = handle.write(&self.buffers[TOTAL as usize])?;
            let value = number(&total) + 1;
            total[8..16].copy_from_slice(&value.to_le_bytes());
        }
        break_off()?;
        self.set(handle, pair + 1, count)?;
        let extra = pair + 2 + random.below(LANE_BLOCKS - 2);
        if random.below(2) == 0 {
            let buffer = &self.buffers[extra as usize];
            handle.forget(BlockNr::new(extra), Some(buffer), true)?;
        } else {
            self.set(handle, extra, count)?;
        }
        self.watch.counts[lane].store(count, Ordering::SeqCst);
        Ok(())
    }

    /// A handle with up to two steps, or none. Returns its transaction, if it has finished.
    fn handle(&self, lane: usize, is_last: bool, random: &mut Random) -> Result<Option<Tid>> {
        let credits = Credits {
            blocks: 4 + random.below(3) as u32,
            revokes: 1 + random.below(3) as u32,
        };
        let was_aborted = self.watch.has_aborted.load(Ordering::SeqCst);
        let mut handle = if random.below(4) == 0 && !is_last {
            match self.journal.try_start(credits)? {
                Some(handle) => handle,
                None => return Ok(None),
            }
        } else {
            self.journal.start(credits)?
        };
        assert!(!was_aborted, "nothing starts after an abort");
        let mut open = Open::new(&self.watch);
        match random.below(8) {
            _ if is_last => {
                let is_early = self.plan.ending == Ending::PanicUnchanged;
                assert!(!is_early, "on purpose");
            }
            0 => {
                drop(open);
                return Ok(None);
            }
            1 => {
                drop(open);
                return handle.finish().map(Some);
            }
            _ => {}
        }
        let break_off = || match self.plan.ending {
            Ending::Drop if is_last => Err(Error::Stopped("half of a step".to_owned())),
            Ending::Panic if is_last => panic!("on purpose"),
            _ => Ok(()),
        };
        self.step(lane, &mut handle, random, break_off)?;
        if random.below(3) == 0 {
            let more = Credits {
                blocks: 1 + random.below(4) as u32,
                revokes: 1 + random.below(2) as u32,
            };
            let is_enough = handle.extend(more)? && handle.credits_left() > 0;
            if is_enough && handle.revokes_left() > 0 {
                // The pair is filed, another block may not be.
                self.step(lane, &mut handle, random, || Ok(()))?;
            } else {
                drop(open);
                handle.restart(credits)?;
                open = Open::new(&self.watch);
                self.step(lane, &mut handle, random, || Ok(()))?;
            }
        }
        drop(open);
        handle.finish().map(Some)
    }

    fn run(&self, lane: usize) -> Result<()> {
        let mut random = Random::new(self.plan.seed * 64 + lane as u64 + 1);
        let last = match self.plan.ending {
            Ending::Close | Ending::Abort => u64::MAX,
            _ if lane == 0 => random.below(self.plan.rounds),
            _ => u64::MAX,
        };
        for round in 0..self.plan.rounds {
            let Some(tid) = self.handle(lane, round == last, &mut random)? else {
                continue;
            };
            let count = self.watch.counts[lane].load(Ordering::SeqCst);
            let journal = &self.journal;
            match random.below(32) {
                0..3 => journal.commit(tid)?,
                3..8 => {
                    journal.commit_fast(tid, true)?;
                    let has_count = self.watch.collected.lock()[lane] >= count;
                    assert!(
                        has_count || journal.is_durable(tid),
                        "it has the changes of its caller"
                    );
                }
                8 => journal.checkpoint_all()?,
                9 => {
                    journal.write_back(rt::monotonic(), 8)?;
                    continue;
                }
                10 => {
                    journal.request_commit();
                    continue;
                }
                _ => continue,
            }
            self.durable[lane].fetch_max(count, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Checks that all handles have returned what they have reserved and not used.
    fn check_gate(&self) {
        let shared = self.journal.shared();
        let count = shared.gate.count();
        assert_eq!(count.handles(), 0);
        let used = count.credits();
        assert_eq!(used.blocks as usize, shared.running.block_count());
        if self.journal.running().is_none() {
            assert_eq!(used, Credits::default());
        }
    }

    /// Checks what a recovery finds after a power cut, and returns the counts.
    fn recover(&self, device: &CacheDevice, memory: &Arc<MemoryDevice>) -> [u64; LANES] {
        device.power_cut(self.plan.seed).unwrap();
        let memory: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(memory);
        let log = location(Arc::clone(&memory), self.plan.log_blocks);
        let mut collected = [0; LANES];
        let apply = |fast: &FastCommits| {
            // A header of four bytes, and the counts. Other tags have other lengths.
            let tags = fast.tags().map(|(_, tag)| tag.bytes);
            for bytes in tags.filter(|bytes| bytes.len() == 4 + 8 * LANES) {
                for (most, bytes) in collected.iter_mut().zip(bytes[4..].as_chunks().0) {
                    *most = u64::from_le_bytes(*bytes).max(*most);
                }
            }
            Ok::<_, Error>(Vec::new())
        };
        settle(&log, &memory, Holdings::Replay, apply).unwrap();
        let at = |nr: u64| number(&memory.read_block(nr * u64::from(BLOCK), BLOCK).unwrap());
        let counts = [0, 1, 2, 3].map(|lane| {
            let pair = 1 + lane * LANE_BLOCKS;
            assert_eq!(at(pair), at(pair + 1), "half of a step of lane {lane}");
            at(pair)
        });
        assert_eq!(counts.iter().sum::<u64>(), at(TOTAL));
        for lane in 0..LANES {
            let durable = self.durable[lane].load(Ordering::SeqCst);
            let found = counts[lane].max(collected[lane]);
            assert!(found >= durable, "lane {lane}: {found} of {durable}");
        }
        counts
    }
}

fn location(device: Arc<dyn BlockDevice>, log_blocks: u32) -> Location {
    let extents = vec![LogExtent {
        first: BlockNr::new(LOG_FIRST),
        count: log_blocks,
    }];
    Location {
        device,
        block_bytes: BLOCK,
        extents,
    }
}

/// Runs a plan. Returns the journal's counts.
fn run(plan: Plan) -> Stats {
    let memory = Arc::new(MemoryDevice::new(1300 * u64::from(BLOCK)));
    let inner: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let cache = Arc::new(CacheDevice::new(inner, 4 << 20));
    let device: Arc<dyn BlockDevice> = Arc::<CacheDevice>::clone(&cache);
    let log = location(Arc::clone(&device), plan.log_blocks);
    let options = LogOptions {
        fast_commit_blocks: AREA,
        ..LogOptions::default()
    };
    create(&log, &options).unwrap();
    device.flush().unwrap();
    let config = Config {
        commit_interval: Nanos::from_secs(3600),
        policy: plan.policy,
        fast_commits: true,
        ..Config::default()
    };
    let watch = Arc::new(Watch::default());
    let client: Arc<dyn Client> = Arc::<Watch>::clone(&watch);
    let new = |nr| Buffer::new(BlockNr::new(nr), Block::zeroed(BLOCK as usize).into_arc());
    let bench = Arc::new(Bench {
        plan,
        watch,
        journal: Journal::open(log, device, config, client).unwrap(),
        buffers: (0..LOG_FIRST).map(new).collect(),
        durable: Default::default(),
    });
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let bench = Arc::clone(&bench);
            rt::spawn("lane", move || {
                catch_unwind(AssertUnwindSafe(|| bench.run(lane)))
            })
        })
        .collect();
    if plan.ending == Ending::Abort {
        for _ in 0..Random::new(plan.seed).below(plan.rounds * 100) {
            rt::point();
        }
        bench.journal.abort(Error::Stopped("a test".to_owned()));
    }
    for (lane, thread) in lanes.into_iter().enumerate() {
        let result = thread.join().expect("the panic is caught");
        match plan.ending {
            ending if ending.panics() && lane == 0 => drop(result.expect_err("it panics")),
            ending if ending.is_good() => result.expect("no panic").expect("it works"),
            _ => drop(result.expect("no panic")),
        }
    }
    assert_eq!(bench.journal.shared().gate.count().handles(), 0);
    let journal = &bench.journal;
    let last = journal.commit_running();
    assert_eq!(last.is_ok(), plan.ending.is_good(), "{last:?}");
    let closed = Arc::clone(journal).close();
    assert_eq!(closed.is_ok(), plan.ending.is_good(), "{closed:?}");
    bench.check_gate();
    let found = bench.recover(&cache, &memory);
    if plan.ending.is_good() {
        let counts = &bench.watch.counts;
        assert_eq!(found, counts.each_ref().map(|it| it.load(Ordering::SeqCst)));
    }
    bench.journal.stats()
}

#[test]
fn handles_in_hostile_worlds() {
    let (mut fast, mut commits) = (0, 0);
    for seed in 0..SEEDS {
        let world = match seed % 3 {
            0 => sim::Config::pct(seed, 3),
            _ => sim::Config::random(seed),
        };
        let plan = Plan::of(seed, 40);
        let report = sim::run(world, move || run(plan));
        let report = report.unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        // A wake-up by a panic may come too early, as it does not take the lock.
        if !plan.ending.panics() {
            assert!(report.elapsed < HANDLE_PATIENCE, "{plan:?}: a lost wake-up");
        }
        fast += report.value.fast_commits;
        commits += report.value.commits;
    }
    assert!(fast > SEEDS && commits > 10 * SEEDS, "{fast}, {commits}");
}

#[test]
fn handles_of_threads() {
    for seed in 0..24 {
        run(Plan::of(seed, 400));
    }
}
