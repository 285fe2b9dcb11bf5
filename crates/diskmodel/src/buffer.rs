//! The drive's read buffer: a few segments, each with one recently read range of sectors.

/// A range of sectors.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: u64,
    end: u64,
    /// Time of the last use, counted in uses of the buffer.
    used: u64,
}

/// The sectors that the drive has read and still holds.
#[derive(Debug, Clone)]
pub(super) struct ReadBuffer {
    segments: Vec<Segment>,
    segments_max: usize,
    segment_sectors: u64,
    uses: u64,
}

impl ReadBuffer {
    pub(super) fn new(segments_max: u32, segment_sectors: u32) -> Self {
        Self {
            segments: Vec::with_capacity(segments_max as usize),
            segments_max: segments_max as usize,
            segment_sectors: u64::from(segment_sectors),
            uses: 0,
        }
    }

    /// Returns true if the buffer holds a whole range; this counts as a use.
    pub(super) fn serves(&mut self, start: u64, end: u64) -> bool {
        self.uses += 1;
        let uses = self.uses;
        let found = self
            .segments
            .iter_mut()
            .find(|held| held.start <= start && end <= held.end);
        found.map(|segment| segment.used = uses).is_some()
    }

    /// Adds a range: at the end of the segment that it continues, or in place of the least recently
    /// used one. A segment keeps its last sectors.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if self.segments_max == 0 || start >= end {
            return;
        }
        self.uses += 1;
        let continued = self
            .segments
            .iter()
            .position(|held| held.start <= start && start <= held.end);
        let place = continued.unwrap_or_else(|| self.free_place());
        let old = continued.map_or((start, end), |place| {
            let held = self.segments[place];
            (held.start, held.end.max(end))
        });
        let kept = old.0.max(old.1.saturating_sub(self.segment_sectors));
        self.segments[place] = Segment {
            start: kept,
            end: old.1,
            used: self.uses,
        };
    }

    fn free_place(&mut self) -> usize {
        if self.segments.len() < self.segments_max {
            self.segments.push(Segment {
                start: 0,
                end: 0,
                used: 0,
            });
            return self.segments.len() - 1;
        }
        let oldest = self
            .segments
            .iter()
            .enumerate()
            .min_by_key(|(_, held)| held.used);
        oldest.expect("there is at least one segment").0
    }

    /// Drops a range that was written: the segment keeps the sectors before it.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for held in &mut self.segments {
            if start < held.end && held.start < end {
                held.end = start.max(held.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_slide_and_give_way_to_newer_ones() {
        let mut buffer = ReadBuffer::new(2, 100);
        buffer.insert(0, 60);
        buffer.insert(60, 120);
        assert!(!buffer.serves(10, 20));
        assert!(buffer.serves(20, 120));
        buffer.insert(1000, 1010);
        assert!(buffer.serves(20, 30));
        buffer.insert(2000, 2010);
        assert!(buffer.serves(20, 30));
        assert!(!buffer.serves(1000, 1010));
        assert!(!buffer.serves(115, 125));
    }

    #[test]
    fn written_sectors_are_forgotten() {
        let mut buffer = ReadBuffer::new(2, 100);
        buffer.insert(100, 200);
        buffer.forget(150, 160);
        assert!(buffer.serves(100, 150));
        assert!(!buffer.serves(150, 151));
        buffer.forget(0, 120);
        assert!(!buffer.serves(100, 101));
    }
}
