//! `i_mode`: the type of a file in the upper four bits, permissions in the lower twelve. Also the
//! codes of the same types in directory entries (feature `filetype`).

/// The bits of the type.
pub const TYPE_MASK: u16 = 0xF000;
/// The bits of the permissions, set-id and sticky bits included.
pub const PERMISSION_MASK: u16 = 0x0FFF;

/// A fifo.
pub const FIFO: u16 = 0x1000;
/// A character device.
pub const CHARACTER_DEVICE: u16 = 0x2000;
/// A directory.
pub const DIRECTORY: u16 = 0x4000;
/// A block device.
pub const BLOCK_DEVICE: u16 = 0x6000;
/// A regular file.
pub const REGULAR: u16 = 0x8000;
/// A symbolic link.
pub const SYMLINK: u16 = 0xA000;
/// A socket.
pub const SOCKET: u16 = 0xC000;

/// Set user id when executed.
pub const SET_UID: u16 = 0o4000;
/// Set group id when executed; on a directory, files take its group.
pub const SET_GID: u16 = 0o2000;
/// Only owners may remove entries of the directory.
pub const STICKY: u16 = 0o1000;

/// The code of a file's type in a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileType {
    /// Not recorded.
    Unknown = 0,
    /// A regular file.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A character device.
    CharacterDevice = 3,
    /// A block device.
    BlockDevice = 4,
    /// A fifo.
    Fifo = 5,
    /// A socket.
    Socket = 6,
    /// A symbolic link.
    Symlink = 7,
}

impl FileType {
    /// Returns the type of a raw code; unknown codes are [`FileType::Unknown`].
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharacterDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            _ => Self::Unknown,
        }
    }

    /// Returns the raw code.
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// Returns the type in an `i_mode`; [`FileType::Unknown`] if it has none of the seven.
    pub const fn from_mode(mode: u16) -> Self {
        match mode & TYPE_MASK {
            REGULAR => Self::Regular,
            DIRECTORY => Self::Directory,
            CHARACTER_DEVICE => Self::CharacterDevice,
            BLOCK_DEVICE => Self::BlockDevice,
            FIFO => Self::Fifo,
            SOCKET => Self::Socket,
            SYMLINK => Self::Symlink,
            _ => Self::Unknown,
        }
    }

    /// Returns the bits of `i_mode` for this type; none for [`FileType::Unknown`].
    pub const fn mode(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Regular => REGULAR,
            Self::Directory => DIRECTORY,
            Self::CharacterDevice => CHARACTER_DEVICE,
            Self::BlockDevice => BLOCK_DEVICE,
            Self::Fifo => FIFO,
            Self::Socket => SOCKET,
            Self::Symlink => SYMLINK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_survive_as_codes_and_as_modes() {
        for raw in 0..=7 {
            let file_type = FileType::from_raw(raw);
            assert_eq!(file_type.raw(), raw);
            assert_eq!(FileType::from_mode(file_type.mode() | 0o7777), file_type);
        }
        assert_eq!(FileType::from_raw(8), FileType::Unknown);
        // The type of the checksum at the end of a directory block.
        assert_eq!(FileType::from_raw(0xDE), FileType::Unknown);
        assert_eq!(FileType::from_mode(0xF000), FileType::Unknown);
    }
}
