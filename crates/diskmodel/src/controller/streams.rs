//! Sequential readers: the controller follows several of them at a time, and reads ahead for each.

use std::ops::Range;

use super::model::ReadAhead;

/// Number of readers that are followed.
const STREAMS_MAX: usize = 32;

/// A sequential reader.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Sector after its last read.
    next: u64,
    /// Sector before which its read-ahead stops.
    ahead: u64,
    /// Number of its last read.
    used: u64,
}

/// The readers, by their last read.
#[derive(Debug)]
pub(super) struct Streams {
    policy: ReadAhead,
    /// Number of sectors that are read ahead together.
    unit: u64,
    capacity: u64,
    streams: Vec<Stream>,
    reads: u64,
}

impl Streams {
    /// Creates the list for a device of `capacity` sectors.
    pub(super) fn new(policy: ReadAhead, unit: u64, capacity: u64) -> Self {
        Self {
            policy,
            unit,
            capacity,
            streams: Vec::new(),
            reads: 0,
        }
    }

    /// Notes a read. Returns the sectors to read ahead: to the end of the unit after the one that
    /// the reader has reached, so that at least a whole unit is ahead of it. Requests larger than a
    /// unit keep the array busy by themselves.
    pub(super) fn note(&mut self, read: Range<u64>) -> Option<Range<u64>> {
        if self.policy == ReadAhead::Off {
            return None;
        }
        self.reads += 1;
        let known = self.streams.iter().position(|stream| {
            stream.next <= read.start && read.start < stream.ahead.max(stream.next + 1)
        });
        let place = known.unwrap_or_else(|| self.place(read.end));
        let reads = self.reads;
        let stream = self.streams.get_mut(place)?;
        (stream.next, stream.used) = (read.end, reads);
        stream.ahead = stream.ahead.max(read.end);
        let is_random = known.is_none() && self.policy == ReadAhead::Adaptive;
        if is_random || read.end - read.start > self.unit {
            return None;
        }
        let target = (read.end / self.unit + 2) * self.unit;
        let ahead = stream.ahead..target.min(self.capacity);
        stream.ahead = stream.ahead.max(ahead.end);
        (!ahead.is_empty()).then_some(ahead)
    }

    /// Returns the place of a new reader: a free one, or that of the one that has not read for the
    /// longest time.
    fn place(&mut self, end: u64) -> usize {
        let stream = Stream {
            next: end,
            ahead: end,
            used: 0,
        };
        if self.streams.len() < STREAMS_MAX {
            self.streams.push(stream);
            return self.streams.len() - 1;
        }
        let by_use = self.streams.iter().enumerate();
        let oldest = by_use.min_by_key(|(_, stream)| stream.used);
        let place = oldest.map_or(0, |(place, _)| place);
        self.streams[place] = stream;
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(policy: ReadAhead) -> Streams {
        Streams::new(policy, 128, 10_000)
    }

    #[test]
    fn two_reads_in_sequence_start_it_and_each_unit_continues_it() {
        let mut streams = streams(ReadAhead::Adaptive);
        assert_eq!(streams.note(1_000..1_008), None);
        assert_eq!(streams.note(1_008..1_016), Some(1_016..1_152));
        assert_eq!(streams.note(1_016..1_024), Some(1_152..1_280));
        assert_eq!(streams.note(1_024..1_032), None, "a unit is ahead");
        assert_eq!(streams.note(1_032..1_152), Some(1_280..1_408));
        assert_eq!(streams.note(5_000..5_008), None);
        assert_eq!(streams.note(9_900..9_908), None);
        assert_eq!(
            streams.note(9_908..9_916),
            Some(9_916..10_000),
            "to the end"
        );
        assert_eq!(streams.note(9_916..10_000), None);
    }

    #[test]
    fn readers_beside_each_other_are_followed_apart() {
        let mut streams = streams(ReadAhead::Adaptive);
        for reader in 0..4_u64 {
            assert_eq!(streams.note(reader * 2_000..reader * 2_000 + 8), None);
        }
        for reader in 0..4_u64 {
            let at = reader * 2_000 + 8;
            assert!(streams.note(at..at + 8).is_some(), "{reader}");
        }
    }

    #[test]
    fn a_reader_that_was_forgotten_starts_again() {
        let mut streams = streams(ReadAhead::Adaptive);
        streams.note(0..8);
        for reader in 1..=STREAMS_MAX as u64 {
            streams.note(reader * 300..reader * 300 + 8);
        }
        assert_eq!(streams.note(8..16), None);
    }

    #[test]
    fn large_requests_are_not_read_ahead_of() {
        let mut streams = streams(ReadAhead::On);
        assert_eq!(streams.note(0..129), None);
        assert_eq!(streams.note(129..258), None);
        assert_eq!(streams.note(258..386), Some(386..640));
    }

    #[test]
    fn other_policies_read_ahead_always_or_never() {
        assert_eq!(streams(ReadAhead::On).note(0..8), Some(8..256));
        let mut off = streams(ReadAhead::Off);
        off.note(0..8);
        assert_eq!(off.note(8..16), None);
    }
}
