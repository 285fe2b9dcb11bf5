//! A set of blocks, in pages of one group each. A page holds extents while they are few and a
//! bitmap otherwise, so that an empty file system of many terabytes takes almost no memory.

/// Maximum number of extents in a page, which take 1 KiB.
const RUNS_MAX: usize = 128;

/// A set of blocks or clusters, by group and index in the group.
pub(crate) struct BlockSet {
    pages: Vec<Page>,
    /// Size of a page's bitmap in bytes.
    page_bytes: usize,
    is_empty: bool,
}

enum Page {
    /// Extents in ascending order, no two of them adjacent.
    Runs(Vec<Run>),
    /// A bitmap as on disk.
    Bits(Box<[u8]>),
}

/// The blocks from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    start: u32,
    end: u32,
}

impl BlockSet {
    /// Creates an empty set of the blocks of a number of groups.
    pub(crate) fn new(group_count: u32, blocks_per_group: u32) -> Self {
        let pages = (0..group_count).map(|_| Page::Runs(Vec::new()));
        Self {
            pages: pages.collect(),
            page_bytes: blocks_per_group.div_ceil(8) as usize,
            is_empty: true,
        }
    }

    /// True if no block was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// True if a block is in the set.
    pub(crate) fn contains(&self, (group, place): (u32, u32)) -> bool {
        match &self.pages[group as usize] {
            Page::Runs(runs) => {
                let at = runs.partition_point(|run| run.end <= place);
                runs.get(at).is_some_and(|run| run.start <= place)
            }
            Page::Bits(bits) => bits[place as usize / 8] & (1 << (place % 8)) != 0,
        }
    }

    /// Inserts a block. Returns `false` if it was present.
    #[inline]
    pub(crate) fn insert(&mut self, (group, place): (u32, u32)) -> bool {
        self.is_empty = false;
        let page = &mut self.pages[group as usize];
        match page {
            Page::Runs(runs) => {
                let is_new = insert(runs, place);
                if runs.len() > RUNS_MAX {
                    *page = Page::Bits(bits_of(runs, self.page_bytes));
                }
                is_new
            }
            Page::Bits(bits) => {
                let (byte, bit) = (&mut bits[place as usize / 8], 1 << (place % 8));
                let is_new = *byte & bit == 0;
                *byte |= bit;
                is_new
            }
        }
    }

    /// Inserts an extent of a group.
    pub(crate) fn insert_run(&mut self, group: u32, start: u32, end: u32) {
        if start >= end {
            return;
        }
        self.is_empty = false;
        let page = &mut self.pages[group as usize];
        match page {
            Page::Runs(runs) => {
                insert_run(runs, Run { start, end });
                if runs.len() > RUNS_MAX {
                    *page = Page::Bits(bits_of(runs, self.page_bytes));
                }
            }
            Page::Bits(bits) => set(bits, start, end),
        }
    }

    /// True if a block of an extent is in the set.
    pub(crate) fn intersects(&self, group: u32, start: u32, end: u32) -> bool {
        match &self.pages[group as usize] {
            Page::Runs(runs) => {
                let at = runs.partition_point(|run| run.end <= start);
                start < end && runs.get(at).is_some_and(|run| run.start < end)
            }
            Page::Bits(_) => (start..end).any(|place| self.contains((group, place))),
        }
    }

    /// Sets the bits of the clusters that have blocks of a group, in a bitmap of the group.
    pub(crate) fn add_clusters_to(&self, group: u32, log: u32, bitmap: &mut [u8]) {
        if log == 0 {
            return self.add_to(group, bitmap);
        }
        let mut add = |start: u32, end: u32| set(bitmap, start >> log, ((end - 1) >> log) + 1);
        match &self.pages[group as usize] {
            Page::Runs(runs) => runs.iter().for_each(|run| add(run.start, run.end)),
            Page::Bits(bits) => {
                for (byte, at) in bits
                    .iter()
                    .zip((0..).step_by(8))
                    .filter(|(byte, _)| **byte != 0)
                {
                    let set = (0..8).filter(|bit| *byte & (1 << bit) != 0);
                    set.for_each(|bit| add(at + bit, at + bit + 1));
                }
            }
        }
    }

    /// Sets the bits of a group's blocks in a bitmap of the group.
    pub(crate) fn add_to(&self, group: u32, bitmap: &mut [u8]) {
        match &self.pages[group as usize] {
            Page::Runs(runs) => fill(runs, bitmap),
            Page::Bits(bits) => {
                for (byte, more) in bitmap.iter_mut().zip(bits) {
                    *byte |= more;
                }
            }
        }
    }
}

/// Inserts a block into extents. Returns `false` if it was present.
#[inline]
fn insert(runs: &mut Vec<Run>, place: u32) -> bool {
    // Files are read from their start, so that most blocks follow the last extent.
    if let Some(last) = runs.last_mut().filter(|run| run.end == place) {
        last.end += 1;
        return true;
    }
    let at = runs.partition_point(|run| run.end < place);
    let next = runs.get(at + 1).map(|run| run.start);
    let Some(run) = runs.get_mut(at).filter(|run| run.start <= place + 1) else {
        let end = place + 1;
        runs.insert(at, Run { start: place, end });
        return true;
    };
    if (run.start..run.end).contains(&place) {
        return false;
    }
    if run.end == place {
        run.end += 1;
        if next == Some(run.end) {
            let joined = runs.remove(at + 1);
            runs[at].end = joined.end;
        }
    } else {
        run.start = place;
    }
    true
}

/// Inserts an extent, and joins those that it meets.
fn insert_run(runs: &mut Vec<Run>, mut new: Run) {
    if runs.last().is_none_or(|last| last.end < new.start) {
        runs.push(new);
        return;
    }
    let first = runs.partition_point(|run| run.end < new.start);
    let end = runs.partition_point(|run| run.start <= new.end);
    for run in &runs[first..end] {
        new.start = new.start.min(run.start);
        new.end = new.end.max(run.end);
    }
    runs.splice(first..end, [new]);
}

fn bits_of(runs: &[Run], page_bytes: usize) -> Box<[u8]> {
    let mut bits = vec![0; page_bytes].into_boxed_slice();
    fill(runs, &mut bits);
    bits
}

fn fill(runs: &[Run], bitmap: &mut [u8]) {
    for run in runs {
        set(bitmap, run.start, run.end);
    }
}

/// Sets the bits from `start` to before `end`.
pub(crate) fn set(bitmap: &mut [u8], start: u32, end: u32) {
    let (start, end) = (start as usize, end as usize);
    if start >= end {
        return;
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    let (head, tail) = (0xFFu8 << (start % 8), 0xFF >> (7 - (end - 1) % 8));
    if first == last {
        bitmap[first] |= head & tail;
        return;
    }
    bitmap[first] |= head;
    bitmap[first + 1..last].fill(0xFF);
    bitmap[last] |= tail;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: u32 = 512;

    /// Inserts each block twice, in a fixed order that creates many extents on the way.
    #[test]
    fn a_set_is_what_was_put_in() {
        for step in [1, 7, 171, 255, 511] {
            let mut set = BlockSet::new(2, PLACES);
            let mut bits = vec![0u8; PLACES as usize / 8];
            assert!(set.is_empty());
            for index in 0..2 * PLACES {
                let place = index * step % PLACES;
                let (byte, bit) = (place as usize / 8, 1 << (place % 8));
                let is_new = bits[byte] & bit == 0;
                assert_eq!(set.contains((1, place)), !is_new);
                assert_eq!(set.insert((1, place)), is_new, "{step} {index}");
                bits[byte] |= bit;
                let mut shown = vec![0; bits.len()];
                set.add_to(1, &mut shown);
                assert_eq!(shown, bits, "{step} {index}");
            }
            assert!(!set.contains((0, 0)));
        }
    }

    /// Inserts extents of many lengths, in a fixed order that joins some of them.
    #[test]
    fn extents_are_the_blocks_that_they_cover() {
        for spread in [3, 37, 101] {
            let mut set = BlockSet::new(1, PLACES);
            let mut bits = vec![0u8; PLACES as usize / 8];
            for index in 0..400 {
                let start = index * 173 * spread % PLACES;
                let end = (start + index % spread).min(PLACES);
                let expected = (start..end).any(|at| bits[at as usize / 8] & (1 << (at % 8)) != 0);
                assert_eq!(set.intersects(0, start, end), expected, "{spread} {index}");
                set.insert_run(0, start, end);
                super::set(&mut bits, start, end);
                let mut shown = vec![0; bits.len()];
                set.add_to(0, &mut shown);
                assert_eq!(shown, bits, "{spread} {index}");
            }
        }
    }

    #[test]
    fn runs_are_set_to_the_bit() {
        for start in 0..40u32 {
            for end in start..40 {
                let mut bitmap = [0; 5];
                set(&mut bitmap, start, end);
                let expected = (1u64 << end) - (1 << start);
                assert_eq!(bitmap, expected.to_le_bytes()[..5]);
            }
        }
    }
}
