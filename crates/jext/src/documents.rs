//! The Markdown documents of the repository with Rust examples, which are compiled and run as
//! documentation tests.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/block-device.md")]
struct OwnDevice;
