//! Mutants: rules of the engine that a test build breaks on purpose, to show that the tests would notice.
//!
//! ```text
//! if rt::mutant!("tail/early") || self.is_flushed() { ... }
//! ```
//!
//! A mutant sleeps unless the calling thread is in a simulated world whose configuration names it, and without the feature
//! `mutants` of this crate the macro is the constant `false`. The tests of the crate `crash` ask for the feature, and nothing
//! that is built for use does: Cargo keeps the features of tests out of other builds. Nor does a build without debug assertions
//! have it, whoever asks. The table of all mutants is the crate `crash`'s; its tests compare it with what the sources name.

/// Whether this build can break rules.
pub const IS_POSSIBLE: bool = cfg!(all(feature = "mutants", debug_assertions));

/// Whether the world of the calling thread has this mutant.
pub fn is_awake(name: &str) -> bool {
    crate::world::current().is_some_and(|world| world.mutant() == Some(name))
}

/// Whether a rule is to be broken here: see [`crate::mutant`](mod@crate::mutant).
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::IS_POSSIBLE && $crate::mutant::is_awake($name)
    };
}
