//! The credits of a rename.

use crate::alloc;
use crate::core::Core;
use crate::core::handle::{CREDITS_MAX, CREDITS_MAX_EXTENTS};
use crate::map::FileMap;
use crate::namei::create::credits_to_name_with;
use crate::namei::unlink::CREDITS_UNLINK;

/// Returns the number of blocks that a rename into a directory may dirty: a new entry, an old one,
/// a replaced inode, `..`, four inodes.
pub(super) fn credits_to_rename(core: &Core, directory: FileMap) -> u32 {
    credits_to_rename_with(core.superblock.has_large_dir(), directory)
}

const fn credits_to_rename_with(has_large_dir: bool, directory: FileMap) -> u32 {
    credits_to_name_with(has_large_dir, directory) + CREDITS_UNLINK + 6
}
const _: () = assert!(credits_to_rename_with(false, FileMap::Indirect) <= CREDITS_MAX);
const _: () = assert!(credits_to_rename_with(true, FileMap::DEEPEST) <= CREDITS_MAX_EXTENTS);
/// A whiteout fits these credits: either an entry is added or an inode is replaced. Besides the new
/// entry: the old one, `..`, three inodes, the whiteout's.
const _: () = assert!(5 + alloc::CREDITS_INODE <= CREDITS_UNLINK + 6);
