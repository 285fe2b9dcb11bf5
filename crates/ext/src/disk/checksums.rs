//! The checksums that structures of ext4 carry: their verification, and in [`seal`] how they are
//! stored.
//!
//! | features | checksums |
//! |---|---|
//! | `metadata_csum` | crc32c of all that [`Sealed`] names |
//! | `uninit_bg` without `metadata_csum` | crc16 of descriptors |
//! | neither | none |
//!
//! The kind of a directory block follows from its contents: the first entries of an index block
//! cover the whole block, and those of a leaf end before its tail. The tail alone shows nothing:
//! the root of an index keeps the form of the tail that it had as a leaf. A block in neither form
//! has lost its checksum, which is a mismatch, too.

mod seal;

use layout::checksum::{self, metadata};
use layout::directory::{EntryHeader, EntryTail, decode_record_length};
use layout::feature::{Features, Incompatible, ReadOnlyCompatible};
use layout::group::GroupDescriptor;
use layout::htree::{
    NODE_ENTRIES_OFFSET, ROOT_ENTRIES_OFFSET, ROOT_INFO_LENGTH, ROOT_INFO_OFFSET, RootInfo,
};
use layout::superblock::{State, Superblock as Raw};
use layout::{BlockNr, GroupNr, InodeNr};
use zerocopy::FromBytes;

use super::entry::size_of_name;
use crate::error::{Corrupt, Sealed};

/// The checksums of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksums {
    /// No structure has one.
    None,
    /// Of group descriptors only, from this UUID.
    Descriptors([u8; 16]),
    /// Of all metadata, from this seed.
    Metadata(u32),
}

impl Checksums {
    /// Returns the checksums of a volume.
    pub(crate) fn of(raw: &Raw, features: Features) -> Self {
        let features = features.read_only_compatible;
        if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
            Self::Metadata(metadata::seed(raw))
        } else if features.contains(ReadOnlyCompatible::UNINIT_BG) {
            Self::Descriptors(raw.uuid)
        } else {
            Self::None
        }
    }

    /// Returns true if all metadata has checksums, so that directory blocks have a tail.
    pub(crate) fn has_tails(self) -> bool {
        matches!(self, Self::Metadata(_))
    }

    /// Returns true if the flags of group descriptors are valid.
    pub(crate) fn has_group_flags(self) -> bool {
        self != Self::None
    }

    /// Checks a superblock. The checksum may be that of other values of the marks: a write that
    /// changes marks only can be torn between its first sector and the one with the checksum.
    pub(crate) fn check_superblock(self, raw: &Raw) -> Result<(), Corrupt> {
        let Self::Metadata(_) = self else {
            return Ok(());
        };
        let stored = raw.checksum.get();
        let is_of = |state: State, recovery, orphans| {
            let mut other = *raw;
            let mut features = raw.features();
            features.incompatible.toggle(recovery);
            features.read_only_compatible.toggle(orphans);
            other.set_features(features);
            other.state_bits.set((raw.state() ^ state).bits());
            checksum::superblock(&other) == stored
        };
        let states = [
            State::empty(),
            State::ERROR,
            State::VALID,
            State::VALID.union(State::ERROR),
        ];
        for state in states {
            for orphans in [
                ReadOnlyCompatible::empty(),
                ReadOnlyCompatible::ORPHAN_PRESENT,
            ] {
                for recovery in [Incompatible::empty(), Incompatible::NEEDS_RECOVERY] {
                    if is_of(state, recovery, orphans) {
                        return Ok(());
                    }
                }
            }
        }
        Err(Corrupt::Checksum(Sealed::Superblock))
    }

    /// Checks all bytes of a group descriptor.
    pub(crate) fn check_descriptor(self, group: GroupNr, bytes: &[u8]) -> Result<(), Corrupt> {
        let computed = match self {
            Self::None => return Ok(()),
            Self::Descriptors(uuid) => checksum::group_descriptor_crc16(&uuid, group.get(), bytes),
            Self::Metadata(seed) => metadata::group_descriptor(seed, group.get(), bytes),
        };
        let (raw, _) = GroupDescriptor::ref_from_prefix(bytes)
            .expect("a descriptor has at least its shorter form");
        same(raw.checksum.get(), computed, || Sealed::Descriptor {
            group,
        })
    }

    /// Checks all bytes of an inode of the table.
    pub(crate) fn check_inode(self, inode: InodeNr, bytes: &[u8]) -> Result<(), Corrupt> {
        match self {
            Self::Metadata(seed) if !metadata::is_inode_good(seed, inode.get(), bytes) => {
                Err(Corrupt::Checksum(Sealed::Inode { inode }))
            }
            _ => Ok(()),
        }
    }

    /// Checks a directory block.
    pub(crate) fn check_directory(
        self,
        inode: InodeNr,
        generation: u32,
        block: BlockNr,
        bytes: &[u8],
    ) -> Result<(), Corrupt> {
        let found = |owner| match entries_offset(bytes) {
            Some(offset) => metadata::index_block(owner, bytes, offset)
                .map(|(tail, computed)| (tail.checksum.get(), computed)),
            None => EntryTail::of_block(bytes)
                .map(|tail| (tail.checksum.get(), metadata::directory_leaf(owner, bytes))),
        };
        self.check_tail((inode, generation), found, || Sealed::Directory {
            inode,
            block,
        })
    }

    /// Checks a block of an extent tree.
    pub(crate) fn check_extents(
        self,
        inode: InodeNr,
        generation: u32,
        block: BlockNr,
        bytes: &[u8],
    ) -> Result<(), Corrupt> {
        let found = |owner| {
            let found = metadata::extent_block(owner, bytes);
            found.map(|(tail, computed)| (tail.checksum.get(), computed))
        };
        self.check_tail((inode, generation), found, || Sealed::Extents {
            inode,
            block,
        })
    }

    /// Compares the checksum in the tail of an inode's block with the computed one, both found from
    /// the inode's seed. A block without a tail has none.
    fn check_tail(
        self,
        (inode, generation): (InodeNr, u32),
        found: impl FnOnce(u32) -> Option<(u32, u32)>,
        sealed: impl FnOnce() -> Sealed,
    ) -> Result<(), Corrupt> {
        let Self::Metadata(seed) = self else {
            return Ok(());
        };
        match found(metadata::owner(seed, inode.get(), generation)) {
            Some((stored, computed)) => same(stored, computed, sealed),
            None => Err(Corrupt::Checksum(sealed())),
        }
    }

    /// Checks an attribute block.
    pub(crate) fn check_attributes(self, block: BlockNr, bytes: &[u8]) -> Result<(), Corrupt> {
        let Self::Metadata(seed) = self else {
            return Ok(());
        };
        let (header, _) = layout::attribute::BlockHeader::ref_from_prefix(bytes)
            .expect("a block holds the header");
        let computed = metadata::attribute_block(seed, block.get(), bytes);
        same(header.checksum.get(), computed, || Sealed::Attributes {
            block,
        })
    }

    /// Checks a block of the orphan file.
    pub(crate) fn check_orphans(
        self,
        inode: InodeNr,
        generation: u32,
        block: BlockNr,
        bytes: &[u8],
    ) -> Result<(), Corrupt> {
        let found = |owner| {
            let tail = layout::orphan::Tail::of_block(bytes)?;
            let computed = metadata::orphan_block(owner, block.get(), bytes);
            Some((tail.checksum.get(), computed))
        };
        self.check_tail((inode, generation), found, || Sealed::Orphans {
            inode,
            block,
        })
    }
}

fn same<T: PartialEq>(
    stored: T,
    computed: T,
    sealed: impl FnOnce() -> Sealed,
) -> Result<(), Corrupt> {
    if stored == computed {
        return Ok(());
    }
    Err(Corrupt::Checksum(sealed()))
}

/// Returns the offset of the entries of a block in the form of an index block: the root, which
/// starts with `.` and `..`, or a node, which starts with an unused entry over the whole block.
fn entries_offset(bytes: &[u8]) -> Option<usize> {
    let dot = size_of_name(1);
    let (first, _) = EntryHeader::ref_from_prefix(bytes).ok()?;
    let length = decode_record_length(first.record_length.get(), bytes.len());
    if length == bytes.len() && first.inode.get() == 0 && first.name_length == 0 {
        return Some(NODE_ENTRIES_OFFSET);
    }
    let (second, _) = EntryHeader::ref_from_prefix(bytes.get(dot..)?).ok()?;
    let (info, _) = RootInfo::ref_from_prefix(bytes.get(ROOT_INFO_OFFSET..)?).ok()?;
    let is_root = length == dot
        && usize::from(second.record_length.get()) == bytes.len() - dot
        && info.reserved_zero.get() == 0
        && info.info_length == ROOT_INFO_LENGTH;
    (is_root && !rt::mutant!("checksums/index-root-as-leaf")).then_some(ROOT_ENTRIES_OFFSET)
}
