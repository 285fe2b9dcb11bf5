//! A block whose contents have changed silently.

use core::fmt;
use std::sync::Arc;

use layout::feature::{Incompatible, ReadOnlyCompatible};
use layout::group::GroupDescriptor;
use layout::superblock::Superblock;
use layout::{Block, InodeNr};
use rt::split_mix::SplitMix;
use zerocopy::FromBytes;

use super::territory::{Claim, PARTS, Part, Territory};
use crate::image::Image;

/// Maximum number of bytes drawn to find a nonzero one: most of a metadata block is unused.
const BYTES_DRAWN: usize = 8;

/// The kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// A byte has changed: its offset, and the changed bits.
    Rot { at: usize, by: u8 },
    /// The last writes were lost: the block has its contents before the run.
    Lost,
    /// The block has the contents of another one, whose write was misdirected.
    Misdirected { from: u64 },
}

/// A damaged block.
#[derive(Debug, Clone)]
pub(super) struct Harm {
    pub(super) block: u64,
    pub(super) claim: Claim,
    manner: Manner,
    /// Its contents before.
    pub(super) good: Arc<Block>,
    /// Its contents now.
    pub(super) bad: Arc<Block>,
    /// Inodes with a block where a bitmap is now taken to be.
    robbed: Vec<InodeNr>,
    /// True if values of extended attributes hang on the block.
    pub(super) is_of_values: bool,
}

impl Harm {
    /// Draws the damage: each part of a volume is equally likely, regardless of its number of
    /// blocks, and so is each manner that changes something.
    pub(super) fn draw(
        territory: &Territory,
        good: &Image,
        initial: &Image,
        random: &mut SplitMix,
    ) -> Self {
        let blocks_of = |part: Part| -> Vec<u64> {
            let claims = territory.claims.iter();
            let of_part = claims.filter(|(_, claim)| claim.part == part);
            of_part.map(|(block, _)| *block).collect()
        };
        let parts = PARTS.into_iter().map(blocks_of);
        let parts: Vec<Vec<u64>> = parts.filter(|blocks| !blocks.is_empty()).collect();
        let blocks = pick(&parts, random);
        let block = *pick(blocks, random);
        let contents = good.block(block);
        let mut manners = vec![rot(contents, random)];
        if initial.block(block) != contents {
            manners.push(Manner::Lost);
        }
        let in_use: Vec<u64> = territory.claims.keys().copied().collect();
        let from = *pick(&in_use, random);
        if good.block(from) != contents {
            manners.push(Manner::Misdirected { from });
        }
        let manner = *pick(&manners, random);
        let bad = match manner {
            Manner::Rot { at, by } => {
                let mut block = Block::clone(contents);
                block[at] ^= by;
                block.into_arc()
            }
            Manner::Lost => Arc::clone(initial.block(block)),
            Manner::Misdirected { from } => Arc::clone(good.block(from)),
        };
        Self::new(territory, good, block, manner, bad)
    }

    fn new(
        territory: &Territory,
        good: &Image,
        block: u64,
        manner: Manner,
        bad: Arc<Block>,
    ) -> Self {
        let claim = territory.claims[&block].clone();
        let robbed = match claim.part {
            Part::Descriptors => owners_of_bitmaps(&bad, territory),
            _ => Vec::new(),
        };
        let is_of_values = territory.holds_values(&claim);
        Self {
            block,
            claim,
            manner,
            good: Arc::clone(good.block(block)),
            bad,
            robbed,
            is_of_values,
        }
    }

    /// Returns the damage of a block that has these contents instead of its own.
    #[cfg(test)]
    pub(super) fn misdirected(
        territory: &Territory,
        good: &Image,
        block: u64,
        bad: Arc<Block>,
    ) -> Self {
        let manner = Manner::Misdirected { from: block };
        Self::new(territory, good, block, manner, bad)
    }

    /// Returns true if the block holds the locations of other parts, or the start of their
    /// checksums, and these have changed.
    /// Without checksums this cannot be detected, and then everything may differ.
    pub(super) fn moves_things(&self) -> bool {
        match self.claim.part {
            Part::Superblock => places_of_superblock(&self.good) != places_of_superblock(&self.bad),
            Part::Descriptors => {
                let table = |group: &GroupDescriptor| group.inode_table_low;
                differ(&self.good, &self.bad, table)
            }
            _ => false,
        }
    }

    /// Returns true if the location of a bitmap has changed: a file's block there is taken for the
    /// bitmap, which no file may contain.
    pub(super) fn moves_bitmaps(&self) -> bool {
        let bitmaps = |group: &GroupDescriptor| (group.block_bitmap_low, group.inode_bitmap_low);
        self.claim.part == Part::Descriptors && differ(&self.good, &self.bad, bitmaps)
    }

    /// Returns true if the inode has a block where a bitmap is now taken to be. If it is the block
    /// of its attributes, the inode itself is refused.
    pub(super) fn robs(&self, inode: InodeNr) -> bool {
        self.robbed.contains(&inode)
    }
}

/// Returns the inodes with a block that these descriptors take for a bitmap.
fn owners_of_bitmaps(descriptors: &Block, territory: &Territory) -> Vec<InodeNr> {
    let bitmaps = groups(descriptors)
        .into_iter()
        .flat_map(|group| [group.block_bitmap_low, group.inode_bitmap_low]);
    let claims = bitmaps.filter_map(|block| territory.claims.get(&block.get().into()));
    let of_inodes = claims.filter(|claim| claim.part != Part::InodeTable);
    of_inodes
        .flat_map(|claim| claim.owners.iter().copied())
        .collect()
}

fn pick<'a, T>(all: &'a [T], random: &mut SplitMix) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

fn rot(contents: &Block, random: &mut SplitMix) -> Manner {
    let mut draw = || random.below(contents.len() as u64) as usize;
    let drawn: [usize; BYTES_DRAWN] = core::array::from_fn(|_| draw());
    let telling = drawn.into_iter().find(|at| contents[*at] != 0);
    Manner::Rot {
        at: telling.unwrap_or(drawn[0]),
        by: 1 + random.below(0xFF) as u8,
    }
}

/// Returns the fields by which everything else is found and read, names in htrees included.
fn places_of_superblock(block: &Block) -> impl PartialEq + use<> {
    let (superblock, _) =
        Superblock::read_from_prefix(block).expect("a block holds the superblock");
    (
        (
            superblock.inodes_count,
            superblock.blocks_count_low,
            superblock.first_data_block,
            superblock.log_block_size,
            superblock.blocks_per_group,
            superblock.inodes_per_group,
        ),
        (
            superblock.revision,
            superblock.dynamic_first_inode,
            superblock.dynamic_inode_size,
            superblock.compatible_bits,
            superblock.incompatible_bits,
            superblock.read_only_compatible_bits,
        ),
        (
            superblock.hash_seed_words,
            superblock.default_hash_version,
            superblock.misc_flag_bits,
        ),
        of_descriptors(&superblock),
    )
}

/// Returns the fields on which reading the descriptors of ext4 depends: their size, and with
/// `uninit_bg` the UUID, with which their crc16 starts.
fn of_descriptors(superblock: &Superblock) -> impl PartialEq + use<> {
    let words = superblock.features();
    let is_64bit = words.incompatible.contains(Incompatible::IS_64BIT);
    let has_crc16 = words
        .read_only_compatible
        .contains(ReadOnlyCompatible::UNINIT_BG);
    (
        is_64bit.then_some(superblock.descriptor_size),
        has_crc16.then_some(superblock.uuid),
    )
}

/// Returns true if a field of a descriptor differs.
fn differ<T: PartialEq>(good: &Block, bad: &Block, field: fn(&GroupDescriptor) -> T) -> bool {
    let mut pairs = groups(good).into_iter().zip(groups(bad));
    pairs.any(|(good, bad)| field(&good) != field(&bad))
}

fn groups(block: &Block) -> Vec<GroupDescriptor> {
    let pieces = block.chunks_exact(size_of::<GroupDescriptor>());
    let group = |bytes| GroupDescriptor::read_from_bytes(bytes).expect("a descriptor's bytes");
    pieces.map(group).collect()
}

impl fmt::Display for Harm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "block {} ({}", self.block, self.claim.part)?;
        let owners: Vec<String> = self.claim.owners.iter().map(InodeNr::to_string).collect();
        if !owners.is_empty() {
            write!(out, " of inode {}", owners.join(", "))?;
        }
        out.write_str(") has changed silently: ")?;
        match self.manner {
            Manner::Rot { at, .. } => {
                let (good, bad) = (self.good[at], self.bad[at]);
                write!(out, "byte {at} is {bad:#04x} and was {good:#04x}")
            }
            Manner::Lost => out.write_str("it holds what it held before the run"),
            Manner::Misdirected { from } => write!(out, "it holds what block {from} holds"),
        }
    }
}
