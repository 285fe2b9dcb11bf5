//! [`Watch`]: whether anything can still happen without the help of a timer.

/// What a task is to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Does the work that the world was made for.
    Host,
    /// Serves host tasks.
    Daemon,
    /// Is no software of the host.
    Device,
}

/// Counts of tasks by what keeps them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Host tasks that have not ended, daemons apart.
    pub(crate) host_count: u32,
    /// Those of them that wait without a timeout.
    pub(crate) stuck_host_count: u32,
    /// Daemons that have not ended.
    pub(crate) daemon_count: u32,
    /// Requests that a device works on.
    pub(crate) in_flight: i64,
    /// Changes whenever a host task starts or stops to wait without a timeout.
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

    /// No host software is left.
    pub(crate) fn is_over(&self) -> bool {
        self.host_count + self.daemon_count == 0
    }

    /// Only a daemon's or a device's timer can wake a host task now.
    pub(crate) fn is_silent(&self) -> bool {
        self.host_count == self.stuck_host_count && self.in_flight <= 0
    }
}
