//! Volumes of the engine in this process, for comparisons.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::BlockDevice;
use ext::Volume;
use ext::mkfs::{self, JournalOption, Options};
use jext::mount_options::ParsedOptions;
use lab::targets::VolumeTarget;

use crate::compared_type::ComparedType;

/// Memory budget as a multiple of the device size, large enough to cache everything.
const BUDGET_FACTOR: u64 = 2;

/// The form of a new file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) file_system: ComparedType,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) journal_megabytes: u32,
    /// Bytes for each inode; `None` for the default.
    pub(crate) bytes_per_inode: Option<u32>,
}

/// Makes a file system on a device.
pub(crate) fn format(device: &Arc<dyn BlockDevice>, form: Form) -> Result<()> {
    let options = Options {
        file_system: form.file_system.to_mkfs(),
        journal: JournalOption::Megabytes(form.journal_megabytes),
        block_bytes: Some(form.block_bytes),
        bytes_per_inode: form.bytes_per_inode,
        ..Options::default()
    };
    mkfs::format(device, &options).context("mkfs")?;
    Ok(())
}

/// Mounts a device with an unlimited cache.
pub(crate) fn open(device: Arc<dyn BlockDevice>, options: &str) -> Result<VolumeTarget> {
    let mut mount = ParsedOptions::default();
    mount.add(options)?;
    mount.options.memory.budget_bytes = device.geometry().size_bytes * BUDGET_FACTOR;
    let volume = Volume::open(device, None, mount.options).context("mount")?;
    Ok(VolumeTarget::new(volume, "image"))
}

/// Closes a volume that nothing uses any more.
pub(crate) fn close(target: Arc<VolumeTarget>) -> Result<()> {
    let target = Arc::into_inner(target).ok_or_else(|| anyhow!("the load still runs"))?;
    target.into_volume().close().context("closing")
}
