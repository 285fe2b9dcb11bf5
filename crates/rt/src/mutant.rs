//! Mutants: rules of the engine that a test build breaks on purpose, to show that the tests would notice.
//!
//! ```text
//! if rt::mutant!("tail/early") || self.is_flushed() { ... }
//! ```
//!
//! A mutant sleeps unless the calling thread is in a simulated world whose configuration names it, and in every build without
//! `--cfg jext_mutants` the macro is the constant `false`. The table of all mutants is the crate `crash`'s; its tests compare
//! it with what the sources name.

#[cfg(all(jext_mutants, not(debug_assertions)))]
compile_error!(
    "--cfg jext_mutants breaks rules on purpose: it is for builds with debug assertions"
);

/// Whether the world of the calling thread has this mutant.
pub fn is_awake(name: &str) -> bool {
    crate::world::current().is_some_and(|world| world.mutant() == Some(name))
}

/// Whether a rule is to be broken here: see [`crate::mutant`](mod@crate::mutant).
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        cfg!(jext_mutants) && $crate::mutant::is_awake($name)
    };
}
