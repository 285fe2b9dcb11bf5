//! The lengths that a request asks for.

use super::super::FilePlace;
use super::super::blocks::Plan;
use super::fit::Lengths;
use crate::cache::space::bitmap::ClearRun;

/// Size in bytes up to which files are small.
pub(in super::super) const SMALL_BYTES: u32 = 64 << 10;
/// Size in bytes up to which the windows of a file end at powers of two; behind it, at multiples.
const DOUBLED_BYTES: u32 = 8 << 20;
/// Number of blocks in a file's first window.
const WINDOW_MIN: u64 = 8;
/// Size in bytes from which an extent of the wanted length is preferred to a near one.
const FAR_BYTES: u32 = 1 << 20;

/// Divisor from one length that is searched for near the goal to the next.
const SHORTER: u32 = 4;
/// Factor of the length that is looked for if a file grows.
const HEADROOM: u32 = 4;

/// The blocks to search for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Largest number of blocks to allocate.
    pub(super) count: u32,
    /// Number of blocks to allocate or to put into the file's window.
    pub(super) length: u32,
    /// True if blocks at the goal would continue an extent of the file.
    pub(super) continues: bool,
    /// True for a small file, whose blocks come from a locality group.
    pub(super) is_small: bool,
    /// True if the first extent that is long enough is taken, not the shortest.
    pub(super) is_first_fit: bool,
    /// The shortest extent that is accepted near the goal.
    near_min: u32,
    /// Factor of the length for a file that grows: what follows its window is likely to be free
    /// when it needs the next one.
    headroom: u32,
}

impl Wanted {
    /// Returns a request for blocks that are no contents: the first ones behind the goal.
    pub(super) fn near(count: u32) -> Self {
        Self {
            is_first_fit: true,
            ..Self::exact(count, true)
        }
    }

    /// Returns a request without a window.
    pub(super) fn exact(count: u32, continues: bool) -> Self {
        Self {
            count,
            length: count,
            continues,
            is_small: false,
            is_first_fit: false,
            near_min: count,
            headroom: 1,
        }
    }

    /// Returns a request for blocks at the end of a file. There is no window if they are final, or
    /// the first ones of a small file whose allocation was delayed: most such files are complete,
    /// and a gap behind each would keep the pages of many from being written as one.
    pub(super) fn of(place: FilePlace, count: u32, cluster_bytes: u32) -> Self {
        let end = place.from + u64::from(count);
        let is_small = end <= u64::from(SMALL_BYTES / cluster_bytes);
        let is_final = place.is_final || (place.is_delayed && is_small && place.from == 0);
        let doubled = u64::from((DOUBLED_BYTES / cluster_bytes).max(1));
        let window_end = match end {
            _ if is_final => end,
            end if end < doubled => (end + 1).next_power_of_two().max(WINDOW_MIN),
            end => (end + 1).next_multiple_of(doubled),
        };
        let length = count.saturating_add((window_end - end) as u32);
        let is_far = length >= FAR_BYTES / cluster_bytes;
        Self {
            count,
            length,
            continues: place.from > 0,
            is_small,
            is_first_fit: false,
            near_min: if is_far { length } else { count },
            headroom: if is_final || is_small { 1 } else { HEADROOM },
        }
    }

    /// Returns the same request with a window: together with the blocks that are allocated it has
    /// at least `length` blocks.
    pub(super) fn with_length(self, length: u32) -> Self {
        Self {
            length: self.length.max(length),
            ..self
        }
    }

    /// Returns the lengths to search for near the goal, one after another.
    pub(super) fn near_lengths(self) -> impl Iterator<Item = u32> {
        let shorter = move |length: &u32| {
            let is_last = *length <= self.near_min;
            (!is_last).then(|| (length / SHORTER).max(self.near_min))
        };
        core::iter::successors(Some(self.length), shorter)
    }

    /// Returns the lengths that a group's extents are compared with if they must have `least`
    /// blocks.
    pub(super) fn lengths(self, least: u32) -> Lengths {
        Lengths {
            least,
            ideal: least.max(self.count).saturating_mul(self.headroom),
        }
    }

    /// Returns the plan to take blocks of a free extent.
    pub(super) fn plan(&self, start: u32, count: u32) -> Plan {
        Plan {
            take: ClearRun {
                start,
                count: count.min(self.count),
            },
            window_end: start + count.min(self.length),
        }
    }
}
