//! Errors, in families: the device failed, the bytes are invalid, the bytes are valid but not
//! supported, and the outcomes that POSIX defines. `system` has the `errno` values and the
//! conversion into `std::io::Error`.
//! A message ends with the remedy for a program that calls this library. Commands print their own
//! remedies instead.

mod other_user;
mod sealed;
mod system;

use block::DeviceError;
use layout::{BlockNr, FileBlock, GroupNr, InodeNr};

pub use other_user::OtherUser;
pub use sealed::Sealed;

/// Result of an operation on a volume.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Reasons why an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The journal failed, or refused the operation.
    #[error(transparent)]
    Journal(#[from] jbd2::Error),
    /// The bytes on the device are invalid.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The bytes are valid, but not supported.
    #[error("{0}")]
    Unsupported(String),
    /// The log holds transactions that the superblock does not require to be replayed.
    #[error(
        "the superblock does not call for the transactions ({transactions}) that the log holds (needs_recovery is clear); \
         MountOptions::unmarked_log replays or discards them"
    )]
    UnmarkedLog {
        /// Number of transactions; of a damaged log, those before the damage.
        transactions: u32,
    },
    /// The journal has to be replayed, and a device is read-only.
    #[error(
        "the journal has to be replayed, but {device} is read-only; open a writable copy, or with MountOptions::read_only and \
         no_recovery to see the volume without the transactions in its log"
    )]
    NeedsRecovery {
        /// The name of the read-only device.
        device: String,
    },
    /// The volume has an external journal, and no device was given for it.
    #[error("the journal is on another device; give it as the journal device")]
    NoJournalDevice,
    /// The device cannot flush, so that nothing could be made durable.
    #[error(
        "{device} cannot flush, so that nothing would be durable; open it with MountOptions::read_only or force"
    )]
    CannotFlush {
        /// The device's name.
        device: String,
    },
    /// Another node uses the volume, or has not released it (multiple mount protection).
    #[error(transparent)]
    InUse(#[from] OtherUser),
    /// The volume to be tuned was not closed cleanly.
    #[error(
        "the volume was not closed cleanly; open and close it, which replays its journal, and try again"
    )]
    NotClean,
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("the name exists already")]
    Exists,
    /// A directory was expected.
    #[error("not a directory")]
    NotDirectory,
    /// A directory was not expected.
    #[error("is a directory")]
    IsDirectory,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The volume has no free block.
    #[error("no space is left on the volume")]
    NoSpace,
    /// The volume has no free inode. POSIX also reports this as "no space".
    #[error(
        "no inode is left on the volume; remove files, or make it anew with more inodes (mkfs::Options::inode_count)"
    )]
    NoInodes,
    /// An attribute fits neither into the inode nor into a block.
    #[error("the attribute does not fit: the attributes of an inode have one block")]
    AttributeTooLarge,
    /// The index of a directory is full: it accepts no more entries with this hash.
    #[error("the index of the directory is full")]
    DirectoryFull,
    /// The inode has as many links as the format allows.
    #[error("too many links")]
    TooManyLinks,
    /// The name is longer than 255 bytes, or the target of a link longer than a block.
    #[error("the name is too long")]
    NameTooLong,
    /// The file would be larger than the format allows.
    #[error("the file would be too large")]
    FileTooLarge,
    /// The volume is mounted read-only, or has become so after an error.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The inode is immutable or append-only.
    #[error("the operation is not permitted by the inode's flags")]
    NotPermitted,
    /// A link or a rename into a directory whose files belong to another project.
    #[error("the directory's files belong to another project")]
    OtherProject,
    /// A change of a directory that ignores case (`casefold`), which needs Unicode.
    #[error(
        "the directory ignores case (casefold): its names are read and not changed; change them on Linux"
    )]
    CaseFolded,
    /// An encrypted file or directory, whose key is not here.
    #[error("encrypted, and there is no key: open, create, link and rename on Linux, with the key")]
    NoKey,
    /// A change of the contents of a file with `verity`.
    #[error("the file is protected by verity: its contents do not change; copy or remove it")]
    Verity,
    /// A path with too many symbolic links, or a rename of a directory into itself.
    #[error("too many symbolic links")]
    TooManySymlinks,
    /// An invalid argument, such as a move of a directory into itself, an unknown flag or an
    /// unaligned offset; the text names it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The file handle is not open.
    #[error("the file handle is not open")]
    BadHandle,
    /// The inode has no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The name of an extended attribute is empty or longer than 255 bytes.
    #[error("the name of an attribute has 1 to 255 bytes")]
    AttributeName,
    /// An earlier write of this file's data failed.
    #[error("writing data of inode {inode} failed earlier: {cause}")]
    DataLost {
        /// The file.
        inode: InodeNr,
        /// The error of the device.
        cause: DeviceError,
    },
}

impl Error {
    /// Returns true if the storage behind a device is full: a sparse image on a full disk, a thin
    /// volume. Nothing acknowledged is lost, and the call may succeed when there is room again.
    pub fn is_device_full(&self) -> bool {
        let (Self::Device(cause)
        | Self::DataLost { cause, .. }
        | Self::Journal(jbd2::Error::Io(cause) | jbd2::Error::Held(cause))) = self
        else {
            return false;
        };
        matches!(cause, DeviceError::NoSpace { .. })
    }
}

/// Invalid on-disk state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// There is no ext superblock.
    #[error("no ext2/ext3/ext4 superblock found (magic is {magic:#06x}, not 0xef53)")]
    Magic {
        /// The bytes in its place.
        magic: u16,
    },
    /// The device ends before the file system does.
    #[error("the file system has {file_system_bytes} bytes, but the device only {device_bytes}")]
    Truncated {
        /// Size of the file system as the superblock gives it, in bytes.
        file_system_bytes: u64,
        /// Size of the device in bytes.
        device_bytes: u64,
    },
    /// A field of the superblock has an invalid value.
    #[error("superblock: {field} is {value}: {why}")]
    Superblock {
        /// The field's kernel name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The reason why it is invalid.
        why: &'static str,
    },
    /// A group descriptor points outside its group or the volume.
    #[error("group {group}: {field} is {value}")]
    Group {
        /// The group.
        group: GroupNr,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A field of an inode is invalid.
    #[error("inode {inode}: {field} is {value}")]
    Inode {
        /// The inode.
        inode: InodeNr,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A file's block map points outside the volume or into its metadata.
    #[error("inode {inode}: block {file_block} maps to {block}, outside the volume's data")]
    Mapping {
        /// The inode.
        inode: InodeNr,
        /// The block of the file.
        file_block: FileBlock,
        /// The invalid block.
        block: BlockNr,
    },
    /// The block map of a file contains a cycle, or has more blocks than the volume.
    #[error("inode {inode}: the block map has a cycle: it reaches block {block} again")]
    MapCycle {
        /// The inode.
        inode: InodeNr,
        /// The block met again.
        block: BlockNr,
    },
    /// A node of a file's extent tree is damaged.
    #[error("inode {inode}: extent tree: {why}")]
    Extents {
        /// The inode.
        inode: InodeNr,
        /// The block of the node; none for the root, which lies in the inode.
        block: Option<BlockNr>,
        /// The kind of damage.
        why: &'static str,
    },
    /// The checksum of a structure does not match.
    #[error("{0}: the checksum does not match")]
    Checksum(Sealed),
    /// Extended attributes are damaged.
    #[error("inode {inode}: extended attributes: {why}")]
    Attributes {
        /// The inode.
        inode: InodeNr,
        /// The kind of damage.
        why: &'static str,
    },
    /// A directory block is damaged.
    #[error("directory {inode}: block {file_block}, offset {offset}: {why}")]
    Directory {
        /// The directory.
        inode: InodeNr,
        /// The block of the directory.
        file_block: FileBlock,
        /// The offset within the block.
        offset: u32,
        /// The kind of damage.
        why: &'static str,
    },
    /// An invalid file name.
    #[error("directory {inode}: the name {name:?} holds a slash or a zero byte")]
    Name {
        /// The directory.
        inode: InodeNr,
        /// The name, with replacements for bytes that are not UTF-8.
        name: String,
    },
    /// A bitmap contradicts the blocks or inodes being freed or counted.
    #[error("group {group}: bitmap disagrees: {why} (block or inode {number})")]
    Bitmap {
        /// The group.
        group: GroupNr,
        /// The block or inode.
        number: u64,
        /// The kind of damage.
        why: &'static str,
    },
    /// The orphan list, or a slot of the orphan file, is damaged.
    #[error("orphan list: inode {inode}: {why}")]
    Orphan {
        /// The inode.
        inode: InodeNr,
        /// The kind of damage.
        why: &'static str,
    },
    /// The block of multiple mount protection is damaged.
    #[error("multiple mount protection: block {block}: {why}")]
    MultiMount {
        /// The block on the device.
        block: BlockNr,
        /// The kind of damage.
        why: &'static str,
    },
    /// A quota file is damaged.
    #[error("quota file: inode {inode}: {why}")]
    Quota {
        /// The inode of the file.
        inode: InodeNr,
        /// The kind of damage.
        why: &'static str,
    },
    /// A fast commit contradicts the volume.
    #[error("fast commit: inode {inode}: {why}")]
    FastCommit {
        /// The inode.
        inode: InodeNr,
        /// The contradiction.
        why: &'static str,
    },
    /// The orphan file is damaged.
    #[error("orphan file: inode {inode}: {why}")]
    OrphanFile {
        /// The inode of the file.
        inode: InodeNr,
        /// The block on the device, if one is damaged.
        block: Option<BlockNr>,
        /// The kind of damage.
        why: &'static str,
    },
}

impl Corrupt {
    /// Returns the damaged inode, if there is one.
    pub(crate) fn inode(&self) -> Option<InodeNr> {
        match self {
            Self::Inode { inode, .. }
            | Self::Mapping { inode, .. }
            | Self::MapCycle { inode, .. }
            | Self::Extents { inode, .. }
            | Self::Attributes { inode, .. }
            | Self::Directory { inode, .. }
            | Self::Name { inode, .. }
            | Self::Orphan { inode, .. }
            | Self::Quota { inode, .. }
            | Self::FastCommit { inode, .. }
            | Self::OrphanFile { inode, .. } => Some(*inode),
            Self::Checksum(sealed) => sealed.inode(),
            Self::Magic { .. }
            | Self::Truncated { .. }
            | Self::Superblock { .. }
            | Self::Group { .. }
            | Self::MultiMount { .. }
            | Self::Bitmap { .. } => None,
        }
    }

    /// Returns the block that the damage names, if there is one.
    pub(crate) fn block(&self) -> Option<BlockNr> {
        match self {
            Self::Mapping { block, .. }
            | Self::MapCycle { block, .. }
            | Self::MultiMount { block, .. } => Some(*block),
            Self::Extents { block, .. } | Self::OrphanFile { block, .. } => *block,
            Self::Checksum(sealed) => sealed.block(),
            _ => None,
        }
    }
}
