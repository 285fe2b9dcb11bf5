//! Operations on ranges of files: blocks are allocated, punched or zeroed.

use ext::Error;
use ext::volume::{OpenFlags, RangeChange};
use layout::InodeNr;

use super::Script;

/// Length of the longest range in bytes.
const LENGTH_MAX: u64 = 40_000;
/// Largest distance of a range's start from the end of the file.
const BEHIND_MAX: u64 = 5000;

impl Script<'_> {
    /// Allocates, punches or zeroes a range, with the size kept or not.
    pub(super) fn change_range(&mut self, nr: InodeNr) {
        let size = self.size_of(nr);
        let from = self.random.below(size + BEHIND_MAX);
        let length = 1 + self.random.below(LENGTH_MAX);
        let changes = [
            RangeChange::Allocate,
            RangeChange::PunchHole,
            RangeChange::Zero,
        ];
        let what = *self.random.pick(&changes);
        let keeps_size = what == RangeChange::PunchHole || self.random.below(2) == 0;
        let end = from + length;
        match self.volume.change_range(nr, from, length, what, keeps_size) {
            Ok(()) => {}
            Err(Error::NoSpace) => return self.take_part(nr, from, end),
            Err(Error::Unsupported(_)) if keeps_size && end > size => return,
            Err(error) => panic!("{what:?} {from}+{length} of {size}: {error:?}"),
        }
        let inode = self.model.get_mut(nr);
        inode.mtime = None;
        if !keeps_size && end > size {
            inode.contents.resize(end as usize, 0);
        }
        if what != RangeChange::Allocate {
            let size = inode.contents.len();
            let [from, end] = [from, end].map(|at| (at as usize).min(size));
            inode.contents[from..end].fill(0);
        }
    }

    /// Takes over what a change without space has done: in the range each byte is as it was, or
    /// zero, and the file may have grown to the end of the range.
    fn take_part(&mut self, nr: InodeNr, from: u64, end: u64) {
        let found = self.contents_of(nr);
        let inode = self.model.get_mut(nr);
        let before = &inode.contents;
        let most = before.len().max(end as usize);
        assert!(
            (before.len()..=most).contains(&found.len()),
            "{}",
            found.len()
        );
        for (at, byte) in found.iter().enumerate() {
            let old = before.get(at).copied().unwrap_or(0);
            let may_be_zero = (from..end).contains(&(at as u64));
            assert!(*byte == old || may_be_zero && *byte == 0, "byte {at}");
        }
        (inode.contents, inode.mtime) = (found, None);
    }

    fn contents_of(&self, nr: InodeNr) -> Vec<u8> {
        let size = self.volume.attributes(nr).expect("the file is there").size;
        let file = self.volume.open_inode(nr, OpenFlags::READ);
        let file = file.expect("the file opens");
        let mut bytes = vec![0; size as usize];
        let count = self.volume.read(file, 0, &mut bytes).expect("read");
        assert_eq!(count, bytes.len());
        self.volume.release(file).expect("close");
        bytes
    }
}
