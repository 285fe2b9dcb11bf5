//! Races combined with power cuts: several tasks write, append, truncate, rename and sync private
//! and common files in worlds that switch between them at the worst moments. The device trace of
//! each world is cut at many points, and every recovered image is compared with the guarantees of
//! the sync calls completed by then.
//!
//! | object | tasks | check |
//! |---|---|---|
//! | a private directory (`private`) | one | a state of its script, no older than its bounds |
//! | common files, overwritten and truncated (`region`) | all | see below |
//! | common files, appended to (`log`) | all | whole records in order, every bound one there |
//! | all scripts together | all | everything done before a surviving operation survives |
//!
//! In `region` each sector is one writer's, not older than a bound one. In `log` the order is that
//! of each writer.

mod log;
mod private;
mod region;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::trace::{Event, Replay};
use ext::options::DataMode;
use ext::volume::OpenFlags;
use ext::{Error, MountOptions, Volume};
use rt::Nanos;

use crate::durability::{Recorded, cut_image};
use crate::history::{Found, Rule, read_tree};
use crate::hostile::{self, NEARLY_WRAPPED};
use crate::rig::{Place, Rig, Structures, quiet};
use testkit::Random;

use log::LogOp;
use private::Private;
use region::RegionOp;

/// Number of worlds for each place, mode and policy in the default tests. `JEXT_TEST_WORLDS`
/// overrides it.
const WORLDS: u64 = 3;
/// Number of tasks in a world.
const TASKS: usize = 4;
/// Number of steps of a task.
const STEPS: usize = 28;
/// Number of power cuts of a world.
const CUTS: usize = 12;
/// Interval of recovered images that `e2fsck` checks, too.
const FSCK_ONE_IN: usize = 24;
const VOLUME_BYTES: u64 = 8 << 20;
/// Initial contents of every free block.
const POISON: u8 = 0xA5;
/// Interval of worlds with transaction numbers that wrap.
const WRAP_ONE_IN: u64 = 3;

/// One step of a task.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The operation of the task's private script with this number.
    Private(usize),
    Region(RegionOp),
    Log(LogOp),
    /// A pause in microseconds.
    Sleep(u64),
}

/// The time of an operation, as places in the trace: an operation that had not started before a cut
/// has done nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    begun: usize,
    ended: usize,
}

/// The work of a task.
struct Script {
    private: Private,
    steps: Vec<Step>,
}

impl Script {
    fn new(task: usize, random: &mut Random) -> Self {
        let kinds: Vec<u64> = (0..STEPS).map(|_| random.below(10)).collect();
        let private_count = kinds.iter().filter(|kind| **kind < 5).count() + 1;
        let private = Private::new(task, private_count, random);
        let mut numbers = 0..;
        let mut steps = vec![Step::Private(0)];
        numbers.next();
        for kind in kinds {
            steps.push(match kind {
                0..=4 => Step::Private(numbers.next().expect("there is a next")),
                5..=6 => Step::Region(RegionOp::new(random)),
                7..=8 => Step::Log(LogOp::new(random)),
                _ => Step::Sleep(random.below(3000)),
            });
        }
        Self { private, steps }
    }

    fn run(&self, volume: &Volume, recorded: &Recorded, task: usize) {
        for (number, step) in self.steps.iter().enumerate() {
            recorded.trace.mark(mark_of(task, number, false));
            let result = match step {
                Step::Private(place) => self.private.run(volume, *place),
                Step::Region(op) => op.run(volume, task, number),
                Step::Log(op) => op.run(volume, task, number),
                Step::Sleep(micros) => {
                    rt::sleep(Nanos::from_micros(*micros));
                    Ok(())
                }
            };
            result.unwrap_or_else(|error| panic!("task {task}, {step:?}: {error}"));
            recorded.trace.mark(mark_of(task, number, true));
        }
    }
}

fn mark_of(task: usize, number: usize, has_ended: bool) -> u64 {
    (task as u64) << 32 | (number as u64) << 1 | u64::from(has_ended)
}

/// A world that has ended: its scripts, its trace, and the time of each step.
struct Run {
    scripts: Vec<Script>,
    events: Vec<Event>,
    spans: BTreeMap<(usize, usize), Span>,
}

impl Run {
    fn new(scripts: Vec<Script>, events: Vec<Event>) -> Self {
        let mut spans = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            let Event::Mark(mark) = event else { continue };
            let key = ((mark >> 32) as usize, (*mark as u32 >> 1) as usize);
            let span = spans.entry(key).or_insert(Span {
                begun: place,
                ended: usize::MAX,
            });
            if mark % 2 == 1 {
                span.ended = place;
            }
        }
        Self {
            scripts,
            events,
            spans,
        }
    }

    /// Returns all steps of all tasks with their spans.
    fn steps(&self) -> impl Iterator<Item = (usize, usize, Step, Span)> + '_ {
        self.spans.iter().map(|((task, number), span)| {
            (*task, *number, self.scripts[*task].steps[*number], *span)
        })
    }

    /// Compares the tree found after a cut with the possible ones.
    fn check(&self, found: &Found, cut: usize, data: DataMode) -> Result<(), String> {
        let rule = match data {
            DataMode::Journal => Rule::Exact,
            DataMode::Ordered => Rule::Ordered,
            DataMode::Writeback => Rule::Synced,
        };
        let mut states = Vec::new();
        for task in 0..TASKS {
            let allowed = private::check(self, task, found, cut, rule);
            states.push(allowed.map_err(|why| format!("task {task}: {why}"))?);
        }
        private::check_order(self, &states)?;
        for file in 0..region::FILES {
            region::check(self, file, found, cut, data)
                .map_err(|why| format!("{}: {why}", region::PATHS[file]))?;
        }
        for file in 0..log::FILES {
            log::check(self, file, found, cut, data)
                .map_err(|why| format!("{}: {why}", log::PATHS[file]))?;
        }
        Ok(())
    }
}

/// Returns a volume with the common files and poison in its free blocks, whose transactions have
/// numbers that wrap if that is asked for: from the first one on, since the number of an older one
/// would seem to follow.
fn prepared(structures: Structures, place: Place, wraps: bool) -> Rig {
    let rig = Rig::of(structures, place, 1024, VOLUME_BYTES);
    if wraps {
        rig.set_sequence(NEARLY_WRAPPED);
    }
    let volume = rig.open(quiet(DataMode::Ordered));
    let bytes = vec![POISON; VOLUME_BYTES as usize];
    let filled = volume.write_file("/poison", &bytes);
    assert!(matches!(filled, Err(Error::NoSpace)), "{filled:?}");
    volume.sync().expect("sync");
    volume.remove_file("/poison").expect("unlink");
    volume.create_directory("/common").expect("mkdir");
    for path in region::PATHS {
        let bytes = vec![0; region::BYTES_AT_FIRST];
        volume.write_file(path, &bytes).expect("write");
    }
    for path in log::PATHS {
        volume.write_file(path, &[]).expect("write");
    }
    volume.close().expect("close");
    rig
}

/// Runs the world.
fn live(made: &Rig, seed: u64, options: MountOptions) -> Run {
    let mut random = Random::new(seed);
    let scripts: Vec<_> = (0..TASKS)
        .map(|task| Arc::new(Script::new(task, &mut random)))
        .collect();
    let recorded = Arc::new(Recorded::new(made, seed.is_multiple_of(2)));
    let volume = Arc::new(recorded.open(options));
    let tasks: Vec<_> = scripts
        .iter()
        .enumerate()
        .map(|(task, script)| {
            let (volume, recorded) = (Arc::clone(&volume), Arc::clone(&recorded));
            let script = Arc::clone(script);
            rt::spawn(&format!("task{task}"), move || {
                script.run(&volume, &recorded, task);
            })
        })
        .collect();
    for task in tasks {
        task.join().expect("it ends well");
    }
    let volume = Arc::into_inner(volume).expect("the tasks are gone");
    volume.close().expect("close");
    let scripts = scripts
        .into_iter()
        .map(|script| Arc::into_inner(script).expect("the tasks are gone"))
        .collect();
    Run::new(scripts, recorded.trace.events())
}

/// Recovers an image and compares it.
fn judge(rig: &Rig, run: &Run, cut: usize, data: DataMode, when: &str) {
    let volume = rig.open(quiet(data));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Err(why) = run.check(&found, cut, data) {
        panic!("{when}: {why}");
    }
    volume
        .write_file("/afterwards", &[1; 5000])
        .expect("the recovered volume works");
    volume
        .remove_file("/afterwards")
        .expect("the recovered volume works");
    volume.close().expect("close");
}

/// Cuts the trace of a world at places chosen by the seed.
fn cut(made: &Rig, run: &Run, seed: u64, data: DataMode, what: &str) {
    let mut random = Random::new(!seed);
    let count = run.events.len() as u64;
    let mut cuts: Vec<usize> = (0..CUTS)
        .map(|_| random.below(count + 1) as usize)
        .collect();
    cuts.sort_unstable();
    let recorded = Recorded::new(made, seed.is_multiple_of(2));
    let (mut home, mut log) = recorded.replays();
    let apply = |replay: &mut Replay, events: &[Event]| {
        for event in events {
            replay.apply(event);
        }
    };
    let mut at = 0;
    for (number, cut) in cuts.into_iter().enumerate() {
        apply(&mut home, &run.events[at..cut]);
        if let Some(log) = &mut log {
            apply(log, &run.events[at..cut]);
        }
        at = cut;
        let rig = cut_image(&home, log.as_ref(), made.block_bytes, random.next());
        let when = format!("{what}, cut {number} after event {at} of {count}");
        judge(&rig, run, at, data, &when);
        if (seed as usize * CUTS + number).is_multiple_of(FSCK_ONE_IN) {
            rig.assert_fsck_clean(&when);
        }
    }
}

fn explore(place: Place, data: DataMode, policy: fn(u64) -> sim::Config) {
    let made = [Structures::Ext3, Structures::Ext4].map(|structures| {
        let made = |wraps| prepared(structures, place, wraps);
        (made(false), made(true))
    });
    let first = hostile::first_seed();
    for seed in first..first + hostile::worlds(WORLDS) {
        let (made, wrapping) = &made[(seed % 2) as usize];
        let made = if (seed / 2).is_multiple_of(WRAP_ONE_IN) {
            wrapping.copy()
        } else {
            made.copy()
        };
        let options = MountOptions {
            data,
            // What an operation left is compared whole, as soon as a later one is there.
            delayed_allocation: false,
            sync: false,
            directory_sync: false,
            ..hostile::options(&mut Random::new(seed))
        };
        let what = format!("seed {seed}, journal {place:?}, {data:?}");
        let initial = made.copy();
        let world = sim::run(policy(seed), move || live(&initial, seed, options));
        let run = world
            .unwrap_or_else(|error| panic!("{what}: {error}"))
            .value;
        let text = what.clone();
        let judged = sim::run(sim::Config::fair(seed), move || {
            cut(&made, &run, seed, data, &text);
        });
        judged.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn explore_modes(place: Place, policy: fn(u64) -> sim::Config) {
    for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        explore(place, data, policy);
    }
}

#[test]
fn random_internal() {
    explore_modes(Place::Internal, sim::Config::random);
}

#[test]
fn random_external() {
    explore_modes(Place::External, sim::Config::random);
}

#[test]
fn pct_internal() {
    explore_modes(Place::Internal, hostile::pct);
}

#[test]
fn pct_external() {
    explore_modes(Place::External, hostile::pct);
}

/// Opens a file, works on it, and closes it.
fn with_open(
    volume: &Volume,
    path: &str,
    flags: OpenFlags,
    work: impl FnOnce(&ext::volume::File<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let file = volume.open_file(path, flags)?;
    let result = work(&file);
    result.and(file.close())
}
