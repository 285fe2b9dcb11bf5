//! The block of multiple mount protection (`mmp`): the node that uses the file system renews it at
//! an interval, and another one that opens the file system waits to see that.
//!
//! ```text
//! | magic | sequence | time | node | device | interval | padding ... | checksum |
//! ```
//!
//! The structure starts the block that `s_mmp_block` names. It is written in place and never
//! through the journal.
//!
//! Source: Linux `Documentation/filesystems/ext4/mmp.rst`.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The value of [`MultiMountBlock::magic`].
pub const MAGIC: u32 = 0x004D_4D50;
/// Sequence number of a file system that no node uses.
pub const SEQUENCE_CLEAN: u32 = 0xFF4D_4D50;
/// Sequence number of a file system that a checker or another offline tool changes.
pub const SEQUENCE_CHECKED: u32 = 0xE24D_4D50;
/// Largest sequence number of a file system in use; the smallest is 1.
pub const SEQUENCE_MAX: u32 = 0xE24D_4D4F;
/// Default of `s_mmp_update_interval` in seconds.
pub const UPDATE_SECONDS: u16 = 5;
/// Largest `s_mmp_update_interval` and largest [`MultiMountBlock::check_seconds`].
pub const INTERVAL_SECONDS_MAX: u16 = 300;
/// Smallest interval that a node waits for, in seconds.
pub const CHECK_SECONDS_MIN: u16 = 5;
/// Size of the structure in bytes.
pub const SIZE: usize = 1024;

/// `mmp_struct`: the start of the block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct MultiMountBlock {
    /// `mmp_magic`: [`MAGIC`].
    pub magic: U32,
    /// `mmp_seq`: sequence number.
    pub sequence: U32,
    /// `mmp_time`: last renewal, seconds since 1970; for people only.
    pub seconds: U64,
    /// `mmp_nodename`: host name of the node, padded with NUL.
    pub node: [u8; 64],
    /// `mmp_bdevname`: name of the device on the node, padded with NUL.
    pub device: [u8; 32],
    /// `mmp_check_interval`: seconds after which the node would notice that another one has
    /// written the block.
    pub check_seconds: U16,
    /// `mmp_pad1`: padding.
    pub pad: U16,
    /// `mmp_pad2`: padding.
    pub padding: [U32; 226],
    /// `mmp_checksum`: crc32c of the bytes before it (`metadata_csum`).
    pub checksum: U32,
}

const _: () = assert!(size_of::<MultiMountBlock>() == SIZE);

/// Returns the seconds that a node waits before it takes the sequence number of another one as
/// abandoned, for an interval of the superblock and one of the block.
pub fn wait_seconds(update_seconds: u16, check_seconds: u16) -> u16 {
    let interval = update_seconds
        .max(check_seconds)
        .clamp(CHECK_SECONDS_MIN, INTERVAL_SECONDS_MAX);
    (2 * interval + 1).min(interval + 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_waits_for_two_renewals_or_a_minute_longer() {
        for (update, check, wait) in [
            (0, 0, 11),
            (5, 5, 11),
            (5, 10, 21),
            (10, 5, 21),
            (59, 0, 119),
            (60, 0, 120),
            (300, 0, 360),
            (u16::MAX, u16::MAX, 360),
        ] {
            assert_eq!(wait_seconds(update, check), wait, "{update} {check}");
        }
    }
}
