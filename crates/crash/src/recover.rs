//! Recovers an image, reads all of it, closes it and has it checked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use block::BlockDevice;

use crate::device::Reads;
use crate::disks::{Devices, Disks};
use crate::engine::{Engine, Recovery, Soundness};
use crate::leftover::{Leftovers, leftovers};
use crate::mode::DataMode;
use crate::observe::observe;
use crate::oracle::Recovered;
use crate::rule::{Broken, Rule};
use crate::setting::Setting;
use crate::tested::Tested;

/// Maximum number of problems in a message.
const PROBLEMS_SHOWN: usize = 5;

/// A recovered image.
pub struct Checked {
    /// The result of recovery.
    pub recovered: Recovered,
    /// In data=writeback, the sectors in which files show what the cut left in their blocks.
    pub leftovers: Leftovers,
    /// Sectors read by recovery and the check, on the file-system device and the journal's device.
    pub reads: [Reads; 2],
    /// The contents of the devices at the end.
    pub after: Disks,
}

/// Closed volumes that the checker has found sound, by the hashes of their contents, with the
/// sectors that it read. Many cuts recover to the same volume, and the check depends on nothing
/// else.
#[derive(Default)]
pub struct Sound {
    known: BTreeMap<u64, [Reads; 2]>,
}

impl Sound {
    /// Checks a closed volume unless it is known, and adds the sectors that the check reads.
    fn check(&mut self, closed: &Disks, reads: &mut [Reads; 2]) -> Result<(), Broken> {
        let of_check = match self.known.entry(closed.hash()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let devices = closed.devices();
                check(&*devices.home_device(), devices.log_device().as_deref())?;
                place.insert(devices.reads())
            }
        };
        reads
            .iter_mut()
            .zip(of_check.iter())
            .for_each(|(all, read)| all.add(read));
        Ok(())
    }
}

/// The use of a recovered volume before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Examination {
    /// It is read and closed.
    Read,
    /// It is used: files are created everywhere, and then everything is deleted.
    Use,
}

/// Recovers disks that a run with this setting has left.
///
/// # Errors
/// - U1 if the volume cannot be opened, read or closed.
/// - U2 if the check finds something.
/// - E2 if a recorded error is lost.
/// - U7 if the volume cannot be used.
pub fn recover(
    disks: &Disks,
    setting: &Setting,
    examination: Examination,
    sound: &mut Sound,
) -> Result<Checked, Broken> {
    let devices = disks.devices();
    let is_released = is_released(&devices.home_device());
    if disks.needs_recovery() && is_released == Some(true) && setting.fault.is_none() {
        let what = "it needs recovery, and multiple mount protection says that no node uses it";
        return Err(Broken::new(Rule::U2, what));
    }
    recover_failed(disks, setting.cell.data, examination, sound)
}

/// Recovers disks that a failed open, close or recovery has left, as [`recover`]: that has released
/// a volume which still needs recovery.
///
/// # Errors
/// Those of [`recover`].
pub fn recover_failed(
    disks: &Disks,
    data: DataMode,
    examination: Examination,
    sound: &mut Sound,
) -> Result<Checked, Broken> {
    let devices = disks.devices();
    let (home, log) = (devices.home_device(), devices.log_device());
    let recovered = recover_on(Arc::clone(&home), log, &devices, data, examination)?;
    let after = devices.disks(disks);
    let mut reads = devices.reads();
    sound.check(&after, &mut reads)?;
    if is_released(&home) == Some(false) {
        let what = "it was closed, and multiple mount protection says that a node uses it";
        return Err(Broken::new(Rule::U2, what));
    }
    // The loss of a committed transaction is recorded, too, and the log may contain a recorded
    // error.
    let is_noted = disks.has_error() || recovered.has_lost;
    let what = match (recovered.has_error, is_noted) {
        (true, false) if !disks.may_log_error() => {
            Some("the volume says that there was an error, which nobody had noted")
        }
        (false, true) => Some("an error that was noted is forgotten"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(Broken::new(Rule::E2, what));
    }
    Ok(Checked {
        leftovers: match data {
            DataMode::Writeback => leftovers(&recovered.observation, &disks.home),
            DataMode::Ordered | DataMode::Journal => Leftovers::new(),
        },
        recovered,
        reads,
        after,
    })
}

/// Returns true if no node uses a volume, as multiple mount protection says; none without it, or if
/// the superblock is torn.
fn is_released(home: &Arc<dyn BlockDevice>) -> Option<bool> {
    let status = ext::multi_mount::status(home).ok()??;
    Some(status.is_clean())
}

/// Recovers a volume on given devices, such as traced ones, in front of `devices`.
///
/// # Errors
/// - U1, U7.
pub fn recover_on(
    home: Arc<dyn BlockDevice>,
    log: Option<Arc<dyn BlockDevice>>,
    devices: &Devices,
    data: DataMode,
    examination: Examination,
) -> Result<Recovered, Broken> {
    recover_as::<Tested>(home, log, devices, data, examination)
}

/// Recovers a volume of a file system, as [`recover_on`].
///
/// # Errors
/// Fails with U1 or U7.
fn recover_as<E: Engine>(
    home: Arc<dyn BlockDevice>,
    log: Option<Arc<dyn BlockDevice>>,
    devices: &Devices,
    data: DataMode,
    examination: Examination,
) -> Result<Recovered, Broken> {
    let failed = |error: E::Error| Broken::new(Rule::U1, format!("recovery failed: {error}"));
    let (volume, recovery) = E::recover(home, log, data).map_err(failed)?;
    let recovered = look(&volume, &recovery, data);
    if recovered.is_ok() && examination == Examination::Use {
        volume.exercise()?;
    }
    let closed = volume.close();
    let recovered = recovered?;
    closed.map_err(failed)?;
    Ok(Recovered {
        has_error: devices.has_error(),
        ..recovered
    })
}

fn look<E: Engine>(volume: &E, recovery: &Recovery, data: DataMode) -> Result<Recovered, Broken> {
    if let Some(why) = &recovery.read_only_because {
        return Err(Broken::new(Rule::U1, format!("it is read-only: {why}")));
    }
    let last = recovery.last_committed;
    let last = last.ok_or_else(|| Broken::new(Rule::U1, "its journal was left alone"))?;
    let observation = observe(volume, data == DataMode::Writeback)
        .map_err(|error| Broken::new(Rule::U1, format!("it cannot be read: {error}")))?;
    Ok(Recovered {
        last,
        has_truncated: recovery.has_truncated,
        has_lost: recovery.has_lost,
        has_error: false,
        observation,
    })
}

/// Checks a closed volume: it is consistent and needs no recovery. If devices have failed, orphans
/// may be left to the next open.
///
/// # Errors
/// - U2 if the check finds something.
pub fn check_closed(disks: &Disks, has_failed: bool) -> Result<(), Broken> {
    let devices = disks.devices();
    let (home, log) = (devices.home_device(), devices.log_device());
    check_ended(&*home, log.as_deref(), has_failed)
}

/// Checks the devices of a closed volume, as [`check_closed`].
///
/// # Errors
/// - U2 if the check finds something.
pub(crate) fn check_ended(
    home: &dyn BlockDevice,
    log: Option<&dyn BlockDevice>,
    has_failed: bool,
) -> Result<(), Broken> {
    let soundness = Tested::check(home, log)?;
    if !has_failed || soundness.orphans == 0 {
        expect_sound(&soundness)?;
    }
    if soundness.needs_recovery {
        return Err(Broken::new(
            Rule::U2,
            "it was closed, and needs recovery all the same",
        ));
    }
    Ok(())
}

/// Checks that a volume is consistent, without recovery.
pub(crate) fn check(home: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Result<(), Broken> {
    expect_sound(&Tested::check(home, log)?)
}

fn expect_sound(soundness: &Soundness) -> Result<(), Broken> {
    if soundness.is_sound {
        return Ok(());
    }
    let problems = &soundness.problems;
    let shown = &problems[..problems.len().min(PROBLEMS_SHOWN)];
    Err(Broken::new(Rule::U2, shown.join("; ")))
}
