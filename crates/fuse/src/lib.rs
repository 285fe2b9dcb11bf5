//! Mounts a volume through FUSE: the kernel's requests become operations of an [`ext::Volume`].
//!
//! ```text
//! kernel -- /dev/fuse --> session (threads of fuser) --> adapter --> Served --> ext::Volume
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `served` | a volume with the operations that a kernel requests |
//! | `requests` | values of the requests and of their answers |
//! | `adapter` | fuser's callbacks on top of a served volume; catches panics |
//! | `attributes` | attributes and times in fuser's form |
//! | [`mount_point`] | mounting and unmounting, by the system call or by fusermount3 |
//! | [`mount`](mod@mount) | a mounted volume: serving it, and its end |
//! | `settings` | the settings of a mount |
//! | `wakeups` | avoiding wake-ups of threads while requests are dense |
//! | `turns` | which thread reads requests |
//! | `occupant` | a thread that occupies a processor |
//! | `arrivals` | waiting for the kernel's cached writes |
//! | `watch` | reporting a volume that has become read-only in the table of mounts |
//!
//! # Caching in the kernel
//!
//! There is one writer, so the kernel's caches never become stale: names, absent names and
//! attributes do not expire. The page cache is kept between opens and written back late; sizes and
//! change times of regular files arrive with the write-back. `fsync` is the guarantee: data that
//! the kernel has not written back is unknown to the volume. A search for holes makes the kernel
//! write back first.
//!
//! # Rules
//!
//! - Only this crate uses fuser.
//! - A node's number is its inode number, except for the root, which is 1 to the kernel and 2 on
//!   the volume. Together with the generation it forms a file handle, so a forgotten node is found
//!   again by its number.
//! - A node that the kernel has looked up stays until it is forgotten, with or without names:
//!   [`ext::Volume::forget`].
//! - A panic is answered with an I/O error, as is every later request, and aborts the journal; the
//!   process continues.
//! - No thread of this process waits for the kernel to write back: if it is killed while it waits
//!   for requests that it has to answer itself, it never exits. Child processes wait instead
//!   ([`mount_point`]). The exception is the moment in which a mount becomes read-only, when every
//!   write fails at once.
//! - fuser mounts and unmounts nothing: it would unmount once more after the mount has gone, and
//!   hit any later mount at that place.
//! - Features that depend on a field that fuser does not pass on are never requested.
//!   `FUSE_HANDLE_KILLPRIV_V2` is, since the missing field can be derived from the caller.

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
mod occupant;
mod requests;
mod served;
mod settings;
mod turns;
mod wakeups;
mod watch;

pub use mount::{Mount, MountError, Unmounter};
pub use served::Owners;
pub use settings::{Settings, THREADS};
