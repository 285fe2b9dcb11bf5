//! Power cuts during recovery, and during the recovery after that: all must result in the same
//! tree.

use std::sync::Arc;

use block::trace::{Event, Trace};
use block::{BlockDevice, Replay};
use rt::split_mix::{SplitMix, mix_pair};

use super::{Explorer, Step, found};
use crate::cut::{Cut, Moment};
use crate::disks::Disks;
use crate::image::Image;
use crate::oracle::Recovered;
use crate::recover::{Examination, recover, recover_on};
use crate::rule::{Broken, Rule};

/// Maximum depth to which recoveries are interrupted.
const DEPTH: usize = 3;
/// Number of moments at which each recovery is interrupted.
const MOMENTS: usize = 4;

/// A recorded recovery.
pub(crate) struct RecordedRecovery {
    /// The requests to its devices.
    pub(crate) events: Vec<Event>,
    /// The devices before the first event.
    pub(crate) replays: Vec<Replay<Image>>,
}

/// Recovers disks and records the requests.
///
/// # Errors
/// - U1 if recovery fails.
pub(crate) fn record(
    disks: &Disks,
    data: crate::mode::DataMode,
    can_force: bool,
) -> Result<RecordedRecovery, Broken> {
    let devices = disks.devices();
    let trace = Trace::new();
    let attach = |device: Arc<dyn BlockDevice>| {
        Arc::new(trace.attach(device).with_volatile_cache(can_force))
    };
    let home = attach(devices.home_device());
    let log = devices.log_device().map(attach);
    let mut replays = vec![Replay::on(0, home.geometry(), &disks.home)];
    if let (Some(log), Some(image)) = (&log, &disks.log) {
        replays.push(Replay::on(1, log.geometry(), image));
    }
    let log = log.map(|log| -> Arc<dyn BlockDevice> { log });
    recover_on(home, log, &devices, data, Examination::Read)?;
    Ok(RecordedRecovery {
        events: trace.events(),
        replays,
    })
}

impl Explorer<'_> {
    /// Interrupts the recovery of disks.
    pub(super) fn interrupt(
        &mut self,
        disks: &Disks,
        wanted: &Recovered,
        seed: u64,
        cuts: Vec<Cut>,
    ) -> Step {
        let setting = self.recording.workload.setting;
        let mut recovery = record(disks, setting.cell.data, setting.can_force)
            .map_err(|broken| found(broken, cuts.clone()))?;
        let mut random = SplitMix::new(mix_pair(seed, cuts.len() as u64));
        let count = recovery.events.len() as u64;
        let mut places: Vec<usize> = (0..MOMENTS)
            .map(|_| random.below(count + 1) as usize)
            .collect();
        places.sort_unstable();
        places.dedup();
        let mut done = 0;
        for place in places {
            for event in &recovery.events[done..place] {
                recovery
                    .replays
                    .iter_mut()
                    .for_each(|replay| replay.apply(event));
            }
            done = place;
            let moment = Moment::new(&recovery.replays);
            let choose =
                |unit: &crate::cut::Unit| random.below(u64::from(unit.newest()) + 1) as u32;
            let selection: Vec<u32> = moment.units.iter().map(choose).collect();
            let mut cuts = cuts.clone();
            cuts.push(moment.cut(place, &selection));
            let left = moment.disks(&selection, disks);
            self.current.set(cuts.clone());
            self.tally.nested += 1;
            self.tally.rules.note(Rule::U6);
            let again = recover(&left, &setting, Examination::Read, &mut self.sound)
                .and_then(|again| same(wanted, &again.recovered))
                .map_err(|broken| found(broken, cuts.clone()));
            again?;
            // Deeper levels have fewer cuts: one path to the maximum depth for each recovery.
            if cuts.len() <= DEPTH && random.below(MOMENTS as u64) == 0 {
                self.interrupt(&left, wanted, random.next_u64(), cuts)?;
            }
        }
        Ok(())
    }
}

/// Checks that a repeated recovery found the same as the first one.
pub(super) fn same(wanted: &Recovered, found: &Recovered) -> Result<(), Broken> {
    if wanted.has_error && !found.has_error {
        let what = "an interrupted recovery forgets an error that was noted";
        return Err(Broken::new(Rule::E2, what));
    }
    if wanted.observation == found.observation || found.has_truncated || wanted.has_truncated {
        return Ok(());
    }
    let differs = wanted
        .observation
        .nodes
        .iter()
        .zip(&found.observation.nodes);
    let first = differs.clone().find(|(one, other)| one != other);
    let what = match first {
        Some((one, other)) => format!("inode {} was {one:?} and is {other:?}", one.inode),
        None => "the number of inodes differs".to_owned(),
    };
    let short: String = what.chars().take(600).collect();
    Err(Broken::new(
        Rule::U6,
        format!("the recovery of an interrupted recovery differs: {short}"),
    ))
}
