//! Free blocks for new inode tables, and the block bitmaps that change with them.
//!
//! Without `flex_bg` the table of a group lies within the group. With it, the table is placed in
//! the first group with room from the start of its flexible group on, so that tables that lay side
//! by side do so again.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::{Block, BlockNr, GroupNr};
use rt::atomic::Ordering;

use crate::cache::space::bitmap::{Bitmap, View, clear_in_bytes, set_in_bytes};
use crate::core::Core;
use crate::disk::run::Run;
use crate::error::{Error, Result};

/// Largest logarithm of the number of groups in a flexible group.
const FLEX_LOG_MAX: u8 = 31;

/// The other remedy if a group has no room.
const ANYWHERE: &str = ", or let tables lie in other groups: tune2fs -O flex_bg, for Linux's ext4";

/// The search for free blocks.
pub(super) struct Places<'c> {
    core: &'c Core,
    /// Number of blocks of a new table.
    count: u32,
    maps: BTreeMap<GroupNr, Map>,
    /// For each group the block, counted within it, from which on there may be room for a table.
    /// Tables are all of one length, and nothing becomes free before all have a place.
    next: Vec<u32>,
}

/// The block bitmap of a group.
#[derive(Debug)]
pub(super) struct Map {
    /// The bitmap as it will be on the device.
    pub(super) bytes: Block,
    /// Number of free blocks.
    pub(super) free: u32,
    /// True if blocks were taken or freed.
    is_changed: bool,
    taken: Bitmap,
}

impl<'c> Places<'c> {
    pub(super) fn new(core: &'c Core, count: u32) -> Self {
        let groups = core.geometry().group_count as usize;
        Self {
            core,
            count,
            maps: BTreeMap::new(),
            next: vec![0; groups],
        }
    }

    /// Takes blocks for the table of a group.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] if there is no extent of that length.
    /// - [`Error::Corrupt`] for a damaged bitmap.
    pub(super) fn take(&mut self, group: GroupNr) -> Result<Run> {
        let geometry = self.core.geometry();
        if !geometry.has_flexible_groups {
            let found = self.take_in(group)?;
            return found.ok_or_else(|| {
                let what = format!("group {group} has no {} contiguous free blocks", self.count);
                no_room(self.count, &what, ANYWHERE)
            });
        }
        let log = self
            .core
            .superblock
            .raw
            .log_groups_per_flex
            .min(FLEX_LOG_MAX);
        let start = group.get() >> log << log;
        for other in (start..geometry.group_count).chain(0..start) {
            if let Some(run) = self.take_in(GroupNr::new(other))? {
                return Ok(run);
            }
        }
        let what = format!(
            "no {} contiguous blocks are free for group {group}",
            self.count
        );
        Err(no_room(self.count, &what, ""))
    }

    /// Takes blocks in one group, if it has room.
    fn take_in(&mut self, group: GroupNr) -> Result<Option<Run>> {
        let (count, end) = (self.count, self.core.geometry().blocks_in(group));
        let mut at = self.next[group.index()];
        if end - at < count {
            return Ok(None);
        }
        let map = self.map(group)?;
        let view = View {
            taken: &map.taken,
            avoided: None,
        };
        let found = loop {
            let Some(start) = view.first_clear(at, end) else {
                break None;
            };
            let length = view.run_length(start, count);
            if length == count {
                break Some(start);
            }
            at = start + length;
        };
        let Some(start) = found else {
            self.next[group.index()] = end;
            return Ok(None);
        };
        let was_free = set_in_bytes(&mut map.bytes, start, count);
        assert!(was_free, "the bitmap agrees with itself");
        map.free -= count;
        map.is_changed = true;
        self.next[group.index()] = start + count;
        let first = self.core.geometry().first_block_of(group) + u64::from(start);
        Ok(Some(Run { first, count }))
    }

    /// Frees the blocks of an old table.
    pub(super) fn free(&mut self, table: Run) -> Result<()> {
        let geometry = self.core.geometry();
        let mut next = table.first;
        while next < table.end() {
            let (group, start) = geometry.group_of_block(next);
            let left = (table.end().get() - next.get()) as u32;
            let count = left.min(geometry.blocks_in(group) - start);
            let map = self.map(group)?;
            // The zones of a bitmap were checked when it was read.
            let was_taken = clear_in_bytes(&mut map.bytes, start, count);
            assert!(was_taken, "an inode table is marked as in use");
            map.free += count;
            map.is_changed = true;
            next = next + u64::from(count);
        }
        Ok(())
    }

    /// Returns the bitmaps that have changed.
    pub(super) fn into_changed(self) -> BTreeMap<GroupNr, Map> {
        let mut maps = self.maps;
        maps.retain(|_, map| map.is_changed);
        maps
    }

    /// Returns the bitmap of a group, which is read and checked at its first use.
    fn map(&mut self, group: GroupNr) -> Result<&mut Map> {
        if !self.maps.contains_key(&group) {
            let map = read(self.core, group)?;
            self.maps.insert(group, map);
        }
        Ok(self.maps.get_mut(&group).expect("made above"))
    }
}

fn read(core: &Core, nr: GroupNr) -> Result<Map> {
    let (group, zones) = (core.space.group(nr), core.space.zones());
    if let Some(damage) = &group.damage {
        return Err(damage.clone().into());
    }
    let buffer = core.block_bitmap(group)?;
    let mut maps = group.maps.lock();
    let taken = group.blocks(&mut maps, &buffer, zones)?.taken.clone();
    let bytes = match group.lacks_block_bitmap.load(Ordering::Relaxed) {
        true => group.first_block_bitmap(zones, core.block_bytes()),
        false => Block::copy_from(&buffer.read()),
    };
    Ok(Map {
        bytes,
        free: taken.count_clear(),
        is_changed: false,
        taken,
    })
}

fn no_room(count: u32, what: &str, more: &str) -> Error {
    Error::Unsupported(format!(
        "{what}: each group's table of larger inodes takes {count} beside its present one; nothing has changed: move files away and try again{more}"
    ))
}

impl Map {
    /// Returns the bitmap's block.
    pub(super) fn image(&self) -> Arc<Block> {
        Block::copy_from(&self.bytes).into_arc()
    }
}

/// The place of a bitmap.
pub(super) fn bitmap_place(core: &Core, group: GroupNr) -> BlockNr {
    core.space.group(group).block_bitmap
}
