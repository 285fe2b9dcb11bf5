//! The block map of a file: 12 direct blocks and the trees below them.
//!
//! [`walk`] visits every block of a block map, an indirect block before those below it. [`check`]
//! claims them for an inode. An invalid block is reported and not counted; a block already in use
//! is recorded and resolved by `claims`.

use layout::inode::{DIRECT_BLOCKS, MAP_WORDS};
use layout::mode::FileType;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, RESIZE};
use crate::state::State;

/// Maximum number of bad blocks of one inode that are reported one by one.
const BAD_BLOCKS_MAX: u32 = 11;
/// A visited block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    /// Block number on the device.
    pub(crate) block: u64,
    /// First file block that it holds or maps.
    pub(crate) file_block: u64,
    /// 0 for data, else the number of levels of pointers from here.
    pub(crate) level: u8,
}

/// The next step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The blocks below this one, if there are any.
    Below,
    /// The block after this one.
    Skip,
    /// No further block.
    Stop,
}

/// The contents of a file's block map.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mapped {
    /// Number of blocks, with indirect and without bad blocks.
    pub(crate) blocks: u64,
    /// Last mapped file block.
    pub(crate) last: Option<u64>,
    /// Number of invalid block numbers.
    pub(crate) bad: u32,
}

/// Claims the blocks of an inode.
pub(crate) fn check(
    state: &mut State<'_>,
    inode: u32,
    words: &[u32; MAP_WORDS],
    file_type: FileType,
) -> Result<Mapped, Error> {
    let mut mapped = Mapped::default();
    let (is_directory, is_symlink) = (
        file_type == FileType::Directory,
        file_type == FileType::Symlink,
    );
    let in_file = |state: &mut State<'_>, visit: Visit| {
        if is_directory && visit.level == 0 {
            let blocks = &mut state.directory_blocks;
            blocks.push((visit.file_block as u32, visit.block as u32));
        }
    };
    walk(state, words, &mut |state, visit| {
        if state.is_exhausted() {
            state.problem(ProblemKind::TooManyBadBlocks, Location::inode(inode));
            return Next::Stop;
        }
        if !state.geometry.contains(visit.block) {
            mapped.bad += 1;
            report_bad(state, inode, visit, mapped.bad);
            in_file(state, Visit { block: 0, ..visit });
            return Next::Skip;
        }
        if is_symlink && visit.file_block + u64::from(visit.level) > 0 {
            let place = Location::inode(inode).at_file_block(visit.file_block);
            let kind = ProblemKind::BlockBeyondSymlink;
            state.report.add_found(kind, place, visit.block);
            return Next::Skip;
        }
        mapped.blocks += 1;
        if is_claimed(state, inode, visit) {
            state.claim(visit.block);
        }
        if visit.level == 0 {
            mapped.last = Some(visit.file_block);
            in_file(state, visit);
            return Next::Below;
        }
        state.report.statistics.map_blocks += 1;
        if inode != RESIZE && state.is_metadata(visit.block) {
            let place = Location::inode(inode).at_file_block(visit.file_block);
            let kind = ProblemKind::BlockInMetadata;
            state.report.add_found(kind, place, visit.block);
            return Next::Skip;
        }
        Next::Below
    })?;
    Ok(mapped)
}

/// True unless an inode lists the block without owning it. Blocks listed by the resize inode are
/// metadata already, and bad blocks of an inode table stay part of it.
pub(crate) fn is_claimed(state: &State<'_>, inode: u32, visit: Visit) -> bool {
    match inode {
        RESIZE => visit.level == 2,
        BAD_BLOCKS => visit.level > 0 || !state.is_in_inode_table(visit.block),
        _ => true,
    }
}

fn report_bad(state: &mut State<'_>, inode: u32, visit: Visit, count: u32) {
    let place = Location::inode(inode).at_file_block(visit.file_block);
    if count <= BAD_BLOCKS_MAX {
        let kind = ProblemKind::BlockOutOfRange;
        state.report.add_found(kind, place, visit.block);
    } else if count == BAD_BLOCKS_MAX + 1 {
        state.problem(ProblemKind::TooManyBadBlocks, Location::inode(inode));
    }
}

/// Visits all blocks of a block map. If the visitor returns [`Next::Below`] for an indirect block,
/// the block must lie in the file system.
pub(crate) fn walk<'a>(
    state: &mut State<'a>,
    words: &[u32; MAP_WORDS],
    visitor: &mut impl FnMut(&mut State<'a>, Visit) -> Next,
) -> Result<(), Error> {
    let per_block = state.geometry.pointers_per_block() as u64;
    let mut file_block = 0;
    for (slot, word) in words.iter().enumerate() {
        let level = slot.saturating_sub(DIRECT_BLOCKS - 1) as u8;
        let visit = Visit {
            block: u64::from(*word),
            file_block,
            level,
        };
        if *word != 0 && walk_below(state, visit, visitor)? == Next::Stop {
            return Ok(());
        }
        file_block += per_block.pow(level.into());
    }
    Ok(())
}

fn walk_below<'a>(
    state: &mut State<'a>,
    visit: Visit,
    visitor: &mut impl FnMut(&mut State<'a>, Visit) -> Next,
) -> Result<Next, Error> {
    let next = visitor(state, visit);
    if next != Next::Below || visit.level == 0 {
        return Ok(next);
    }
    let bytes = state.block(visit.block)?;
    let Ok(pointers) = <[U32]>::ref_from_bytes(&bytes) else {
        return Ok(Next::Skip);
    };
    let level = visit.level - 1;
    let covered = (pointers.len() as u64).pow(level.into());
    for (index, pointer) in (0..).zip(pointers) {
        let block = u64::from(pointer.get());
        if block == 0 {
            continue;
        }
        let below = Visit {
            block,
            file_block: visit.file_block + index * covered,
            level,
        };
        if walk_below(state, below, visitor)? == Next::Stop {
            return Ok(Next::Stop);
        }
    }
    Ok(Next::Below)
}
