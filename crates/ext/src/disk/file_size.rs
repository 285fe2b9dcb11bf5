//! The largest file that a block map can describe.

use layout::inode::DIRECT_BLOCKS;

use super::extents::FILE_BLOCKS;

/// Number of direct pointers.
const DIRECT: u64 = DIRECT_BLOCKS as u64;

/// Returns the size in bytes of the largest file with blocks of this size. The limit is the reach
/// of the indirect trees, or the 32-bit count of 512-byte units, which includes the indirect
/// blocks. This is the rule of Linux 6.18; older versions subtract the indirect blocks of three
/// full trees.
pub(crate) fn size_max(block_bytes: u32) -> u64 {
    let bytes = u64::from(block_bytes);
    let countable = u64::from(u32::MAX) / (bytes / 512);
    let written = countable - map_blocks(countable, bytes / 4);
    match reach(bytes / 4) < countable {
        true => size_reached(block_bytes),
        false => written * bytes,
    }
}

/// Returns the size in bytes of the largest file that the indirect trees reach. Sparse files have
/// such sizes whatever can be counted, by `huge_file` or by programs that do not count.
pub(crate) fn size_reached(block_bytes: u32) -> u64 {
    let bytes = u64::from(block_bytes);
    reach(bytes / 4) * bytes
}

/// Returns the number of blocks that the direct pointers and the trees reach.
fn reach(per_block: u64) -> u64 {
    DIRECT + per_block + per_block.pow(2) + per_block.pow(3)
}

/// Returns the size in bytes of the largest file that extents can map with blocks of this size. The
/// limit is the 32-bit number of a file block, or without `huge_file` the 32-bit count of 512-byte
/// units, from which Linux does not subtract the blocks of the tree.
pub(crate) fn size_max_of_extents(block_bytes: u32, has_huge_file: bool) -> u64 {
    let bytes = u64::from(block_bytes);
    let countable = match has_huge_file {
        true => u64::MAX,
        false => u64::from(u32::MAX) / (bytes / 512),
    };
    FILE_BLOCKS.min(countable) * bytes
}

/// Returns the number of indirect blocks of a file with this number of blocks and no holes.
fn map_blocks(blocks: u64, per_block: u64) -> u64 {
    let single = blocks.saturating_sub(DIRECT);
    let double = single.saturating_sub(per_block);
    let triple = double.saturating_sub(per_block.pow(2));
    let tops = [single, double, triple]
        .into_iter()
        .filter(|left| *left > 0);
    let below = double.div_ceil(per_block) + triple.div_ceil(per_block.pow(2));
    tops.count() as u64 + below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of Linux's ext3, for blocks of 1, 2 and 4 KiB.
    #[test]
    fn the_largest_files_are_those_of_linux() {
        assert_eq!(size_max(1024), 17_247_252_480);
        assert_eq!(size_max(2048), 275_415_851_008);
        assert_eq!(size_max(4096), 2_196_873_666_560);
        assert_eq!(size_reached(1024), size_max(1024));
        assert_eq!(size_reached(65_536), 288_247_969_412_284_416);
    }

    /// The limits of Linux's ext4, without and with `huge_file`.
    #[test]
    fn extents_reach_further() {
        assert_eq!(size_max_of_extents(1024, false), ((1 << 31) - 1) << 10);
        assert_eq!(size_max_of_extents(4096, false), ((1 << 29) - 1) << 12);
        assert_eq!(size_max_of_extents(1024, true), ((1 << 32) - 1) << 10);
        assert_eq!(size_max_of_extents(4096, true), ((1 << 32) - 1) << 12);
    }
}
