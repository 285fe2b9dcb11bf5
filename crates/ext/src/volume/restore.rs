//! Operations for copying another tree into a new volume: setting all times, and writing the data
//! of files past the page cache.

use jbd2::Credits;
use layout::InodeNr;

use super::Volume;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::error::Result;
use crate::file::{Restored, with_space};
use crate::xattr::CountedValues;

/// A part of a file on the device, in whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceExtent {
    /// Offset of its start in bytes from the start of the device.
    pub device_offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Volume {
    /// Restores a new, empty file like [`Volume::restore`], and sets its size and allocates all its
    /// blocks. Returns their extents in file order. The caller writes them before the device's last
    /// flush, with the last block filled up with zeroes; no file loses blocks meanwhile.
    ///
    /// # Errors
    /// - [`crate::Error::NoSpace`] and [`crate::Error::FileTooLarge`]; the file stays empty.
    /// - [`crate::Error::Invalid`] if the file is not empty, or the volume is not open with
    ///   `is_being_made`.
    pub fn lay_out(
        &self,
        nr: InodeNr,
        size: u64,
        restored: &Restored,
    ) -> Result<Vec<DeviceExtent>> {
        rt::charge(rt::Cost::Syscall);
        let inode = self.core.inode(nr)?;
        let runs = crate::file::lay_out(&self.core, &inode, size, restored)?;
        let block_bytes = u64::from(self.core.geometry().block_bytes);
        let extent = |run: &crate::disk::run::Run| DeviceExtent {
            device_offset: run.first.get() * block_bytes,
            bytes: u64::from(run.count) * block_bytes,
        };
        Ok(runs.iter().map(extent).collect())
    }

    /// Sets the fields of an inode to those of its original, in one step. An access control list is
    /// left as it is.
    ///
    /// # Errors
    /// - [`crate::Error::NotFound`] if the inode does not exist.
    /// - [`crate::Error::NoSpace`] if a quota file cannot grow for new owners.
    pub fn restore(&self, nr: InodeNr, restored: &Restored) -> Result<()> {
        rt::charge(rt::Cost::Syscall);
        self.core.check_writable()?;
        let inode = self.core.inode(nr)?;
        with_space(&self.core, || restore(&self.core, &inode, restored))
    }
}

fn restore(core: &Core, inode: &Inode, restored: &Restored) -> Result<()> {
    let mut state = inode.state.write();
    state.check_exists()?;
    let owners = [restored.uid, restored.gid, state.project];
    let _claims = crate::quota::prepare(core, owners)?;
    let values = CountedValues::of(core, inode.nr, &state)?;
    let _table = core.hold_table(inode.nr)?;
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    state.restore(restored);
    state.store(core, &mut handle, inode.nr, false)?;
    values.follow(core, &mut handle, &state)?;
    handle.finish().map(drop)
}
