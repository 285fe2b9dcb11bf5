//! [`Timeline`]: what happened when in a trial, interval by interval.
//!
//! A recorder counts the calls of a workload as they end, and looks at the engine's counters once
//! an interval. It has a fixed number of intervals: when they are used up, two become one. In a
//! simulated world it takes no time and changes nothing, not even the hash of what happened; in
//! real time it costs a look at the clock a call, so that it is on there only if a plan asks for
//! it.

mod recorder;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use recorder::{Counts, Recorder};

/// The counters of the engine that a recorder reads, by their name in records, with true for those
/// that grow gradually: these are spread evenly over the time since the reading before, while the
/// others count at the time of their reading.
pub(crate) const COUNTED: [(&str, bool); 9] = [
    ("commits", false),
    ("checkpoint_blocks", true),
    ("stalled_closing_ns", true),
    ("stalled_log_space_ns", true),
    ("stalled_log_io_ns", true),
    ("stalled_commit_ns", true),
    ("stalled_dirty_limit_ns", true),
    ("stalled_memory_ns", true),
    ("stalled_rewrite_ns", true),
];

/// The events of a trial over time. All intervals are equally long; the first begins with the
/// workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of an interval.
    pub interval_ns: u64,
    /// Number of calls of the workload that ended in each interval.
    pub calls: Vec<u64>,
    /// The engine's counters in each interval, by name, without those that stayed at zero.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// The parts of the workload.
    pub phases: Vec<PhaseMark>,
}

/// A part of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMark {
    /// Its name.
    pub name: String,
    /// The start, from the beginning of the first interval.
    pub began_ns: u64,
    /// The duration.
    pub took_ns: u64,
}
