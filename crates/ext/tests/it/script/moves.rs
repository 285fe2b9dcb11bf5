//! Operations that move blocks of files with extents.

use ext::Error;
use ext::volume::RangeChange;
use layout::InodeNr;

use super::Script;

/// Largest number of blocks that a move collapses or inserts.
const BLOCKS_MAX: u64 = 20;
/// Largest size in bytes to which files grow here.
const SIZE_MAX: u64 = 2 << 20;

impl Script<'_> {
    /// Collapses or inserts a range, exchanges blocks of two files, or defragments a file.
    pub(super) fn move_blocks(&mut self) {
        let Some(nr) = self.file() else { return };
        match self.random.below(8) {
            0..3 => self.collapse(nr),
            3..6 => self.insert(nr),
            6 => self.exchange_blocks(nr),
            _ => self.defragment(nr),
        }
    }

    /// Returns the unit in which blocks move, in bytes: a cluster.
    fn moved_bytes(&self) -> u64 {
        let clusters = self.volume.superblock().geometry.cluster_blocks();
        u64::from(self.block_bytes) * u64::from(clusters)
    }

    pub(super) fn size_of(&self, nr: InodeNr) -> u64 {
        self.model.get(nr).contents.len() as u64
    }

    fn collapse(&mut self, nr: InodeNr) {
        let (size, block) = (self.size_of(nr), self.moved_bytes());
        let from = self.random.below(size / block + 1) * block;
        let length = (1 + self.random.below(BLOCKS_MAX)) * block;
        let what = RangeChange::Collapse;
        let collapsed = self.volume.change_range(nr, from, length, what, false);
        if from + length >= size {
            let is_refused = matches!(collapsed, Err(Error::Invalid(_)));
            assert!(is_refused, "{from}+{length} of {size}: {collapsed:?}");
            return;
        }
        match collapsed {
            Ok(()) => {}
            Err(Error::NoSpace) => return,
            Err(error) => panic!("collapse: {error:?}"),
        }
        let inode = self.model.get_mut(nr);
        inode
            .contents
            .drain(from as usize..(from + length) as usize);
        inode.mtime = None;
    }

    fn insert(&mut self, nr: InodeNr) {
        let (size, block) = (self.size_of(nr), self.moved_bytes());
        let from = self.random.below(size / block + 1) * block;
        let length = (1 + self.random.below(BLOCKS_MAX)) * block;
        if size + length > SIZE_MAX {
            return;
        }
        let what = RangeChange::Insert;
        let inserted = self.volume.change_range(nr, from, length, what, false);
        if from >= size {
            let is_refused = matches!(inserted, Err(Error::Invalid(_)));
            assert!(is_refused, "{from}+{length} of {size}: {inserted:?}");
            return;
        }
        match inserted {
            Ok(()) => {}
            Err(Error::NoSpace) => return,
            Err(error) => panic!("insert: {error:?}"),
        }
        let inode = self.model.get_mut(nr);
        let at = from as usize;
        let zeroes = vec![0; length as usize];
        inode.contents.splice(at..at, zeroes);
        inode.mtime = None;
    }

    fn exchange_blocks(&mut self, nr: InodeNr) {
        let other = self.file().expect("there is one file at least");
        let block = u64::from(self.block_bytes);
        let blocks = [self.size_of(nr) / block, self.size_of(other) / block];
        if nr == other || blocks.contains(&0) {
            return;
        }
        let starts = blocks.map(|count| self.random.below(count));
        let most = (blocks[0] - starts[0]).min(blocks[1] - starts[1]);
        let length = (1 + self.random.below(most)) * block;
        let offsets = starts.map(|start| start * block);
        match self.volume.exchange_range([nr, other], offsets, length) {
            Ok(()) => {}
            // Journaled data stays where it is.
            Err(Error::Unsupported(_)) => return,
            Err(error) => panic!("exchange: {error:?}"),
        }
        let part = |offset: u64| offset as usize..(offset + length) as usize;
        let (one, two) = (part(offsets[0]), part(offsets[1]));
        let kept = self.model.get(nr).contents[one.clone()].to_vec();
        let moved = self.model.get(other).contents[two.clone()].to_vec();
        for (nr, range, bytes) in [(nr, one, moved), (other, two, kept)] {
            let inode = self.model.get_mut(nr);
            inode.contents[range].copy_from_slice(&bytes);
            inode.mtime = None;
        }
    }

    fn defragment(&mut self, nr: InodeNr) {
        let paths = self.model.paths();
        let (path, parent) = &paths[&nr];
        match self.volume.defragment(path.as_slice()) {
            Ok(done) => assert!(done.extents_after <= done.extents_before),
            Err(Error::Unsupported(_) | Error::NoSpace | Error::NoInodes) => {}
            Err(error) => panic!("defragment: {error:?}"),
        }
        self.model.get_mut(*parent).mtime = None;
    }
}
