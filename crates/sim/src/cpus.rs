//! [`Cpus`]: the host's processors, allocated first come, first served.

use rt::Nanos;

/// The times at which the processors are free again.
#[derive(Debug)]
pub(crate) struct Cpus {
    free_at: Vec<Nanos>,
    busy: Nanos,
}

impl Cpus {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            free_at: vec![Nanos::ZERO; count as usize],
            busy: Nanos::ZERO,
        }
    }

    /// Occupies the first processor to become free, at `now` or later, and returns the time at
    /// which the work is done.
    pub(crate) fn occupy(&mut self, now: Nanos, work: Nanos) -> Nanos {
        let cpu = self
            .free_at
            .iter_mut()
            .min()
            .expect("a host has a processor");
        *cpu = (*cpu).max(now).saturating_add(work);
        self.busy = self.busy.saturating_add(work);
        *cpu
    }

    /// Returns the work of all processors so far.
    pub(crate) fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_queues_for_the_first_free_processor() {
        let mut cpus = Cpus::new(2);
        let ends = [10, 4, 1, 1].map(|work| cpus.occupy(Nanos::new(100), Nanos::new(work)).get());
        assert_eq!(ends, [110, 104, 105, 106]);
        assert_eq!(cpus.occupy(Nanos::new(200), Nanos::new(5)), Nanos::new(205));
        assert_eq!(cpus.busy(), Nanos::new(21));
    }
}
