//! Kinds of metadata blocks, and a table of the checks that need only the block itself.
//!
//! | kind | owner | damage found by the block alone |
//! |---|---|---|
//! | superblock | the volume | an invalid field |
//! | group descriptors | the first group | a place outside the group, an impossible count |
//! | bitmaps | the group | none: each bit pattern is possible |
//! | inode table | the group | none: each inode is checked when it is loaded |
//! | directory | the inode | an entry without a valid shape |
//! | indirect block | the inode | a pointer outside the volume |
//! | extent block | the inode | a header or an entry that is impossible |
//! | attribute block | the volume, because inodes share it | a header without a valid shape |
//! | orphan file block | the orphan file | no tail with the magic |
//! | contents | the volume | none |
//!
//! A block is verified when it is read from the device, and sealed right before a transaction
//! freezes it or, without a journal, before it is written; debug builds assert at this place that
//! the block would verify again.
//!
//! On a volume with `metadata_csum` the checksums of directory, extent, attribute and orphan file
//! blocks are checked first, since nothing in a block with a wrong one can be trusted, and these
//! blocks get their checksums when they are sealed: a change need not know that there are any.
//! Inodes, descriptors and bitmaps are checked when they are used, and get theirs at each change;
//! the reasons are in [`super::checksums`].

use std::sync::Arc;

use layout::attribute::{BlockHeader, MAGIC, REFCOUNT_MAX};
use layout::{Block, BlockNr, GroupNr, InodeNr, orphan};
use zerocopy::FromBytes;

pub(crate) use jbd2::Label;

use super::checksums::Checksums;
use super::entry::{self, Bad};
use super::extents::Node;
use super::geometry::Geometry;
use super::group;
use super::superblock::Superblock;
use crate::error::{Corrupt, Error};

/// The kind of a buffer's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes of a file: journaled data, and the target of a long symbolic link.
    Contents,
    Superblock,
    Descriptors,
    BlockBitmap,
    InodeBitmap,
    InodeTable,
    Directory,
    Indirect,
    Attributes,
    Extents,
    /// A block of the orphan file.
    Orphans,
}

impl Kind {
    /// Returns the label of a block that belongs to the volume as a whole.
    pub(crate) const fn of_volume(self) -> Label {
        self.label(0, 0)
    }

    /// Returns the label of a group's block.
    pub(crate) const fn of_group(self, group: GroupNr) -> Label {
        self.label(group.get(), 0)
    }

    /// Returns the label of an inode's block.
    pub(crate) const fn of_inode(self, inode: InodeNr, generation: u32) -> Label {
        self.label(inode.get(), generation)
    }

    const fn label(self, owner: u32, generation: u32) -> Label {
        Label {
            kind: self as u8,
            owner,
            generation,
        }
    }
}

/// Damage found by checking a block alone.
#[derive(Debug)]
pub(crate) enum Damage {
    /// Damage to the volume's own metadata, or a checksum that does not match: the error names the
    /// place.
    Volume(Error),
    /// Damage to a block of a file. The reader knows its place in the file.
    File(Bad),
}

impl Damage {
    fn of_checksum(damage: Corrupt) -> Self {
        Self::Volume(damage.into())
    }
}

impl From<Bad> for Damage {
    fn from(bad: Bad) -> Self {
        Self::File(bad)
    }
}

/// A check of a block alone.
type Verify = fn(&Checks, Label, BlockNr, &[u8]) -> Result<(), Damage>;

/// The check of each kind, in the order of [`Kind`].
const TABLE: [(Kind, Verify); 11] = [
    (Kind::Contents, verify_nothing),
    (Kind::Superblock, verify_superblock),
    (Kind::Descriptors, verify_descriptors),
    (Kind::BlockBitmap, verify_nothing),
    (Kind::InodeBitmap, verify_nothing),
    (Kind::InodeTable, verify_nothing),
    (Kind::Directory, verify_directory),
    (Kind::Indirect, verify_indirect),
    (Kind::Attributes, verify_attributes),
    (Kind::Extents, verify_extents),
    (Kind::Orphans, verify_orphans),
];

/// The properties of a volume that the checks need.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    geometry: Geometry,
    checksums: Checksums,
    device_bytes: u64,
}

impl Checks {
    /// Creates the checks of a volume on a device of this size in bytes.
    pub(crate) fn new(geometry: &Geometry, checksums: Checksums, device_bytes: u64) -> Self {
        Self {
            geometry: geometry.clone(),
            checksums,
            device_bytes,
        }
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes
    }

    /// Checks a block that was read.
    pub(crate) fn verify(&self, label: Label, block: BlockNr, bytes: &[u8]) -> Result<(), Damage> {
        let (_, verify) = TABLE[usize::from(label.kind)];
        verify(self, label, block, bytes)
    }

    /// Completes a block that will be frozen for a commit, or written without a journal.
    pub(crate) fn seal(&self, label: Label, block: BlockNr, image: &mut Arc<Block>) {
        let (kind, _) = TABLE[usize::from(label.kind)];
        let (inode, generation) = (InodeNr::new(label.owner), label.generation);
        match kind {
            Kind::Superblock => {
                let (_, offset) = self.geometry.superblock_place();
                self.checksums.seal_superblock(image, offset);
            }
            Kind::Directory => self.checksums.seal_directory(inode, generation, image),
            Kind::Extents => self.checksums.seal_extents(inode, generation, image),
            Kind::Attributes => self.checksums.seal_attributes(block, image),
            Kind::Orphans => self.checksums.seal_orphans(inode, generation, block, image),
            Kind::Contents
            | Kind::Descriptors
            | Kind::BlockBitmap
            | Kind::InodeBitmap
            | Kind::InodeTable
            | Kind::Indirect => {}
        }
        debug_assert!(
            self.verify(label, block, image).is_ok(),
            "block {block} ({label:?}) is damaged before it is written: {:?}",
            self.verify(label, block, image)
        );
    }

    /// Returns the damage of a block that is in memory as a block of another kind.
    pub(crate) fn mismatch(&self, label: Label, block: BlockNr) -> Damage {
        let (kind, _) = TABLE[usize::from(label.kind)];
        let why = "the block is in use as one of another kind";
        match kind {
            Kind::Contents
            | Kind::Directory
            | Kind::Indirect
            | Kind::Attributes
            | Kind::Extents => Damage::File(Bad { offset: 0, why }),
            Kind::Superblock
            | Kind::Descriptors
            | Kind::BlockBitmap
            | Kind::InodeBitmap
            | Kind::InodeTable
            | Kind::Orphans => {
                let group = GroupNr::new(label.owner);
                let number = block.get();
                Damage::Volume(Corrupt::Bitmap { group, number, why }.into())
            }
        }
    }
}

fn verify_nothing(_: &Checks, _: Label, _: BlockNr, _: &[u8]) -> Result<(), Damage> {
    Ok(())
}

fn verify_superblock(checks: &Checks, _: Label, _: BlockNr, bytes: &[u8]) -> Result<(), Damage> {
    let (_, offset) = checks.geometry.superblock_place();
    let decoded = Superblock::decode(&bytes[offset..], checks.device_bytes);
    decoded.map(drop).map_err(Damage::Volume)
}

fn verify_descriptors(
    checks: &Checks,
    label: Label,
    _: BlockNr,
    bytes: &[u8],
) -> Result<(), Damage> {
    let first = GroupNr::new(label.owner);
    let checked = group::check_block(&checks.geometry, checks.checksums, first, bytes);
    checked.map_err(|damage| Damage::Volume(damage.into()))
}

fn verify_directory(
    checks: &Checks,
    label: Label,
    block: BlockNr,
    bytes: &[u8],
) -> Result<(), Damage> {
    let (inode, generation) = (InodeNr::new(label.owner), label.generation);
    let sealed = checks
        .checksums
        .check_directory(inode, generation, block, bytes);
    sealed.map_err(Damage::of_checksum)?;
    match entry::entries(bytes).find_map(Result::err) {
        None => Ok(()),
        Some(bad) => Err(bad.into()),
    }
}

fn verify_indirect(checks: &Checks, _: Label, _: BlockNr, bytes: &[u8]) -> Result<(), Damage> {
    for (index, raw) in bytes.chunks_exact(4).enumerate() {
        let pointer = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        if pointer != 0 && !checks.geometry.contains(BlockNr::new(pointer.into())) {
            let (offset, why) = (index * 4, "a pointer leads out of the volume");
            return Err(Bad { offset, why }.into());
        }
    }
    Ok(())
}

fn verify_extents(
    checks: &Checks,
    label: Label,
    block: BlockNr,
    bytes: &[u8],
) -> Result<(), Damage> {
    let (inode, generation) = (InodeNr::new(label.owner), label.generation);
    let sealed = checks
        .checksums
        .check_extents(inode, generation, block, bytes);
    sealed.map_err(Damage::of_checksum)?;
    Node::decode(bytes).map(drop).map_err(Damage::File)
}

fn verify_attributes(
    checks: &Checks,
    _: Label,
    block: BlockNr,
    bytes: &[u8],
) -> Result<(), Damage> {
    let sealed = checks.checksums.check_attributes(block, bytes);
    sealed.map_err(Damage::of_checksum)?;
    let bad = |why| Err(Bad { offset: 0, why }.into());
    let (header, _) = BlockHeader::read_from_prefix(bytes).expect("a block holds the header");
    if header.magic.get() != MAGIC || header.block_count.get() != 1 {
        return bad("the block does not begin as one of attributes");
    }
    if header.reference_count.get() == 0 || header.reference_count.get() > REFCOUNT_MAX {
        return bad("the block's count of users cannot be");
    }
    Ok(())
}

fn verify_orphans(
    checks: &Checks,
    label: Label,
    block: BlockNr,
    bytes: &[u8],
) -> Result<(), Damage> {
    let (inode, generation) = (InodeNr::new(label.owner), label.generation);
    if orphan::Tail::of_block(bytes).is_none() {
        let damage = Corrupt::OrphanFile {
            inode,
            block: Some(block),
            why: "the block does not end as one of the orphan file",
        };
        return Err(Damage::Volume(damage.into()));
    }
    let sealed = checks
        .checksums
        .check_orphans(inode, generation, block, bytes);
    sealed.map_err(Damage::of_checksum)
}

#[cfg(test)]
pub(crate) mod tests;
