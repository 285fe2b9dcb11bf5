//! Features that can be set or cleared without a conversion.
//!
//! | cleared feature | condition |
//! |---|---|
//! | `dir_index` | none: directories are readable without the index, and lose their index flag |
//! | `dir_index` with `metadata_csum` | no directory has an index |
//! | `ext_attr` | no inode has attributes |
//! | `extent` | no inode has extents |
//! | `large_file` | no file has 2 GiB or more |
//! | `huge_file` | no inode counts 2^32 sectors, or blocks |
//! | `dir_nlink` | no directory has too many subdirectories to count |
//! | `metadata_csum_seed` | the seed is that of the UUID |
//! | `casefold` | no directory ignores case |
//! | `orphan_file` | no slot of it is in use |
//! | `fast_commit` | none: the log of a volume that can be tuned is empty |
//! | `mmp` | none: a volume is taken while it is tuned, and the block becomes free |
//!
//! One pass over the inode tables checks the conditions. Features whose removal would leave work
//! for e2fsck are refused by name.

use core::ops::ControlFlow;
use std::sync::Arc;

use block::BlockDevice;
use layout::attribute;
use layout::feature::table::{Uses, with_uses};
use layout::feature::{
    Compatible, Features, Incompatible, ReadOnlyCompatible, Word, lookup, word_names,
};
use layout::hash::HashVersion;
use layout::inode::{BASE_SIZE, InodeFlags};
use layout::mode::FileType;
use layout::superblock::Superblock as Raw;

use crate::disk::checksums::Checksums;
use crate::disk::superblock::Superblock;
use crate::disk::tables::{TableInode, Tables};
use crate::error::{Error, Result};

/// Size in bytes from which a file needs `large_file`.
const LARGE_BYTES: u64 = 1 << 31;

/// The algorithms of a volume with `encrypt`: AES-256-XTS for contents, AES-256-CTS for names.
const ALGORITHMS: [u8; 4] = [1, 4, 0, 0];

/// The value of `s_encoding` for UTF-8 by the rules of Unicode 12.1, the only one that there is.
const UTF8_12_1: u16 = 1;

/// `orphan_file`.
pub(super) const ORPHAN_FILE: (Word, u32) = (Word::Compatible, Compatible::ORPHAN_FILE.bits());
/// `metadata_csum_seed`.
pub(super) const CHECKSUM_SEED: (Word, u32) =
    (Word::Incompatible, Incompatible::METADATA_CSUM_SEED.bits());

/// Chooses the hash of the first indexes of a volume, unless it has one: with a seed, and with the
/// sign of bytes said.
pub(super) fn choose_hash(raw: &mut Raw, wanted: Option<HashVersion>) {
    raw.say_hash_sign();
    let has_seed = raw.hash_seed_words.iter().any(|word| word.get() != 0);
    if !has_seed {
        for word in &mut raw.hash_seed_words {
            word.set(rt::random_u64() as u32);
        }
        if wanted.is_none() {
            raw.default_hash_version = HashVersion::HalfMd4 as u8;
        }
    }
}

/// Gives a volume the fields of features that it gets, and takes those of features that it loses.
pub(super) fn settle_fields(raw: &mut Raw, before: Features) {
    let (had, has) = (before.incompatible, raw.features().incompatible);
    if !had.contains(Incompatible::ENCRYPT) && has.contains(Incompatible::ENCRYPT) {
        raw.encryption_algorithms = ALGORITHMS;
    }
    if had.contains(Incompatible::CASEFOLD) != has.contains(Incompatible::CASEFOLD) {
        let is_set = has.contains(Incompatible::CASEFOLD);
        raw.encoding.set(if is_set { UTF8_12_1 } else { 0 });
        raw.encoding_flags.set(0);
    }
}

/// Returns the features with a use that this module gives them: all but `has_journal`, which is
/// set and cleared with a journal.
const fn with(word: Word, uses: Uses) -> u32 {
    let journal = match word {
        Word::Compatible => Compatible::HAS_JOURNAL.bits(),
        Word::Incompatible | Word::ReadOnlyCompatible => 0,
    };
    with_uses(word, uses) & !journal
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
    if with(word, Uses::SET) & bit == bit {
        return Ok((word, bit));
    }
    let can = names(Uses::SET);
    Err(Error::Unsupported(format!(
        "the feature {name} cannot be given to a volume that is there: {can} and has_journal can"
    )))
}

/// Returns the feature of this name, if it can be cleared while nothing uses it.
///
/// # Errors
/// [`Error::Unsupported`] if it is unknown or cannot be cleared; the message names the tool that
/// can.
pub fn removable_feature(name: &str) -> Result<(Word, u32)> {
    let (word, bit) = known(name)?;
    if with(word, Uses::CLEARED) & bit == bit {
        return Ok((word, bit));
    }
    let can = names(Uses::CLEARED);
    Err(Error::Unsupported(if left_to_e2fsck(word) & bit == bit {
        format!(
            "the feature {name} is not taken away here, since work would be left: tune2fs -O ^{name} does, and then e2fsck -f"
        )
    } else {
        format!("the feature {name} cannot be taken away: {can} and has_journal can")
    }))
}

/// Returns the names of the features with a use.
fn names(uses: Uses) -> String {
    let words = [
        Word::Compatible,
        Word::Incompatible,
        Word::ReadOnlyCompatible,
    ];
    let names = words
        .into_iter()
        .flat_map(|word| word_names(word, with(word, uses)));
    names.collect::<Vec<_>>().join(", ")
}

fn known(name: &str) -> Result<(Word, u32)> {
    lookup(name).ok_or_else(|| Error::Unsupported(format!("there is no feature {name}")))
}

/// Features to clear that the volume has; checking them reads all inodes.
pub(super) struct Removal {
    dir_index: bool,
    ext_attr: bool,
    extent: bool,
    large_file: bool,
    huge_file: bool,
    dir_nlink: bool,
    casefold: bool,
}

impl Removal {
    /// Returns the listed features that the volume has; none if it has none of them.
    pub(super) fn of(raw: &Raw, features: &[(Word, u32)]) -> Option<Self> {
        let has = |word, bit| {
            let is_asked = features.contains(&(word, bit));
            is_asked && raw.features().word(word) & bit != 0
        };
        let compatible = |bit: Compatible| has(Word::Compatible, bit.bits());
        let read_only = |bit: ReadOnlyCompatible| has(Word::ReadOnlyCompatible, bit.bits());
        let removal = Self {
            dir_index: compatible(Compatible::DIR_INDEX),
            ext_attr: compatible(Compatible::EXT_ATTR),
            extent: has(Word::Incompatible, Incompatible::EXTENTS.bits()),
            large_file: read_only(ReadOnlyCompatible::LARGE_FILE),
            huge_file: read_only(ReadOnlyCompatible::HUGE_FILE),
            dir_nlink: read_only(ReadOnlyCompatible::DIR_NLINK),
            casefold: has(Word::Incompatible, Incompatible::CASEFOLD.bits()),
        };
        let Self {
            dir_index,
            ext_attr,
            extent,
            large_file,
            huge_file,
            dir_nlink,
            casefold,
        } = removal;
        let uses_of_inodes = ext_attr || extent || large_file || huge_file;
        let is_any = uses_of_inodes || dir_index || dir_nlink || casefold;
        is_any.then_some(removal)
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
        let has_tails = Checksums::of(&superblock.raw, superblock.features).has_tails();
        Tables::open(device, superblock)?.visit(&mut |inode| {
            if let Some((feature, what)) = self.user(inode) {
                return Err(Error::Unsupported(format!(
                    "the feature {feature} has to stay: inode {} {what}",
                    inode.nr
                )));
            }
            let is_directory = inode.kind == FileType::Directory;
            let has_index = is_directory && inode.base.flags().contains(InodeFlags::INDEX);
            if self.dir_index && has_index && has_tails {
                return Err(Error::Unsupported(format!(
                    "the feature dir_index has to stay: the blocks of the index of directory {} have checksums of their own",
                    inode.nr
                )));
            }
            if self.dir_index && has_index {
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
        let (base, is_directory) = (&inode.base, inode.kind == FileType::Directory);
        let is_large = inode.kind == FileType::Regular && base.size(false) >= LARGE_BYTES;
        let is_huge = base.flags().contains(InodeFlags::HUGE_FILE) || base.blocks_high.get() != 0;
        let uses = [
            (
                self.extent && base.flags().contains(InodeFlags::EXTENTS),
                ("extent", "has extents"),
            ),
            (
                self.large_file && is_large,
                ("large_file", "has 2 GiB or more"),
            ),
            (
                self.huge_file && is_huge,
                ("huge_file", "has 2 TiB or more"),
            ),
            (
                self.dir_nlink && is_directory && base.links_count.get() == 1,
                ("dir_nlink", "has too many subdirectories to count"),
            ),
            (
                self.casefold && base.flags().contains(InodeFlags::CASEFOLD),
                ("casefold", "is a directory that ignores case"),
            ),
        ];
        let found = uses.into_iter().find(|(is_used, _)| *is_used);
        found.map(|(_, use_)| use_)
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
        // No checksum changes: with `metadata_csum` indexes stay.
        inode.set_flags(inode.flags() - InodeFlags::INDEX);
        device.write_blocks(start, vec![image])?;
    }
    if !inodes.is_empty() {
        device.flush()?;
    }
    Ok(())
}
