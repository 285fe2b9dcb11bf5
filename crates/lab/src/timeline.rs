//! [`Timeline`]: events of a trial by time interval.
//!
//! A recorder counts the calls of a workload when they end, and reads the engine's counters once an
//! interval. The number of intervals is limited: at the limit, adjacent intervals are merged. In a
//! simulated world recording takes no time and changes nothing, not even the trace hash. In real
//! time it reads the clock for each call, so a plan must request it.

mod recorder;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use recorder::{Counts, Recorder};

/// The engine's counters for a recorder, by their name in records. True marks counters that grow
/// gradually: their growth is spread evenly over the time since the previous reading. Other
/// counters count at the time of the reading.
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

/// The events of a trial over time. All intervals have the same length; the first starts with the
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
    /// Its start, relative to the start of the first interval.
    pub began_ns: u64,
    /// The duration.
    pub took_ns: u64,
}
