//! The records of a merged tree: names, and the inodes that they lead to.

use anyhow::Result;
use ext::volume::FileKind;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::paged::Paged;
use crate::tally::Tally;

/// Number of the root, both as a name and as an inode.
pub(super) const ROOT: u32 = 0;
/// No name, or no inode.
pub(super) const NONE: u32 = u32::MAX;
/// No layer.
pub(super) const NO_LAYER: u16 = u16::MAX;

/// A directory entry.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Name {
    pub(super) parent: u32,
    /// Offset of the text.
    pub(super) text_at: u32,
    /// The next name in the directory; in the end, the next name of the inode.
    pub(super) next: u32,
    /// First name in a directory; in the end, the bytes of all its entries.
    pub(super) first_child: u32,
    pub(super) inode: u32,
    /// The last layer that has this name or one below it.
    pub(super) layer: u16,
    /// The last layer that hides what lower layers have below it.
    pub(super) hidden_in: u16,
    pub(super) length: u8,
    pub(super) is_present: u8,
    /// 1 if the name is in the list of its directory.
    pub(super) is_listed: u8,
    pub(super) unused: u8,
}

/// An inode.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Inode {
    /// Number of the entry within its layer.
    pub(super) entry: u32,
    /// In the end, the first name.
    pub(super) first_name: u32,
    /// Bytes that are data, or offset of a link's target and its length.
    pub(super) held: [u32; 2],
    /// Inodes and blocks for attributes, and for holes in the data.
    pub(super) more: [u32; 2],
    /// Place of the kind in [`KINDS`].
    pub(super) kind: u8,
    pub(super) is_described: u8,
    pub(super) unused: [u8; 2],
}

/// Kinds of files, by their numbers in inodes.
pub(super) const KINDS: [FileKind; 7] = [
    FileKind::Directory,
    FileKind::Regular,
    FileKind::Symlink,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

impl Name {
    pub(super) fn absent() -> Self {
        Self {
            next: NONE,
            first_child: NONE,
            inode: NONE,
            layer: NO_LAYER,
            hidden_in: NO_LAYER,
            ..Self::new_zeroed()
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.is_present != 0
    }

    pub(super) fn text(&self, texts: &mut Paged<u8>) -> Result<Vec<u8>> {
        let mut text = vec![0; self.length.into()];
        texts.read(self.text_at as usize, &mut text)?;
        Ok(text)
    }

    /// Returns the bytes of all entries of a directory of a complete tree.
    pub(super) fn entries_bytes(&self) -> u64 {
        self.first_child.into()
    }
}

impl Inode {
    /// Returns a directory that no layer has described.
    pub(super) fn directory() -> Self {
        Self {
            first_name: NONE,
            ..Self::new_zeroed()
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    pub(super) fn kind(&self) -> FileKind {
        KINDS[usize::from(self.kind)]
    }

    /// Returns true if an entry of a layer describes the inode.
    pub(super) fn is_described(&self) -> bool {
        self.is_described != 0
    }

    /// Returns true if a complete tree has the inode.
    pub(super) fn is_left(&self) -> bool {
        self.first_name != NONE
    }

    /// Returns the bytes of data of a regular file.
    pub(super) fn held(&self) -> u64 {
        u64::from(self.held[0]) | u64::from(self.held[1]) << 32
    }

    /// Returns the length of a symbolic link's target.
    pub(super) fn target_bytes(&self) -> usize {
        self.held[1] as usize
    }

    /// Returns the space for attributes, and for holes in the data.
    pub(super) fn more(&self) -> Tally {
        let [inodes, blocks] = self.more.map(u64::from);
        Tally {
            inodes,
            blocks,
            bytes: 0,
        }
    }
}
