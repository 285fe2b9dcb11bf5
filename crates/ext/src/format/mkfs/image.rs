//! Blocks of a new volume besides the groups' metadata: inodes, directories, indirect blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::inode::{EXTRA_SIZE, Inode, InodeExtra, InodeFlags};
use layout::quota::QuotaKind;
use layout::time::InodeTime;
use layout::{Block, BlockNr, InodeNr};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::Summary;
use super::place::Places;
use super::plan::Plan;
use crate::disk::run::Run;
use crate::error::Result;

/// Size in bytes of the units in which inodes count blocks.
const SECTOR: u64 = 512;

/// The contents of a new volume besides the groups' own metadata.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// The blocks that are taken.
    pub(super) places: Places,
    /// Inodes as stored in the table.
    pub(super) inodes: BTreeMap<InodeNr, Vec<u8>>,
    /// Directory blocks and indirect blocks.
    pub(super) blocks: BTreeMap<BlockNr, Arc<Block>>,
    /// The extents of the internal journal.
    pub(super) journal: Vec<Run>,
    /// Number of blocks of the journal that are for fast commits.
    pub(super) fast_commit_blocks: u32,
    /// True if the unused parts of inode tables stay as they are.
    pub(super) has_lazy_tables: bool,
    /// The block of multiple mount protection, and the interval of its renewal in seconds.
    pub(super) multi_mount: Option<(BlockNr, u16)>,
    /// The quota files.
    pub(super) quotas: Vec<(QuotaKind, InodeNr)>,
    /// The block map of the journal inode, then the two halves of its size: the copy in the
    /// superblock.
    pub(super) journal_backup: Option<[u32; 17]>,
}

/// An inode of a new volume.
pub(super) struct NewInode {
    pub(super) nr: InodeNr,
    pub(super) mode: u16,
    pub(super) owner: (u32, u32),
    pub(super) links: u16,
    pub(super) size: u64,
    /// Number of clusters that it counts: those of contents, and one for each block of the block
    /// map.
    pub(super) clusters: u64,
    pub(super) words: [u32; 15],
    pub(super) flags: InodeFlags,
}

impl Image {
    /// Allocates blocks near the start of the volume.
    pub(super) fn take(&mut self, plan: &Plan, count: u64) -> Result<Vec<Run>> {
        self.take_at(plan, plan.geometry.first_data_block, count)
    }

    /// Allocates blocks from a goal on.
    pub(super) fn take_at(&mut self, plan: &Plan, goal: BlockNr, count: u64) -> Result<Vec<Run>> {
        self.places
            .take(&plan.geometry, &plan.metadata, goal, count)
    }

    /// Allocates blocks from a goal on, each with a cluster of its own.
    pub(super) fn take_each(&mut self, plan: &Plan, goal: BlockNr, count: u64) -> Result<Vec<Run>> {
        let geometry = &plan.geometry;
        let whole = self.take_at(plan, goal, count << geometry.cluster_log)?;
        let size = geometry.cluster_blocks() as usize;
        let first = |run: &Run| (run.first.get()..run.end().get()).step_by(size);
        let blocks = whole.iter().flat_map(first).map(BlockNr::new);
        Ok(blocks.map(|first| Run { first, count: 1 }).collect())
    }

    /// Adds an inode to the table.
    pub(super) fn add_inode(&mut self, plan: &Plan, new: &NewInode) {
        let geometry = &plan.geometry;
        let mut bytes = vec![0; usize::from(geometry.inode_bytes)];
        let time = InodeTime::new(plan.seconds, 0);
        let word = U32::new(time.encode());
        let mut inode = Inode {
            mode: U16::new(new.mode),
            access_time: word,
            change_time: word,
            modification_time: word,
            links_count: U16::new(new.links),
            ..Inode::default()
        };
        inode.set_uid(new.owner.0);
        inode.set_gid(new.owner.1);
        inode.set_map(new.words);
        inode.set_flags(new.flags);
        let sectors =
            (new.clusters << geometry.cluster_log) * u64::from(geometry.block_bytes) / SECTOR;
        let fits = inode.set_size(new.size, false)
            && inode.set_sectors(sectors, false, geometry.block_bytes);
        assert!(fits, "the first files are far from the limits");
        let (base, extra) = bytes.split_at_mut(size_of::<Inode>());
        base.copy_from_slice(inode.as_bytes());
        if let Ok((extra, _)) = InodeExtra::mut_from_prefix(extra) {
            let (word, epoch) = time.encode_extra();
            extra.extra_size.set(EXTRA_SIZE as u16);
            extra.change_time_extra.set(epoch);
            extra.modification_time_extra.set(epoch);
            extra.access_time_extra.set(epoch);
            extra.creation_time.set(word);
            extra.creation_time_extra.set(epoch);
        }
        plan.sums.seal_inode(new.nr, &mut bytes);
        self.inodes.insert(new.nr, bytes);
    }

    /// Returns the number of free blocks of the whole volume.
    pub(super) fn free_blocks(&self, plan: &Plan) -> u64 {
        let blocks = plan.geometry.block_count - plan.geometry.first_data_block.get();
        blocks - plan.metadata.count() - self.places.count()
    }

    /// Returns the number of blocks of the internal journal.
    pub(super) fn journal_block_count(&self) -> u32 {
        self.journal.iter().map(|run| run.count).sum()
    }

    /// Returns the description of the new volume.
    pub(super) fn summary(&self, plan: &Plan) -> Summary {
        Summary {
            geometry: plan.geometry.clone(),
            features: plan.features,
            reserved_blocks: plan.reserved_blocks,
            free_blocks: self.free_blocks(plan),
            free_inodes: plan.geometry.inode_count - plan.last_inode().get(),
            journal_blocks: self.journal_block_count(),
            uuid: plan.uuid,
            warnings: plan.warnings.clone(),
        }
    }
}
