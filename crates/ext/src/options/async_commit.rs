//! Asynchronous commits (`journal_async_commit`): the volumes and data modes that can have them.
//!
//! | volume or mode | effect of the option |
//! |---|---|
//! | no journal | refused |
//! | `data=ordered`: a commit block waits for data | refused |
//! | `metadata_csum` | none |
//! | others | a commit block is written together with the rest of its transaction |
//!
//! With a checksum for each block of the log, which `metadata_csum` brings, Linux and e2fsck take a
//! commit that a power cut has torn for damage.

use layout::feature::{Compatible, Features, ReadOnlyCompatible};

use super::{DataMode, MountOptions};

/// The effect of the option for asynchronous commits on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncCommit {
    /// None: the option is not set.
    Off,
    /// Commits are asynchronous, except those that the journal makes in two steps.
    On,
    /// None, although the option is set: the volume has `metadata_csum`.
    NoEffect,
    /// The volume is not opened for writing with the option.
    Refused(Misfit),
}

/// The reason for which a volume cannot have asynchronous commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// The reason.
    pub reason: &'static str,
    /// The error of an open: option, reason and remedy.
    pub(crate) error: &'static str,
}

macro_rules! misfit {
    ($reason:literal, $remedy:literal) => {
        Misfit {
            reason: $reason,
            error: concat!("journal_async_commit: ", $reason, "; ", $remedy),
        }
    };
}

const NO_JOURNAL: Misfit = misfit!("the volume has no journal", "leave the option out");
const ORDERED: Misfit = misfit!(
    "with data=ordered a commit block waits for data",
    "add data=journal or data=writeback"
);

impl MountOptions {
    /// Returns the effect of `async_commit` on a volume with these features.
    pub fn async_commit_on(&self, features: &Features) -> AsyncCommit {
        let checksums = ReadOnlyCompatible::METADATA_CSUM;
        if !self.async_commit {
            AsyncCommit::Off
        } else if !features.compatible.contains(Compatible::HAS_JOURNAL) {
            AsyncCommit::Refused(NO_JOURNAL)
        } else if self.data == DataMode::Ordered {
            AsyncCommit::Refused(ORDERED)
        } else if features.read_only_compatible.contains(checksums) {
            AsyncCommit::NoEffect
        } else {
            AsyncCommit::On
        }
    }
}
