//! The numbers of the files that have pages in memory, so that eviction visits no others.

use std::collections::BTreeSet;
use std::ops::Bound;

use layout::InodeNr;
use rt::Mutex;

/// The files that have pages in memory.
///
/// A file enters with its first page and leaves with its last, under the lock of its pages.
#[derive(Default)]
pub(crate) struct ResidentFiles {
    files: Mutex<Numbers>, // a leaf, below the pages of a file
}

#[derive(Default)]
struct Numbers(BTreeSet<InodeNr>);

impl ResidentFiles {
    /// Notes that the number of a file's pages has changed.
    pub(crate) fn note(&self, nr: InodeNr, before: u32, after: u32) {
        match (before, after) {
            (0, 1..) => {
                self.files.lock().0.insert(nr);
            }
            (1.., 0) => {
                self.files.lock().0.remove(&nr);
            }
            _ => {}
        }
    }

    /// Returns the next files after a number, at most `count_max`.
    pub(crate) fn after(&self, nr: Option<InodeNr>, count_max: usize) -> Vec<InodeNr> {
        let start = nr.map_or(Bound::Unbounded, Bound::Excluded);
        let files = self.files.lock();
        let rest = files.0.range((start, Bound::Unbounded));
        rest.take(count_max).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr(number: u32) -> InodeNr {
        InodeNr::new(number)
    }

    #[test]
    fn a_file_is_there_from_its_first_page_to_its_last() {
        let files = ResidentFiles::default();
        files.note(nr(7), 0, 2);
        files.note(nr(5), 0, 1);
        files.note(nr(7), 2, 3);
        files.note(nr(9), 0, 0);
        assert_eq!(files.after(None, 9), [nr(5), nr(7)]);
        assert_eq!(files.after(None, 1), [nr(5)]);
        assert_eq!(files.after(Some(nr(5)), 9), [nr(7)]);
        files.note(nr(7), 3, 1);
        files.note(nr(5), 1, 0);
        assert_eq!(files.after(None, 9), [nr(7)]);
        files.note(nr(7), 1, 0);
        assert!(files.after(None, 9).is_empty());
    }
}
