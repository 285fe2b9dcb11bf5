//! Devices of a trial, made from their texts; those that take virtual time are remembered for what they count.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::text::{self, Simulated};
use block::{BlockDevice, DeviceError, DeviceText, MeterCounts, MeterDevice, OpenOptions};
use sim::disk::{DiskStats, SimulatedDevice};

/// Makes devices in the world of its caller.
#[derive(Default)]
pub(super) struct DeviceMaker {
    simulated: RefCell<Vec<Arc<dyn SimulatedDevice>>>,
}

/// A device that is counted.
pub(super) struct Counted {
    pub(super) device: Arc<MeterDevice>,
    // The simulated devices that the device is made of.
    disks: Vec<Arc<dyn SimulatedDevice>>,
}

/// What was counted up to an instant.
pub(super) struct Reading {
    pub(super) requests: MeterCounts,
    // The sum over all disks, if there are any.
    pub(super) disk: Option<DiskStats>,
}

impl DeviceMaker {
    /// Makes what a text says.
    pub(super) fn open(&self, text: &DeviceText) -> Result<Counted> {
        let before = self.simulated.borrow().len();
        let factory = |wanted: Simulated<'_>| self.simulate(wanted);
        let device = text::open(text, &OpenOptions::default(), &factory)
            .with_context(|| format!("device {text}"))?;
        let disks = self.simulated.borrow()[before..].to_vec();
        Ok(Counted {
            device: Arc::new(MeterDevice::new(device)),
            disks,
        })
    }

    fn simulate(&self, wanted: Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        if !rt::is_simulated() {
            return text::no_simulation(wanted);
        }
        let device = sim::disk::make(wanted)?;
        self.simulated.borrow_mut().push(Arc::clone(&device));
        Ok(device)
    }
}

impl Counted {
    /// What was counted so far.
    pub(super) fn read(&self) -> Reading {
        let each = self.disks.iter().map(|disk| disk.stats());
        Reading {
            requests: self.device.counts(),
            disk: each.reduce(|mut sum, disk| {
                sum += &disk;
                sum
            }),
        }
    }
}
