//! Reading an indexed directory in hash order, with cookies that stay valid when leaves are split.
//!
//! A cookie is 3 + the entry's key: 31 bits of the major hash, 24 of the minor, and 8 that count the names that share them.
//! 1 and 2 stand for `.` and `..`.

use layout::FileBlock;

use super::htree::{CHAIN_MAX, Tree, endless_chain};
use super::leaf::{self, Hashed};
use super::{Entry, block, linear};
use crate::core::Core;
use crate::error::Result;
use crate::inode::{FileKind, Inode, InodeState};

/// The cookie of the first key.
const FIRST: u64 = 3;
/// How many names may share 55 bits of hash and still have cookies of their own.
const SHARED_MAX: u64 = 255;

/// Visits entries in hash order.
pub(super) fn read_indexed(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    tree: &Tree,
    cookie: u64,
    visit: &mut dyn FnMut(u64, Entry) -> bool,
) -> Result<()> {
    for (own, name) in [(1, b".".as_slice()), (2, b"..".as_slice())] {
        if cookie < own && !visit_dot(core, directory, state, own, name, visit)? {
            return Ok(());
        }
    }
    let behind = cookie.checked_sub(FIRST);
    let start = behind.map_or(0, |key| ((key >> 32) as u32) << 1);
    let mut path = tree.probe(core, directory, state, start)?;
    loop {
        let mut entries = leaf_entries(core, directory, state, tree, path.leaf)?;
        let mut next = path.advance(core, directory, state)?;
        let mut leaves = 1;
        while next.is_some_and(|hash| hash & 1 == 1) {
            if leaves > CHAIN_MAX {
                return Err(endless_chain(directory, path.leaf));
            }
            leaves += 1;
            entries.extend(leaf_entries(core, directory, state, tree, path.leaf)?);
            next = path.advance(core, directory, state)?;
        }
        for (key, entry) in keyed(entries) {
            let is_behind = behind.is_none_or(|behind| key > behind);
            if is_behind && !visit(key + FIRST, entry) {
                return Ok(());
            }
        }
        if next.is_none() {
            return Ok(());
        }
    }
}

fn visit_dot(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    cookie: u64,
    name: &[u8],
    visit: &mut dyn FnMut(u64, Entry) -> bool,
) -> Result<bool> {
    let found = linear::find_in_block(core, directory, state, FileBlock::new(0), name)?;
    Ok(match found {
        Some(place) => {
            let (inode, kind) = (place.inode, Some(FileKind::Directory));
            visit(
                cookie,
                Entry {
                    inode,
                    kind,
                    name: name.to_vec(),
                },
            )
        }
        None => true,
    })
}

fn leaf_entries(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    tree: &Tree,
    file_block: FileBlock,
) -> Result<Vec<Hashed>> {
    let buffer = block(core, directory, state, file_block)?;
    let image = buffer.image();
    leaf::hashed(&image, &|name| tree.hash_of(core, name))
        .map_err(|bad| bad.at(directory.nr, file_block))
}

/// Entries in the order of their keys.
fn keyed(mut entries: Vec<Hashed>) -> Vec<(u64, Entry)> {
    entries.sort_by(|a, b| (a.hash, a.minor, &a.name).cmp(&(b.hash, b.minor, &b.name)));
    let mut keyed: Vec<(u64, Entry)> = Vec::with_capacity(entries.len());
    let mut shared = 0;
    let mut last_base = None;
    for entry in entries {
        let base = (u64::from(entry.hash >> 1) << 32) | u64::from(entry.minor & 0xFFFF_FF00);
        shared = if last_base == Some(base) {
            (shared + 1).min(SHARED_MAX)
        } else {
            0
        };
        last_base = Some(base);
        let kind = FileKind::from_entry_type(layout::mode::FileType::from_raw(entry.type_byte));
        let inode = layout::InodeNr::new(entry.inode);
        keyed.push((
            base | shared,
            Entry {
                inode,
                kind,
                name: entry.name,
            },
        ));
    }
    keyed
}
