//! Effects of fallocate on a file of the model: ranges of sectors are allocated, punched, zeroed,
//! collapsed or inserted.
//!
//! A range is punched in this order: the partial block at its start is zeroed, then the one at its
//! end, then its whole blocks are freed, from the first to the last ([`Punch`]).

use super::{Change, Kind, Node, Sector, Tree, sector_count};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::op::{Op, Path};

/// The parts of a punched range, in sectors: start and end.
struct Punch {
    head: (usize, usize),
    tail: (usize, usize),
    whole: (usize, usize),
}

impl Punch {
    fn new(from: usize, count: usize, size: u64) -> Self {
        let end = (from + count).min(size.div_ceil(SECTOR_BYTES as u64) as usize);
        let first = from.next_multiple_of(BLOCK_SECTORS);
        // The last block of a file counts as whole up to the file's end.
        let reaches_end = (end * SECTOR_BYTES) as u64 >= size;
        let last = match reaches_end {
            true => end.next_multiple_of(BLOCK_SECTORS),
            false => end - end % BLOCK_SECTORS,
        };
        Self {
            head: (from, end.min(first)),
            tail: if last >= first {
                (from.max(last), end)
            } else {
                (0, 0)
            },
            whole: (first, last),
        }
    }
}

impl Tree {
    /// Zeroes sectors, as if zeroes were written.
    pub(super) fn zero(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        self.write(path, from, count, change)?;
        let node = self.node_mut(self.find(path)?)?;
        clear(sectors_mut(node)?, (from, from + count));
        Some(())
    }

    /// Allocates zeroed blocks for holes, and extends the file to the end of the range.
    pub(super) fn allocate(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        let end = from + count;
        let Kind::File { size, .. } = &mut node.kind else {
            return None;
        };
        let is_growing = (end * SECTOR_BYTES) as u64 > *size;
        if is_growing {
            *size = (end * SECTOR_BYTES) as u64;
        }
        let sectors = sectors_mut(node)?;
        let needed = sector_count((end * SECTOR_BYTES) as u64);
        sectors.resize(sectors.len().max(needed), Sector::default());
        let mut is_changed = is_growing;
        let blocks = from - from % BLOCK_SECTORS..end.next_multiple_of(BLOCK_SECTORS);
        for sector in &mut sectors[blocks] {
            if sector.allocated_in == 0 {
                sector.allocate(change.state);
                is_changed = true;
            }
        }
        if is_changed {
            self.note_contents(id, change)?;
            self.node_mut(id)?.map_in = change.state;
        }
        Some(())
    }

    /// Frees whole blocks, and zeroes the rest of the range.
    pub(super) fn punch(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        let Kind::File { size, .. } = &node.kind else {
            return None;
        };
        let size = *size;
        let punch = Punch::new(from, count, size);
        let sectors = sectors_mut(node)?;
        let mut is_changed = false;
        for (start, end) in [punch.head, punch.tail] {
            let is_hole = sectors
                .get(start)
                .is_none_or(|sector| sector.allocated_in == 0);
            if start >= end || is_hole {
                continue;
            }
            clear(sectors, (start, end));
            is_changed = true;
            let block = start - start % BLOCK_SECTORS;
            if ((block + BLOCK_SECTORS) * SECTOR_BYTES) as u64 > size {
                for sector in &mut sectors[block..block + BLOCK_SECTORS] {
                    sector.ordered_in = change.state as u32;
                }
            }
        }
        let (first, last) = punch.whole;
        let mut is_unmapped = false;
        for sector in sectors.iter_mut().take(last).skip(first) {
            is_unmapped |= sector.allocated_in > 0;
            *sector = Sector::default();
        }
        if is_changed || is_unmapped {
            self.note_contents(id, change)?;
        } else if from == 0 && (1..=SECTOR_BYTES as u64).contains(&size) {
            self.node_mut(id)?.punched_within = Some(change.seconds);
        }
        if is_unmapped {
            self.node_mut(id)?.map_in = change.state;
        }
        Some(())
    }

    /// Removes a range of whole blocks that ends before the end of the file.
    pub(super) fn collapse(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        self.move_sectors(path, change, |size, sectors| {
            let is_within = ((from + count) * SECTOR_BYTES) < *size as usize;
            (is_whole(from, count) && is_within).then_some(())?;
            *size -= (count * SECTOR_BYTES) as u64;
            drop(sectors.drain(from..from + count));
            Some(())
        })
    }

    /// Inserts a hole of whole blocks before the end of the file.
    pub(super) fn insert(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        self.move_sectors(path, change, |size, sectors| {
            let is_within = from * SECTOR_BYTES < *size as usize;
            (is_whole(from, count) && is_within).then_some(())?;
            *size += (count * SECTOR_BYTES) as u64;
            drop(sectors.splice(from..from, hole(count)));
            Some(())
        })
    }

    /// Changes the size and the sectors of a file.
    fn move_sectors(
        &mut self,
        path: &str,
        change: Change,
        work: impl FnOnce(&mut u64, &mut Vec<Sector>) -> Option<()>,
    ) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        let Kind::File { size, sectors } = &mut node.kind else {
            return None;
        };
        let sectors = std::sync::Arc::make_mut(sectors);
        for sector in sectors.iter_mut().take(BLOCK_SECTORS) {
            sector.may_have_left_inode |= sector.allocated_in == 0;
        }
        work(size, sectors)?;
        node.map_in = change.state;
        self.note_contents(id, change)
    }

    /// Returns the intermediate states of a range that is collapsed: its blocks are freed one after
    /// another, and then those behind it move.
    pub(crate) fn collapse_parts(
        &self,
        path: &Path,
        (from, count): (u32, u32),
        change: Change,
    ) -> Vec<Self> {
        let (from, count) = (from as usize, count as usize);
        let part = |work: &dyn Fn(&mut Vec<Sector>)| {
            let mut tree = self.clone();
            let done = tree.move_sectors(path, change, |_, sectors| {
                work(sectors);
                Some(())
            });
            done.map(|()| tree)
        };
        let length = self
            .find(path)
            .and_then(|id| self.sectors(id))
            .map_or(0, <[_]>::len);
        // Earlier operations on the file may have failed.
        if from + count > length {
            return Vec::new();
        }
        // The times change first.
        let freed = (0..=count).step_by(BLOCK_SECTORS);
        let freed = freed.filter_map(|freed| {
            part(&|sectors| sectors[from..from + freed].fill(Sector::default()))
        });
        let moved = (BLOCK_SECTORS..=length - from - count).step_by(BLOCK_SECTORS);
        let moved = moved.filter_map(|moved| {
            part(&|sectors| {
                let end = from + moved;
                sectors.copy_within(from + count..end + count, from);
                sectors[end..end + count].fill(Sector::default());
            })
        });
        freed.chain(moved).collect()
    }

    /// Returns the intermediate states of a range that is inserted: what lies behind its start
    /// moves, the last block first.
    pub(crate) fn insert_parts(
        &self,
        path: &Path,
        (from, count): (u32, u32),
        change: Change,
    ) -> Vec<Self> {
        let (from, count) = (from as usize, count as usize);
        let length = self
            .find(path)
            .and_then(|id| self.sectors(id))
            .map_or(0, <[_]>::len);
        if from > length {
            return Vec::new();
        }
        let blocks = (length - from) / BLOCK_SECTORS;
        let starts = (0..=blocks).rev().map(|kept| from + kept * BLOCK_SECTORS);
        let part = |start: usize| {
            let mut tree = self.clone();
            let done = tree.move_sectors(path, change, |size, sectors| {
                *size += (count * SECTOR_BYTES) as u64;
                drop(sectors.splice(start..start, hole(count)));
                Some(())
            });
            done.map(|()| tree)
        };
        starts.filter_map(part).collect()
    }

    /// Notes a change of a file's contents.
    pub(super) fn note_contents(&mut self, id: super::NodeId, change: Change) -> Option<()> {
        let node = self.node_mut(id)?;
        node.data_in = change.state;
        node.modified = change.seconds;
        node.changed = change.seconds;
        node.changed_in = change.state;
        Some(())
    }

    /// Returns the intermediate states of a punch: start and end are zeroed, then blocks are freed
    /// one after another.
    pub(crate) fn punch_parts(&self, path: &Path, range: (u32, u32), change: Change) -> Vec<Self> {
        let size = self.find(path).and_then(|id| match &self.node(id).kind {
            Kind::File { size, .. } => Some(*size),
            _ => None,
        });
        let Some(size) = size else {
            return Vec::new();
        };
        let punch = Punch::new(range.0 as usize, range.1 as usize, size);
        let (first, last) = punch.whole;
        let blocks = (first..last)
            .step_by(BLOCK_SECTORS)
            .map(|start| (start, start + BLOCK_SECTORS));
        let steps = [punch.head, punch.tail].into_iter().chain(blocks);
        let mut parts = Vec::new();
        let mut tree = self.clone();
        for (start, end) in steps.filter(|(start, end)| start < end) {
            let part = Op::Punch(path.clone(), start as u32, (end - start) as u32);
            if let Some(next) = tree.after(&part, change) {
                tree = next;
                parts.push(tree.clone());
            }
        }
        parts
    }
}

/// Returns true for a range of whole blocks.
fn is_whole(from: usize, count: usize) -> bool {
    count > 0 && from.is_multiple_of(BLOCK_SECTORS) && count.is_multiple_of(BLOCK_SECTORS)
}

fn hole(count: usize) -> impl Iterator<Item = Sector> {
    core::iter::repeat_n(Sector::default(), count)
}

fn sectors_mut(node: &mut Node) -> Option<&mut Vec<Sector>> {
    match &mut node.kind {
        Kind::File { sectors, .. } => Some(std::sync::Arc::make_mut(sectors)),
        _ => None,
    }
}

fn clear(sectors: &mut [Sector], (start, end): (usize, usize)) {
    for sector in &mut sectors[start..end] {
        sector.write = 0;
        sector.cut = 0;
    }
}
