//! Opens the devices of a trial from their text form; keeps the simulated ones, to read their
//! statistics.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::text::{self, Simulated};
use block::{BlockDevice, DeviceError, DeviceText, MeterCounts, MeterDevice, OpenOptions};
use diskmodel::{ControllerStats, DiskStats, SimulatedDevice};

/// Opens devices in the caller's world.
#[derive(Default)]
pub(crate) struct DeviceMaker {
    simulated: RefCell<Vec<Arc<dyn SimulatedDevice>>>,
}

/// A device with statistics.
pub(crate) struct Counted {
    pub(crate) device: Arc<MeterDevice>,
    // The simulated devices that it is made of.
    disks: Vec<Arc<dyn SimulatedDevice>>,
    // True if a controller is one of them.
    has_controller: bool,
}

/// Statistics up to an instant.
pub(crate) struct Reading {
    pub(crate) requests: MeterCounts,
    // The sum over all disks; `None` without a disk.
    pub(crate) disk: Option<DiskStats>,
    // The sum over all controllers; `None` without a controller.
    pub(crate) controller: Option<ControllerStats>,
}

impl DeviceMaker {
    /// Opens the device that a text describes.
    pub(crate) fn open(&self, text: &DeviceText) -> Result<Counted> {
        let before = self.simulated.borrow().len();
        let factory = |wanted: Simulated<'_>| self.simulate(wanted);
        let device = text::open(text, &OpenOptions::default(), &factory)
            .with_context(|| format!("device {text}"))?;
        let disks = self.simulated.borrow()[before..].to_vec();
        Ok(Counted {
            device: Arc::new(MeterDevice::new(device)),
            disks,
            has_controller: has_controller(text),
        })
    }

    fn simulate(&self, wanted: Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        if !rt::is_simulated() {
            return text::no_simulation(wanted);
        }
        let device = diskmodel::make(wanted)?;
        self.simulated.borrow_mut().push(Arc::clone(&device));
        Ok(device)
    }
}

impl Counted {
    /// Returns the statistics so far.
    pub(crate) fn read(&self) -> Reading {
        let each = self.disks.iter().map(|disk| disk.stats());
        let sum = each.reduce(|mut sum, disk| {
            sum += &disk;
            sum
        });
        Reading {
            requests: self.device.counts(),
            controller: sum
                .as_ref()
                .map(|sum| sum.controller)
                .filter(|_| self.has_controller),
            disk: sum,
        }
    }
}

impl Reading {
    /// Returns the work of the controllers since an earlier reading; `None` without a controller.
    pub(crate) fn controller_since(&self, before: &Self) -> Option<ControllerStats> {
        let (after, before) = self.controller.zip(before.controller)?;
        Some(ControllerStats {
            read_hits: after.read_hits - before.read_hits,
            replaced_sectors: after.replaced_sectors - before.replaced_sectors,
            throttled_writes: after.throttled_writes - before.throttled_writes,
            destaged_sectors: after.destaged_sectors - before.destaged_sectors,
            destaged_runs: after.destaged_runs - before.destaged_runs,
        })
    }
}

/// Returns true if a controller is in front of a device or of a part of it.
fn has_controller(text: &DeviceText) -> bool {
    match text {
        DeviceText::Controller { .. } => true,
        DeviceText::Slice { device, .. }
        | DeviceText::Fault { device, .. }
        | DeviceText::Cached { device, .. } => has_controller(device),
        DeviceText::Raid { members, .. } => {
            members.iter().any(|member| has_controller(&member.device))
        }
        DeviceText::File { .. }
        | DeviceText::Memory { .. }
        | DeviceText::Simulated { .. }
        | DeviceText::Nvram { .. } => false,
    }
}
