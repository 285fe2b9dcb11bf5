//! The orphan file, made and removed.

use std::sync::Arc;

use block::BlockDevice;
use layout::feature::ReadOnlyCompatible;
use layout::inode::InodeFlags;
use layout::orphan::{TAIL_SIZE, Tail};
use layout::{Block, InodeNr};
use zerocopy::IntoBytes;

use super::own_files::{OwnFile, blocks_with_map, free_file, with_core};
use super::{Changes, JournalChange, features, take_over};
use crate::disk::metadata::Kind;
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};
use crate::format::mkfs;

/// The change of the orphan file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Keep,
    Make,
    Remove(InodeNr),
}

impl Change {
    /// Checks a change, and writes nothing.
    ///
    /// # Errors
    /// - [`Error::NotClean`] if inodes may be in the file that is removed.
    /// - [`Error::NoSpace`] and [`Error::NoInodes`] if the volume has no room for it.
    pub(super) fn of(superblock: &Superblock, changes: &Changes) -> Result<Self> {
        let has_file = superblock.has_orphan_file();
        let is_removed = has_file && changes.features_removed.contains(&features::ORPHAN_FILE);
        let is_made = !has_file && changes.features.contains(&features::ORPHAN_FILE);
        let has_journal = match changes.journal {
            JournalChange::Keep => {
                superblock.journal_inode.is_some() || superblock.journal_uuid.is_some()
            }
            JournalChange::Remove | JournalChange::Abandon => false,
            JournalChange::Internal(_) | JournalChange::External => true,
        };
        if has_file && !is_removed && !has_journal {
            return Err(Error::Invalid(
                "the orphan file needs the journal: take it away, too: -O ^has_journal,^orphan_file",
            ));
        }
        if is_made && !has_journal {
            return Err(Error::Invalid(
                "the orphan file needs a journal: -O has_journal,orphan_file makes both",
            ));
        }
        match (is_made, is_removed) {
            (false, false) => Ok(Self::Keep),
            (true, _) => {
                let blocks = blocks_with_map(superblock, blocks(superblock).into());
                if blocks > superblock.raw.free_blocks_count() {
                    return Err(Error::NoSpace);
                }
                if superblock.raw.free_inodes_count.get() == 0 {
                    return Err(Error::NoInodes);
                }
                Ok(Self::Make)
            }
            (false, true) => {
                let features = superblock.features.read_only_compatible;
                if features.contains(ReadOnlyCompatible::ORPHAN_PRESENT) {
                    return Err(Error::NotClean);
                }
                let nr = superblock.raw.orphan_file_inode.get();
                Ok(Self::Remove(InodeNr::new(nr)))
            }
        }
    }

    /// Makes the file, whose name the caller writes with the superblock, or removes it.
    pub(super) fn apply(
        self,
        device: &Arc<dyn BlockDevice>,
        superblock: &mut Superblock,
    ) -> Result<()> {
        match self {
            Self::Keep => Ok(()),
            Self::Make => {
                let nr = make(device, superblock)?;
                superblock.raw.orphan_file_inode.set(nr.get());
                take_over(device, superblock)
            }
            Self::Remove(nr) => {
                superblock.raw.orphan_file_inode.set(0);
                free_file(device, superblock, nr)
            }
        }
    }
}

fn blocks(superblock: &Superblock) -> u32 {
    mkfs::orphan_file_blocks(superblock.geometry.block_count)
}

/// Makes a file without orphans.
fn make(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<InodeNr> {
    let count = blocks(superblock) as usize;
    with_core(device, |core| {
        let block_bytes = core.block_bytes();
        let file = OwnFile {
            nr: None,
            flags: InodeFlags::empty(),
            kind: Kind::Orphans,
            size: count * block_bytes,
        };
        file.make(core, |_| {
            let mut block = Block::zeroed(block_bytes);
            // The checksum follows as the block leaves memory.
            block[block_bytes - TAIL_SIZE..].copy_from_slice(Tail::new(0).as_bytes());
            block
        })
    })
}
