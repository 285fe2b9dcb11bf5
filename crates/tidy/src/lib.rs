//! Checks of the repository itself: allowed edges between crates, circles among the files of a
//! crate, file lengths, comments, leftovers, `unsafe`.
//!
//! The crate contains only tests; see `tests/`.
