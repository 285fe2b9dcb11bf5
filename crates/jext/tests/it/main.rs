//! Tests of the library's public interface.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests stop at what they did not expect, and live in the real world"
)]

mod dependencies;
mod documents;
mod own_device;
mod paths;
mod streams;
