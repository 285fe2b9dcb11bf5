//! [`Perturbation`]: what a repetition does differently in a simulated world.

use rt::Nanos;
use rt::split_mix::SplitMix;

/// Random part of each piece of host work, in thousandths to either side. Repeated measurements of
/// one system call on an idle machine scatter by more.
const JITTER_PERMILLE: u32 = 20;
/// More than a revolution of the slowest disk: every phase of the platter is as likely.
const BEFORE_MKFS_MAX: Nanos = Nanos::from_millis(100);
/// More than the period of each timer of the engine, so that every phase is as likely.
const BEFORE_WORKLOAD_MAX: Nanos = Nanos::from_secs(30);
/// Blocks that files of a short history may take at the start of each group.
const ALLOCATION_START_MAX: u64 = 256;

/// The differences of a perturbed world; the default has none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Perturbation {
    /// Time before mkfs, which decides the phase of the platters.
    pub(super) before_mkfs: Nanos,
    /// Time between mount and workload, which decides the phase of the engine's timers.
    pub(super) before_workload: Nanos,
    /// Number of blocks behind the start of each group at which allocation starts.
    pub(super) allocation_start: u32,
}

impl Perturbation {
    /// Returns the host of a perturbed world.
    pub(super) fn host(host: sim::HostProfile) -> sim::HostProfile {
        host.with_jitter(JITTER_PERMILLE)
    }

    /// Draws a perturbation from the random numbers of the calling task's world.
    pub(super) fn draw() -> Self {
        Self::from_numbers(rt::random_u64)
    }

    /// Draws a perturbation from a stream of random numbers.
    pub(super) fn of(numbers: &mut SplitMix) -> Self {
        Self::from_numbers(|| numbers.next_u64())
    }

    fn from_numbers(mut next: impl FnMut() -> u64) -> Self {
        let mut below = |limit: u64| next() % limit;
        Self {
            before_mkfs: Nanos::new(below(BEFORE_MKFS_MAX.get())),
            before_workload: Nanos::new(below(BEFORE_WORKLOAD_MAX.get())),
            allocation_start: below(ALLOCATION_START_MAX) as u32,
        }
    }
}
