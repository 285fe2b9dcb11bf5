//! The engine of this project as a file system of trials, in a simulated world or in this process.

mod figures;
mod format;
mod power;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::{BlockDevice, DeviceText, MeterDevice};
use ext::mkfs::FileSystemType;
use ext::{MountOptions, Volume};
use workload::Target;

use self::figures::Reading;
use super::devices::{Counted, DeviceMaker};
use super::figures::DevicesReading;
use super::{
    Closed, CountsReader, Described, FileSystem, FormatSetup, Instance, JournalPlace, MemorySetup,
    PoweredFileSystem,
};
use crate::record::Measured;
use crate::targets::VolumeTarget;
use crate::timeline::Counts;

/// A volume of the engine, as settings describe it.
#[derive(Debug, Clone)]
pub struct ExtSetup {
    /// Its type.
    pub file_system: FileSystemType,
    /// Its device.
    pub device: DeviceText,
    /// Its journal.
    pub journal: JournalPlace,
    /// The options of mkfs.
    pub format: FormatSetup,
    /// The options of mount.
    pub mount: MountOptions,
    /// The host's memory.
    pub memory: MemorySetup,
    /// True if the power may be cut.
    pub is_cut: bool,
    /// True if requests are counted by the use of their blocks.
    pub has_uses: bool,
}

impl Described for ExtSetup {
    fn device(&self) -> &DeviceText {
        &self.device
    }

    fn journal(&self) -> &JournalPlace {
        &self.journal
    }

    fn memory(&self) -> Option<&MemorySetup> {
        Some(&self.memory)
    }

    fn check_system(&self) -> Result<()> {
        Ok(())
    }
}

impl FileSystem for ExtSetup {
    fn powered(&self) -> Option<&dyn PoweredFileSystem> {
        self.is_cut.then_some(self as _)
    }

    fn make(&self, allocation_start: u32) -> Result<Box<dyn Instance>> {
        let devices = Devices::open(self, &mut DeviceMaker::default())?;
        self.make_on(devices, allocation_start)
    }
}

impl ExtSetup {
    fn make_on(&self, devices: Devices, allocation_start: u32) -> Result<Box<dyn Instance>> {
        let (home, log) = devices.block_devices();
        format::format(self, &home, log.as_ref()).context("mkfs")?;
        let mut mount = self.mount.clone();
        mount.tuning.allocation_start = allocation_start;
        let volume = Volume::open(home, log, mount).context("mount")?;
        Ok(Box::new(self.instance(volume, devices)))
    }

    fn instance(&self, volume: Volume, devices: Devices) -> ExtInstance {
        let size_bytes = devices.home.device.geometry().size_bytes;
        ExtInstance {
            block_bytes: format::block_bytes(&self.format, size_bytes),
            target: Arc::new(VolumeTarget::new(volume, self.device.to_string())),
            devices,
            before: None,
        }
    }
}

/// An open volume with its devices.
struct ExtInstance {
    target: Arc<VolumeTarget>,
    devices: Devices,
    before: Option<Reading>,
    /// Size of a block in bytes.
    block_bytes: u32,
}

impl Instance for ExtInstance {
    fn target(&self) -> Arc<dyn Target> {
        Arc::<VolumeTarget>::clone(&self.target)
    }

    fn counts(&self) -> CountsReader {
        let target = Arc::clone(&self.target);
        Box::new(move || counts(target.volume()))
    }

    fn begin(&mut self) -> Result<()> {
        self.devices.home.list(true);
        self.before = Some(self.devices.read(self.target.volume()));
        Ok(())
    }

    fn measure(&self, measured: &mut Measured) -> Result<()> {
        let after = self.devices.read(self.target.volume());
        self.devices.home.list(false);
        if let Some(before) = &self.before {
            figures::add(measured, before, &after, self.block_bytes);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<Closed> {
        let Self {
            target, devices, ..
        } = *self;
        let target =
            Arc::into_inner(target).ok_or_else(|| anyhow!("the workload keeps its target"))?;
        target.into_volume().close().context("close")?;
        Ok(Closed(Some(devices.home)))
    }
}

/// The devices of a volume.
struct Devices {
    home: Counted,
    log: Option<Counted>,
}

impl Devices {
    fn open(setup: &ExtSetup, maker: &mut DeviceMaker) -> Result<Self> {
        let mut log = match &setup.journal {
            JournalPlace::External(text) => Some(maker.open(text)?),
            JournalPlace::Internal | JournalPlace::None => None,
        };
        let home = match setup.has_uses {
            true => maker.open_listed(&setup.device)?,
            false => maker.open(&setup.device)?,
        };
        if let Some(log) = &mut log {
            log.leave_out(&home);
        }
        Ok(Self { home, log })
    }

    /// Returns the devices of the file system and of its journal.
    fn block_devices(&self) -> (Arc<dyn BlockDevice>, Option<Arc<dyn BlockDevice>>) {
        let device = |counted: &Counted| -> Arc<dyn BlockDevice> {
            Arc::<MeterDevice>::clone(&counted.device)
        };
        (device(&self.home), self.log.as_ref().map(device))
    }

    fn read(&self, volume: &Volume) -> Reading {
        Reading {
            devices: DevicesReading::of(&self.home, self.log.as_ref()),
            journal: volume.journal_stats().unwrap_or_default(),
            cache: volume.cache_stalls(),
        }
    }
}

/// Returns the timeline's counters, in the order of
/// [`COUNTED`](crate::timeline::COUNTED).
fn counts(volume: &Volume) -> Counts {
    let journal = volume.journal_stats().unwrap_or_default();
    let cache = volume.cache_stalls();
    [
        journal.commits,
        journal.checkpoint_blocks,
        journal.stalled_closing.get(),
        journal.stalled_log_space.get(),
        journal.stalled_log_io.get(),
        journal.stalled_commit.get(),
        cache.dirty_limit.get(),
        cache.memory.get(),
        cache.rewrite.get(),
    ]
}
