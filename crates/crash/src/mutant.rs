//! Mutants: rules of the engine that are broken on purpose, one at a time, to show that the
//! explorer notices.
//!
//! They sleep in the engine's sources as `rt::mutant!("name")`. In a build with the feature
//! `mutants`, a world whose [`Setting`](crate::setting::Setting) names one breaks that rule: in the
//! run, in each recovery, and in the recovery of an interrupted recovery. A mutant is *hunted* with
//! numbered workloads of a fixed seed until the oracle, the protocol or the engine itself (a panic,
//! a deadlock) reports a violation. Then the same workload is explored with nothing broken: a
//! violation there, too, has not caught a mutant. A test compares the table with the sources.

mod table;

pub use table::{MUTANTS, NAMED};

/// The workloads that hunt a mutant, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prey {
    /// Short workloads and stressing ones.
    Crash,
    /// Stressing ones.
    Stress,
    /// Those in which blocks are short and used again, files change their mode, and volumes are
    /// synchronous.
    Tight,
    /// Those on full volumes, where every freed block is used again at once.
    Reuse,
    /// Those that go around a short log, with checksums, some of them after a recovery.
    Laps,
    /// Those in which several clients race.
    Races,
    /// Those whose handles restart wherever they can.
    Restarts,
    /// Those beside a crowd that changes and lists names.
    Names,
    /// Those beside a crowd that lists directories while they change.
    Listings,
    /// Those beside a crowd that uses paths and numbers of files that come and go.
    Numbers,
    /// Those in which a device command fails.
    Faults,
    /// Those in which a write fails once beside a background writer.
    Passing,
    /// Those in which there is no room for writes.
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
}

/// A rule of the engine whose breaking no crash shows. A test of its own breaks it in a simulated
/// world, and notices.
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

/// A mutant by its name.
pub fn named(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}
