//! Symbolic links. Short targets are in the inode's words ("fast"), longer ones in one block. That
//! block is journaled like metadata in every data mode, so that a link never appears without its
//! target. With `inline_data` e2fsprogs makes links whose target lies within the inode, however
//! long; as in Linux, they are read and not made.

use std::sync::Arc;

use layout::inode_flags::InodeFlags;
use layout::{Block, FileBlock, InodeNr, encryption};

use super::create::make;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::metadata::Kind;
use crate::disk::new_inode::NewInode;
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Mapped};
use crate::xattr::contents;

/// Length in bytes of the longest target in the inode's words, the closing zero excluded.
const FAST_BYTES_MAX: usize = 59;

/// Creates a symbolic link, which is pinned.
pub(crate) fn symlink(
    core: &Core,
    parent: InodeNr,
    name: &[u8],
    target: &[u8],
    new: &NewInode,
) -> Result<Arc<Inode>> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::Invalid(
            "a link's target is not empty and holds no zero byte",
        ));
    }
    if target.len() >= core.block_bytes() {
        return Err(Error::NameTooLong);
    }
    let new = NewInode {
        permissions: 0o777,
        ..*new
    };
    make(
        core,
        parent,
        name,
        FileKind::Symlink,
        &new,
        &mut |core, handle, inode, state| {
            state.size = target.len() as u64;
            if target.len() <= FAST_BYTES_MAX {
                state.claims(handle).words.set_target(target);
                return Ok(());
            }
            store_slow(core, handle, inode, state, target)
        },
    )
}

fn store_slow(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    target: &[u8],
) -> Result<()> {
    if core.superblock.has_extents() {
        state.use_extents();
    }
    let start = FileBlock::new(0);
    let (run, _) = FileMap::of(state).find_or_allocate(core, handle, inode, state, start, 1)?;
    let mut block = Block::zeroed(core.block_bytes());
    block[..target.len()].copy_from_slice(target);
    let buffer = core.buffers.get_new(run.first, Kind::Contents.of_volume());
    handle.replace(&buffer, block.into_arc())
}

/// Returns the target of a symbolic link; of an encrypted one, in the form of names without a key.
pub(crate) fn read_link(core: &Core, nr: InodeNr) -> Result<Vec<u8>> {
    let inode = core.inode(nr)?;
    let state = inode.state.read();
    if state.kind != FileKind::Symlink {
        return Err(Error::Invalid("not a symbolic link"));
    }
    let contents = contents_of(core, &inode, &state)?;
    if !state.flags.contains(InodeFlags::ENCRYPT) {
        return Ok(contents);
    }
    match encryption::symlink_target(&contents) {
        Some(target) => Ok(encryption::no_key_name(0, 0, target)),
        None => Err(core.damaged(Corrupt::Inode {
            inode: nr,
            field: "length of the encrypted target",
            value: state.size,
        })),
    }
}

/// Returns the contents of a symbolic link.
fn contents_of(core: &Core, inode: &Inode, state: &InodeState) -> Result<Vec<u8>> {
    let nr = inode.nr;
    let corrupt = || {
        core.damaged(Corrupt::Inode {
            inode: nr,
            field: "symbolic link size",
            value: state.size,
        })
    };
    let Ok(length) = usize::try_from(state.size) else {
        return Err(corrupt());
    };
    if state.is_inline() {
        let mut target = contents::read(core, nr, state)?.bytes;
        if length == 0 || length > target.len() {
            return Err(corrupt());
        }
        target.truncate(length);
        return Ok(target);
    }
    let attribute_sectors = if state.attribute_block.get() == 0 {
        0
    } else {
        core.sectors_per_cluster()
    };
    let is_fast = if core.superblock.has_ea_inode() {
        !state.has_map(core)
    } else {
        state.sectors == attribute_sectors
    };
    if is_fast {
        return state.words.target(length).ok_or_else(corrupt);
    }
    if length == 0 || length > core.block_bytes() {
        return Err(corrupt());
    }
    match FileMap::of(state).find(core, inode, state, FileBlock::new(0), 1)? {
        Mapped::Run(run) => {
            let read = core.buffers.get(run.first, Kind::Contents.of_volume());
            let buffer = read.map_err(|refused| refused.into_error(|_| corrupt()))?;
            Ok(buffer.read()[..length].to_vec())
        }
        Mapped::Unwritten(_) | Mapped::Hole(_) => Err(corrupt()),
    }
}
