//! The surroundings of an image in its file: a partition table, and a dm-verity hash tree.
//!
//! ```text
//!                | MBR, GPT | image | hash tree | GPT copy |
//!   --partition    1 MiB                          20 KiB
//!   --verity                          1/127
//! ```
//!
//! [`Wrapping`] computes the places before the image is made, and writes the rest afterwards. All
//! UUIDs and the salt are derived from the UUID of the image: they are as random, or as fixed, as
//! that is. Contents are streamed; memory does not depend on the size of the image.
//!
//! Sources: <https://docs.kernel.org/admin-guide/device-mapper/verity.html>,
//! <https://gitlab.com/cryptsetup/cryptsetup/-/wikis/DMVerity>, UEFI specification 2.10,
//! chapter 5.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "files and threads of the host"
)]

mod error;
mod identity;
pub mod partition;
pub mod verity;
mod wrapping;

pub use error::Error;
pub use wrapping::{Partitioned, Tree, Verified, Wrapped, Wrapping};
