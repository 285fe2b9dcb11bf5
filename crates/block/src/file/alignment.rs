//! The alignment of direct I/O.

use std::os::fd::AsFd;

use layout::SectorNr;
use rustix::fs::{AtFlags, StatxFlags};

/// Maximum physical sector size in bytes.
pub(super) const SECTOR_BYTES_MAX: u32 = 4096;

/// The alignment that direct I/O requires, in bytes; powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alignment {
    /// Alignment of addresses.
    pub(super) memory: usize,
    /// Alignment of offsets and lengths.
    pub(super) offset: u64,
}

/// Returns the alignment that direct I/O requires here: from `statx` (Linux 6.1), else the logical
/// sector of a block device, else a page.
pub(super) fn direct_alignment(file: &impl AsFd) -> Alignment {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    if let Some(told) = told
        && told.stx_mask & StatxFlags::DIOALIGN.bits() != 0
        && told.stx_dio_offset_align.is_power_of_two()
        && told.stx_dio_mem_align.is_power_of_two()
    {
        return Alignment {
            memory: told.stx_dio_mem_align as usize,
            offset: u64::from(told.stx_dio_offset_align).max(SectorNr::SIZE),
        };
    }
    let unit = rustix::fs::ioctl_blksszget(file).unwrap_or(SECTOR_BYTES_MAX);
    Alignment {
        memory: unit as usize,
        offset: u64::from(unit),
    }
}
