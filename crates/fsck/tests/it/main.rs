//! The checker compared with e2fsck, on damaged and on clean images.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests stop at what they did not expect, and live in the real world"
)]

mod arbitrary;
mod clean;
mod clean_ext4;
mod corpus;
mod maker;
mod place;
mod recipe;
mod table;
mod tools;
