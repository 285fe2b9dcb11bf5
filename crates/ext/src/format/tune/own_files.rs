//! Files of the volume's own, without a name, on a volume that is there: the superblock names them.
//! They are made before it does, and freed after it has ceased to.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::Credits;
use layout::inode::InodeFlags;
use layout::{Block, FileBlock, InodeNr};

use super::{take_over, write};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{InodeState, table};
use crate::disk::kind::FileKind;
use crate::disk::metadata::Kind;
use crate::disk::superblock::Superblock;
use crate::error::Result;
use crate::map::FileMap;
use crate::options::MountOptions;
use crate::volume::{close_core, open_core};

/// Permissions of the files.
const PERMISSIONS: u16 = 0o600;
/// Number of nodes that the map of a new file may have besides its leaves.
const UPPER_NODES_MAX: u64 = 8;
/// Number of bytes of an entry of a leaf: that of an extent, the larger one.
const LEAF_ENTRY_BYTES: u64 = 12;

/// Returns the number of blocks that a new file with contents of `count` blocks needs at most: each
/// block may be an extent of its own, and leaves may be half full.
pub(super) fn blocks_with_map(superblock: &Superblock, count: u64) -> u64 {
    let entries = u64::from(superblock.geometry.block_bytes) / LEAF_ENTRY_BYTES - 1;
    count + 2 * count.div_ceil(entries) + UPPER_NODES_MAX
}

/// Opens the volume without its journal, which is empty, does the work, and closes it.
pub(super) fn with_core<T>(
    device: &Arc<dyn BlockDevice>,
    work: impl FnOnce(&Core) -> Result<T>,
) -> Result<T> {
    let options = MountOptions {
        is_being_made: true,
        // As for tune2fs, the reserve is there for this.
        privileged: true,
        ..MountOptions::default()
    };
    let (core, ..) = open_core(Arc::clone(device), None, options)?;
    let done = work(&core)?;
    close_core(&core)?;
    Ok(done)
}

/// A file to make.
pub(super) struct OwnFile {
    /// Its inode; none for any free one.
    pub(super) nr: Option<InodeNr>,
    pub(super) flags: InodeFlags,
    /// The kind of its blocks.
    pub(super) kind: Kind,
    /// Its size in bytes.
    pub(super) size: usize,
}

impl OwnFile {
    /// Makes the file, each block of it with the given contents.
    pub(super) fn make(&self, core: &Core, contents: impl Fn(usize) -> Block) -> Result<InodeNr> {
        let mut state = InodeState::fresh(FileKind::Regular, PERMISSIONS, 0, 0, 0);
        state.flags |= self.flags;
        if core.superblock.has_extents() {
            state.use_extents();
        }
        let count = self.size.div_ceil(core.block_bytes());
        let mut handle = core.begin(Credits::default())?;
        let nr = match self.nr {
            Some(nr) => nr,
            None => core.allocate_inode(&mut handle, InodeNr::ROOT, false)?,
        };
        let label = self.kind.of_inode(nr, state.generation);
        let inode = Inode::new(nr, state.clone());
        let mut next = 0;
        while next < count {
            let (from, wanted) = (FileBlock::new(next as u64), (count - next) as u32);
            let map = FileMap::of(&state);
            let found =
                map.find_or_allocate(core, &mut handle, &inode, &mut state, from, wanted)?;
            let (run, _) = found;
            for index in 0..u64::from(run.count) {
                let buffer = core.buffers.get_new(run.first + index, label);
                handle.replace(&buffer, contents(next).into_arc())?;
                next += 1;
            }
        }
        core.discard_window(&inode.window);
        state.size = self.size as u64;
        let (table, offset) = core.table_of(nr)?;
        let end = offset + usize::from(core.geometry().inode_bytes);
        let mut block = handle.write(&table)?;
        let bytes = &mut block[offset..end];
        table::encode(&core.superblock, &state, bytes);
        core.superblock.checksums.seal_inode(nr, bytes);
        drop(block);
        state.discard(&mut handle);
        handle.finish()?;
        Ok(nr)
    }
}

/// Frees a file of the volume's own that the superblock does not name any more.
pub(super) fn free_file(
    device: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    nr: InodeNr,
) -> Result<()> {
    write(device, superblock)?;
    with_core(device, |core| free(core, nr))?;
    take_over(device, superblock)?;
    write(device, superblock)
}

fn free(core: &Core, nr: InodeNr) -> Result<()> {
    let inode = Inode::load(core, nr)?;
    let mut state = inode.state.write();
    let map = FileMap::of(&state);
    let mut credits = map.credits_to_free();
    // The inode's bitmap and its group.
    credits.blocks += 2;
    let mut handle = core.begin(credits)?;
    let from = FileBlock::new(0);
    map.free_from(core, &mut handle, &inode, &mut state, from)?;
    let (buffer, offset) = core.table_of(nr)?;
    let end = offset + usize::from(core.geometry().inode_bytes);
    handle.write(&buffer)?[offset..end].fill(0);
    state.discard(&mut handle);
    // The numbers of reserved inodes are never free.
    if nr >= core.geometry().first_inode {
        core.free_inode(&mut handle, nr, false)?;
    }
    handle.finish().map(drop)
}
