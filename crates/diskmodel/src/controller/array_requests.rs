//! The requests in progress at the array, by their sectors: [`ArrayReads`] of reads, [`Writing`] of
//! writes that pass through. No two of them, and no batch of dirty sectors, overlap, unless both
//! are reads.

use std::ops::Range;

/// A read in progress at the array.
#[derive(Debug, Clone)]
struct Read {
    number: u64,
    range: Range<u64>,
    is_ahead: bool,
    /// True if its sectors were written since it started.
    is_stale: bool,
}

/// The reads in progress at the array.
#[derive(Debug, Default)]
pub(super) struct ArrayReads {
    reads: Vec<Read>,
    next: u64,
}

impl ArrayReads {
    /// Adds the ranges of a read. Returns their numbers.
    pub(super) fn start(
        &mut self,
        ranges: impl Iterator<Item = Range<u64>>,
        is_ahead: bool,
    ) -> Vec<u64> {
        let first = self.next;
        for range in ranges {
            self.reads.push(Read {
                number: self.next,
                range,
                is_ahead,
                is_stale: false,
            });
            self.next += 1;
        }
        (first..self.next).collect()
    }

    /// Removes a range. Returns true if it was not written in the meantime.
    pub(super) fn end(&mut self, number: u64) -> bool {
        let mut reads = self.reads.iter();
        let place = reads.position(|read| read.number == number);
        place.is_some_and(|place| !self.reads.swap_remove(place).is_stale)
    }

    /// Marks the reads of sectors that are written.
    pub(super) fn mark_stale(&mut self, range: &Range<u64>) {
        for read in &mut self.reads {
            read.is_stale |= overlap(&read.range, range);
        }
    }

    /// Returns true if sectors of a range are being read.
    pub(super) fn cover(&self, range: &Range<u64>) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|read| overlap(&read.range, range))
    }

    /// Returns true if sectors of a range are being read ahead.
    pub(super) fn are_ahead(&self, range: &Range<u64>) -> bool {
        let mut reads = self.reads.iter();
        reads.any(|read| read.is_ahead && overlap(&read.range, range))
    }

    /// Returns true if nothing is being read.
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }
}

/// Writes that are being passed on, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Writing {
    writes: Vec<(u64, Range<u64>)>,
    next: u64,
}

impl Writing {
    /// Adds a write. Returns its number.
    pub(super) fn start(&mut self, range: Range<u64>) -> u64 {
        self.next += 1;
        self.writes.push((self.next, range));
        self.next
    }

    /// Returns true if an earlier write of the same sectors is not complete.
    pub(super) fn has_earlier(&self, number: u64, range: &Range<u64>) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|(other, written)| *other < number && overlap(written, range))
    }

    /// Returns true if sectors of a range are being written.
    pub(super) fn cover(&self, range: &Range<u64>) -> bool {
        self.writes
            .iter()
            .any(|(_, written)| overlap(written, range))
    }

    /// Removes a write.
    pub(super) fn end(&mut self, number: u64) {
        self.writes.retain(|(other, _)| *other != number);
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_whose_sectors_are_written_is_stale() {
        let mut reads = ArrayReads::default();
        let numbers = reads.start([0..8, 16..24].into_iter(), true);
        assert!(reads.are_ahead(&(7..9)) && reads.cover(&(20..21)));
        assert!(!reads.cover(&(8..16)));
        reads.mark_stale(&(8..17));
        assert!(reads.end(numbers[0]));
        assert!(!reads.end(numbers[1]));
        assert!(reads.is_empty());
    }

    #[test]
    fn writes_of_the_same_sectors_keep_their_order() {
        let mut writing = Writing::default();
        let first = writing.start(0..8);
        let second = writing.start(4..12);
        assert!(!writing.has_earlier(first, &(0..8)));
        assert!(writing.has_earlier(second, &(4..12)));
        writing.end(first);
        assert!(!writing.has_earlier(second, &(4..12)));
        assert!(writing.cover(&(11..13)) && !writing.cover(&(0..4)));
    }
}
