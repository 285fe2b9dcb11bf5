//! The documents of the repository that hold Rust: their examples are compiled and run as tests of
//! the documentation.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;
