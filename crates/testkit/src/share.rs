//! The share of a long list of cases that the default tests take.
//!
//! With `JEXT_TEST_WHOLE=1` they take all.

/// Environment variable, set to 1 to run all cases.
const VARIABLE: &str = "JEXT_TEST_WHOLE";

/// True if case number `index` is run: each `one_in`th, or all if the variable is set.
#[must_use]
pub fn takes(index: usize, one_in: usize) -> bool {
    index.is_multiple_of(one_in) || std::env::var(VARIABLE).as_deref() == Ok("1")
}
