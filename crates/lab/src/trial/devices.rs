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
    // The disk that the device is on, if it is on just one.
    disk: Option<Arc<dyn SimulatedDevice>>,
}

/// What was counted up to an instant.
pub(super) struct Reading {
    pub(super) requests: MeterCounts,
    pub(super) disk: Option<DiskStats>,
}

impl DeviceMaker {
    /// Makes what a text says.
    pub(super) fn open(&self, text: &DeviceText) -> Result<Counted> {
        let before = self.simulated.borrow().len();
        let factory = |wanted: Simulated<'_>| self.simulate(wanted);
        let device = text::open(text, &OpenOptions::default(), &factory)
            .with_context(|| format!("device {text}"))?;
        let simulated = self.simulated.borrow();
        let disk = match &simulated[before..] {
            [only] => Some(Arc::clone(only)),
            _ => None,
        };
        Ok(Counted {
            device: Arc::new(MeterDevice::new(device)),
            disk,
        })
    }

    fn simulate(&self, wanted: Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        if !rt::is_simulated() {
            return text::no_simulation(wanted);
        }
        let capacity;
        let (name, mut options, settings) = match wanted {
            Simulated::Model { model, settings } => (model, Vec::new(), settings),
            Simulated::Nvram {
                size_bytes,
                settings,
            } => {
                capacity = size_bytes.to_string();
                ("nvram", vec![("capacity", capacity.as_str())], settings)
            }
        };
        options.extend(
            settings
                .iter()
                .map(|set| (set.key.as_str(), set.value.as_str())),
        );
        let device = sim::disk::open(name, &options).map_err(|error| DeviceError::Open {
            device: format!("sim:{name}"),
            cause: error.to_string(),
        })?;
        self.simulated.borrow_mut().push(Arc::clone(&device));
        Ok(device)
    }
}

impl Counted {
    /// What was counted so far.
    pub(super) fn read(&self) -> Reading {
        Reading {
            requests: self.device.counts(),
            disk: self.disk.as_ref().map(|disk| disk.stats()),
        }
    }
}
