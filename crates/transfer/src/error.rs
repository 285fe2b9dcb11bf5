//! Findings in a tree that a program may want to add its advice to.

use std::path::PathBuf;

use layout::InodeNr;

/// Why a tree was not brought to its place, where more can be said than the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two entries lead to one directory of an image, so that a walk might never end.
    #[error("directory {0} has two entries that lead to it")]
    EnteredTwice(InodeNr),
    /// A directory entry leads to an inode that is not in use.
    #[error("its inode {0} is not in use")]
    InodeNotInUse(InodeNr),
    /// An archive has no entries.
    #[error("is an archive without entries")]
    EmptyArchive,
    /// The directory that is to be filled has something in it.
    #[error("{}: is not empty", .0.display())]
    NotEmpty(PathBuf),
}
