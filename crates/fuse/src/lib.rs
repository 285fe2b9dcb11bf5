//! Mounts a volume through FUSE: the kernel's requests become operations of an [`ext::Volume`].
//!
//! ```text
//! kernel -- /dev/fuse --> session (threads of fuser) --> adapter --> Vfs --> ext::Volume
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`vfs`] | what a kernel asks of a file system, as a trait of our own |
//! | [`served`] | that trait over a volume |
//! | `adapter` | from fuser's callbacks to the trait and back; catches panics |
//! | `attributes` | attributes and times in fuser's form |
//! | [`mount_point`] | mounting and unmounting, by the system call or by fusermount3 |
//! | [`mount`](mod@mount) | a mounted volume: serving it, and its end |
//! | `polling` | asking the kernel again instead of sleeping, while requests are dense |
//! | `arrivals` | waiting until what the kernel keeps has arrived here |
//! | `watch` | a volume that has become read-only, and the table of mounts |
//!
//! # What the kernel keeps
//!
//! There is one writer, so the kernel may believe what it knows for ever: names, absent names and attributes have no expiry.
//! Its page cache is kept between opens and written back late; it tells sizes and times of change of regular files when it
//! writes back. `fsync` is the promise: what the kernel has not written yet, nobody here has seen. Who asks for holes makes it
//! write what it keeps of them.
//!
//! # Rules
//!
//! - Only this crate knows fuser.
//! - A node's number is its inode number, but for the root, which is 1 to the kernel and 2 on the volume. With the generation that is a file
//!   handle, so what the kernel has forgotten is found again by its number.
//! - What the kernel has looked up stays until it is forgotten, names or not: [`ext::Volume::forget`].
//! - A panic is answered with an I/O error, as is everything after it, and aborts the journal; the process goes on.
//! - No thread of this process waits for the kernel to write: whoever is killed while he waits for what he has to answer himself never ends. Programs do
//!   it ([`mount_point`]), but for the moment in which a mount becomes read-only, when every write fails at once.
//! - fuser mounts and unmounts nothing: it would do so once more after the mount has gone, whatever stands there by then.
//! - What needs a word of the kernel that fuser does not carry is never asked for; `FUSE_HANDLE_KILLPRIV_V2` is, since what is not carried
//!   of it can be told from who asks.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a mount lives in the real world: threads and times of the host"
)]

mod adapter;
mod arrivals;
mod attributes;
pub mod mount;
pub mod mount_point;
mod polling;
pub mod served;
pub mod vfs;
mod watch;

pub use mount::{Mount, MountError, Settings, Unmounter};
pub use served::{Owners, Served};
pub use vfs::Vfs;
