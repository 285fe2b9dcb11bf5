//! Workloads: the operations of all clients, and the setting that they run in.

use crate::op::Op;
use crate::setting::Setting;

/// The operations of all clients, and their setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The volume, its devices and the schedule.
    pub setting: Setting,
    /// Number of operations of each lane before the recording. They create the files that the
    /// others need, and are durable.
    pub prepared: Vec<usize>,
    /// The operations of each lane, in order.
    pub lanes: Vec<Vec<Op>>,
}
