//! [`Remains`]: the contents of the simulated devices of a trial after a power cut.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::text::Simulated;
use block::{BlockDevice, DeviceError, MemoryDevice};
use diskmodel::SimulatedDevice;
use layout::{Block, SectorNr};

/// The contents of simulated devices after a power cut, in the order in which they were made.
#[derive(Default)]
pub struct Remains {
    contents: VecDeque<MemoryDevice>,
}

/// Makes simulated devices whose contents after a power cut are known.
#[derive(Default)]
pub(crate) struct Stores {
    // Contents of devices that are still to be made; without any, they are new.
    remains: Remains,
    made: Vec<Stored>,
}

/// A simulated device and its contents.
#[derive(Clone)]
struct Stored {
    device: Arc<dyn SimulatedDevice>,
    store: Option<Arc<MemoryDevice>>,
}

/// Takes what a power cut at the instant of the call would leave.
#[derive(Clone)]
pub(crate) struct Switch {
    made: Vec<Stored>,
}

impl Stores {
    /// Returns stores for devices that are made in the same order as those before the cut.
    pub(crate) fn of(remains: Remains) -> Self {
        Self {
            remains,
            made: Vec::new(),
        }
    }

    pub(crate) fn make(
        &mut self,
        wanted: Simulated<'_>,
    ) -> Result<Arc<dyn SimulatedDevice>, DeviceError> {
        let mut store = None;
        let device = diskmodel::make_with(wanted, |builder| {
            let left = self.remains.contents.pop_front();
            let Some(memory) = left.or_else(|| builder.size_bytes().map(MemoryDevice::new)) else {
                return builder;
            };
            let memory = Arc::new(memory);
            store = Some(Arc::clone(&memory));
            builder.store(memory).keeps_overwritten()
        })?;
        self.made.push(Stored {
            device: Arc::clone(&device),
            store,
        });
        Ok(device)
    }

    /// Returns the switch of all devices made so far.
    pub(crate) fn switch(&self) -> Switch {
        Switch {
            made: self.made.clone(),
        }
    }
}

impl Switch {
    /// Returns what a power cut now would leave. The devices go on.
    pub(crate) fn cut(&self) -> Result<Remains> {
        // First all devices at one instant: putting old contents back is host work and takes time.
        let cut: Vec<Cut> = self.made.iter().map(Stored::cut).collect::<Result<_>>()?;
        let contents = cut.into_iter().map(Cut::contents);
        Ok(Remains {
            contents: contents.collect::<Result<_>>()?,
        })
    }
}

/// The store of a device at the instant of a cut, and the contents that the cut brings back.
struct Cut {
    store: MemoryDevice,
    lost: Vec<(SectorNr, Arc<Block>)>,
}

impl Stored {
    fn cut(&self) -> Result<Cut> {
        let unknown = || {
            let name = self.device.name();
            anyhow!("{name}: what a power cut leaves of it is not known; an SSD needs plp=on")
        };
        Ok(Cut {
            lost: self.device.lost_by_power_cut().ok_or_else(unknown)?,
            store: self.store.as_ref().ok_or_else(unknown)?.snapshot(),
        })
    }
}

impl Cut {
    fn contents(self) -> Result<MemoryDevice> {
        let device: &dyn BlockDevice = &self.store;
        for (sector, old) in self.lost {
            let written = device.write_blocks(sector.byte_offset(), vec![old]);
            written.context("contents after a power cut")?;
        }
        Ok(self.store)
    }
}
