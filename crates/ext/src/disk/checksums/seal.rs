//! Storing checksums.
//!
//! | structure | its checksum is computed |
//! |---|---|
//! | blocks that are one structure, superblock | once a transaction, by [`Checks::seal`] |
//! | inodes, descriptors | at each change, with the change |
//! | bitmaps | at each change, with the counts of the descriptor that has their checksum |
//!
//! A block that is one structure is sealed as a whole when it leaves memory: its checksum then
//! costs one pass a transaction, however often the block has changed. An inode or a descriptor
//! shares its block with others, and one of those may be damaged: to seal them all would declare
//! the damaged one sound. A bitmap's checksum lies in another block, which has to be part of the
//! same transaction.
//!
//! An image that has the right checksum is left alone, so that one that is shared is not copied.
//!
//! [`Checks::seal`]: crate::disk::metadata::Checks::seal

use core::mem::offset_of;
use std::sync::Arc;

use layout::attribute::BlockHeader;
use layout::checksum::{self, metadata};
use layout::directory::{EntryTail, TAIL_SIZE};
use layout::group::GroupDescriptor;
use layout::inode::{BASE_SIZE, Inode, InodeExtra, has_checksum_high};
use layout::superblock::Superblock as Raw;
use layout::{Block, BlockNr, GroupNr, InodeNr, extent, htree, orphan};
use zerocopy::{FromBytes, IntoBytes};

use super::{Checksums, entries_offset};

impl Checksums {
    /// Seals the superblock at an offset of its block.
    pub(crate) fn seal_superblock(self, image: &mut Arc<Block>, offset: usize) {
        let Self::Metadata(_) = self else { return };
        if rt::mutant!("checksums/superblock-not-sealed") {
            return;
        }
        let (raw, _) = Raw::ref_from_prefix(&image[offset..])
            .expect("a block has room for a superblock at its offset");
        let sum = checksum::superblock(raw);
        put(
            image,
            offset + offset_of!(Raw, checksum),
            &sum.to_le_bytes(),
        );
    }

    /// Seals a directory block of either form: a leaf, or an index block.
    pub(crate) fn seal_directory(self, inode: InodeNr, generation: u32, image: &mut Arc<Block>) {
        let Self::Metadata(seed) = self else { return };
        let owner = metadata::owner(seed, inode.get(), generation);
        if let Some(offset) = entries_offset(image) {
            let tail = htree::tail_offset(image, offset);
            if let (Some(at), Some((_, sum))) = (tail, metadata::index_block(owner, image, offset))
            {
                let at = at + offset_of!(htree::Tail, checksum);
                put(image, at, &sum.to_le_bytes());
            }
            return;
        }
        debug_assert!(
            EntryTail::of_block(image).is_some(),
            "the entries of directory {inode} leave no room for the tail"
        );
        let tail = EntryTail::new(metadata::directory_leaf(owner, image));
        put(image, image.len() - TAIL_SIZE, tail.as_bytes());
    }

    /// Seals a block of an extent tree.
    pub(crate) fn seal_extents(self, inode: InodeNr, generation: u32, image: &mut Arc<Block>) {
        let Self::Metadata(seed) = self else { return };
        let owner = metadata::owner(seed, inode.get(), generation);
        let Some((_, sum)) = metadata::extent_block(owner, image) else {
            return;
        };
        let (header, _) = extent::Header::ref_from_prefix(image).expect("a block holds the header");
        let at = header.tail_offset();
        put(image, at, &sum.to_le_bytes());
    }

    /// Seals an attribute block.
    pub(crate) fn seal_attributes(self, block: BlockNr, image: &mut Arc<Block>) {
        let Self::Metadata(seed) = self else { return };
        let sum = metadata::attribute_block(seed, block.get(), image);
        put(image, offset_of!(BlockHeader, checksum), &sum.to_le_bytes());
    }

    /// Seals a block of the orphan file.
    pub(crate) fn seal_orphans(
        self,
        inode: InodeNr,
        generation: u32,
        block: BlockNr,
        image: &mut Arc<Block>,
    ) {
        let Self::Metadata(seed) = self else { return };
        if rt::mutant!("checksums/orphan-block-not-sealed") {
            return;
        }
        let owner = metadata::owner(seed, inode.get(), generation);
        let sum = metadata::orphan_block(owner, block.get(), image);
        let at = image.len() - orphan::TAIL_SIZE + offset_of!(orphan::Tail, checksum);
        put(image, at, &sum.to_le_bytes());
    }

    /// Seals all bytes of an inode of the table.
    pub(crate) fn seal_inode(self, inode: InodeNr, bytes: &mut [u8]) {
        const LOW: usize = offset_of!(Inode, checksum_low);
        const HIGH: usize = BASE_SIZE + offset_of!(InodeExtra, checksum_high);
        let Self::Metadata(seed) = self else { return };
        rt::charge(rt::Cost::Checksum(bytes.len() as u64));
        let (base, _) = Inode::ref_from_prefix(bytes).expect("an inode has at least its base");
        let generation = match rt::mutant!("checksums/inode-without-generation") {
            true => 0,
            false => base.generation.get(),
        };
        let owner = metadata::owner(seed, inode.get(), generation);
        let [first, second, third, fourth] = metadata::inode(owner, bytes).to_le_bytes();
        bytes[LOW..LOW + 2].copy_from_slice(&[first, second]);
        if has_checksum_high(bytes) {
            bytes[HIGH..HIGH + 2].copy_from_slice(&[third, fourth]);
        }
    }

    /// Returns the checksum of a bitmap with this number of bits, if it has one.
    pub(crate) fn of_bitmap(self, bitmap: &[u8], bits: u32) -> Option<u32> {
        let Self::Metadata(seed) = self else {
            return None;
        };
        rt::charge(rt::Cost::Checksum(u64::from(bits / 8)));
        Some(metadata::bitmap(seed, bitmap, bits))
    }

    /// Seals all bytes of a descriptor.
    pub(crate) fn seal_descriptor(self, group: GroupNr, bytes: &mut [u8]) {
        const AT: usize = offset_of!(GroupDescriptor, checksum);
        let sum = match self {
            Self::None => return,
            Self::Descriptors(uuid) => checksum::group_descriptor_crc16(&uuid, group.get(), bytes),
            Self::Metadata(seed) if rt::mutant!("checksums/descriptor-of-short-form") => {
                metadata::group_descriptor(seed, group.get(), &bytes[..layout::group::SIZE])
            }
            Self::Metadata(seed) => metadata::group_descriptor(seed, group.get(), bytes),
        };
        rt::charge(rt::Cost::Checksum(bytes.len() as u64));
        bytes[AT..AT + 2].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Stores a checksum in an image, if the image has another one.
fn put(image: &mut Arc<Block>, at: usize, sum: &[u8]) {
    rt::charge(rt::Cost::Checksum(image.len() as u64));
    let end = at + sum.len();
    if image[at..end] != *sum {
        let block: &mut Block = Arc::make_mut(image);
        block[at..end].copy_from_slice(sum);
    }
}
