//! The use of each block: the fixed parts by the superblock and the descriptors, the rest by the
//! inodes of a good volume. Free blocks, the log and reserved GDT blocks, which are never read, are
//! left out.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use ext::volume::FileKind;
use ext::{Error, Volume};
use layout::feature::ReadOnlyCompatible;
use layout::group::{self, GroupDescriptor};
use layout::inode::Inode;
use layout::inode_flags::InodeFlags;
use layout::superblock::Superblock;
use layout::{FileBlock, InodeNr};
use zerocopy::FromBytes;

use super::look::Sight;
use crate::disks::SUPERBLOCK;
use crate::image::{BLOCK_BYTES, Image};

/// The use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The superblock.
    Superblock,
    /// Group descriptors.
    Descriptors,
    /// A bitmap of blocks.
    BlockBitmap,
    /// A bitmap of inodes.
    InodeBitmap,
    /// Inodes.
    InodeTable,
    /// Entries of a directory.
    Directory,
    /// An indirect block of a file or directory.
    Map,
    /// An indirect block of the journal.
    JournalMap,
    /// Extended attributes.
    Attributes,
    /// Contents of a file, or the target of a symbolic link.
    Data,
}

/// All uses.
pub const PARTS: [Part; 10] = [
    Part::Superblock,
    Part::Descriptors,
    Part::BlockBitmap,
    Part::InodeBitmap,
    Part::InodeTable,
    Part::Directory,
    Part::Map,
    Part::JournalMap,
    Part::Attributes,
    Part::Data,
];

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Superblock => "superblock",
            Self::Descriptors => "group descriptors",
            Self::BlockBitmap => "block bitmap",
            Self::InodeBitmap => "inode bitmap",
            Self::InodeTable => "inode table",
            Self::Directory => "directory",
            Self::Map => "map",
            Self::JournalMap => "journal's map",
            Self::Attributes => "attributes",
            Self::Data => "file data",
        })
    }
}

/// A block in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) part: Part,
    /// Inodes that depend on it: those stored in it, or the owner of the block.
    pub(super) owners: Vec<InodeNr>,
    /// For contents, the number of the block in its file.
    pub(super) file_block: u64,
}

/// All blocks in use.
pub(super) struct Territory {
    pub(super) claims: BTreeMap<u64, Claim>,
    /// Inodes that hold values of extended attributes.
    values: BTreeSet<InodeNr>,
}

impl Territory {
    /// Collects the blocks in use of a good volume whose state was read in full.
    pub(super) fn of(home: &Image, volume: &Volume, sight: &Sight) -> Result<Self, Error> {
        let mut territory = Self {
            claims: BTreeMap::new(),
            values: BTreeSet::new(),
        };
        territory.claim_fixed(home);
        for (nr, object) in &sight.objects {
            let is_directory = match &object.attributes {
                Ok(attributes) => attributes.kind == FileKind::Directory,
                Err(_) => continue,
            };
            let part = match is_directory {
                true => Part::Directory,
                false => Part::Data,
            };
            territory.claim_inode(volume, *nr, Some(part), Part::Map)?;
        }
        if volume.superblock().journal_inode.is_some() {
            territory.claim_inode(volume, InodeNr::JOURNAL, None, Part::JournalMap)?;
        }
        Ok(territory)
    }

    /// Returns true if values of extended attributes hang on a block.
    pub(super) fn holds_values(&self, claim: &Claim) -> bool {
        claim.owners.iter().any(|owner| self.values.contains(owner))
    }

    fn claim(&mut self, block: u64, part: Part, owner: Option<InodeNr>, file_block: u64) {
        let claim = self.claims.entry(block).or_insert_with(|| Claim {
            part,
            owners: Vec::new(),
            file_block,
        });
        claim.owners.extend(owner);
    }

    fn claim_fixed(&mut self, home: &Image) {
        let (superblock, _) = Superblock::ref_from_prefix(home.block(SUPERBLOCK))
            .expect("a block holds the superblock");
        self.claim(SUPERBLOCK, Part::Superblock, None, 0);
        let blocks = superblock.blocks_count_low.get() - superblock.first_data_block.get();
        let group_count = blocks.div_ceil(superblock.blocks_per_group.get());
        let inodes = superblock.inodes_per_group.get();
        let inode_bytes = usize::from(superblock.dynamic_inode_size.get());
        let inodes_in_block = (BLOCK_BYTES / inode_bytes) as u32;
        let bytes = match superblock.descriptor_size.get() {
            0 => group::SIZE,
            bytes => bytes.into(),
        };
        let in_block = (BLOCK_BYTES / bytes) as u32;
        // Nothing is read through a descriptor whose checksum does not match.
        let words = superblock.features().read_only_compatible;
        let is_checked =
            words.intersects(ReadOnlyCompatible::METADATA_CSUM | ReadOnlyCompatible::UNINIT_BG);
        for number in 0..group_count {
            let block = SUPERBLOCK + 1 + u64::from(number / in_block);
            let at = (number % in_block) as usize * bytes;
            let (group, _) = GroupDescriptor::ref_from_prefix(&home.block(block)[at..])
                .expect("a block holds descriptors");
            self.claim(block, Part::Descriptors, None, 0);
            if is_checked {
                for index in 0..inodes {
                    let inode = InodeNr::new(number * inodes + index + 1);
                    self.claim(block, Part::Descriptors, Some(inode), 0);
                }
            }
            let bitmap = group.block_bitmap_low.get();
            self.claim(bitmap.into(), Part::BlockBitmap, None, 0);
            let bitmap = group.inode_bitmap_low.get();
            self.claim(bitmap.into(), Part::InodeBitmap, None, 0);
            let table = group.inode_table_low.get();
            for index in 0..inodes {
                let block = u64::from(table + index / inodes_in_block);
                let inode = InodeNr::new(number * inodes + index + 1);
                self.claim(block, Part::InodeTable, Some(inode), 0);
                let at = (index % inodes_in_block) as usize * inode_bytes;
                let (base, _) =
                    Inode::ref_from_prefix(&home.block(block)[at..]).expect("a block holds inodes");
                if base.flags().contains(InodeFlags::ATTRIBUTE_INODE) {
                    self.values.insert(inode);
                }
            }
        }
    }

    /// Claims the blocks of an inode; those of its contents only if the inode has blocks.
    fn claim_inode(
        &mut self,
        volume: &Volume,
        nr: InodeNr,
        contents: Option<Part>,
        map: Part,
    ) -> Result<(), Error> {
        for extent in volume.blocks_of(nr)? {
            if extent.is_unwritten {
                continue;
            }
            let part = match extent.file_block {
                Some(_) => contents,
                None => Some(map),
            };
            for (index, block) in (0..).zip(extent.blocks()) {
                if let Some(part) = part {
                    let place = extent.file_block.map_or(0, FileBlock::get) + index;
                    self.claim(block, part, Some(nr), place);
                }
            }
        }
        if let Some(block) = volume.attribute_block(nr)? {
            self.claim(block, Part::Attributes, Some(nr), 0);
        }
        Ok(())
    }
}
