//! Possible contents of the caches after a round, drawn at random, recovered and compared with the
//! model.

use std::collections::BTreeSet;

use block::Medium;
use block::trace::Event;
use rt::split_mix::{SplitMix, mix_pair};

use super::Tally;
use super::keep::Evidence;
use super::round::Round;
use crate::disks::Disks;
use crate::e2fsck;
use crate::history::{Bounds, History};
use crate::leftover::Held;
use crate::oracle::Oracle;
use crate::recording::{Mark, Outcome};
use crate::recover::{Examination, Sound, recover};
use crate::rule::{Broken, Rule, RuleCounts};
use crate::setting::Schedule;
use crate::timetable::RECOVERED_AT;
use crate::world::world;

/// Number of images drawn in a round, including all lost and all kept.
const IMAGES: u64 = 10;
/// One image in this number is used and emptied.
const USE_ONE_IN: u64 = 16;
/// Inverse share of units if few are kept, or few are lost.
const LITTLE: u64 = 8;

/// The loss of a device's cache.
#[derive(Debug, Clone, Copy)]
enum Loss {
    All,
    Nothing,
    Some,
    Most,
    Little,
}

impl Loss {
    fn pick(self, random: &mut SplitMix, newest: usize) -> usize {
        let any = random.below(newest as u64 + 1) as usize;
        let is_exception = random.below(LITTLE) == 0;
        match self {
            Self::All => 0,
            Self::Nothing => newest,
            Self::Most if !is_exception => 0,
            Self::Little if !is_exception => newest,
            Self::Some | Self::Most | Self::Little => any,
        }
    }
}

/// Checks a round.
pub(super) fn judge(
    round: &Round,
    seed: u64,
    e2fsck_one_in: u64,
    tally: &mut Tally,
) -> Result<(), Box<Evidence>> {
    let recording = &round.recording;
    count(round, tally);
    let lanes = 0..recording.workload.lanes.len();
    let histories: Option<Vec<History>> = lanes.map(|lane| History::of(recording, lane)).collect();
    let Some(histories) = histories else {
        let broken = Broken::new(Rule::U3, "an operation succeeded that the model refuses");
        return Err(Evidence::of(recording.clone(), broken));
    };
    let mut bounds = Bounds::new(&histories, recording);
    bounds.has_times = false;
    for event in &recording.events {
        if let Event::Mark(mark) = event {
            bounds.note(&histories, Mark::decode(*mark));
        }
    }
    let mut random = SplitMix::new(mix_pair(seed, IMAGES));
    let mut known = BTreeSet::new();
    for number in 0..IMAGES {
        let disks = draw(round, number, &mut random);
        if !known.insert(disks.hash()) {
            continue;
        }
        let examination = match random.below(USE_ONE_IN) {
            0 => Examination::Use,
            _ => Examination::Read,
        };
        let is_asked = e2fsck_one_in > 0 && random.below(e2fsck_one_in) == 0;
        tally.images += 1;
        tally.unsettled += u64::from(disks.hash() != durable(round).hash());
        tally.e2fsck += u64::from(is_asked);
        compare(round, &disks, examination, is_asked, (&histories, &bounds)).map_err(|broken| {
            Box::new(Evidence {
                left: Some(disks),
                ..*Evidence::of(recording.clone(), broken)
            })
        })?;
    }
    Ok(())
}

fn count(round: &Round, tally: &mut Tally) {
    let recording = &round.recording;
    for (ops, done) in recording.workload.lanes.iter().zip(&recording.done) {
        let done = ops.iter().zip(done);
        let done = done.filter(|(_, done)| done.outcome != Outcome::Failed);
        tally.ops += done.clone().count() as u64;
        tally.syncs += done.filter(|(op, _)| op.is_sync()).count() as u64;
    }
}

fn durable(round: &Round) -> Disks {
    let mut images = round.left.iter().map(|(image, _)| image.clone());
    Disks {
        home: images.next().expect("there is a home device"),
        log: images.next(),
        ..round.recording.initial.clone()
    }
}

/// Draws contents that the caches may leave.
fn draw(round: &Round, number: u64, random: &mut SplitMix) -> Disks {
    let mut disks = durable(round);
    let images = core::iter::once(&mut disks.home).chain(&mut disks.log);
    for (image, (_, versions)) in images.zip(&round.left) {
        let loss = match number {
            0 => Loss::All,
            1 => Loss::Nothing,
            _ => [
                Loss::All,
                Loss::Nothing,
                Loss::Some,
                Loss::Most,
                Loss::Little,
            ][random.below(5) as usize],
        };
        let sector_bytes = layout::SectorNr::SIZE as u32;
        image.store(&versions.choose(sector_bytes, &mut |_, newest| loss.pick(random, newest)));
    }
    disks
}

/// Recovers an image in a simulated world, since only the clients need threads, and compares it.
fn compare(
    round: &Round,
    disks: &Disks,
    examination: Examination,
    is_asked: bool,
    (histories, bounds): (&[History], &Bounds),
) -> Result<(), Broken> {
    let setting = round.recording.workload.setting;
    let inside = disks.clone();
    let run = sim::run(world(Schedule::Fair, RECOVERED_AT, None), move || {
        recover(&inside, &setting, examination, &mut Sound::default())
    });
    let checked = run.map_err(|error| Broken::new(Rule::U1, error.to_string()))?;
    let checked = checked.value?;
    let mut counts = RuleCounts::default();
    let mut oracle = Oracle {
        histories,
        bounds,
        data: setting.cell.data,
        recovered: &checked.recovered,
        leftovers: &checked.leftovers,
        held: &Held::of(&round.recording),
        suspects: &[],
        counts: &mut counts,
    };
    oracle.check()?;
    if is_asked {
        e2fsck::check(&checked.after)?;
    }
    Ok(())
}
