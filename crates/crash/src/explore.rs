//! The explorer: cuts the power after every event of a recording, recovers the images left and
//! compares them.
//!
//! After each event there is a *moment*: the durable contents, and the versions of each unsettled
//! sector. A cut may leave any combination; `select` chooses those that are tried. An image that
//! was recovered before is not recovered again, because recovery depends on nothing but the image.
//! But it is compared again when the promises have grown.
//!
//! If a command fails, only the events after it are explored: the others are explored without it.
//!
//! A simulated world runs the whole exploration, so that it depends on nothing but the recording
//! and the seed.

mod age;
mod damage;
mod failures;
mod familiar;
mod nested;
mod recent;
pub(crate) mod select;
pub mod silent;

pub(crate) use nested::record as record_recovery;

use std::rc::Rc;
use std::time::Duration;

use block::Replay;
use block::trace::Event;
use rt::split_mix::mix_pair;

use crate::cut::{Cut, Moment, Selection};
use crate::disks::Disks;
use crate::e2fsck;
use crate::findings::{Found, Tally};
use crate::history::{Bounds, History};
use crate::image::Image;
use crate::leftover::Held;
use crate::mode::Structures;
use crate::oracle::Oracle;
use crate::protocol::Watcher;
use crate::recording::{Mark, Recording};
use crate::recover::{Checked, Examination, Sound, check_closed, recover};
use crate::rule::{Broken, Rule};
use crate::setting::Schedule;
use crate::timetable::RECOVERED_AT;
use crate::unjournaled;
use crate::world::{Shared, world};
use age::DataAge;
use failures::Failures;
pub(crate) use familiar::Familiar;
use recent::Recent;

/// Limits of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of sectors that are kept or dropped alone, at each moment.
    pub singles: usize,
    /// Maximum number of pairs, at each moment.
    pub pairs: usize,
    /// Number of random subsets at each moment.
    pub randoms: usize,
    /// At one moment in this number, combinations other than all or nothing are tried.
    pub parts_one_in: u64,
    /// One recovery in this number is interrupted, to depth 3.
    pub nested_one_in: u64,
    /// One recovered volume in this number is used and emptied.
    pub use_one_in: u64,
    /// One recovery in this number is repeated.
    pub repeat_one_in: u64,
    /// One recovery in this number meets device errors.
    pub fail_one_in: u64,
    /// One recovered image in this number is given to e2fsck.
    pub e2fsck_one_in: u64,
    /// One recovered image in this number has a byte of its log changed and is recovered again.
    pub damage_one_in: u64,
    /// One recovered image in this number has a block of the file system changed silently, and is
    /// used again.
    pub silent_one_in: u64,
    /// True to check the order of requests in addition to its effects.
    pub watches: bool,
}

impl Limits {
    /// Creates the usual limits.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            singles: 64,
            pairs: 48,
            randoms: 8,
            parts_one_in: 1,
            nested_one_in: 64,
            use_one_in: 64,
            repeat_one_in: 256,
            fail_one_in: 128,
            e2fsck_one_in: 8192,
            damage_one_in: 64,
            silent_one_in: 256,
            watches: true,
        }
    }
}

/// Explores a recording. Returns the counts, and the first violation. Without a journal only the
/// closed volume is checked.
pub fn explore(recording: Rc<Recording>, limits: Limits) -> (Tally, Option<Found>) {
    explore_with(recording, limits, &Familiar::default())
}

/// Explores a recording, as [`explore`]: images that recordings of the same beginning left before
/// are only compared.
pub(crate) fn explore_with(
    recording: Rc<Recording>,
    limits: Limits,
    familiar: &Familiar,
) -> (Tally, Option<Found>) {
    if !recording.workload.setting.cell.has_journal() {
        return unjournaled::explore(recording);
    }
    familiar.begin(&recording);
    let familiar = familiar.clone();
    let current: Shared<Vec<Cut>> = Shared::new();
    let inside = current.clone();
    let mutant = recording.workload.setting.mutant;
    let config = world(Schedule::Fair, RECOVERED_AT, mutant);
    let again = Rc::clone(&recording);
    let run = sim::run(config, move || {
        let mut explorer = match Explorer::new(&again, limits, inside, familiar) {
            Ok(explorer) => explorer,
            Err(broken) => {
                let cuts = Vec::new();
                let found = Some(Found { broken, cuts });
                return (Tally::default(), found, Vec::new());
            }
        };
        let found = explorer.run().err();
        explorer.tally.workloads = 1;
        let found = found.map(|found| *found);
        (explorer.tally, found, explorer.to_be_damaged)
    });
    match run {
        Ok(report) => {
            let (mut tally, found, chosen) = report.value;
            let found = found.or_else(|| silent::explore(&recording, chosen, &mut tally));
            (tally, found)
        }
        Err(error) => {
            let broken = Broken::new(Rule::U1, format!("recovery did not end well: {error}"));
            let cuts = current.take().unwrap_or_default();
            (Tally::default(), Some(Found { broken, cuts }))
        }
    }
}

/// Number of images in a generation of those that a recording is known to leave. The largest take
/// 150 KB, most a tenth of that.
const KNOWN_MAX: usize = 128;

/// An image that was recovered.
struct Known {
    checked: Rc<Checked>,
    /// Version of the promises with which it was last compared.
    compared_with: u64,
}

pub(crate) struct Explorer<'r> {
    recording: &'r Recording,
    limits: Limits,
    histories: Vec<History>,
    bounds: Bounds,
    /// Version of the promises, which grows with them.
    bounds_version: u64,
    replays: Vec<Replay<Image>>,
    watcher: Watcher,
    ages: DataAge,
    held: Held,
    /// The failures so far.
    failures: Failures,
    known: Recent<Known>,
    familiar: Familiar,
    sound: Sound,
    /// Images of which a block will be changed silently, each in a separate world.
    to_be_damaged: Vec<(Cut, Disks)>,
    current: Shared<Vec<Cut>>,
    tally: Tally,
}

type Step = Result<(), Box<Found>>;

impl<'r> Explorer<'r> {
    fn new(
        recording: &'r Recording,
        limits: Limits,
        current: Shared<Vec<Cut>>,
        familiar: Familiar,
    ) -> Result<Self, Broken> {
        let lanes = 0..recording.workload.lanes.len();
        let histories: Option<Vec<History>> =
            lanes.map(|lane| History::of(recording, lane)).collect();
        let histories = histories.ok_or_else(|| {
            Broken::new(Rule::U3, "an operation succeeded that the model refuses")
        })?;
        let initial = &recording.initial;
        let images = core::iter::once(&initial.home).chain(&initial.log);
        let replays = images.zip(&recording.geometries).enumerate();
        let replays = replays
            .map(|(device, (image, geometry))| Replay::on(device, geometry.clone(), image))
            .collect();
        Ok(Self {
            bounds: Bounds::new(&histories, recording),
            histories,
            recording,
            limits,
            bounds_version: 0,
            replays,
            watcher: Watcher::new(recording),
            ages: DataAge::new(recording),
            held: Held::of(recording),
            failures: Failures::new(recording),
            known: Recent::new(KNOWN_MAX),
            familiar,
            sound: Sound::default(),
            to_be_damaged: Vec::new(),
            current,
            tally: Tally::default(),
        })
    }

    fn run(&mut self) -> Step {
        self.tally.rules += &self.recording.ended.crowd;
        if self.is_shown() {
            self.moment(0)?;
        }
        for (index, event) in self.recording.events.iter().enumerate() {
            if self.limits.watches {
                self.watcher
                    .note(event, &self.replays, &mut self.tally.rules)
                    .map_err(|broken| {
                        found(self.failures.named(broken), vec![Cut::whole(index)])
                    })?;
            }
            self.ages
                .note(event, &self.histories, &self.bounds, &mut self.tally.rules)
                .map_err(|broken| found(broken, vec![Cut::whole(index)]))?;
            let has_failed = self.note_failures(index);
            if (self.advance(event) || has_failed) && self.is_shown() {
                self.moment(index + 1)?;
            }
        }
        if self.recording.ended.is_closed && self.is_shown() {
            self.closed()?;
        }
        self.end()
    }

    /// Notes that the volume was closed successfully: everything is durable, and it needs no
    /// recovery.
    fn closed(&mut self) -> Step {
        self.bounds.note_closed(&self.histories);
        self.bounds_version += 1;
        self.tally.rules.note(Rule::U2);
        if !self.failures.is_empty() {
            self.tally.rules.note(Rule::E0);
        }
        let end = self.recording.events.len();
        check_closed(&self.recording.last, !self.failures.is_empty())
            .map_err(|broken| found(self.failures.named(broken), vec![Cut::whole(end)]))?;
        self.moment(end)
    }

    /// Applies an event. Returns true if there are new states to explore.
    fn advance(&mut self, event: &Event) -> bool {
        if let Event::Mark(mark) = event {
            let has_grown = self.bounds.note(&self.histories, Mark::decode(*mark));
            self.bounds_version += u64::from(has_grown);
            if has_grown {
                self.tally.rules.note(Rule::F6);
            }
            if has_grown && !self.failures.is_empty() {
                self.tally.rules.note(Rule::E0);
            }
            return has_grown;
        }
        let state = |replays: &[Replay<Image>]| -> Vec<(u64, u64)> {
            let of = |one: &Replay<Image>| (one.versions().count(), one.durable().hash());
            replays.iter().map(of).collect()
        };
        let before = state(&self.replays);
        for replay in &mut self.replays {
            replay.apply(event);
        }
        before != state(&self.replays)
    }

    /// Cuts the power here in all selected ways.
    fn moment(&mut self, event: usize) -> Step {
        self.tally.moments += 1;
        let replays = core::mem::take(&mut self.replays);
        let moment = Moment::new(&replays);
        let result = self.cut_at(&moment, event);
        drop(moment);
        self.replays = replays;
        result
    }

    fn cut_at(&mut self, moment: &Moment<'_>, event: usize) -> Step {
        let mut read = Vec::new();
        for whole in select::whole(moment, self.replay_count()) {
            let checked = self.try_image(moment, event, &whole)?;
            read.push(checked);
        }
        if !self.is_chosen(
            self.recording.hash ^ event as u64,
            self.limits.parts_one_in,
            6,
        ) {
            return Ok(());
        }
        let is_read = |device: usize, sector| {
            read.iter()
                .any(|checked| checked.reads[device].contains(sector))
        };
        // Equal moments of several recordings have the same parts.
        let seed = mix_pair(self.limits.seed, moment.own_hash());
        for selection in select::parts(moment, &self.limits, seed, &is_read) {
            self.try_image(moment, event, &selection)?;
        }
        Ok(())
    }

    fn replay_count(&self) -> usize {
        self.recording.geometries.len()
    }

    fn try_image(
        &mut self,
        moment: &Moment<'_>,
        event: usize,
        selection: &Selection,
    ) -> Result<Rc<Checked>, Box<Found>> {
        let hash = moment.hash(selection);
        if let Some(known) = self.known.get_mut(hash) {
            self.tally.equal += 1;
            let is_compared = known.compared_with == self.bounds_version;
            known.compared_with = self.bounds_version;
            let checked = Rc::clone(&known.checked);
            if !is_compared {
                self.compare(&checked)
                    .map_err(|broken| found(broken, vec![moment.cut(event, selection)]))?;
            }
            return Ok(checked);
        }
        let cut = moment.cut(event, selection);
        if let Some(checked) = self.familiar.get(hash) {
            self.tally.equal += 1;
            self.compare(&checked)
                .map_err(|broken| found(broken, vec![cut]))?;
            self.know(hash, &checked);
            return Ok(checked);
        }
        let disks = moment.disks(selection, &self.recording.initial);
        debug_assert_eq!(hash, disks.hash(), "the hash is that of the image");
        self.current.set(vec![cut.clone()]);
        let setting = &self.recording.workload.setting;
        let examination = if self.is_chosen(hash, self.limits.use_one_in, 1) {
            self.tally.used += 1;
            self.tally.rules.note(Rule::U7);
            Examination::Use
        } else {
            Examination::Read
        };
        let recovered = recover(&disks, setting, examination, &mut self.sound);
        let checked = recovered
            .and_then(|checked| self.compare(&checked).map(|()| checked))
            .map_err(|broken| found(broken, vec![cut.clone()]))?;
        self.tally.recovered += 1;
        self.tally.rules.note(Rule::U1);
        self.tally.rules.note(Rule::U2);
        if self.is_chosen(hash, self.limits.repeat_one_in, 2) {
            self.repeat(&disks)
                .map_err(|broken| found(broken, vec![cut.clone()]))?;
        }
        if self.is_chosen(hash, self.limits.e2fsck_one_in, 4) {
            self.tally.e2fsck += 1;
            e2fsck::check(&checked.after).map_err(|broken| found(broken, vec![cut.clone()]))?;
        }
        // Damage among fast commits looks like their end.
        let is_whole = !self.recording.workload.setting.cell.is_fast;
        if is_whole && self.is_chosen(hash, self.limits.damage_one_in, 5) {
            self.damage(&disks, hash)
                .map_err(|broken| found(broken, vec![cut.clone()]))?;
        }
        if is_whole && self.is_chosen(hash, self.limits.silent_one_in, 8) {
            self.to_be_damaged.push((cut.clone(), disks.clone()));
        }
        if is_whole && self.is_chosen(hash, self.limits.fail_one_in, 7) {
            self.fail(&disks, &checked.recovered, hash)
                .map_err(|broken| found(broken, vec![cut.clone()]))?;
        }
        if self.is_chosen(hash, self.limits.nested_one_in, 3) {
            self.interrupt(&disks, &checked.recovered, hash, vec![cut])?;
        }
        let checked = Rc::new(checked);
        self.know(hash, &checked);
        self.familiar.add(hash, &checked);
        Ok(checked)
    }

    fn know(&mut self, hash: u64, checked: &Rc<Checked>) {
        let known = Known {
            checked: Rc::clone(checked),
            compared_with: self.bounds_version,
        };
        self.known.insert(hash, known);
    }

    fn is_chosen(&self, hash: u64, one_in: u64, purpose: u64) -> bool {
        let mixed = mix_pair(self.limits.seed.wrapping_add(purpose), hash);
        one_in > 0 && mixed.is_multiple_of(one_in)
    }

    fn compare(&mut self, checked: &Checked) -> Result<(), Broken> {
        self.tally.compared += 1;
        if self.watcher.has_revoked() {
            self.tally.rules.note(Rule::J3);
        }
        let compared = self.oracle(checked).check().map(drop);
        compared.map_err(|broken| self.failures.named(broken))
    }

    /// Returns the oracle for a recovered image at this moment.
    fn oracle<'s>(&'s mut self, checked: &'s Checked) -> Oracle<'s> {
        Oracle {
            histories: &self.histories,
            bounds: &self.bounds,
            data: self.recording.workload.setting.cell.data,
            recovered: &checked.recovered,
            leftovers: &checked.leftovers,
            held: &self.held,
            suspects: self.failures.suspects(),
            counts: &mut self.tally.rules,
        }
    }

    /// Recovers the same image twice more, within one second because superblocks record seconds.
    /// The results must not differ. With multiple mount protection each recovery waits for longer
    /// than that, and only what is recovered is compared.
    fn repeat(&mut self, disks: &Disks) -> Result<(), Broken> {
        self.tally.repeated += 1;
        self.tally.rules.note(Rule::U8);
        let setting = &self.recording.workload.setting;
        let waits = setting.cell.structures == Structures::MultiMount;
        loop {
            let began = rt::wall().seconds;
            let first = recover(disks, setting, Examination::Read, &mut self.sound)?;
            let second = recover(disks, setting, Examination::Read, &mut self.sound)?;
            if !waits && rt::wall().seconds > began {
                continue;
            }
            let is_same = first.recovered == second.recovered
                && (waits || first.after.hash() == second.after.hash());
            return if is_same {
                Ok(())
            } else {
                Err(Broken::new(
                    Rule::U8,
                    "the second recovery of an image differs from the first",
                ))
            };
        }
    }
}

fn found(broken: Broken, cuts: Vec<Cut>) -> Box<Found> {
    Box::new(Found { broken, cuts })
}

/// Returns the number of states per second.
pub fn rate(states: u64, elapsed: Duration) -> f64 {
    states as f64 / elapsed.as_secs_f64().max(1e-9)
}
