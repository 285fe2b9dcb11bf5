//! Devices that fail: every read, write and flush of a scripted run fails once, temporarily or
//! permanently, on the file-system device and on that of the journal.
//!
//! In all cases: no panic, no hang (the runs are simulated worlds, which report both), no sync call
//! that falsely succeeds, only errors once the journal has aborted, reads that still work, and an
//! image that recovers to a state of the script, no older than the last successful sync call, clean
//! to `e2fsck`.

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::DataMode;
use ext::{Error, MountOptions, Volume};

use crate::history::{Bound, History, Op, Rule, SCRIPT, read_tree};
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 8 << 20;
/// Interval of failed runs that `e2fsck` checks, too.
const FSCK_ONE_IN: u64 = 25;

/// The requests that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    on_log: bool,
    operations: Operations,
    when: When,
    effect: Effect,
}

fn plan(fault: Option<Fault>, on_log: bool) -> FaultPlan {
    let counting = |operations| FaultRule {
        operations,
        when: When::Nth(0),
        effect: Effect::Fail,
    };
    let mut rules = vec![
        counting(Operations::READS),
        counting(Operations::WRITES),
        counting(Operations::FLUSHES),
    ];
    if let Some(fault) = fault
        && fault.on_log == on_log
    {
        rules.push(FaultRule {
            operations: fault.operations,
            when: fault.when,
            effect: fault.effect,
        });
    }
    FaultPlan {
        seed: 5,
        rules,
        bad_sectors: Vec::new(),
    }
}

/// The media of a run, each behind a device that fails as planned.
struct Failing {
    home: Arc<FaultDevice>,
    log: Option<Arc<FaultDevice>>,
}

impl Failing {
    fn new(rig: &Rig, fault: Option<Fault>) -> Self {
        let behind =
            |memory, on_log| Arc::new(FaultDevice::new(device(memory), plan(fault, on_log)));
        Self {
            home: behind(&rig.home, false),
            log: rig.log.as_ref().map(|log| behind(log, true)),
        }
    }

    fn open(&self, options: MountOptions) -> Result<Volume, Error> {
        let home = Arc::<FaultDevice>::clone(&self.home);
        let log = self
            .log
            .as_ref()
            .map(|log| Arc::<FaultDevice>::clone(log) as Arc<dyn BlockDevice>);
        Volume::open(home, log, options)
    }

    /// Returns the number of reads, writes and flushes of each device.
    fn seen(&self) -> [[u64; 3]; 2] {
        let of = |device: &FaultDevice| [device.seen(0), device.seen(1), device.seen(2)];
        [
            of(&self.home),
            self.log.as_ref().map(|log| of(log)).unwrap_or_default(),
        ]
    }
}

/// The outcome of a run.
struct Outcome {
    bound: Bound,
    /// The last possible state.
    most: usize,
    seen: [[u64; 3]; 2],
}

fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::ReadOnly | Error::Journal(_) | Error::Device(_) | Error::DataLost { .. }
    )
}

/// Runs the script. A failed operation is tried once more; if that fails, too, later operations
/// need not work, and only false successes are checked.
fn run_script(volume: &Volume, history: &History) -> (Bound, usize) {
    let mut bound = Bound::default();
    for (number, op) in history.ops.iter().enumerate() {
        let was_read_only = volume.is_read_only();
        let mut result = op.run(volume, number);
        if was_read_only {
            let error = result
                .as_ref()
                .expect_err("nothing is done on a volume that has failed");
            assert!(is_refusal(error), "{op:?} on a failed volume: {error}");
        }
        if result.is_err() && !volume.is_read_only() {
            result = op.run(volume, number);
            if matches!(result, Err(Error::Exists | Error::NotFound)) {
                // It was done after all, but not completely: for example, deleting the inode
                // failed.
                result = Ok(());
            }
        }
        match result {
            Ok(()) => history.bind(&mut bound, number),
            Err(error) => {
                assert!(is_refusal(&error), "{op:?} fails with {error}");
                check_after_failure(volume, history, number);
                return (bound, number + 1);
            }
        }
    }
    (bound, history.ops.len())
}

/// Checks after a permanent failure that reads are harmless, and that an abort is permanent.
fn check_after_failure(volume: &Volume, history: &History, number: usize) {
    drop(read_tree(volume));
    if !volume.is_read_only() {
        drop(volume.sync());
        return;
    }
    for (later, op) in history.ops.iter().enumerate().skip(number + 1) {
        assert!(
            op.run(volume, later).is_err(),
            "{op:?} works on a volume that has failed"
        );
    }
}

fn run(rig: &Rig, history: &History, fault: Option<Fault>, options: &MountOptions) -> Outcome {
    let failing = Failing::new(rig, fault);
    let (bound, most) = match failing.open(options.clone()) {
        Ok(volume) => {
            let (mut bound, most) = run_script(&volume, history);
            if volume.close().is_ok() && most == history.ops.len() {
                history.bind_all(&mut bound, history.ops.len());
            }
            (bound, most)
        }
        Err(error) => {
            assert!(is_refusal(&error), "opening fails with {error}");
            (Bound::default(), 0)
        }
    };
    Outcome {
        bound,
        most,
        seen: failing.seen(),
    }
}

/// Opens the image without failures and compares it with the possible states.
fn check_image(rig: &Rig, history: &History, outcome: &Outcome, rule: Rule, when: &str) {
    let volume = rig.open(quiet(DataMode::Ordered));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Err(why) = history.check(&found, &outcome.bound, outcome.most, rule) {
        panic!("{when}: bound {:?}: {why}", outcome.bound);
    }
    volume
        .write_file("/afterwards", &[1; 5000])
        .expect("the recovered volume works");
    volume
        .remove_file("/afterwards")
        .expect("the recovered volume works");
    volume.close().expect("close");
}

fn fail_once(
    made: &Rig,
    history: &Arc<History>,
    fault: Option<Fault>,
    data: DataMode,
) -> [[u64; 3]; 2] {
    let rig = made.copy();
    let inside = Rig {
        home: Arc::clone(&rig.home),
        log: rig.log.clone(),
        block_bytes: rig.block_bytes,
    };
    let history = Arc::clone(history);
    let when = format!("{data:?}, {fault:?}");
    let what = when.clone();
    let world = sim::run(sim::Config::fair(1), move || {
        let outcome = run(&inside, &history, fault, &quiet(data));
        // Unsynced data may be lost by a failed write in any mode.
        check_image(&inside, &history, &outcome, Rule::Synced, &what);
        outcome.seen
    });
    let seen = world
        .unwrap_or_else(|error| panic!("{when}: {error}"))
        .value;
    let number = match fault.map(|fault| fault.when) {
        Some(When::Nth(number) | When::From(number)) => number,
        _ => 0,
    };
    if number % FSCK_ONE_IN == 0 {
        rig.copy().assert_fsck_clean(&when);
    }
    seen
}

/// Fails every request of each kind, one after another.
fn fail_each(place: Place, data: DataMode) {
    let made = Rig::new(place, 1024, VOLUME_BYTES);
    let history = Arc::new(History::new(SCRIPT));
    let seen = fail_once(&made, &history, None, data);
    let kinds = [Operations::READS, Operations::WRITES, Operations::FLUSHES];
    for (on_log, counts) in [false, true].into_iter().zip(seen) {
        for (operations, count) in kinds.into_iter().zip(counts) {
            for number in 1..=count {
                let mut faults = vec![
                    (When::Nth(number), Effect::Fail),
                    (When::From(number), Effect::Fail),
                ];
                if operations == Operations::WRITES {
                    faults.push((When::Nth(number), Effect::Torn));
                }
                for (when, effect) in faults {
                    let fault = Fault {
                        on_log,
                        operations,
                        when,
                        effect,
                    };
                    fail_once(&made, &history, Some(fault), data);
                }
            }
        }
    }
}

#[test]
fn internal_ordered() {
    fail_each(Place::Internal, DataMode::Ordered);
}

#[test]
fn internal_writeback() {
    fail_each(Place::Internal, DataMode::Writeback);
}

#[test]
fn internal_journal() {
    fail_each(Place::Internal, DataMode::Journal);
}

#[test]
fn external_ordered() {
    fail_each(Place::External, DataMode::Ordered);
}

#[test]
fn external_journal() {
    fail_each(Place::External, DataMode::Journal);
}

#[test]
fn the_script_is_what_it_says() {
    assert!(SCRIPT.iter().filter(|op| op.is_sync()).count() >= 10);
    assert!(SCRIPT.iter().any(|op| matches!(op, Op::Fdatasync(_))));
}
