//! Silent corruption: after a recovery one block of the file system, outside the log, has other
//! contents, and no device reports an error.
//!
//! | module | contents |
//! |---|---|
//! | `territory` | the use of each block |
//! | `harm` | the damage: bit rot, a lost write, a misdirected one |
//! | `look` | every inode separately |
//! | `judge` | the differences that are allowed |
//! | `usage` | writing to the volume in spite of the damage |
//!
//! ext2 and ext3 have no metadata checksums, so most of this cannot be detected. These rules must
//! hold: nothing panics or loops; readers write nothing; and readers see no change in anything that
//! does not depend on the damaged block. Writing to a damaged volume has no guarantee.
//!
//! Each image is tried in a separate world, so that a panic is reported like other findings. The
//! world is hostile, so that a loop takes scheduling steps and is stopped. The damage is derived
//! from the image's hash, so a replay repeats it.

mod harm;
mod judge;
mod look;
mod tally;
mod territory;
#[cfg(test)]
mod tests;
mod usage;

pub use tally::{FATES, Fate, SilentTally};
pub use territory::{PARTS, Part};

use core::fmt;
use std::sync::Arc;

use crate::mode::DataMode;
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use rt::split_mix::{SplitMix, mix_pair};

use crate::cut::Cut;
use crate::device::Plant;
use crate::disks::{Devices, Disks, quiet};
use crate::findings::{Found, Tally};
use crate::image::Image;
use crate::recording::Recording;
use crate::recover::{Checked, Examination, Sound, recover};
use crate::rule::{Broken, Rule};
use crate::setting::{Schedule, Setting};
use crate::timetable::RECOVERED_AT;
use crate::world::{Shared, world};
use harm::Harm;
use look::Sight;
use territory::Territory;

/// Number of scheduling steps above which a damaged volume counts as looping; a complete trial
/// takes some ten thousand.
const STEPS_MAX: u64 = 2_000_000;
/// Separates these random choices from others derived from an image's hash.
const PURPOSE: u64 = 8;

/// An image to be recovered and damaged.
#[derive(Clone)]
pub struct Case {
    /// The image before recovery.
    pub disks: Disks,
    /// The contents of the file-system device before the run.
    pub initial: Image,
    /// The setting of the run.
    pub setting: Setting,
    /// A layer between the damaged devices and their reader, in tests.
    pub plant: Option<Plant>,
}

/// The damage and its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The block and the damage.
    pub harm: String,
    /// The use of the block.
    pub part: Part,
    /// The first detector.
    pub fate: Fate,
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.fate {
            Fate::Refused => "the volume is refused",
            Fate::Told => "an error tells of it",
            Fate::Found => "only a check finds it",
            Fate::Undetected => "nobody notices",
        };
        write!(out, "{}: {who}", self.harm)
    }
}

/// Tries the chosen images of a recording. Returns the first violation.
pub(super) fn explore(
    recording: &Recording,
    chosen: Vec<(Cut, Disks)>,
    tally: &mut Tally,
) -> Option<Found> {
    for (cut, disks) in chosen {
        match Case::of(recording, disks).run() {
            Ok(trial) => {
                tally.rules.note(Rule::E7);
                tally.silent.note(trial.part, trial.fate);
            }
            Err(broken) => {
                let cuts = vec![cut];
                return Some(Found { broken, cuts });
            }
        }
    }
    None
}

impl Case {
    /// Creates the case of an image from a recording.
    pub fn of(recording: &Recording, disks: Disks) -> Self {
        Self {
            disks,
            initial: recording.initial.home.clone(),
            setting: recording.workload.setting,
            plant: None,
        }
    }

    /// Recovers the image, damages it and uses it.
    ///
    /// # Errors
    /// - E7, and the errors of recovery.
    pub fn run(self) -> Result<Trial, Broken> {
        let told: Shared<String> = Shared::new();
        let inside = told.clone();
        let schedule = Schedule::Random(mix_pair(self.disks.hash(), PURPOSE));
        let config = sim::Config {
            step_count_max: STEPS_MAX,
            ..world(schedule, RECOVERED_AT, self.setting.mutant)
        };
        match sim::run(config, move || self.try_once(&inside)) {
            Ok(report) => report.value,
            Err(error) => {
                let harm = told.take().unwrap_or_else(|| "nothing yet".to_owned());
                let what = format!("{harm}: this does not end well: {error}");
                Err(Broken::new(Rule::E7, what))
            }
        }
    }

    fn try_once(&self, told: &Shared<String>) -> Result<Trial, Broken> {
        let data = self.setting.cell.data;
        let Checked { after: good, .. } = recover(
            &self.disks,
            &self.setting,
            Examination::Read,
            &mut Sound::default(),
        )?;
        let (before, territory) = survey(&good, data).map_err(|error| {
            Broken::new(Rule::U1, format!("what was closed cannot be read: {error}"))
        })?;
        let mut random = SplitMix::new(mix_pair(self.disks.hash(), PURPOSE));
        let harm = Harm::draw(&territory, &good.home, &self.initial, &mut random);
        told.set(harm.to_string());
        let mut bad = good;
        bad.home.set_block(harm.block, Arc::clone(&harm.bad));
        let fate = self
            .live_with(&harm, &before, &bad)
            .map_err(|what| Broken::new(Rule::E7, format!("{harm}: {what}")))?;
        Ok(Trial {
            harm: harm.to_string(),
            part: harm.claim.part,
            fate,
        })
    }

    /// Reads a damaged volume, has it checked, and writes to it; returns the detector.
    fn live_with(&self, harm: &Harm, before: &Sight, bad: &Disks) -> Result<Fate, String> {
        let read = self.read(harm, before, bad)?;
        let (home, log) = {
            let devices = bad.devices();
            (devices.home_device(), devices.log_device())
        };
        let report = fsck::check(&*home, log.as_deref(), &fsck::Options::default());
        let is_found = !report.is_ok_and(|report| report.is_clean());
        let written = self.write(bad);
        Ok(match (read, written) {
            (Fate::Refused, _) | (_, Fate::Refused) => Fate::Refused,
            (Fate::Told, _) | (_, Fate::Told) => Fate::Told,
            _ if is_found => Fate::Found,
            _ => Fate::Undetected,
        })
    }

    fn read(&self, harm: &Harm, before: &Sight, bad: &Disks) -> Result<Fate, String> {
        let data = self.setting.cell.data;
        let devices = bad.devices();
        let opened = self.open(&devices, read_only(data));
        // The flag for replaying the log is in a block that may be the damaged one.
        let opened_as = devices.disks(bad).hash();
        if opened_as != bad.hash() && !bad.needs_recovery() {
            return Err("opening it for reading has written to it".to_owned());
        }
        let volume = match opened {
            Ok(volume) => volume,
            Err(_) if judge::may_be_refused(harm) => return Ok(Fate::Refused),
            Err(error) => return Err(format!("the volume is refused: {error}")),
        };
        let inodes = [InodeNr::ROOT].into_iter();
        let after = Sight::of(&volume, inodes.chain(before.objects.keys().copied()));
        let closed = volume.close();
        if devices.disks(bad).hash() != opened_as {
            return Err("reading it has written to it".to_owned());
        }
        judge::compare(harm, before, &after)?;
        let mut errors = after.errors().chain(closed.as_ref().err());
        Ok(match errors.any(usage::tells) {
            true => Fate::Told,
            false => Fate::Undetected,
        })
    }

    /// Writes to a damaged volume, and opens it once more; any result is allowed except a panic.
    fn write(&self, bad: &Disks) -> Fate {
        let data = self.setting.cell.data;
        let devices = bad.devices();
        let Ok(volume) = self.open(&devices, quiet(data)) else {
            return Fate::Refused;
        };
        let mut has_told = usage::run(&volume);
        let closed = volume.close();
        has_told |= closed.as_ref().is_err_and(usage::tells);
        let again = self.open(&devices, quiet(data));
        has_told |= again.as_ref().err().is_some_and(usage::tells);
        if let Ok(volume) = again {
            let sight = Sight::of(&volume, [InodeNr::ROOT]);
            has_told |= sight.errors().any(usage::tells);
            let closed = volume.close();
            has_told |= closed.as_ref().is_err_and(usage::tells);
        }
        match has_told {
            true => Fate::Told,
            false => Fate::Undetected,
        }
    }

    fn open(&self, devices: &Devices, options: MountOptions) -> Result<Volume, Error> {
        let home = devices.home_device();
        let home = match self.plant {
            Some(plant) => plant(home),
            None => home,
        };
        Volume::open(home, devices.log_device(), options)
    }
}

/// Returns everything visible on a good volume, and the use of each block.
fn survey(good: &Disks, data: DataMode) -> Result<(Sight, Territory), Error> {
    let devices = good.devices();
    let volume = Volume::open(devices.home_device(), devices.log_device(), read_only(data))?;
    let sight = Sight::of(&volume, [InodeNr::ROOT]);
    if let Some(error) = sight.errors().next() {
        return Err(error.clone());
    }
    let territory = Territory::of(&good.home, &volume, &sight)?;
    volume.close()?;
    Ok((sight, territory))
}

fn read_only(data: DataMode) -> MountOptions {
    MountOptions {
        read_only: true,
        ..quiet(data)
    }
}
