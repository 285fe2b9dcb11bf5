//! Power cuts in recordings ([`block::Recording`]) of other programs, such as the file systems of
//! Linux in guests.
//!
//! The recording is applied, event by event, to devices in memory. At instants between events the
//! power is cut: of the writes that no flush has made durable, the devices keep what a choice says.
//! Each image that differs from all before it is recovered by the engine and checked. Images of
//! volumes without a journal are repaired by e2fsck first, since a power cut may leave anything
//! there.
//!
//! # Limits
//!
//! - Only ext2, ext3 and ext4 are judged, from the first instant at which the last file system that
//!   was made is sound and durable and nothing is undecided: at the end of the last mkfs, or before
//!   the first event.
//! - The program is not known: recovery must succeed and the volume must be sound. Contents of
//!   files are not judged.
//! - A power cut that leaves half of a superblock with a checksum makes a volume that is refused.
//!   Such images are counted and not judged if recovery refuses them. A whole superblock with a
//!   wrong checksum is a violation.
//!
//! | part | contents |
//! |---|---|
//! | `plan` | the instants of a recording |
//! | `state` | the devices after each event |
//! | `start` | the instant from which on it is judged |
//! | `choice` | what a power cut leaves |
//! | `sparse` | contents of large devices |
//! | `judge` | recovery and checks of an image |

mod choice;
mod error;
mod judge;
mod plan;
mod sparse;
mod start;
mod state;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use block::{Geometry, MemoryDevice};
use rt::split_mix::mix_pair;

use crate::cut::Moment;
use crate::rule::Broken;
pub use choice::{Id, IdError, Limits};
use choice::{parts, wholes};
pub use error::RecordedError;
use judge::{SUPERBLOCK, Verdict, is_halved};
use plan::Plan;
use sparse::Sparse;
use start::{Finder, Start};
use state::State;

/// Maximum number of devices: a file system and its journal.
const DEVICES_MAX: usize = 2;
/// One image in this number is also given to e2fsck by default.
const E2FSCK_ONE_IN: u64 = 64;
/// Number of violations that are kept; more are only counted.
const VIOLATIONS_KEPT: usize = 20;

/// A recording, and what is to be tried.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The recording.
    pub path: PathBuf,
    /// An image for each device with its contents before the recording, or none: zeroes.
    pub initial: Vec<PathBuf>,
    /// Seed of all random choices.
    pub seed: u64,
    /// One in this number of the instants between flushes is explored. By default as many as make
    /// a few hundred.
    pub one_in: Option<u64>,
    /// Numbers of choices at each instant.
    pub limits: Limits,
    /// One image in this number is given to e2fsck, too; the first one always.
    pub e2fsck_one_in: u64,
    /// Maximum duration.
    pub after: Option<Duration>,
    /// Maximum number of distinct images.
    pub images: Option<u64>,
}

/// Counts of what was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of commands in the recording.
    pub commands: u64,
    /// Number of flushes among them.
    pub flushes: u64,
    /// Number of instants at which a flush or a forced write was complete, or about to be.
    pub instants_at_flushes: u64,
    /// Number of other instants.
    pub instants_between: u64,
    /// Number of instants explored.
    pub explored: u64,
    /// Number of images tried.
    pub tried: u64,
    /// Number of images that differ from each other.
    pub distinct: u64,
    /// Number of images checked or repaired by e2fsck.
    pub e2fsck: u64,
    /// Number of images refused because of half a superblock.
    pub torn: u64,
    /// Number of violations.
    pub violations: u64,
}

/// A violation, and the power cut that shows it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule.
    pub broken: Broken,
    /// The power cut.
    pub id: Id,
}

/// The result of an exploration.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The counts.
    pub tally: Tally,
    /// The number of events until the file system was whole.
    pub start: usize,
    /// True if it has no journal, so that e2fsck repairs every image.
    pub is_repaired: bool,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// True if all chosen instants were explored.
    pub is_complete: bool,
    /// The real time that it took.
    pub elapsed: Duration,
}

/// The contents that a power cut leaves, judged.
pub struct Left {
    /// The contents of each device.
    pub devices: Vec<MemoryDevice>,
    /// The violation, if there is one.
    pub broken: Option<Broken>,
    /// True if the image was refused because of half a superblock.
    pub is_torn: bool,
}

impl Setup {
    /// Creates the usual exploration of a recording.
    pub fn new(path: impl Into<PathBuf>, seed: u64) -> Self {
        Self {
            path: path.into(),
            initial: Vec::new(),
            seed,
            one_in: None,
            limits: Limits::default(),
            e2fsck_one_in: E2FSCK_ONE_IN,
            after: None,
            images: None,
        }
    }

    /// Explores the recording. `progress` gets the counts and the share that is done.
    ///
    /// # Errors
    /// Fails if the recording or an initial image is invalid, if no file system that can be judged
    /// is in it, if no instant is explored, and if e2fsck cannot be asked.
    pub fn explore(&self, progress: &dyn Fn(&Tally, f64)) -> Result<Report, RecordedError> {
        let started = Instant::now();
        let plan = Plan::read(&self.path)?;
        let chosen = plan.chosen(self.seed, self.one_in);
        let (instants_at_flushes, instants_between) = plan.counts();
        let initial = self.initial(&plan.devices)?;
        let start = self.start(&plan, &initial)?;
        let mut run = Run::new(self, &plan, self.state(&plan, &initial), start);
        run.report.tally = Tally {
            commands: plan.commands,
            flushes: plan.flushes,
            instants_at_flushes,
            instants_between,
            ..Tally::default()
        };
        let is_over = |tally: &Tally| {
            self.after.is_some_and(|limit| started.elapsed() >= limit)
                || self.images.is_some_and(|limit| tally.distinct >= limit)
        };
        run.report.is_complete = true;
        let mut events = plan::open(&self.path)?;
        for number in 0..=plan.events {
            if chosen.contains(&number) && number >= start.event {
                if is_over(&run.report.tally) {
                    run.report.is_complete = false;
                    break;
                }
                run.explore_at(number)?;
                let share = number as f64 / plan.events.max(1) as f64;
                progress(&run.report.tally, share);
            }
            let Some(recorded) = events.next() else { break };
            run.state.apply(&recorded?.event, number)?;
        }
        if run.report.tally.explored == 0 {
            let start = start.event;
            return Err(RecordedError::Nothing { start });
        }
        run.report.elapsed = started.elapsed();
        Ok(run.report)
    }

    /// Returns what a power cut leaves, judged by e2fsck, too.
    ///
    /// # Errors
    /// Fails as [`explore`](Self::explore), and if nothing of the recording fits the cut.
    pub fn left_by(&self, id: Id) -> Result<Left, RecordedError> {
        let plan = Plan::read(&self.path)?;
        if id.event > plan.events {
            let events = plan.events;
            return Err(RecordedError::NoInstant { id, events });
        }
        let initial = self.initial(&plan.devices)?;
        let start = self.start(&plan, &initial)?;
        if id.event < start.event {
            return Err(RecordedError::TooEarly(id));
        }
        let mut state = self.state(&plan, &initial);
        let events = plan::open(&self.path)?;
        for (number, recorded) in events.take(id.event).enumerate() {
            state.apply(&recorded?.event, number)?;
        }
        let moment = Moment::new(&state.replays);
        let selection = id.choice.select(&moment, &plan.unit_sectors());
        let selection = selection.ok_or(RecordedError::NoChoice(id))?;
        let images = moment.images(&selection);
        let is_halved = is_halved(&moment, &selection);
        let verdict = start.judge.judge(&images, true, is_halved)?;
        Ok(Left {
            devices: images.iter().map(|one| one.memory().snapshot()).collect(),
            broken: verdict.broken,
            is_torn: verdict.is_torn,
        })
    }

    /// Finds the instant from which on the recording is judged, by applying all of it.
    fn start(&self, plan: &Plan, initial: &[MemoryDevice]) -> Result<Start, RecordedError> {
        let mut state = self.state(plan, initial);
        let mut finder = Finder::new(&state.replays);
        for (number, recorded) in plan::open(&self.path)?.enumerate() {
            let event = recorded?.event;
            state.apply(&event, number)?;
            finder.note(&state.replays, &event, number + 1);
        }
        finder.start()
    }

    /// Returns the devices before the first event.
    fn state(&self, plan: &Plan, initial: &[MemoryDevice]) -> State {
        State::new(initial, &plan.devices, self.initial.is_empty())
    }

    /// Returns the contents of the devices before the recording.
    fn initial(&self, devices: &[Geometry]) -> Result<Vec<MemoryDevice>, RecordedError> {
        let wanted = devices.len();
        if wanted == 0 || wanted > DEVICES_MAX {
            return Err(RecordedError::DeviceCount(wanted));
        }
        let size_bytes = devices[0].size_bytes;
        if size_bytes < SUPERBLOCK.0 + u64::from(SUPERBLOCK.1) {
            return Err(RecordedError::TooSmall(size_bytes));
        }
        if self.initial.is_empty() {
            let sizes = devices.iter().map(|geometry| geometry.size_bytes);
            return Ok(sizes.map(MemoryDevice::new).collect());
        }
        let given = self.initial.len();
        if given != wanted {
            return Err(RecordedError::InitialCount { wanted, given });
        }
        let pairs = self.initial.iter().zip(devices).enumerate();
        pairs
            .map(|(device, (path, geometry))| {
                let failed = |cause| {
                    let path = path.clone();
                    RecordedError::Initial { path, cause }
                };
                let bytes = std::fs::metadata(path).map_err(failed)?.len();
                if bytes != geometry.size_bytes {
                    return Err(RecordedError::InitialSize {
                        path: path.clone(),
                        bytes,
                        device,
                        wanted: geometry.size_bytes,
                    });
                }
                MemoryDevice::load_from_file(path).map_err(failed)
            })
            .collect()
    }
}

/// A recording that is being explored.
struct Run<'s> {
    setup: &'s Setup,
    state: State,
    /// Size of a sector of each device, in sectors of 512 bytes.
    unit_sectors: Vec<u64>,
    start: Start,
    /// Hashes of the images that were judged.
    known: BTreeSet<u64>,
    report: Report,
}

impl<'s> Run<'s> {
    fn new(setup: &'s Setup, plan: &Plan, state: State, start: Start) -> Self {
        Self {
            setup,
            state,
            unit_sectors: plan.unit_sectors(),
            start,
            known: BTreeSet::new(),
            report: Report {
                start: start.event,
                is_repaired: start.judge.repairs(),
                ..Report::default()
            },
        }
    }

    /// Cuts the power after a number of events in all chosen ways.
    fn explore_at(&mut self, event: usize) -> Result<(), RecordedError> {
        self.report.tally.explored += 1;
        let replays = core::mem::take(&mut self.state.replays);
        let moment = Moment::new(&replays);
        let mut read = Vec::new();
        for choice in wholes(replays.len()) {
            let verdict = self.try_image(&moment, Id { event, choice })?;
            read.extend(verdict.map(|verdict| verdict.reads));
        }
        let is_read = |device: usize, sector: u64| {
            let mut reads = read.iter().filter_map(|reads| reads.get(device));
            reads.any(|reads| reads.contains(sector))
        };
        let seed = mix_pair(self.setup.seed, event as u64);
        for choice in parts(&moment, &self.setup.limits, seed, &is_read) {
            self.try_image(&moment, Id { event, choice })?;
        }
        drop(moment);
        self.state.replays = replays;
        Ok(())
    }

    /// Judges an image, unless it was judged before. Returns the verdict if it is new.
    fn try_image(
        &mut self,
        moment: &Moment<'_, Sparse>,
        id: Id,
    ) -> Result<Option<Verdict>, RecordedError> {
        let Some(selection) = id.choice.select(moment, &self.unit_sectors) else {
            return Ok(None);
        };
        let tally = &mut self.report.tally;
        tally.tried += 1;
        let hash = moment.hash(&selection);
        if !self.known.insert(hash) {
            return Ok(None);
        }
        let is_first = tally.distinct == 0;
        tally.distinct += 1;
        let one_in = self.setup.e2fsck_one_in;
        let is_chosen = one_in > 0 && mix_pair(self.setup.seed, hash).is_multiple_of(one_in);
        let images = moment.images(&selection);
        let is_halved = is_halved(moment, &selection);
        let with_e2fsck = one_in > 0 && is_first || is_chosen;
        let verdict = self.start.judge.judge(&images, with_e2fsck, is_halved)?;
        tally.e2fsck += u64::from(verdict.has_e2fsck);
        tally.torn += u64::from(verdict.is_torn);
        if let Some(broken) = &verdict.broken {
            tally.violations += 1;
            if self.report.violations.len() < VIOLATIONS_KEPT {
                let broken = broken.clone();
                self.report.violations.push(Violation { broken, id });
            }
        }
        Ok(Some(verdict))
    }
}
