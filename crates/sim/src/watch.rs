//! [`Watch`]: decides whether anything can still happen without a timer.

/// The role of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Ordinary task of the host.
    Host,
    /// Daemon that serves host tasks.
    Daemon,
    /// Device, not software of the host.
    Device,
}

/// Counts of tasks by role and wait.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Number of host tasks that have not ended, without daemons.
    pub(crate) host_count: u32,
    /// Number of those that wait without a timeout.
    pub(crate) stuck_host_count: u32,
    /// Number of daemons that have not ended.
    pub(crate) daemon_count: u32,
    /// Number of requests that devices are processing.
    pub(crate) in_flight: i64,
    /// Changes whenever a host task starts or stops waiting without a timeout.
    pub(crate) epoch: u64,
}

impl Watch {
    pub(crate) fn started(&mut self, role: Role) {
        match role {
            Role::Host => {
                self.host_count += 1;
                self.epoch += 1;
            }
            Role::Daemon => self.daemon_count += 1,
            Role::Device => {}
        }
    }

    pub(crate) fn ended(&mut self, role: Role) {
        match role {
            Role::Host => self.host_count -= 1,
            Role::Daemon => self.daemon_count -= 1,
            Role::Device => {}
        }
    }

    pub(crate) fn stuck(&mut self) {
        self.stuck_host_count += 1;
        self.epoch += 1;
    }

    pub(crate) fn unstuck(&mut self) {
        self.stuck_host_count -= 1;
        self.epoch += 1;
    }

    /// True if no host software is left.
    pub(crate) fn is_over(&self) -> bool {
        self.host_count + self.daemon_count == 0
    }

    /// True if only the timer of a daemon or device can wake a host task now.
    pub(crate) fn is_silent(&self) -> bool {
        self.host_count == self.stuck_host_count && self.in_flight <= 0
    }
}
