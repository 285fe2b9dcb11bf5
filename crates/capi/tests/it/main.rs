//! The library for C: its header is up to date, and C programs that use it are right, without an
//! error or a leak under valgrind, and their images are clean. `scripts/c-library` does the same
//! with an installation.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the real world: compilers, processes, files"
)]

mod compiler;
mod documents;
mod header;
mod programs;
