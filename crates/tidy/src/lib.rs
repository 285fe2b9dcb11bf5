//! The repository checks itself: allowed edges between crates, file lengths, leftovers, where `unsafe` may stand.
//!
//! There is nothing here but tests; see `tests/`.
