//! Fails every block access of every operation once. Each operation runs on a volume that has just
//! been opened, so that nothing is in memory, and its first, second, ... read, write or flush
//! fails, once or permanently.
//!
//! | failure | expected |
//! |---|---|
//! | a read, once | see below; the volume works, and a second try succeeds |
//! | anything, once or permanently | no panic, no hang; recovery finds the tree before or after |
//!
//! A failed read gives a typed error or none, and has changed nothing or all. If sync succeeded,
//! recovery finds the tree after.
//!
//! The default tests fail each access in one of the two ways, and leave ext4 without a journal out;
//! `JEXT_TEST_WHOLE=1` takes all.
//!
//! In all cases: a check finds nothing, `e2fsck -fn` included; and files that the operation does
//! not name are unchanged, even after a new file has taken all free space before the next mount.

mod freeing;
mod operations;
mod restarts;
mod trees;

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::DataMode;
use ext::{Error, MountOptions, Volume};
use testkit::share;

use crate::rig::{Place, Rig, Structures, device, quiet};

use operations::{OPERATIONS, Operation, prepared};
use trees::{Tree, has_shape, tree};

/// Interval of failed runs that `e2fsck` checks, too.
const FSCK_ONE_IN: usize = 100;
/// The file that takes free space after a failure.
const TAKER: &str = "/taker";
const TAKER_BYTES: usize = 200 << 10;

/// Returns options under which a size is on the device as soon as its data has a block: what is
/// found after a failure is compared whole.
fn undelayed(data: DataMode) -> MountOptions {
    MountOptions {
        delayed_allocation: false,
        ..quiet(data)
    }
}

/// An injected failure: its device, its kind of access and its time.
#[derive(Debug, Clone, Copy)]
struct Fault {
    on_log: bool,
    operations: Operations,
    when: When,
}

struct Failing {
    rig: Rig,
    home: Arc<FaultDevice>,
    log: Option<Arc<FaultDevice>>,
}

impl Failing {
    fn new(rig: Rig, fault: Option<Fault>) -> Self {
        let behind = |memory, on_log| {
            let rule = |operations, when| FaultRule {
                operations,
                when,
                effect: Effect::Fail,
            };
            let kinds = [Operations::READS, Operations::WRITES, Operations::FLUSHES];
            let mut rules = kinds
                .map(|operations| rule(operations, When::Nth(0)))
                .to_vec();
            let here = fault.filter(|fault| fault.on_log == on_log);
            rules.extend(here.map(|fault| rule(fault.operations, fault.when)));
            let plan = FaultPlan {
                seed: 1,
                rules,
                bad_sectors: Vec::new(),
            };
            let faulty = Arc::new(FaultDevice::new(device(memory), plan));
            faulty.set_armed(false);
            faulty
        };
        Self {
            home: behind(&rig.home, false),
            log: rig.log.as_ref().map(|log| behind(log, true)),
            rig,
        }
    }

    fn open(&self, data: DataMode) -> Volume {
        let home = Arc::<FaultDevice>::clone(&self.home);
        let log = self.log.as_ref();
        let log = log.map(|log| Arc::<FaultDevice>::clone(log) as Arc<dyn BlockDevice>);
        Volume::open(home, log, undelayed(data)).expect("the volume opens")
    }

    fn arm(&self, is_armed: bool) {
        self.home.set_armed(is_armed);
        if let Some(log) = &self.log {
            log.set_armed(is_armed);
        }
    }

    /// Returns the number of reads, writes and flushes of each device.
    fn seen(&self) -> [[u64; 3]; 2] {
        let of = |device: &FaultDevice| [0, 1, 2].map(|rule| device.seen(rule));
        [
            of(&self.home),
            self.log.as_ref().map(|log| of(log)).unwrap_or_default(),
        ]
    }
}

/// Returns the trees before, between and after the steps of an operation, and the number of
/// accesses that it takes with the sync after it.
fn without_failures(
    made: &Rig,
    operation: &Operation,
    data: DataMode,
) -> (Vec<Tree>, [[u64; 3]; 2]) {
    let failing = Failing::new(made.copy(), None);
    let volume = failing.open(data);
    let mut trees = vec![tree(&volume)];
    for step in operation.steps {
        step(&volume).unwrap_or_else(|error| panic!("{}: {error}", operation.name));
        trees.push(tree(&volume));
    }
    volume.close().expect("close");
    let failing = Failing::new(made.copy(), None);
    let volume = failing.open(data);
    failing.arm(true);
    for step in operation.steps {
        step(&volume).expect("it works");
    }
    volume.sync().expect("sync");
    let seen = failing.seen();
    volume.close().expect("close");
    (trees, seen)
}

fn is_typed(error: &Error) -> bool {
    matches!(
        error,
        Error::ReadOnly | Error::Journal(_) | Error::Device(_) | Error::DataLost { .. }
    )
}

/// Fails one read, once: a second try of the interrupted step succeeds, and the outcome is that
/// without failures.
fn fail_read(
    failing: Failing,
    operation: &Operation,
    data: DataMode,
    after: &Tree,
    when: &str,
) -> Rig {
    let volume = failing.open(data);
    failing.arm(true);
    for step in operation.steps {
        let Err(error) = step(&volume) else { continue };
        assert!(
            matches!(error, Error::Device(_)),
            "{when}: a failed read, not {error:?}"
        );
        assert!(!volume.is_read_only(), "{when}: a read stops nothing");
        match step(&volume) {
            // The step had been done, except for work that is not part of it.
            Ok(()) | Err(Error::NotFound | Error::Exists) => {}
            Err(error) => panic!("{when}: the second try: {error}"),
        }
    }
    if volume.sync().is_err() {
        volume
            .sync()
            .unwrap_or_else(|error| panic!("{when}: the second sync: {error}"));
    }
    assert!(tree(&volume) == *after, "{when}: the tree");
    take_free_blocks(&volume);
    volume
        .close()
        .unwrap_or_else(|error| panic!("{when}: close: {error}"));
    let volume = failing.rig.open(quiet(data));
    assert!(
        tree_without_taker(&volume) == *after,
        "{when}: the tree of the next mount"
    );
    volume.close().expect("close");
    failing.rig
}

/// Takes blocks that a failed operation has freed and its inode still claims. A volume that is
/// read-only, or full, takes fewer.
fn take_free_blocks(volume: &Volume) {
    let _ = volume.write_file(TAKER, &[0xEE; TAKER_BYTES]);
    let _ = volume.sync();
}

fn tree_without_taker(volume: &Volume) -> Tree {
    let mut found = tree(volume);
    if found.remove(TAKER).is_some() {
        let bytes = volume.read_file(TAKER).expect("it can be read");
        assert!(bytes.iter().all(|byte| *byte == 0xEE), "the taker's bytes");
    }
    found
}

/// Asserts that paths which no step changes are unchanged.
fn assert_untouched(found: &Tree, trees: &[Tree], when: &str) {
    let first = trees.first().expect("there is one");
    for (path, value) in first {
        let is_named = trees.iter().any(|tree| tree.get(path) != Some(value));
        assert!(is_named || found.get(path) == Some(value), "{when}: {path}");
    }
}

/// Asserts that a check finds nothing; some runs are checked by `e2fsck`, too.
fn assert_sound(rig: &Rig, run: usize, when: &str) {
    let log = rig.log_device();
    let report = fsck::check(
        &*device(&rig.home),
        log.as_deref(),
        &fsck::Options::default(),
    );
    let report = report.expect("the image can be read");
    assert!(report.is_clean(), "{when}: {:?}", report.problems);
    if run.is_multiple_of(FSCK_ONE_IN) {
        rig.copy().assert_fsck_clean(when);
    }
}

/// Fails any access: recovery finds one of the trees, and the last one if sync succeeded.
fn fail_any(
    failing: Failing,
    operation: &Operation,
    data: DataMode,
    trees: &[Tree],
    when: &str,
) -> Option<Rig> {
    let volume = failing.open(data);
    failing.arm(true);
    let steps = operation.steps.iter().map(|step| step(&volume));
    let done = steps.collect::<Result<Vec<()>, Error>>().map(drop);
    let synced = volume.sync();
    failing.arm(false);
    for error in [&done, &synced]
        .into_iter()
        .filter_map(|result| result.as_ref().err())
    {
        assert!(is_typed(error), "{when}: {error:?}");
    }
    let is_durable = done.is_ok() && synced.is_ok();
    take_free_blocks(&volume);
    if volume.journal_stats().is_some() {
        drop(volume);
    } else if volume.close().is_err() {
        // Only e2fsck can help, as always on ext2.
        return None;
    }
    let volume = failing.rig.open(quiet(data));
    let found = tree_without_taker(&volume);
    assert_untouched(&found, trees, when);
    if is_durable {
        let last = trees.last().expect("there is one");
        assert!(found == *last, "{when}: sync said yes");
    }
    let is_known = trees
        .iter()
        .zip(trees.iter().skip(1).map(Some).chain([None]))
        .any(|(tree, next)| has_shape(&found, tree, next));
    assert!(is_known, "{when}: names and sizes");
    volume
        .close()
        .unwrap_or_else(|error| panic!("{when}: close: {error}"));
    Some(failing.rig)
}

fn every_operation() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().chain(freeing::FREEING)
}

/// Fails every access of operations. Returns their number.
fn fail_each(
    (structures, place): (Structures, Place),
    data: DataMode,
    operations: impl Iterator<Item = &'static Operation>,
    mutant: Option<&'static str>,
) -> usize {
    let made = prepared(structures, place);
    let mut runs = 0;
    for (row, operation) in operations.enumerate() {
        let copy = made.copy();
        let (trees, seen) = in_world(None, move || without_failures(&copy, operation, data));
        let trees = Arc::new(trees);
        for (index, fault) in faults(seen).into_iter().enumerate() {
            // Each access fails, once and permanently in turn.
            if !share::takes(row + index / 2 + index % 2, 2) {
                continue;
            }
            let what = format!(
                "{}, {structures:?}, {place:?}, {data:?}, {fault:?}",
                operation.name
            );
            let (rig, trees, when) = (made.copy(), Arc::clone(&trees), what.clone());
            let rig = in_world(mutant, move || {
                let failing = Failing::new(rig, Some(fault));
                if fault.operations == Operations::READS && matches!(fault.when, When::Nth(_)) {
                    let after = trees.last().expect("there is one");
                    Some(fail_read(failing, operation, data, after, &when))
                } else {
                    fail_any(failing, operation, data, &trees, &when)
                }
            });
            runs += 1;
            if let Some(rig) = rig {
                assert_sound(&rig, runs, &what);
            }
        }
    }
    runs
}

/// Returns faults for each read, write and flush of each device: once, and from then on.
fn faults(seen: [[u64; 3]; 2]) -> Vec<Fault> {
    let kinds = [Operations::READS, Operations::WRITES, Operations::FLUSHES];
    let mut faults = Vec::new();
    for (on_log, counts) in [false, true].into_iter().zip(seen) {
        for (operations, count) in kinds.into_iter().zip(counts) {
            let whens = (1..=count).flat_map(|number| [When::Nth(number), When::From(number)]);
            faults.extend(whens.map(|when| Fault {
                on_log,
                operations,
                when,
            }));
        }
    }
    faults
}

/// Runs work in a simulated world, which reports a hang.
fn in_world<T: 'static>(mutant: Option<&'static str>, work: impl FnOnce() -> T + 'static) -> T {
    let config = sim::Config {
        mutant,
        ..sim::Config::fair(1)
    };
    sim::run(config, work)
        .unwrap_or_else(|error| panic!("{error}"))
        .value
}

fn fail_every_access(structures: Structures, place: Place, data: DataMode) {
    let runs = fail_each((structures, place), data, every_operation(), None);
    println!("{structures:?}, {place:?}, {data:?}: {runs} accesses failed");
}

#[test]
fn internal_ordered() {
    fail_every_access(Structures::Ext3, Place::Internal, DataMode::Ordered);
}

#[test]
fn internal_journal() {
    fail_every_access(Structures::Ext3, Place::Internal, DataMode::Journal);
}

#[test]
fn external_writeback() {
    fail_every_access(Structures::Ext3, Place::External, DataMode::Writeback);
}

#[test]
fn ext4_ordered() {
    fail_every_access(Structures::Ext4, Place::Internal, DataMode::Ordered);
}

#[test]
fn ext4_without_a_journal() {
    if !share::takes(1, 2) {
        return;
    }
    fail_every_access(Structures::Ext4, Place::None, DataMode::Ordered);
}

#[test]
fn without_a_journal() {
    fail_every_access(Structures::Ext3, Place::None, DataMode::Ordered);
}

/// A deletion that fails half-way and keeps blocks that it has freed.
#[test]
fn a_file_that_keeps_freed_blocks_is_noticed() {
    if rt::mutant::IS_POSSIBLE {
        let mutant = Some("delete/freed-blocks-not-stored");
        let operations = || freeing::FREEING.iter();
        let made = (Structures::Ext3, Place::Internal);
        let fail = || fail_each(made, DataMode::Ordered, operations(), mutant);
        assert!(std::panic::catch_unwind(fail).is_err(), "nobody notices");
    }
}
