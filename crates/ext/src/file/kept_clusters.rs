//! Data in clusters that a cut leaves to the file.
//!
//! A block of such a cluster can be mapped again before the cut is committed. An image of it that
//! an earlier transaction still has to write would go over newer data, so it is written first. If
//! that fails, the earlier transaction is committed before the cut, and owes nothing then.

use std::ops::Range;
use std::sync::Arc;

use layout::FileBlock;

use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::error::Result;
use crate::writeback::pages::write_file;

/// Writes the dirty pages of a range of blocks that is cut from a file, as far as they lie in
/// clusters of which the file may keep other blocks. The caller has no open handle.
pub(super) fn write(core: &Core, inode: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
    let size = u64::from(core.geometry().cluster_blocks());
    if size == 1 || blocks.is_empty() || rt::mutant!("clusters/cut-pages-not-written") {
        return Ok(());
    }
    let head = blocks.start..blocks.end.min(blocks.start.next_multiple_of(size));
    let tail = head.end.max(blocks.end - blocks.end % size)..blocks.end;
    let mut is_written = true;
    for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
        let which = Which::Range(FileBlock::new(part.start), FileBlock::new(part.end - 1));
        // The file has the error.
        is_written &= write_file(core, inode, which).is_ok();
    }
    if let Some(journal) = core.journal.as_ref().filter(|_| !is_written) {
        journal.commit_running()?;
    }
    Ok(())
}
