//! Checks of the repository itself: allowed edges between crates, file lengths, comments,
//! leftovers, `unsafe`.
//!
//! The crate contains only tests; see `tests/`.
