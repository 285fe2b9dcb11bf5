//! The kind of an inode.

use layout::mode::FileType;

/// The kind of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// Returns the type bits of `i_mode`.
    pub const fn mode(self) -> u16 {
        self.entry_type().mode()
    }

    /// Returns the type as encoded in directory entries and modes.
    pub const fn entry_type(self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Symlink => FileType::Symlink,
            Self::CharacterDevice => FileType::CharacterDevice,
            Self::BlockDevice => FileType::BlockDevice,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
        }
    }

    /// Converts the type in an entry or a mode; returns none if it is unknown.
    pub const fn from_entry_type(kind: FileType) -> Option<Self> {
        match kind {
            FileType::Regular => Some(Self::Regular),
            FileType::Directory => Some(Self::Directory),
            FileType::Symlink => Some(Self::Symlink),
            FileType::CharacterDevice => Some(Self::CharacterDevice),
            FileType::BlockDevice => Some(Self::BlockDevice),
            FileType::Fifo => Some(Self::Fifo),
            FileType::Socket => Some(Self::Socket),
            FileType::Unknown => None,
        }
    }
}
