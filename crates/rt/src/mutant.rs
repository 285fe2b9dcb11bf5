//! Mutants: rules of the engine that a test build breaks on purpose, to prove that tests detect it.
//!
//! ```text
//! if rt::mutant!("tail/early") || self.is_flushed() { ... }
//! ```
//!
//! A mutant is active only in a simulated world whose configuration names it. Without this crate's
//! feature `mutants` the macro is the constant `false`. Only the tests of the crate `crash` enable
//! the feature; Cargo keeps the features of tests out of other builds. A build without debug
//! assertions has no mutants either, even with the feature. The crate `crash` holds the table of
//! all mutants; its tests compare the table with the names in the sources.

/// True if this build can break rules.
pub const IS_POSSIBLE: bool = cfg!(all(feature = "mutants", debug_assertions));

/// True if the world of the calling thread breaks this rule.
pub fn is_awake(name: &str) -> bool {
    crate::world::current().is_some_and(|world| world.mutant() == Some(name))
}

/// True if a rule is to be broken here: see [`crate::mutant`](mod@crate::mutant).
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::IS_POSSIBLE && $crate::mutant::is_awake($name)
    };
}
