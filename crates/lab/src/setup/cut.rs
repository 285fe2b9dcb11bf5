//! Converts keys to a power cut, and checks that it can take place.

use block::DeviceText;
use rt::Nanos;

use super::{Reader, SetupError, wrong};
use crate::plan::key::{CUT_MEASURES, CUT_PREFIX};
use crate::plan::value::SIMULATED;
use crate::power_cut::{Measure, PowerCut};

impl Reader<'_> {
    /// Returns the power cut, if there is one.
    pub(super) fn cut(&self) -> Result<Option<PowerCut>, SetupError> {
        let Some(measure) = Measure::of_word(self.text(CUT_MEASURES)) else {
            let said = self
                .settings
                .said()
                .find(|key| key.starts_with(CUT_PREFIX) && *key != CUT_MEASURES);
            return match said {
                None => Ok(None),
                Some(key) => {
                    let message = format!(
                        "{key}: there is no power cut; set {CUT_MEASURES} to \"recovery\" or \"loss\""
                    );
                    Err(wrong(&[key], &message))
                }
            };
        };
        if self.text("target") != SIMULATED {
            let message = format!("{CUT_MEASURES}: the power is cut in a simulated world only");
            return Err(wrong(&[CUT_MEASURES, "target"], &message));
        }
        let after = self.time("cut.after");
        if after == Nanos::ZERO && self.time("cut.within") == Nanos::ZERO {
            let message = "cut.after: the cut must come after the start of the workload";
            return Err(wrong(&["cut.after", "cut.within"], message));
        }
        Ok(Some(PowerCut {
            measure,
            after,
            within: self.time("cut.within"),
            write_rate: self.bytes("cut.write_rate").unwrap_or(0),
            sync_interval: self.time("cut.sync_interval"),
            files: self.small("cut.files"),
            file_bytes: self.bytes("cut.file_size").unwrap_or(0),
        }))
    }
}

/// Refuses a device of which nothing, or something unknown, is left after a power cut.
pub(super) fn check_cut(key: &'static str, device: &DeviceText) -> Result<(), SetupError> {
    let refused = |what: &str| {
        let message = format!(
            "{key}: {what} cannot have its power cut: use simulated disks, SSDs with plp=on, or NVRAM"
        );
        Err(wrong(&[key, CUT_MEASURES], &message))
    };
    match device {
        DeviceText::File { .. } => refused("a file"),
        DeviceText::Memory { .. } => refused("memory of the host"),
        DeviceText::Simulated { model, .. } if model == "ramdisk" => refused("memory of the host"),
        DeviceText::Controller { .. } => refused("a controller"),
        DeviceText::Cached { .. } => refused("a cache"),
        DeviceText::Simulated { .. } | DeviceText::Nvram { .. } => Ok(()),
        DeviceText::Slice { device, .. }
        | DeviceText::Shared { device }
        | DeviceText::Fault { device, .. } => check_cut(key, device),
        DeviceText::Raid { members, .. } => members
            .iter()
            .try_for_each(|member| check_cut(key, &member.device)),
    }
}
