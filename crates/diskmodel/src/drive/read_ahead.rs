//! Reading ahead: after a read the head stays on the track and goes on filling the buffer.

use super::Drive;
use crate::platter::Track;

/// A stream of sectors into the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    /// The first sector of the stream that the buffer still has.
    start: u64,
    /// The sector at which the head was at `at`.
    sector: u64,
    /// When that sector begins to pass.
    at: u64,
    /// The sector before which the stream stops.
    limit: u64,
    /// When it gets there.
    pub(super) ends: u64,
    /// The track of `sector`.
    track: Track,
}

impl Drive {
    /// Goes on reading at `end`, after the sectors `start..end` were read.
    pub(super) fn read_on(&mut self, now: u64, start: u64, end: u64) {
        let limit = self.limit_after(end);
        self.fill = None;
        if limit <= end {
            return;
        }
        let approach = self.mechanics.approach(&self.track, now, end, false);
        let (ends, _) = self
            .mechanics
            .stream(approach.track, approach.starts, end, limit - end);
        let track = approach.track;
        self.fill = Some(Fill {
            start,
            sector: end,
            at: approach.starts,
            limit,
            ends,
            track,
        });
    }

    /// How far to read if a read ends at `end`.
    fn limit_after(&self, end: u64) -> u64 {
        (end + self.read_ahead).min(self.mechanics.platter.capacity())
    }

    /// Moves the stream's mark to where the head is, and hands what has passed to the buffer.
    fn follow(&mut self, now: u64) {
        let Some(fill) = &mut self.fill else { return };
        let (sector, at, track) = self
            .mechanics
            .streamed(fill.at, fill.sector, fill.limit, now);
        if sector > fill.sector {
            self.buffer.insert(fill.sector, sector);
        }
        (fill.sector, fill.at, fill.track) = (sector, at, track);
    }

    /// When a range is in the buffer; `None` if it is not on its way there. What is on its way keeps the arm.
    pub(super) fn buffered_when(&mut self, now: u64, start: u64, end: u64) -> Option<u64> {
        if self.job.is_none() {
            self.follow(now);
        }
        let is_there = self.buffer.serves(start, end);
        let Some(fill) = self.fill else {
            return is_there.then_some(now);
        };
        let is_of_stream = fill.start <= start && start <= fill.limit;
        if !is_of_stream {
            return is_there.then_some(now);
        }
        self.extend(now, end);
        if is_there {
            return Some(now);
        }
        let fill = self.fill.expect("it was extended");
        if start > fill.limit || end > fill.limit || !self.buffer_continues(start) {
            return None;
        }
        let (ready, _) = self.mechanics.stream(
            fill.track,
            fill.at,
            fill.sector,
            end.checked_sub(fill.sector)?,
        );
        self.arm_free = self.arm_free.max(ready);
        Some(ready)
    }

    /// Whether what the buffer lacks of a range from `start` on is what the stream brings next.
    fn buffer_continues(&mut self, start: u64) -> bool {
        let reached = self.fill.as_ref().map_or(0, |fill| fill.sector);
        start >= reached || self.buffer.serves(start, reached)
    }

    /// Lets the stream go on for a reader that has got to `end`. A stream that had stopped has lost its place, and goes
    /// on only when the reader has used up half of what it is ahead.
    fn extend(&mut self, now: u64, end: u64) {
        let wanted = self.limit_after(end);
        let Some(fill) = self.fill.as_mut() else {
            return;
        };
        if wanted <= fill.limit {
            return;
        }
        let mut begins = fill.track;
        if now >= fill.ends {
            if fill.limit >= end + self.read_ahead / 2 {
                return;
            }
            let approach = self.mechanics.approach(&fill.track, now, fill.limit, false);
            (fill.sector, fill.at) = (fill.limit, approach.starts);
            begins = approach.track;
        } else if fill.sector >= begins.end() {
            begins = self.mechanics.platter.track_at(fill.sector);
        }
        fill.track = begins;
        fill.limit = wanted;
        let left = wanted - fill.sector;
        fill.ends = self.mechanics.stream(begins, fill.at, fill.sector, left).0;
    }

    /// Ends the stream because the arm is wanted elsewhere.
    pub(super) fn stop_reading_ahead(&mut self, now: u64) {
        self.follow(now);
        if let Some(fill) = self.fill.take() {
            self.track = fill.track;
        }
    }

    /// Forgets sectors that are about to be written, and stops a stream that comes by them.
    pub(super) fn forget_read(&mut self, now: u64, start: u64, end: u64) {
        if self
            .fill
            .is_some_and(|fill| fill.start < end && start < fill.limit)
        {
            // What was promised from the stream has passed before the arm is free, and is on its way to the host.
            self.stop_reading_ahead(self.arm_free.max(now));
        }
        self.buffer.forget(start, end);
    }
}
