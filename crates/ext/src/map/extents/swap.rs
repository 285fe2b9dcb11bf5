//! Exchanging blocks between two files, one extent or hole of each at a time.

use jbd2::Credits;
use layout::FileBlock;

use super::allocate::look;
use super::apply::{Draft, allocate_nodes, free_nodes};
use super::path::{Found, Site};
use super::tree::{Change, Piece};
use super::{credits_to_change, new_nodes_max};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::fits_sectors;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::map::Exchanged;

/// Returns the credits for the part of [`swap`] in a file whose tree has this depth: it either adds
/// nodes or frees some.
pub(in crate::map) const fn credits_to_swap(depth: u16) -> Credits {
    Credits {
        blocks: new_nodes_max(depth) * CREDITS_PER_GROUP + credits_to_change(depth),
        revokes: depth as u32,
    }
}

/// The extent or the hole of one of the files.
struct Side {
    site: Site,
    from: u64,
    found: Option<Piece>,
}

impl Side {
    fn of(core: &Core, inode: &Inode, state: &InodeState, from: FileBlock) -> Result<(Self, u64)> {
        let (site, found) = look(core, inode, state, from)?;
        let from = from.get();
        let (found, count) = match found {
            Found::Piece(piece) => (piece.part(from..u64::MAX), piece.end() - from),
            Found::Hole(count) => (None, count),
        };
        Ok((Self { site, from, found }, count))
    }

    /// Returns the first blocks of what the file has; none for a hole.
    fn part(&self, count: u64) -> Option<Piece> {
        self.found?.part(self.from..self.from + count)
    }

    /// Returns the change that puts blocks of the other file into their place.
    fn change(&self, count: u64, other: Option<Piece>) -> Option<Change> {
        let blocks = self.from..self.from + count;
        let new = other.map(|piece| Piece {
            file_block: self.from,
            ..piece
        });
        self.site.path.rewrite(blocks, new)
    }

    fn goal(&self, core: &Core) -> layout::BlockNr {
        let none = Run {
            first: core.geometry().first_data_block,
            count: 0,
        };
        self.site.node_goal(self.found.map_or(none, Piece::run))
    }
}

/// Exchanges the blocks of two files from one block of each on: at most `count_max`, as far as each
/// file has one extent or one hole there. Returns their number. Unwritten blocks stay so. Changes
/// the states, which the caller stores.
///
/// # Errors
/// - [`Error::NoSpace`] if a tree has no room for another extent. Nothing has changed after any
///   error.
pub(in crate::map) fn swap(
    core: &Core,
    handle: &mut Handle<'_>,
    [first, second]: [&mut Exchanged<'_>; 2],
    count_max: u64,
) -> Result<u64> {
    let (one, count_one) = Side::of(core, first.inode, first.state, first.at)?;
    let (other, count_other) = Side::of(core, second.inode, second.state, second.at)?;
    let count = count_max.min(count_one).min(count_other);
    let parts = [one.part(count), other.part(count)];
    if parts == [None, None] {
        return Ok(count);
    }
    let changes = (one.change(count, parts[1]), other.change(count, parts[0]));
    let (Some(change_one), Some(change_other)) = changes else {
        return Err(Error::FileTooLarge);
    };
    let unit = core.sectors_per_block();
    let sectors = parts.map(|part| part.map_or(0, |piece| u64::from(piece.count) * unit));
    let after = [
        first.state.sectors.saturating_sub(sectors[0]) + sectors[1],
        second.state.sectors.saturating_sub(sectors[1]) + sectors[0],
    ];
    let nodes = u64::from(new_nodes_max(layout::extent::DEPTH_MAX)) * unit;
    if !after
        .iter()
        .all(|sectors| fits_sectors(&core.superblock, sectors + nodes))
    {
        return Err(Error::FileTooLarge);
    }
    let (goal_one, goal_other) = (one.goal(core), other.goal(core));
    let nodes_one = allocate_nodes(
        core,
        handle,
        first.inode,
        first.state,
        goal_one,
        change_one.new_count,
    )?;
    // A draft that fails has no new nodes.
    let draft_one = Draft::new(core, one.site, change_one, nodes_one)?;
    let more = change_other.new_count;
    let draft_other = allocate_nodes(core, handle, second.inode, second.state, goal_other, more)
        .and_then(|nodes| Draft::new(core, other.site, change_other, nodes));
    let draft_other = match draft_other {
        Ok(draft) => draft,
        Err(error) => {
            free_nodes(core, handle, &draft_one.nodes)?;
            return Err(error);
        }
    };
    first.state.claims(handle).sectors = after[0];
    second.state.claims(handle).sectors = after[1];
    for file in [&*first, &*second] {
        *file.inode.map.lock() = MapCache::default();
    }
    draft_one.write(core, handle, first.inode, first.state)?;
    draft_other.write(core, handle, second.inode, second.state)?;
    Ok(count)
}
