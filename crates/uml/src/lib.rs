//! Real Linux kernels (user-mode Linux) on block devices of this project, in virtual time.
//!
//! A guest is one process. Its kernel asks a *calendar* for the time (`time-travel=ext:SOCKET`) and
//! reaches its disks as vhost-user block devices (`virtio_uml.device=SOCKET:2`). One task of a
//! simulated world serves all of these sockets, so that the clock of the guest is the clock of the
//! world and its disks are [`block::BlockDevice`]s of the world.
//!
//! | module | contents |
//! |---|---|
//! | [`calendar`] | the protocol of time: messages and their order |
//! | [`vhost`] | the protocol of a disk: messages, features, configuration |
//! | [`memory`] | the guest's memory |
//! | [`virtqueue`] | the queue of a disk's requests in that memory |
//! | [`disk`] | requests of the queue as requests of a block device |
//! | [`cage`] | the namespaces that a guest lives in |
//! | [`guest`] | the process, its console and its sockets |
//! | [`serve`] | the task that serves a guest in virtual time, and the loop for real time |
//! | [`kernel`] | the kernels that are installed |
//! | [`processor`] | one processor for a guest and its task |
//!
//! # Rules
//!
//! - **While the kernel runs, virtual time stands still**: the task waits for it in real time. Work
//!   of the guest's processor takes no virtual time unless the guest sleeps for it.
//! - **While the kernel waits, the task sleeps in virtual time** until the kernel's next timer or
//!   the next completion, whichever is earlier.
//! - **The kernel is ahead of the world only up to the world's next event**
//!   ([`sim::next_moment`]), so a completion never lies in the kernel's past.
//! - **The guest's memory is read and written through its file descriptor** and never mapped: a
//!   guest that truncates it causes an error and no signal, and no unsafe code is needed.
//! - **The host is out of reach of the guest.** The kernel runs in its own user, mount, process,
//!   network and IPC namespaces; their root directory contains only read-only binds of programs.
//! - A guest leaves neither a process nor a file, even if this process is killed: its process
//!   namespace dies with it, and its files are on a file system in memory that is mounted in no
//!   other namespace.
//!
//! # Sources
//!
//! `include/uapi/linux/um_timetravel.h` (the calendar's messages); Virtual I/O Device Version 1.1,
//! sections 2.6 and 5.2; QEMU's vhost-user protocol, `docs/interop/vhost-user.rst`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a guest is a process of the real world"
)]
#![forbid(unsafe_code)]

pub mod cage;
pub mod calendar;
pub mod disk;
mod error;
pub mod guest;
pub mod kernel;
pub mod memory;
pub mod processor;
pub mod serve;
mod socket;
pub mod vhost;
pub mod virtqueue;
mod watchdog;

pub use error::GuestError;
pub use guest::{Guest, GuestSetup};
pub use kernel::Kernel;
pub use processor::Processor;
