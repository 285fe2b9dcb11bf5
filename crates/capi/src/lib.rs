//! `libjext`: the library for C.
//!
//! `include/jext.h` is made from this crate by cbindgen, and is its reference; `docs/how-to/c.md`
//! is the guide. `scripts/c-library` makes an installation with cargo-c.
//!
//! | module | contents |
//! |---|---|
//! | [`device`], [`callbacks`] | image files, parts of devices, devices of callbacks |
//! | [`volume`] | opening, closing, sync, free space |
//! | [`tree`], [`attributes`], [`extended`] | operations by path |
//! | [`file`](mod@file), [`directory`] | open files and directories |
//! | [`mkfs`], [`check`] | making and checking file systems |
//! | [`library`] | the version, and the message of the last error |
//! | `call`, `failure` | results, panics, messages |
//! | `pointers`, `versioned` | values behind pointers of C |
//! | `shared` | the state that a volume and its open files share |
//! | `superblock` | a look at the superblock of a closed volume |
//!
//! # Rules
//!
//! - **Only this crate trusts a pointer of a caller.** Every pointer is checked for null and turned
//!   into a reference, a slice or a `pointers::Out` in the first lines of a call.
//! - **No panic leaves a call**: `call::call` turns it into `ENOTRECOVERABLE`.
//! - **A structure of a caller is copied** before it is read, as far as the caller has compiled it.
//! - The header states the contract of pointers once, so the functions have no section `Safety`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "C lives in the real world"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "jext.h states the contract of pointers for all functions"
)]

pub mod attributes;
mod call;
pub mod callbacks;
pub mod check;
pub mod device;
pub mod directory;
pub mod extended;
mod failure;
pub mod file;
pub mod library;
pub mod mkfs;
mod pointers;
mod process;
mod shared;
mod superblock;
pub mod tree;
mod versioned;
pub mod volume;
