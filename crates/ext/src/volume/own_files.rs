//! Files of the volume itself, found by their inodes when it is opened: the journal, and the orphan
//! file.
//!
//! The orphan file is read and checked before anything is written: a volume whose orphan file is
//! damaged is only read.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::{Location, LogExtent};
use layout::{BlockNr, InodeNr};

use crate::cache::buffers::Refused;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::kind::FileKind;
use crate::disk::log::LOG_BLOCKS_MAX;
use crate::disk::metadata::{Kind, Label};
use crate::disk::superblock::Superblock;
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Visited};
use crate::options::MountOptions;

/// Largest size of an orphan file in bytes, as in Linux: all its blocks are held in memory.
const BYTES_MAX: u64 = 8 << 20;

/// The orphan file of a volume; empty if there is none.
#[derive(Debug, Default)]
pub(super) struct OrphanFile {
    /// Its blocks as extents of the volume.
    pub(super) extents: Vec<LogExtent>,
    /// Its blocks one by one, in the order of the file.
    pub(super) blocks: Vec<(BlockNr, Label)>,
}

impl OrphanFile {
    /// Finds the orphan file, and checks all its blocks, its slots and the orphan list.
    ///
    /// # Errors
    /// - [`Corrupt`] if the file or a block of it is damaged, or names an impossible orphan.
    pub(super) fn find(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
        options: &MountOptions,
    ) -> Result<Self> {
        if !superblock.has_orphan_file() {
            return Ok(Self::default());
        }
        let probe = probe(device, superblock, options)?;
        let file = Self::of(&probe, InodeNr::new(superblock.raw.orphan_file_inode.get()))?;
        let found = probe.buffers.prefetch(&file.blocks);
        found.map_err(Refused::of_volume)?;
        crate::orphan::check(&probe, &file.blocks)?;
        Ok(file)
    }

    fn of(core: &Core, nr: InodeNr) -> Result<Self> {
        let corrupt = |why| {
            Error::from(Corrupt::OrphanFile {
                inode: nr,
                block: None,
                why,
            })
        };
        if nr < core.geometry().first_inode || nr.get() > core.geometry().inode_count {
            return Err(corrupt("the superblock names no inode that can be it"));
        }
        let inode = match Inode::load(core, nr) {
            Err(Error::NotFound) => return Err(corrupt("its inode is free")),
            inode => inode?,
        };
        let state = inode.state.read();
        let block_bytes = u64::from(core.geometry().block_bytes);
        if state.kind != FileKind::Regular {
            return Err(corrupt("it is not a regular file"));
        }
        let has_size = state.size > 0 && state.size <= BYTES_MAX;
        if !has_size || !state.size.is_multiple_of(block_bytes) {
            return Err(corrupt("it has no size that can be"));
        }
        let label = Kind::Orphans.of_inode(nr, state.generation);
        let count = state.size / block_bytes;
        drop(state);
        let mapped = Mapping::of(core, &inode, BYTES_MAX / block_bytes)?;
        if mapped.has_hole || mapped.end < count {
            return Err(corrupt("not all of its blocks are mapped"));
        }
        check_disjoint(nr, &mapped.extents)?;
        let numbers = mapped
            .extents
            .iter()
            .flat_map(|extent| (0..u64::from(extent.count)).map(|index| extent.first + index));
        let blocks = numbers.take(count as usize).map(|block| (block, label));
        Ok(Self {
            blocks: blocks.collect(),
            extents: mapped.extents,
        })
    }
}

/// The mapped blocks of a file.
struct Mapping {
    extents: Vec<LogExtent>,
    /// The first block of the file behind all mapped ones.
    end: u64,
    has_hole: bool,
}

impl Mapping {
    /// Reads the block map of a file of at most `blocks_max` blocks.
    fn of(core: &Core, inode: &Inode, blocks_max: u64) -> Result<Self> {
        let state = inode.state.read();
        let mut mapping = Self {
            extents: Vec::new(),
            end: 0,
            has_hole: false,
        };
        FileMap::of(&state).walk(core, inode, &state, &mut |visited, run| {
            if let Visited::Data(file_block) = visited {
                mapping.has_hole |= file_block.get() != mapping.end;
                mapping.end = file_block.get() + u64::from(run.count);
                if mapping.end > blocks_max {
                    return Err(bad_count(inode.nr, mapping.end));
                }
                mapping.extents.push(LogExtent {
                    first: run.first,
                    count: run.count,
                });
            }
            Ok(())
        })?;
        Ok(mapping)
    }
}

fn bad_count(inode: InodeNr, value: u64) -> Error {
    let field = "mapped blocks";
    Corrupt::Inode {
        inode,
        field,
        value,
    }
    .into()
}

/// Returns a core that only reads, for files that are needed before the volume is open.
pub(super) fn probe(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    options: &MountOptions,
) -> Result<Core> {
    let (device, superblock) = (Arc::clone(device), superblock.clone());
    Core::assemble(device, superblock, options.clone(), None, true)
}

/// Returns the place of a log: the blocks of a journal's inode.
pub(crate) fn log_of_inode(core: &Core, nr: InodeNr) -> Result<Location> {
    let inode = Inode::load(core, nr)?;
    let block_count = inode.state.read().size / u64::from(core.geometry().block_bytes);
    let mapping = Mapping::of(core, &inode, LOG_BLOCKS_MAX.into())?;
    if mapping.has_hole || mapping.end < block_count {
        return Err(bad_count(nr, mapping.end));
    }
    check_disjoint(nr, &mapping.extents)?;
    Ok(Location {
        device: Arc::clone(&core.device),
        block_bytes: core.geometry().block_bytes,
        extents: mapping.extents,
    })
}

/// Checks that no block is in the file twice.
fn check_disjoint(nr: InodeNr, extents: &[LogExtent]) -> Result<()> {
    let mut sorted: Vec<&LogExtent> = extents.iter().collect();
    sorted.sort_unstable_by_key(|extent| extent.first);
    let is_twice = |pair: &&[&LogExtent]| pair[0].first + u64::from(pair[0].count) > pair[1].first;
    match sorted.windows(2).find(is_twice) {
        Some(pair) => Err(Corrupt::MapCycle {
            inode: nr,
            block: pair[1].first,
        }
        .into()),
        None => Ok(()),
    }
}
