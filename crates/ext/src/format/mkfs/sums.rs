//! Checksums of the structures of a new volume: with `metadata_csum` of all of them, with
//! `uninit_bg` of the group descriptors.

use core::mem::offset_of;

use layout::checksum::{self, metadata};
use layout::directory::{EntryTail, TAIL_SIZE};
use layout::feature::{Features, ReadOnlyCompatible};
use layout::group::GroupDescriptor;
use layout::inode::{BASE_SIZE, Inode, InodeExtra};
use layout::superblock::Superblock;
use layout::{GroupNr, InodeNr};
use zerocopy::IntoBytes;

/// The kind of the volume's checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sums {
    None,
    /// Of group descriptors only, from the UUID.
    Descriptors([u8; 16]),
    /// Of all metadata, from this seed.
    All(u32),
}

impl Sums {
    pub(super) fn new(features: Features, uuid: &[u8; 16]) -> Self {
        let features = features.read_only_compatible;
        if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
            Self::All(checksum::crc32c(checksum::START, uuid))
        } else if features.contains(ReadOnlyCompatible::UNINIT_BG) {
            Self::Descriptors(*uuid)
        } else {
            Self::None
        }
    }

    /// Returns the seed of checksums of all metadata.
    pub(super) fn seed(self) -> Option<u32> {
        match self {
            Self::All(seed) => Some(seed),
            _ => None,
        }
    }

    /// Returns true if groups have flags.
    pub(super) fn has_group_flags(self) -> bool {
        self != Self::None
    }

    /// Returns the seed of an inode's structures. The files of a new volume are of generation 0.
    pub(super) fn owner(self, nr: InodeNr) -> Option<u32> {
        self.seed().map(|seed| metadata::owner(seed, nr.get(), 0))
    }

    /// Returns the number of bytes that entries of directories leave free at a block's end.
    pub(super) fn tail_bytes(self) -> usize {
        if self.seed().is_some() { TAIL_SIZE } else { 0 }
    }

    pub(super) fn seal_directory(self, nr: InodeNr, block: &mut [u8]) {
        let Some(owner) = self.owner(nr) else { return };
        let tail = EntryTail::new(metadata::directory_leaf(owner, block));
        let at = block.len() - TAIL_SIZE;
        block[at..].copy_from_slice(tail.as_bytes());
    }

    pub(super) fn seal_inode(self, nr: InodeNr, bytes: &mut [u8]) {
        const LOW: usize = offset_of!(Inode, checksum_low);
        const HIGH: usize = BASE_SIZE + offset_of!(InodeExtra, checksum_high);
        let Some(owner) = self.owner(nr) else { return };
        let [low @ .., third, fourth] = metadata::inode(owner, bytes).to_le_bytes();
        bytes[LOW..LOW + 2].copy_from_slice(&low);
        if layout::inode::has_checksum_high(bytes) {
            bytes[HIGH..HIGH + 2].copy_from_slice(&[third, fourth]);
        }
    }

    /// Stores the checksum of a descriptor of 32 or 64 bytes.
    pub(super) fn seal_descriptor(self, group: GroupNr, bytes: &mut [u8]) {
        const AT: usize = offset_of!(GroupDescriptor, checksum);
        let sum = match self {
            Self::None => return,
            Self::Descriptors(uuid) => checksum::group_descriptor_crc16(&uuid, group.get(), bytes),
            Self::All(seed) => metadata::group_descriptor(seed, group.get(), bytes),
        };
        bytes[AT..AT + 2].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Stores the checksum of a superblock, if the volume has one.
pub(super) fn seal_superblock(raw: &mut Superblock) {
    let features = raw.features().read_only_compatible;
    if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
        raw.checksum.set(checksum::superblock(raw));
    }
}
