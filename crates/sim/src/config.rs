//! [`Config`]: everything that determines a run of a world.

use rt::{Nanos, WallTime};

use crate::host::{HostProfile, ZERO};
use crate::policy::Policy;
use crate::replay::ReplayId;

/// 2003-01-01 00:00:00 UTC, the default start of a world.
const EPOCH: WallTime = WallTime {
    seconds: 1_041_379_200,
    nanos: 0,
};
/// Default limit of virtual time: a month.
const TIME_MAX: Nanos = Nanos::from_secs(30 * 86_400);
/// Default limit of scheduling steps: some minutes of real time.
const STEP_COUNT_MAX: u64 = 4_000_000_000;

/// The configuration of a world. The same configuration and the same root give the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Seed of every choice and of the world's random numbers.
    pub seed: u64,
    /// Policy that chooses between ready tasks.
    pub policy: Policy,
    /// Cost of host work.
    pub host: HostProfile,
    /// Time of day at which the world starts.
    pub epoch: WallTime,
    /// Virtual time after which the run fails.
    pub time_max: Nanos,
    /// Number of scheduling steps after which the run fails.
    pub step_count_max: u64,
    /// True if the report lists the decisions, for [`Policy::Replay`].
    pub record_decisions: bool,
    /// True if each wait captures a backtrace, for the report of a deadlock. Slow, without other
    /// effects.
    pub capture_backtraces: bool,
    /// True if debug builds record the order of locks. Worlds that are meant to deadlock do not.
    pub record_lock_order: bool,
    /// Rule of the engine that is broken in this world, in builds that support it: see
    /// [`rt::mutant`](mod@rt::mutant).
    pub mutant: Option<&'static str>,
}

impl Config {
    /// Creates a world for measurements. Its host work takes no time, unless [`host`](Self::host)
    /// is set.
    pub fn fair(seed: u64) -> Self {
        Self::new(seed, Policy::Fair)
    }

    /// Creates a world that switches tasks at random.
    pub fn random(seed: u64) -> Self {
        Self::new(seed, Policy::Random)
    }

    /// Creates a world that searches for bugs of a depth.
    pub fn pct(seed: u64, depth: u32) -> Self {
        Self::new(seed, Policy::Pct { depth })
    }

    /// Creates the world of a replay id. If the epoch or the limits were changed, set them again.
    pub fn replay(id: &ReplayId) -> Self {
        Self {
            host: id.host.clone(),
            ..Self::new(id.seed, id.policy.clone())
        }
    }

    /// Returns the text from which this world can be repeated.
    pub fn replay_id(&self) -> ReplayId {
        ReplayId {
            seed: self.seed,
            policy: self.policy.clone(),
            host: self.host.clone(),
        }
    }

    fn new(seed: u64, policy: Policy) -> Self {
        Self {
            seed,
            policy,
            host: ZERO,
            epoch: EPOCH,
            time_max: TIME_MAX,
            step_count_max: STEP_COUNT_MAX,
            record_decisions: false,
            capture_backtraces: false,
            record_lock_order: true,
            mutant: None,
        }
    }
}
