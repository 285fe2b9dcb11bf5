//! Checksums of the structures of a new volume. Its files are of generation 0.

use layout::checksum::{self, metadata};
use layout::directory::{EntryTail, TAIL_SIZE};
use layout::feature::{Features, ReadOnlyCompatible};
use layout::superblock::Superblock;
use layout::{BlockNr, GroupNr, InodeNr};
use zerocopy::IntoBytes;

use crate::disk::checksums::Checksums;

/// The checksums of a new volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sums(Checksums);

impl Sums {
    pub(super) fn new(features: Features, uuid: &[u8; 16]) -> Self {
        let features = features.read_only_compatible;
        Self(if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
            Checksums::Metadata(checksum::crc32c(checksum::START, uuid))
        } else if features.contains(ReadOnlyCompatible::UNINIT_BG) {
            Checksums::Descriptors(*uuid)
        } else {
            Checksums::None
        })
    }

    /// Returns the seed of checksums of all metadata.
    pub(super) fn seed(self) -> Option<u32> {
        match self.0 {
            Checksums::Metadata(seed) => Some(seed),
            _ => None,
        }
    }

    /// Returns true if groups have flags.
    pub(super) fn has_group_flags(self) -> bool {
        self.0.has_group_flags()
    }

    /// Returns the seed of an inode's structures.
    pub(super) fn owner(self, nr: InodeNr) -> Option<u32> {
        self.seed().map(|seed| metadata::owner(seed, nr.get(), 0))
    }

    /// Returns the number of bytes that entries of directories leave free at a block's end.
    pub(super) fn tail_bytes(self) -> usize {
        if self.0.has_tails() { TAIL_SIZE } else { 0 }
    }

    pub(super) fn seal_directory(self, nr: InodeNr, block: &mut [u8]) {
        let Some(owner) = self.owner(nr) else { return };
        let tail = EntryTail::new(metadata::directory_leaf(owner, block));
        let at = block.len() - TAIL_SIZE;
        block[at..].copy_from_slice(tail.as_bytes());
    }

    /// Returns the checksum of a block of the orphan file; 0 if it has none.
    pub(super) fn orphan_block(self, nr: InodeNr, block: BlockNr, bytes: &[u8]) -> u32 {
        let owner = self.owner(nr);
        owner.map_or(0, |owner| metadata::orphan_block(owner, block.get(), bytes))
    }

    pub(super) fn seal_inode(self, nr: InodeNr, bytes: &mut [u8]) {
        self.0.seal_inode(nr, bytes);
    }

    /// Stores the checksum of a descriptor of 32 or 64 bytes.
    pub(super) fn seal_descriptor(self, group: GroupNr, bytes: &mut [u8]) {
        self.0.seal_descriptor(group, bytes);
    }
}

/// Stores the checksum of a superblock, if the volume has one.
pub(super) fn seal_superblock(raw: &mut Superblock) {
    let features = raw.features().read_only_compatible;
    if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
        raw.checksum.set(checksum::superblock(raw));
    }
}
