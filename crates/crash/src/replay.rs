//! Replays: a violation as one line of text, and its repetition.
//!
//! ```text
//! crash2:SETTING:PREPARED:OPERATIONS:CUTS
//! crash2:ordered,internal:2:mkdir(d0);create(d0/f0);sync:57-kept,0.120=0
//! ```
//!
//! Operations are separated by `;`, lanes by `+`, cuts by `@`: the first is in the run, the second
//! in the recovery of what the first left, and so on. The version changes whenever the same text
//! would no longer give the same run.

use core::fmt;
use core::str::FromStr;
use std::rc::Rc;

use block::Replay as DeviceReplay;
use block::trace::Event;

use crate::cut::{Cut, Moment};
use crate::disks::Disks;
use crate::explore::silent::{Case, Trial};
use crate::explore::{Limits, explore};
use crate::fault::strikes;
use crate::history::{Bounds, History};
use crate::image::Image;
use crate::leftover::Held;
use crate::oracle::Oracle;
use crate::protocol::LogMap;
use crate::recording::{Mark, Recording};
use crate::recover::{Examination, Sound, recover};
use crate::rule::{Broken, RuleCounts};
use crate::run::{prepare, record};
use crate::run_error::RunError;
use crate::setting::{Schedule, Setting};
use crate::suspect::{Suspect, suspects};
use crate::timetable::MADE_AT;
use crate::unjournaled;
use crate::workload::Workload;
use crate::world::world;

const VERSION: &str = "crash2";

/// A violation that can be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayId {
    /// The operations and their setting.
    pub workload: Workload,
    /// The power cuts; empty if the violation needs none.
    pub cuts: Vec<Cut>,
}

impl fmt::Display for ReplayId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload {
            setting,
            prepared,
            lanes,
        } = &self.workload;
        let prepared: Vec<String> = prepared.iter().map(ToString::to_string).collect();
        let join = |ops: &Vec<crate::op::Op>| -> String {
            ops.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(";")
        };
        let lanes: Vec<String> = lanes.iter().map(join).collect();
        let cuts: Vec<String> = self.cuts.iter().map(ToString::to_string).collect();
        let (prepared, lanes, cuts) = (prepared.join("+"), lanes.join("+"), cuts.join("@"));
        write!(out, "{VERSION}:{setting}:{prepared}:{lanes}:{cuts}")
    }
}

/// The error of a text that is not a replay id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a replay id of this version: it has the form {VERSION}:SETTING:PREPARED:OPERATIONS:CUTS"
)]
pub struct ReplayIdError(pub String);

impl FromStr for ReplayId {
    type Err = ReplayIdError;

    fn from_str(text: &str) -> Result<Self, ReplayIdError> {
        parse(text.trim()).ok_or_else(|| ReplayIdError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ReplayId> {
    let mut parts = text.split(':');
    parts.next().filter(|version| *version == VERSION)?;
    let setting: Setting = parts.next()?.parse().ok()?;
    let prepared: Option<Vec<usize>> = parts
        .next()?
        .split('+')
        .map(|one| one.parse().ok())
        .collect();
    let lanes: Option<Vec<Vec<_>>> = split_lanes(parts.next()?)
        .into_iter()
        .map(|ops| {
            ops.split(';')
                .filter(|op| !op.is_empty())
                .map(|op| op.parse().ok())
                .collect()
        })
        .collect();
    let cuts = parts.next()?.split('@').filter(|cut| !cut.is_empty());
    let cuts: Option<Vec<Cut>> = cuts.map(|cut| cut.parse().ok()).collect();
    let workload = Workload {
        setting,
        prepared: prepared?,
        lanes: lanes?,
    };
    let is_consistent = workload.lanes.len() == setting.lanes as usize
        && workload.prepared.len() == workload.lanes.len()
        && workload
            .prepared
            .iter()
            .zip(&workload.lanes)
            .all(|(count, ops)| *count <= ops.len());
    (parts.next().is_none() && is_consistent).then_some(ReplayId {
        workload,
        cuts: cuts?,
    })
}

/// Splits a text into lanes at `+`, except within an operation such as `chattr(+j,d0/f0)`.
fn split_lanes(text: &str) -> Vec<&str> {
    let (mut lanes, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            '+' if depth == 0 => {
                lanes.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    lanes.push(&text[begin..]);
    lanes
}

/// The result of a replay.
pub struct Shown {
    /// The recorded run.
    pub recording: Rc<Recording>,
    /// The violation, if it occurred again.
    pub broken: Option<Broken>,
    /// The silently changed block of the recovered volume, and its detector, if rule E7 was kept.
    pub silent: Option<Trial>,
}

/// Repeats a violation.
///
/// # Errors
/// - [`RunError`] if the workload cannot be run.
pub fn replay(id: &ReplayId) -> Result<Shown, RunError> {
    let empty =
        Disks::make(&id.workload.setting).map_err(|error| RunError::Volume(error.to_string()))?;
    let prepared = prepare(&id.workload, &empty)?;
    let recording = Rc::new(record(&id.workload, &prepared)?);
    let judged = judge_cut(id, &recording)
        .and_then(|()| damage(id, &recording))
        .and_then(|trial| judge_run(&recording).map(|()| trial));
    let (silent, broken) = match judged {
        Ok(trial) => (trial, None),
        Err(broken) => (None, Some(broken)),
    };
    Ok(Shown {
        recording,
        broken,
        silent,
    })
}

/// Returns the violation at the cut.
fn judge_cut(id: &ReplayId, recording: &Rc<Recording>) -> Result<(), Broken> {
    let (again, cuts) = (Rc::clone(recording), id.cuts.clone());
    let mutant = id.workload.setting.mutant;
    let config = world(Schedule::Fair, MADE_AT + 1_000_000, mutant);
    match sim::run(config, move || cut(&again, &cuts)) {
        Ok(report) => report.value,
        Err(error) => Err(Broken::new(crate::rule::Rule::U1, error.to_string())),
    }
}

/// Changes a block of the volume recovered from the cut, as the explorer does with some images.
fn damage(id: &ReplayId, recording: &Recording) -> Result<Option<Trial>, Broken> {
    let [cut] = &id.cuts[..] else {
        return Ok(None);
    };
    if !recording.workload.setting.cell.has_journal() {
        return Ok(None);
    }
    let replays = replays(recording);
    let left = left(&recording.events, replays, cut, &recording.initial);
    left.map(|disks| Case::of(recording, disks).run())
        .transpose()
}

/// Checks the whole run for violations of the protocol, which have no image.
fn judge_run(recording: &Rc<Recording>) -> Result<(), Broken> {
    // Whole images and the order of requests only.
    let protocol_only = Limits {
        singles: 0,
        pairs: 0,
        randoms: 0,
        nested_one_in: 0,
        use_one_in: 0,
        repeat_one_in: 0,
        fail_one_in: 0,
        e2fsck_one_in: 0,
        damage_one_in: 0,
        silent_one_in: 0,
        ..Limits::new(0)
    };
    match explore(Rc::clone(recording), protocol_only).1 {
        Some(found) => Err(found.broken),
        None => Ok(()),
    }
}

/// Returns the operations, and the promises at the time of the power cut.
pub(crate) fn promises(recording: &Recording, cut: &Cut) -> (Vec<History>, Bounds) {
    let lanes = 0..recording.workload.lanes.len();
    let histories: Vec<History> = lanes
        .filter_map(|lane| History::of(recording, lane))
        .collect();
    let mut bounds = bounds_at(recording, &histories, cut.event);
    if recording.ended.is_closed && cut.event == recording.events.len() {
        bounds.note_closed(&histories);
    }
    (histories, bounds)
}

/// Returns the promises before an event.
fn bounds_at(recording: &Recording, histories: &[History], event: usize) -> Bounds {
    let mut bounds = Bounds::new(histories, recording);
    for event in &recording.events[..event.min(recording.events.len())] {
        if let Event::Mark(mark) = event {
            bounds.note(histories, Mark::decode(*mark));
        }
    }
    bounds
}

/// Recovers the state after the cuts and compares it.
fn cut(recording: &Recording, cuts: &[Cut]) -> Result<(), Broken> {
    let data = recording.workload.setting.cell.data;
    let Some((first, deeper)) = cuts.split_first() else {
        return Ok(());
    };
    let (histories, bounds) = promises(recording, first);
    let initial = &recording.initial;
    let Some(mut disks) = left(&recording.events, replays(recording), first, initial) else {
        return Ok(());
    };
    if !recording.workload.setting.cell.has_journal() {
        return unjournaled::check_repaired(&histories, &bounds, &disks).map(drop);
    }
    for cut in deeper {
        let can_force = recording.workload.setting.can_force;
        let recovery = crate::explore::record_recovery(&disks, data, can_force)?;
        let Some(next) = left(&recovery.events, recovery.replays, cut, &disks) else {
            return Ok(());
        };
        disks = next;
    }
    let checked = recover(
        &disks,
        &recording.workload.setting,
        Examination::Use,
        &mut Sound::default(),
    )?;
    let mut counts = RuleCounts::default();
    let map = LogMap::new(initial);
    let strikes = strikes(&recording.events);
    let until = strikes.iter().filter(|strike| strike.event < first.event);
    let suspects: Vec<Suspect> = until
        .flat_map(|strike| {
            let bounds = bounds_at(recording, &histories, strike.event);
            suspects(strike, &map, (&histories, &bounds), &recording.workload)
        })
        .collect();
    let mut oracle = Oracle {
        histories: &histories,
        bounds: &bounds,
        data,
        recovered: &checked.recovered,
        leftovers: &checked.leftovers,
        held: &Held::of(recording),
        suspects: &suspects,
        counts: &mut counts,
    };
    oracle.check().map(drop)
}

/// Returns the devices before the run.
fn replays(recording: &Recording) -> Vec<DeviceReplay<Image>> {
    let initial = &recording.initial;
    let images = core::iter::once(&initial.home).chain(&initial.log);
    let replays = images.zip(&recording.geometries).enumerate();
    replays
        .map(|(device, (image, geometry))| DeviceReplay::on(device, geometry.clone(), image))
        .collect()
}

/// Returns the contents after a cut.
fn left(
    events: &[Event],
    mut replays: Vec<DeviceReplay<Image>>,
    cut: &Cut,
    like: &Disks,
) -> Option<Disks> {
    for event in &events[..cut.event.min(events.len())] {
        replays.iter_mut().for_each(|replay| replay.apply(event));
    }
    let moment = Moment::new(&replays);
    let selection = moment.select(cut)?;
    Some(moment.disks(&selection, like))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let texts = [
            "crash2:ordered,internal:1:mkdir(d0);create(d0/f0);sync:57-kept,0.120=0",
            "crash2:journal,external,lanes=2:0+1:sync+mkdir(d1);sync:3-lost@8-kept@0-lost",
            "crash2:journal,external:0:sync:",
            "crash2:ordered,internal,lanes=2,fault=write.0.9+:0+0:chattr(+j,d0/f0);sync+sync:1-kept",
        ];
        for text in texts {
            let id: ReplayId = text.parse().expect("a replay id");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "crash1:ordered,internal:0:sync:",
            "crash2:ordered,internal:2:sync:",
            "crash2:ordered,internal:0:sync",
        ] {
            assert!(text.parse::<ReplayId>().is_err(), "{text}");
        }
    }
}
