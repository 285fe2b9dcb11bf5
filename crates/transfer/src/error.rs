//! Errors of a tree that a program may want to match, to add its own advice.

use std::path::PathBuf;

use layout::InodeNr;

/// A typed cause of a failed copy; all other causes are plain text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A directory of an image has two entries, so a walk might never end.
    #[error("directory {0} has two entries that lead to it")]
    EnteredTwice(InodeNr),
    /// A directory entry refers to an inode that is not in use.
    #[error("its inode {0} is not in use")]
    InodeNotInUse(InodeNr),
    /// An archive has no entries.
    #[error("is an archive without entries")]
    EmptyArchive,
    /// The directory to fill is not empty.
    #[error("{}: is not empty", .0.display())]
    NotEmpty(PathBuf),
}
