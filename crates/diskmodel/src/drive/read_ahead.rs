//! Read-ahead: after a read the head stays on the track and continues to fill the buffer.

use super::Drive;
use crate::platter::Track;

/// A stream of sectors into the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    /// First sector of the stream that the buffer still holds.
    start: u64,
    /// Sector under the head at the time `at`.
    sector: u64,
    /// Time at which that sector starts to pass.
    at: u64,
    /// Sector before which the stream stops.
    limit: u64,
    /// Time at which it gets there.
    pub(super) ends: u64,
    /// Track of `sector`.
    track: Track,
}

impl Drive {
    /// Starts read-ahead at `end`, after the sectors `start..end` were read.
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

    /// Returns the limit of read-ahead after a read up to `end`.
    fn limit_after(&self, end: u64) -> u64 {
        (end + self.read_ahead).min(self.mechanics.platter.capacity())
    }

    /// Advances the stream to the position of the head, and passes the sectors read to the buffer.
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

    /// Returns the time at which a range is in the buffer; `None` if the stream does not read it. A
    /// range that is being read keeps the arm.
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

    /// Returns true if the stream reads next the sectors that the buffer lacks of a range from
    /// `start` on.
    fn buffer_continues(&mut self, start: u64) -> bool {
        let reached = self.fill.as_ref().map_or(0, |fill| fill.sector);
        start >= reached || self.buffer.serves(start, reached)
    }

    /// Extends the stream for a reader that has reached `end`. A stopped stream has lost its
    /// position, and restarts only when the reader has used half of the read-ahead.
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

    /// Stops the stream because the arm is needed elsewhere.
    pub(super) fn stop_reading_ahead(&mut self, now: u64) {
        self.follow(now);
        if let Some(fill) = self.fill.take() {
            self.track = fill.track;
        }
    }

    /// Drops sectors that are about to be written, and stops a stream that would read them.
    pub(super) fn forget_read(&mut self, now: u64, start: u64, end: u64) {
        if self
            .fill
            .is_some_and(|fill| fill.start < end && start < fill.limit)
        {
            // Sectors promised from the stream have passed before the arm is free, and are on the
            // bus.
            self.stop_reading_ahead(self.arm_free.max(now));
        }
        self.buffer.forget(start, end);
    }
}
