//! Features that can be set or cleared without a conversion.
//!
//! | cleared feature | condition |
//! |---|---|
//! | `dir_index` | none: directories are readable without the index, and lose their index flag |
//! | `ext_attr` | no inode has attributes |
//! | `large_file` | no file has 2 GiB or more |
//!
//! One pass over the inode tables checks the conditions. Features whose removal would leave work
//! for e2fsck are refused by name.

use core::ops::ControlFlow;
use std::sync::Arc;

use block::BlockDevice;
use layout::attribute;
use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible, Word, lookup};
use layout::inode::{BASE_SIZE, InodeFlags};
use layout::mode::FileType;
use layout::superblock::Superblock as Raw;

use crate::disk::superblock::Superblock;
use crate::disk::tables::{TableInode, Tables};
use crate::error::{Error, Result};

/// Size in bytes from which a file needs `large_file`.
const LARGE_BYTES: u64 = 1 << 31;

/// Returns the features that this module sets and clears.
const fn free(word: Word) -> u32 {
    match word {
        Word::Compatible => Compatible::DIR_INDEX.union(Compatible::EXT_ATTR).bits(),
        Word::Incompatible => 0,
        Word::ReadOnlyCompatible => ReadOnlyCompatible::LARGE_FILE.bits(),
    }
}

/// Returns the features that tune2fs clears and that leave work for e2fsck.
const fn left_to_e2fsck(word: Word) -> u32 {
    match word {
        Word::Compatible => Compatible::RESIZE_INODE.bits(),
        Word::Incompatible => Incompatible::FILETYPE.bits(),
        Word::ReadOnlyCompatible => 0,
    }
}

/// Returns the feature of this name, if it can be set without a conversion.
///
/// # Errors
/// [`Error::Unsupported`] if it is unknown or needs a conversion.
pub fn free_feature(name: &str) -> Result<(Word, u32)> {
    let (word, bit) = known(name)?;
    if free(word) & bit == bit {
        return Ok((word, bit));
    }
    Err(Error::Unsupported(format!(
        "the feature {name} cannot be given to a volume that is there: dir_index, ext_attr and large_file can, and has_journal"
    )))
}

/// Returns the feature of this name, if it can be cleared while nothing uses it.
///
/// # Errors
/// [`Error::Unsupported`] if it is unknown or cannot be cleared; the message names the tool that
/// can.
pub fn removable_feature(name: &str) -> Result<(Word, u32)> {
    let (word, bit) = known(name)?;
    if free(word) & bit == bit {
        return Ok((word, bit));
    }
    Err(Error::Unsupported(if left_to_e2fsck(word) & bit == bit {
        format!(
            "the feature {name} is not taken away here, since work would be left: tune2fs -O ^{name} does, and then e2fsck -f"
        )
    } else {
        format!(
            "the feature {name} cannot be taken away: dir_index, ext_attr and large_file can, and has_journal"
        )
    }))
}

fn known(name: &str) -> Result<(Word, u32)> {
    lookup(name).ok_or_else(|| Error::Unsupported(format!("there is no feature {name}")))
}

/// Features to clear that the volume has; checking them reads all inodes.
pub(super) struct Removal {
    dir_index: bool,
    ext_attr: bool,
    large_file: bool,
}

impl Removal {
    /// Returns the listed features that the volume has; none if it has none of them.
    pub(super) fn of(raw: &Raw, features: &[(Word, u32)]) -> Option<Self> {
        let has = |word, bit| {
            let is_asked = features.contains(&(word, bit));
            is_asked && raw.features().word(word) & bit != 0
        };
        let compatible = |bit: Compatible| has(Word::Compatible, bit.bits());
        let large_file = ReadOnlyCompatible::LARGE_FILE.bits();
        let removal = Self {
            dir_index: compatible(Compatible::DIR_INDEX),
            ext_attr: compatible(Compatible::EXT_ATTR),
            large_file: has(Word::ReadOnlyCompatible, large_file),
        };
        (removal.dir_index || removal.ext_attr || removal.large_file).then_some(removal)
    }

    /// Checks that nothing uses the features. Returns the places of the inodes of indexed
    /// directories, if the index is cleared.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] names the first inode that needs a feature.
    pub(super) fn check(
        &self,
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
    ) -> Result<Vec<u64>> {
        let mut indexed = Vec::new();
        Tables::open(device, superblock)?.visit(&mut |inode| {
            if let Some((feature, what)) = self.user(inode) {
                return Err(Error::Unsupported(format!(
                    "the feature {feature} has to stay: inode {} {what}",
                    inode.nr
                )));
            }
            let is_directory = inode.kind == FileType::Directory;
            if self.dir_index && is_directory && inode.base.flags().contains(InodeFlags::INDEX) {
                indexed.push(inode.offset);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(indexed)
    }

    /// Returns the feature that an inode needs, and the reason.
    fn user(&self, inode: &TableInode<'_>) -> Option<(&'static str, &'static str)> {
        if self.ext_attr && has_attributes(inode) {
            return Some(("ext_attr", "has extended attributes"));
        }
        let is_large = inode.kind == FileType::Regular && inode.base.size(false) >= LARGE_BYTES;
        (self.large_file && is_large).then_some(("large_file", "has 2 GiB or more"))
    }
}

fn has_attributes(inode: &TableInode<'_>) -> bool {
    if inode.base.attribute_block(false) != 0 {
        return true;
    }
    let within = BASE_SIZE + crate::disk::inode::extra_size(inode.bytes);
    let word = |at: usize| {
        let raw = inode.bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
    };
    word(within) == Some(attribute::MAGIC) && word(within + 4).is_some_and(|first| first != 0)
}

/// Clears the index flag of directories, whose inodes are at these byte offsets of the device. The
/// change is durable on return.
pub(super) fn clear_indexes(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    inodes: &[u64],
) -> Result<()> {
    let block_bytes = superblock.geometry.block_bytes;
    for offset in inodes {
        let start = offset - offset % u64::from(block_bytes);
        let mut image = device.read_block(start, block_bytes)?;
        let block: &mut layout::Block = Arc::make_mut(&mut image);
        let bytes = &mut block[(offset - start) as usize..];
        let (inode, _) = <layout::inode::Inode as zerocopy::FromBytes>::mut_from_prefix(bytes)
            .expect("a block has room for its inodes");
        inode.set_flags(inode.flags() - InodeFlags::INDEX);
        device.write_blocks(start, vec![image])?;
    }
    if !inodes.is_empty() {
        device.flush()?;
    }
    Ok(())
}
