//! [`Prices`]: the cost of host work for a program that pays it itself.

use rt::Cost;

use crate::caches::Caches;
use crate::host::HostProfile;

/// The cost of host work by a profile, outside a simulated world: for a program on a real kernel
/// whose processor takes no time, which sleeps instead.
#[derive(Debug)]
pub struct Prices {
    host: HostProfile,
    caches: Caches,
}

impl Prices {
    /// Returns the prices of a host, whose caches are empty.
    #[must_use]
    pub fn new(host: &HostProfile) -> Self {
        let host = host.resolved();
        Self {
            caches: Caches::new(&host),
            host,
        }
    }

    /// Returns the time of some work in nanoseconds, without jitter. `task` tells the buffers of
    /// threads apart.
    pub fn nanos(&mut self, task: u32, cost: Cost) -> u64 {
        self.caches.nanos(&self.host, task, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{P4_2_66_2003, ZERO};

    #[test]
    fn work_costs_what_the_profile_says() {
        let mut prices = Prices::new(&P4_2_66_2003.scaled(2000));
        let syscall = prices.nanos(0, Cost::Syscall);
        assert_eq!(syscall, 2 * P4_2_66_2003.syscall_ns);
        assert_eq!(Prices::new(&ZERO).nanos(0, Cost::Copy(4096)), 0);
    }
}
