//! Mutants: rules of the engine that are broken on purpose, one at a time, to show that the
//! explorer detects it.
//!
//! The engine's sources contain them as `rt::mutant!("name")`. In a build with the feature
//! `mutants`, a world whose [`Setting`](crate::setting::Setting) names one breaks that rule: in the
//! run, in each recovery, and in the recovery of an interrupted recovery. A mutant is *hunted* with
//! numbered workloads of a fixed seed until the oracle, the protocol or the engine itself (a panic,
//! a deadlock) reports a violation. Then the same workload is explored with the correct engine: if
//! that reports a violation, too, the mutant is not caught. A test compares the table with the
//! sources.

mod table;

use crate::mode::Structures;
pub use table::{MUTANTS, NAMED};

/// The workloads that hunt a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prey {
    /// Short and random workloads.
    Crash,
    /// Random workloads.
    Stress,
    /// Workloads with few blocks that are reused, files that switch data journaling, and
    /// synchronous volumes.
    Tight,
    /// Workloads on full volumes, where every freed block is reused at once.
    Reuse,
    /// Workloads that wrap around a short log, with checksums, some of them after a recovery.
    Laps,
    /// Workloads in which several clients race.
    Races,
    /// Workloads whose handles restart wherever possible.
    Restarts,
    /// Workloads on files in many pieces.
    Scattered,
    /// Workloads beside a crowd that changes and lists names.
    Names,
    /// Workloads beside a crowd that lists changing directories.
    Listings,
    /// Workloads beside a crowd that uses paths and numbers of files that are created and removed.
    Numbers,
    /// Short and random workloads on volumes with fast commits.
    Fast,
    /// Short and random workloads on volumes with asynchronous commits.
    Async,
    /// Workloads with a failing device command.
    Faults,
    /// Workloads with one failing write beside a background writer.
    Passing,
    /// Workloads on devices without room for writes.
    Full,
}

/// A rule of the engine that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// Its name in the sources.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The workloads that can catch it.
    pub prey: Prey,
    /// The structures that have the rule.
    pub structures: Structures,
}

/// A rule of the engine that can be broken without an effect on crashes. A test of the engine
/// breaks it in a simulated world, and fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The name in the sources.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The file of the test, below `crates`.
    pub test: &'static str,
}

/// Returns true if this build can break rules.
pub const fn is_possible() -> bool {
    rt::mutant::IS_POSSIBLE
}

/// Returns a mutant by its name.
pub fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}
