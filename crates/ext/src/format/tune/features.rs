//! Features that cost nothing to set or to take away.
//!
//! | taken away | needs |
//! |---|---|
//! | `dir_index` | nothing: the flag goes from all indexed directories, whose blocks are readable without the index |
//! | `ext_attr` | that no inode has attributes |
//! | `large_file` | that no file has 2 GiB or more |
//!
//! Whether it is so is found by one pass over the inode tables. What would leave work for a checker is refused, by name.

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

/// The least size of a file that needs `large_file`.
const LARGE_BYTES: u64 = 1 << 31;

/// Features that are set and taken away here.
const fn free(word: Word) -> u32 {
    match word {
        Word::Compatible => Compatible::DIR_INDEX.union(Compatible::EXT_ATTR).bits(),
        Word::Incompatible => 0,
        Word::ReadOnlyCompatible => ReadOnlyCompatible::LARGE_FILE.bits(),
    }
}

/// Features that tune2fs takes away, after which e2fsck has work to do.
const fn left_to_e2fsck(word: Word) -> u32 {
    match word {
        Word::Compatible => Compatible::RESIZE_INODE.bits(),
        Word::Incompatible => Incompatible::FILETYPE.bits(),
        Word::ReadOnlyCompatible => 0,
    }
}

/// A feature of this name, if it costs nothing to set it.
///
/// # Errors
/// [`Error::Unsupported`] if it is unknown or would cost something.
pub fn free_feature(name: &str) -> Result<(Word, u32)> {
    let (word, bit) = known(name)?;
    if free(word) & bit == bit {
        return Ok((word, bit));
    }
    Err(Error::Unsupported(format!(
        "the feature {name} cannot be given to a volume that is there: dir_index, ext_attr and large_file can, and has_journal"
    )))
}

/// A feature of this name, if it can be taken away where nothing uses it.
///
/// # Errors
/// [`Error::Unsupported`] if it is unknown or cannot; the message names the tool that can.
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

/// Features that are there and are to go, which needs a look at all inodes.
pub(super) struct Removal {
    dir_index: bool,
    ext_attr: bool,
    large_file: bool,
}

impl Removal {
    /// Those of a list that the volume has; none if it has none of them.
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

    /// That nothing uses the features; where the inodes of indexed directories lie, if the index is to go.
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

    /// The feature that an inode needs, and why.
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

/// Takes the flag of an index from directories, whose inodes lie at these bytes of the device. It is durable when this returns.
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
