//! A new file system of a side, open for a load.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::file::create_sparse;
use block::text::Size;
use block::{BlockDevice, DeviceText, FileDevice, MemoryDevice, OpenOptions};
use lab::file_system::{Driver, FormatSetup, JournalPlace, MountedFileSystem, MountedSetup};
use lab::system::{Attached, Mounted};
use lab::targets::VolumeTarget;
use workload::Target;
use workload::directory::DirectoryTarget;

use super::place::{MemoryForm, Place};
use super::side::Side;
use super::site::Site;
use crate::engine;

/// Size of the log in memory.
const JOURNAL_MEGABYTES: u32 = 128;
const BLOCK_BYTES: u32 = 4096;
/// Name of the image in memory, and of the mount point there.
pub(super) const IMAGE: &str = "image";
const MOUNT_POINT: &str = "mounted";

/// An open file system. The field order is the drop order.
pub(super) struct Opened {
    target: Arc<dyn Target>,
    held: Held,
    is_fuse: bool,
}

/// The holder of an open file system.
enum Held {
    Volume(Arc<VolumeTarget>),
    Laboratory(Box<MountedFileSystem>),
    Mounted(Mounted),
}

impl Opened {
    /// Makes the file system of a side and opens it.
    pub(super) fn make(site: &Site, place: Place, side: Side) -> Result<Self> {
        match (side, place) {
            (Side::JextMem, Place::Memory(form)) => {
                on_engine(Arc::new(MemoryDevice::new(form.size_bytes)), form)
            }
            (Side::JextTmpfs, Place::Memory(form)) => on_engine(tmpfs_image(site, form)?, form),
            (Side::JextDisk | Side::JextDiskFc | Side::JextDiskAsync, Place::Disk) => {
                on_disk_image(site, side)
            }
            (side, Place::Memory(form)) if side.is_mounted() => on_memory(site, side, form),
            (side, Place::Disk) if side.disk_format().is_some() => on_loop_device(site, side),
            (side, _) => bail!("{}: no file system for this work", side.name()),
        }
    }

    /// Returns the target of loads.
    pub(super) fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// Returns the folder where it is mounted; `None` for a volume in this process.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match &self.held {
            Held::Volume(_) => None,
            Held::Laboratory(mounted) => Some(mounted.path()),
            Held::Mounted(mounted) => Some(mounted.folder().to_owned()),
        }
    }

    /// Makes everything durable. The kernel does not forward a sync to FUSE programs, but that of
    /// a directory.
    pub(super) fn sync(&self) -> Result<()> {
        self.target.sync()?;
        if self.is_fuse {
            self.target.fsync_directory("/")?;
        }
        Ok(())
    }

    /// Closes or unmounts it.
    pub(super) fn close(self) -> Result<()> {
        drop(self.target);
        match self.held {
            Held::Volume(target) => engine::close(target),
            Held::Laboratory(mounted) => mounted.close(),
            Held::Mounted(mounted) => mounted.unmount(),
        }
    }

    /// Returns an open volume of this process.
    fn of_volume(target: VolumeTarget) -> Self {
        let target = Arc::new(target);
        Self {
            target: Arc::<VolumeTarget>::clone(&target),
            held: Held::Volume(target),
            is_fuse: false,
        }
    }
}

/// Returns the description of a file system that is mounted from memory.
pub(super) fn memory_setup(side: Side, form: MemoryForm) -> Result<MountedSetup> {
    let (driver, kind, options) = match side {
        Side::JextMount => (Driver::Jext, "ext4", form.options),
        Side::Ext3 => (Driver::Kernel, "ext3", form.options),
        Side::Ext4 | Side::Ext4Fc | Side::Ext4Async => (Driver::Kernel, "ext4", form.options),
        Side::Xfs => (Driver::Kernel, "xfs", "rw"),
        Side::Tmpfs => (Driver::Kernel, "tmpfs", "rw"),
        Side::Fuse2fs => (Driver::Fuse2fs, "ext4", "rw"),
        Side::Passthrough => (Driver::Passthrough, "tmpfs", "writeback"),
        other => bail!("{}: is not mounted", other.name()),
    };
    let size = Size::parse(&form.size_bytes.to_string());
    let size = size.map_err(|expected| anyhow::anyhow!("expected {expected}"))?;
    let has_journal = kind.starts_with("ext");
    Ok(MountedSetup {
        driver,
        kind: kind.to_owned(),
        device: DeviceText::Memory { size },
        journal: match kind {
            "tmpfs" => JournalPlace::None,
            _ => JournalPlace::Internal,
        },
        format: FormatSetup {
            is_classic: false,
            block_bytes: Some(u64::from(BLOCK_BYTES)),
            inode_bytes: None,
            bytes_per_inode: form.bytes_per_inode.map(u64::from),
            journal_bytes: has_journal.then_some(u64::from(JOURNAL_MEGABYTES) << 20),
            reserved_percent: 5,
            features: match side {
                Side::Ext4Fc => "fast_commit".to_owned(),
                _ => String::new(),
            },
            is_lazy: false,
        },
        options: options.to_owned(),
    })
}

fn on_memory(site: &Site, side: Side, form: MemoryForm) -> Result<Opened> {
    let setup = memory_setup(side, form)?;
    let mounted = match side.needs_jext() {
        true => MountedFileSystem::make_by(&setup, site.jext()?)?,
        false => MountedFileSystem::make(&setup)?,
    };
    Ok(Opened {
        target: Arc::new(DirectoryTarget::new(mounted.path())?),
        held: Held::Laboratory(Box::new(mounted)),
        is_fuse: side.is_fuse(),
    })
}

fn on_engine(device: Arc<dyn BlockDevice>, form: MemoryForm) -> Result<Opened> {
    engine::format(
        &device,
        engine::Form {
            file_system: form.file_system,
            size_bytes: form.size_bytes,
            block_bytes: BLOCK_BYTES,
            journal_megabytes: JOURNAL_MEGABYTES,
            bytes_per_inode: form.bytes_per_inode,
        },
    )?;
    Ok(Opened::of_volume(engine::open(device, form.options)?))
}

/// Returns a new image in the tmpfs.
fn tmpfs_image(site: &Site, form: MemoryForm) -> Result<Arc<dyn BlockDevice>> {
    let path = site.memory.at(IMAGE);
    create_sparse(&path, form.size_bytes).context("the image")?;
    let device = FileDevice::open(&path, &OpenOptions::default()).context("the image")?;
    Ok(Arc::new(device))
}

fn on_disk_image(site: &Site, side: Side) -> Result<Opened> {
    let image = site.disk_image()?;
    image.renew(side.disk_format().context("the format of the image")?)?;
    let device = FileDevice::open(image.path(), &OpenOptions::direct()).context("the image")?;
    Ok(Opened::of_volume(engine::open(
        Arc::new(device),
        side.disk_options(),
    )?))
}

fn on_loop_device(site: &Site, side: Side) -> Result<Opened> {
    let image = site.disk_image()?;
    let format = side.disk_format().context("the format of the image")?;
    image.renew(format)?;
    let mut attached = Attached::direct(image.path())?;
    let folder = mount_point(site)?;
    let mounted = Mounted::new(format.kind(), side.disk_options(), attached.path(), &folder)?;
    attached.leave_to_mount()?;
    Ok(Opened {
        target: Arc::new(DirectoryTarget::new(&folder)?),
        held: Held::Mounted(mounted),
        is_fuse: false,
    })
}

/// Returns an empty folder in memory.
pub(super) fn mount_point(site: &Site) -> Result<PathBuf> {
    let folder = site.memory.at(MOUNT_POINT);
    if !folder.is_dir() {
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    }
    Ok(folder)
}
