//! The map of a file: its extent tree (`extents`), or 12 direct blocks and the trees below them.
//!
//! [`walk`] visits every block of a block map, an indirect block before those below it. [`check`]
//! claims them for an inode. An invalid block is reported and not counted; a block already in use
//! is recorded and resolved by `claims`.

use layout::inode::{DIRECT_BLOCKS, Inode, InodeFlags, MAP_WORDS};
use layout::mode::FileType;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::error::Error;
use crate::extents::{self, Item, Tree};
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::RESIZE;
use crate::state::State;
use crate::visit::{Mapped, Next, Visit, directory_end, is_claimed};

/// Maximum number of bad blocks of one inode that are reported one by one.
const BAD_BLOCKS_MAX: u32 = 11;

/// The contents of `i_block`.
#[derive(Debug, Clone)]
pub(crate) enum Root {
    /// Block numbers.
    Blocks([u32; MAP_WORDS]),
    /// The root of an extent tree.
    Extents(Tree),
}

impl Root {
    /// Returns the root in an inode.
    pub(crate) fn of(state: &State<'_>, inode: &Inode) -> Self {
        if inode.flags().contains(InodeFlags::EXTENTS) {
            Self::Extents(Tree::of(state, inode))
        } else {
            Self::Blocks(inode.map())
        }
    }
}

/// Claims the blocks of an inode, which has a map unless `root` is `None`.
pub(crate) fn check(
    state: &mut State<'_>,
    inode: u32,
    root: Option<&Root>,
    file_type: FileType,
) -> Result<Mapped, Error> {
    match root {
        None => Ok(Mapped::default()),
        Some(Root::Blocks(words)) => check_blocks(state, inode, words, file_type),
        Some(Root::Extents(tree)) => extents::check(state, inode, tree, file_type),
    }
}

fn check_blocks(
    state: &mut State<'_>,
    inode: u32,
    words: &[u32; MAP_WORDS],
    file_type: FileType,
) -> Result<Mapped, Error> {
    let mut mapped = Mapped::default();
    let is_clustered = state.geometry.cluster_log > 0 && inode != RESIZE;
    if is_clustered && words.iter().any(|word| *word != 0) {
        state.problem(ProblemKind::ClustersWithoutExtents, Location::inode(inode));
    }
    let (is_directory, is_symlink) = (
        file_type == FileType::Directory,
        file_type == FileType::Symlink,
    );
    let directory_end = directory_end(state);
    let in_file = |state: &mut State<'_>, visit: Visit| {
        if is_directory && visit.level == 0 {
            let blocks = &mut state.directory_blocks;
            blocks.push((visit.file_block as u32, visit.block));
        }
    };
    walk_blocks(state, words, &mut |state, visit| {
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
        if is_directory && visit.level == 0 && visit.file_block > directory_end {
            mapped.bad += 1;
            let place = Location::inode(inode).at_file_block(visit.file_block);
            let kind = ProblemKind::DirectoryTooLarge;
            state.report.add_found(kind, place, visit.block);
            return Next::Skip;
        }
        if is_symlink && visit.file_block + u64::from(visit.level) > 0 {
            let place = Location::inode(inode).at_file_block(visit.file_block);
            let kind = ProblemKind::BlockBeyondSymlink;
            state.report.add_found(kind, place, visit.block);
            return Next::Skip;
        }
        mapped.clusters += 1;
        if is_claimed(state, inode, visit) {
            state.claim(visit.block);
        }
        if visit.level == 0 {
            mapped.last = Some(visit.file_block);
            mapped.last_written = mapped.last;
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

fn report_bad(state: &mut State<'_>, inode: u32, visit: Visit, count: u32) {
    let place = Location::inode(inode).at_file_block(visit.file_block);
    if count <= BAD_BLOCKS_MAX {
        let kind = ProblemKind::BlockOutOfRange;
        state.report.add_found(kind, place, visit.block);
    } else if count == BAD_BLOCKS_MAX + 1 {
        state.problem(ProblemKind::TooManyBadBlocks, Location::inode(inode));
    }
}

/// Returns the first blocks of a file, at most `most`, up to its first hole.
pub(crate) fn first_blocks(
    state: &mut State<'_>,
    inode: u32,
    root: &Root,
    most: u64,
) -> Result<Vec<u64>, Error> {
    let mut blocks = Vec::new();
    walk(state, inode, root, &mut |state, visit| {
        if state.is_exhausted() || blocks.len() as u64 >= most {
            return Next::Stop;
        }
        if !state.geometry.contains(visit.block) {
            return Next::Skip;
        }
        if visit.level == 0 {
            if visit.file_block != blocks.len() as u64 {
                return Next::Stop;
            }
            blocks.push(visit.block);
        }
        Next::Below
    })?;
    Ok(blocks)
}

/// Visits all blocks of a map. If the visitor returns [`Next::Below`] for an indirect block, the
/// block must lie in the file system. Faults of an extent tree are passed over.
pub(crate) fn walk<'a>(
    state: &mut State<'a>,
    inode: u32,
    root: &Root,
    visitor: &mut impl FnMut(&mut State<'a>, Visit) -> Next,
) -> Result<(), Error> {
    match root {
        Root::Blocks(words) => walk_blocks(state, words, visitor),
        Root::Extents(tree) => extents::walk(state, inode, tree, &mut |state, item| match item {
            Item::Fault { .. } => Next::Below,
            Item::Node(visit) => visitor(state, visit),
            Item::Run(run) => {
                let mut blocks = run.blocks();
                if blocks.any(|visit| visitor(state, visit) == Next::Stop) {
                    Next::Stop
                } else {
                    Next::Below
                }
            }
        }),
    }
}

fn walk_blocks<'a>(
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
