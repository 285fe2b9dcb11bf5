//! Opens the devices of a trial from their text form; keeps the simulated ones, to read their
//! statistics.
//!
//! | figures | counted where | on a shared disk |
//! |---|---|---|
//! | requests, bytes, flushes | in front of each device | of file system and journal apart |
//! | arm, queue, drive's cache | by the models of the file system's disks | of both together |
//! | cache of a controller | by each controller | of both together, with the file system |

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::text::{self, SharedDisks, Simulated};
use block::{BlockDevice, DeviceError, DeviceText, MeterCounts, MeterDevice, OpenOptions};
use diskmodel::{ControllerStats, DiskStats, SimulatedDevice};

use super::remains::{Stores, Switch};
use super::uses::{ListingDevice, Requests};
use crate::record::Measured;

/// Opens devices in the caller's world. All its devices share the same `disk(...)`.
#[derive(Default)]
pub(crate) struct DeviceMaker {
    disks: SharedDisks,
    // The simulated devices of each shared disk, without those of shared disks in it.
    made_for: Vec<(DeviceText, Vec<Made>)>,
    // Their contents, if the power may be cut.
    stores: Option<Stores>,
}

/// A simulated device.
#[derive(Clone)]
struct Made {
    device: Arc<dyn SimulatedDevice>,
    is_controller: bool,
}

/// A device with statistics.
pub(crate) struct Counted {
    pub(crate) device: Arc<MeterDevice>,
    // The simulated devices that the device is made of.
    made: Vec<Made>,
    // The requests, if they are listed.
    requests: Option<Arc<Requests>>,
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
    /// Returns a maker of devices whose power may be cut, with what an earlier cut left.
    pub(crate) fn with_stores(stores: Stores) -> Self {
        Self {
            stores: Some(stores),
            ..Self::default()
        }
    }

    /// Returns the power switch of all devices made so far, if their power may be cut.
    pub(crate) fn switch(&self) -> Option<Switch> {
        self.stores.as_ref().map(Stores::switch)
    }

    /// Opens the device that a text describes.
    pub(crate) fn open(&mut self, text: &DeviceText) -> Result<Counted> {
        self.open_counted(text)
            .with_context(|| format!("device {text}"))
    }

    /// Opens a device whose requests can be counted by the use of their blocks.
    pub(crate) fn open_listed(&mut self, text: &DeviceText) -> Result<Counted> {
        let own = self.open(text)?;
        let requests = Arc::<Requests>::default();
        let device: Arc<dyn BlockDevice> = own.device;
        let device = ListingDevice::new(device, Arc::clone(&requests));
        Ok(Counted {
            device: Arc::new(MeterDevice::new(Arc::new(device))),
            requests: Some(requests),
            ..own
        })
    }

    fn open_counted(&mut self, text: &DeviceText) -> Result<Counted, DeviceError> {
        let mut made = Vec::new();
        for disk in text.shared_disks() {
            made.extend_from_slice(self.made_for(disk)?);
        }
        let disks = &mut self.disks;
        let (device, own) = remember(self.stores.as_mut(), |options, factory| {
            disks.open(text, options, factory)
        })?;
        made.extend(own);
        Ok(Counted {
            device: Arc::new(MeterDevice::new(device)),
            made,
            requests: None,
        })
    }

    /// Returns the simulated devices of a shared disk, and makes them for its first user.
    fn made_for(&mut self, disk: &DeviceText) -> Result<&[Made], DeviceError> {
        let known = self.made_for.iter().position(|(known, _)| known == disk);
        let at = known.unwrap_or(self.made_for.len());
        if known.is_none() {
            let disks = &mut self.disks;
            let (_, made) = remember(self.stores.as_mut(), |options, factory| {
                disks.open_disk(disk, options, factory)
            })?;
            self.made_for.push((disk.clone(), made));
        }
        Ok(&self.made_for[at].1)
    }
}

/// Opens a device, and returns the simulated devices that are made for it.
fn remember(
    stores: Option<&mut Stores>,
    open: impl FnOnce(&OpenOptions, &text::Factory<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError>,
) -> Result<(Arc<dyn BlockDevice>, Vec<Made>), DeviceError> {
    let (stores, made) = (RefCell::new(stores), RefCell::new(Vec::new()));
    let device = open(&OpenOptions::default(), &|wanted| {
        if !rt::is_simulated() {
            return text::no_simulation(wanted);
        }
        let device = match &mut *stores.borrow_mut() {
            Some(stores) => stores.make(wanted)?,
            None => diskmodel::make(wanted)?,
        };
        made.borrow_mut().push(Made {
            device: Arc::clone(&device),
            is_controller: matches!(wanted, Simulated::Controller { .. }),
        });
        Ok(device)
    })?;
    Ok((device, made.into_inner()))
}

impl Counted {
    /// Starts or stops listing requests, if they are listed at all.
    pub(crate) fn list(&self, is_on: bool) {
        if let Some(requests) = &self.requests {
            requests.list(is_on);
        }
    }

    /// Adds counters of the listed requests by the use of their blocks; the device holds a closed
    /// ext volume.
    pub(crate) fn measure_uses(&self, measured: &mut Measured) -> Result<()> {
        let device: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&self.device);
        let requests = self.requests.as_ref();
        requests.map_or(Ok(()), |requests| requests.measure(&device, measured))
    }

    /// Leaves the simulated devices out that are counted for another device already.
    pub(crate) fn leave_out(&mut self, other: &Self) {
        let is_same = |one: &Made, two: &Made| Arc::ptr_eq(&one.device, &two.device);
        self.made
            .retain(|one| !other.made.iter().any(|two| is_same(one, two)));
    }

    /// Returns the statistics so far.
    pub(crate) fn read(&self) -> Reading {
        let each = self.made.iter().map(|made| made.device.stats());
        let sum = each.reduce(|mut sum, disk| {
            sum += &disk;
            sum
        });
        let has_controller = self.made.iter().any(|made| made.is_controller);
        Reading {
            requests: self.device.counts(),
            controller: sum
                .as_ref()
                .map(|sum| sum.controller)
                .filter(|_| has_controller),
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
            read_ahead_sectors: after.read_ahead_sectors - before.read_ahead_sectors,
        })
    }
}

#[cfg(test)]
mod tests;
