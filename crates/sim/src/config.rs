//! [`Config`]: everything that decides how a world runs.

use rt::{Nanos, WallTime};

use crate::host::{HostProfile, ZERO};
use crate::replay::{Decision, ReplayId};

/// 2003-01-01 00:00:00 UTC, when the world begins unless told otherwise.
const EPOCH: WallTime = WallTime {
    seconds: 1_041_379_200,
    nanos: 0,
};
/// A month: nothing that is simulated takes longer.
const TIME_MAX: Nanos = Nanos::from_secs(30 * 86_400);
/// Minutes of real time: nothing that is simulated should take longer.
const STEP_COUNT_MAX: u64 = 4_000_000_000;

/// How a world runs. The same configuration and the same root give the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Decides every choice, and the world's random numbers.
    pub seed: u64,
    /// Who runs next when several could.
    pub policy: Policy,
    /// What host work costs.
    pub host: HostProfile,
    /// The time of day at which the world begins.
    pub epoch: WallTime,
    /// The virtual time after which the run fails.
    pub time_max: Nanos,
    /// The number of scheduling steps after which the run fails.
    pub step_count_max: u64,
    /// Whether the report lists the decisions that were made, for [`Policy::Replay`].
    pub record_decisions: bool,
    /// Whether to capture a backtrace at each wait, for the report of a deadlock. Slow, and changes nothing else.
    pub capture_backtraces: bool,
    /// Whether debug builds record the order in which locks are taken. Worlds that are to deadlock do not.
    pub record_lock_order: bool,
    /// The rule of the engine that is broken in this world, in builds that can: see [`rt::mutant`](mod@rt::mutant).
    pub mutant: Option<&'static str>,
}

/// Who runs next when several tasks could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served by virtual time: for measuring. Locks are handed over in order.
    Fair,
    /// Anybody, and at every point perhaps somebody else: for races.
    Random,
    /// Priorities that change at `depth` points: finds bugs that need few, badly placed switches.
    Pct {
        /// How many times a running task loses its priority.
        depth: u32,
    },
    /// Go on where possible, first come, first served elsewhere, except for these decisions.
    Replay(Vec<Decision>),
}

impl Config {
    /// A world for measuring, on a host whose work takes no time; set [`host`](Self::host) to change that.
    pub fn fair(seed: u64) -> Self {
        Self::new(seed, Policy::Fair)
    }

    /// A world that switches tasks at random.
    pub fn random(seed: u64) -> Self {
        Self::new(seed, Policy::Random)
    }

    /// A world that looks for bugs of a depth.
    pub fn pct(seed: u64, depth: u32) -> Self {
        Self::new(seed, Policy::Pct { depth })
    }

    /// The world that a replay id stands for. Set the epoch and the limits to what they were if they were changed.
    pub fn replay(id: &ReplayId) -> Self {
        Self {
            host: id.host.clone(),
            ..Self::new(id.seed, id.policy.clone())
        }
    }

    /// The text from which this world can be repeated.
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

impl Policy {
    /// Whether points may switch tasks.
    pub(crate) fn is_hostile(&self) -> bool {
        !matches!(self, Self::Fair)
    }
}
