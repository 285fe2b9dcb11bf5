//! The extent tree of a file: the root in its inode and the nodes below.
//!
//! [`walk`] finds nodes, extents and faults, a node before what lies below it. What has a fault is
//! left out: neither its blocks nor those below it belong to the file. [`check`] reports the faults
//! and claims the rest.
//!
//! As in e2fsck, an index entry covers the file up to the start of the next one; the last entry of
//! the root covers it up to its size.

use layout::checksum::metadata;
use layout::extent::{self as disk, Extent, Header, Index};
use layout::inode::{Inode, InodeFlags, MAP_WORDS};
use layout::mode::FileType;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, RESIZE};
use crate::state::State;
use crate::visit::{Mapped, Next, Visit, directory_end, is_claimed};

/// Minimum capacity of a node: so many entries fewer than fit are allowed.
const CAPACITY_SPARE: u16 = 2;

/// The root of an extent tree, and what its file says about it.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    words: [U32; MAP_WORDS],
    /// Number of blocks that the size of the file covers.
    end: u64,
    is_directory: bool,
    /// True if the hashes of a file with verity lie behind its end.
    has_hashes: bool,
    generation: u32,
}

/// An extent without a fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// First block on the device.
    start: u64,
    /// First block within the file.
    file_block: u64,
    count: u64,
    is_unwritten: bool,
}

/// A finding of a walk.
pub(crate) enum Item {
    /// A node below the root, with the number of levels from here.
    Node(Visit),
    Run(Run),
    Fault {
        kind: ProblemKind,
        block: u64,
        file_block: u64,
    },
}

/// A node and the part of the file that it covers.
#[derive(Clone, Copy)]
struct Scope {
    /// Levels below the node.
    depth: u16,
    /// First block of the file that an entry may name.
    start: u64,
    /// Last block of the file that an entry may name, if that is limited.
    bound: Option<u64>,
    /// Block of the file before which the last entry ends.
    end: u64,
}

/// A walk over a tree.
struct Walk<'t> {
    tree: &'t Tree,
    /// Seed of the checksums of nodes, if they have any.
    owner: Option<u32>,
    /// Blocks of the nodes above the current one, itself included.
    path: Vec<u64>,
    /// Block of the file after the last one that is mapped.
    next: u64,
}

impl Tree {
    pub(crate) fn of(state: &State<'_>, inode: &Inode) -> Self {
        let block_bytes = state.geometry.block_bytes as u64;
        let size = u64::from(inode.size_low.get()) | (u64::from(inode.size_high.get()) << 32);
        Self {
            words: inode.map_words,
            end: size.div_ceil(block_bytes),
            is_directory: FileType::from_mode(inode.mode.get()) == FileType::Directory,
            has_hashes: inode.flags().contains(InodeFlags::VERITY),
            generation: inode.generation.get(),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.words.as_bytes()
    }
}

/// True if `i_block` can be the root of a tree.
pub(crate) fn is_root(bytes: &[u8]) -> bool {
    header(bytes).is_some()
}

/// Returns the block of a file that has one extent of one block, its first.
pub(crate) fn only_block(bytes: &[u8]) -> Option<u64> {
    let header = header(bytes)?;
    let (extent, _) = Extent::ref_from_prefix(&bytes[size_of::<Header>()..]).ok()?;
    let is_only = header.entry_count.get() == 1
        && header.depth.get() == 0
        && extent.file_block.get() == 0
        && extent.block_count() == 1;
    is_only.then(|| extent.start())
}

/// Returns the header of a node, if it can be right.
fn header(node: &[u8]) -> Option<&Header> {
    let (header, _) = Header::ref_from_prefix(node).ok()?;
    let (count, most) = (header.entry_count.get(), header.entry_max.get());
    let fitting = disk::capacity(node.len());
    let is_good = header.magic.get() == disk::MAGIC
        && count <= most
        && (fitting - CAPACITY_SPARE..=fitting).contains(&most);
    is_good.then_some(header)
}

/// Returns the entries of a node with a valid header.
fn entries<T>(node: &[u8]) -> &[T]
where
    T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    let count = header(node).map_or(0, |header| usize::from(header.entry_count.get()));
    let all = <[T]>::ref_from_prefix_with_elems(&node[size_of::<Header>()..], count);
    all.map_or(&[], |(entries, _)| entries)
}

/// Reports the faults of a tree, and claims its blocks for an inode.
pub(crate) fn check(
    state: &mut State<'_>,
    inode: u32,
    tree: &Tree,
    file_type: FileType,
) -> Result<Mapped, Error> {
    let Some(root) = header(tree.bytes()) else {
        state.problem(ProblemKind::ExtentRoot, Location::inode(inode));
        return Ok(Mapped::default());
    };
    let depth = root.depth.get();
    if depth > disk::DEPTH_MAX {
        let (kind, place) = (ProblemKind::ExtentDepth, Location::inode(inode));
        state.report.add_found(kind, place, depth.into());
    }
    if depth > 0 && root.entry_count.get() == 0 {
        state.problem(ProblemKind::ExtentNodeEmpty, Location::inode(inode));
    }
    let mut mapped = Mapped::default();
    walk(state, inode, tree, &mut |state, item| match item {
        Item::Fault {
            kind,
            block,
            file_block,
        } => {
            let place = Location::inode(inode).at_file_block(file_block);
            state.report.add_found(kind, place, block);
            Next::Below
        }
        Item::Node(visit) => claim_node(state, inode, visit, &mut mapped),
        Item::Run(run) => claim_run(state, inode, &run, file_type, &mut mapped),
    })?;
    Ok(mapped)
}

fn claim_node(state: &mut State<'_>, inode: u32, visit: Visit, mapped: &mut Mapped) -> Next {
    if state.is_exhausted() {
        state.problem(ProblemKind::TooManyBadBlocks, Location::inode(inode));
        return Next::Stop;
    }
    mapped.clusters += 1;
    state.claim(visit.block);
    state.report.statistics.map_blocks += 1;
    Next::Below
}

fn claim_run(
    state: &mut State<'_>,
    inode: u32,
    run: &Run,
    file_type: FileType,
    mapped: &mut Mapped,
) -> Next {
    if state.is_exhausted_by(run.count) {
        state.problem(ProblemKind::TooManyBadBlocks, Location::inode(inode));
        return Next::Stop;
    }
    if file_type == FileType::Directory {
        if run.is_unwritten {
            let place = Location::inode(inode).at_file_block(run.file_block);
            state.problem(ProblemKind::UnwrittenDirectory, place);
        }
        let blocks = run
            .blocks()
            .map(|visit| (visit.file_block as u32, visit.block));
        state.directory_blocks.extend(blocks);
    }
    if matches!(inode, BAD_BLOCKS | RESIZE) {
        for visit in run.blocks() {
            if is_claimed(state, inode, visit) {
                state.claim(visit.block);
            }
        }
        mapped.clusters += run.count;
    } else {
        claim_clusters(state, inode, run, mapped);
    }
    let last = run.file_block + (run.count - 1);
    mapped.last = Some(last);
    if !run.is_unwritten {
        mapped.last_written = Some(last);
    }
    Next::Below
}

/// Claims the clusters of an extent. Its first cluster may be that of the extent before it; then
/// both have their blocks in the same cluster of the device, each at its place.
fn claim_clusters(state: &mut State<'_>, inode: u32, run: &Run, mapped: &mut Mapped) {
    let log = state.geometry.cluster_log;
    let clusters = |block: u64| (block >> log, ((block + run.count - 1) >> log) + 1);
    let (in_file, file_end) = clusters(run.file_block);
    let (first, end) = clusters(run.start);
    let is_shared = mapped.last_cluster == Some((in_file, first));
    let is_divided = !is_shared && mapped.last_cluster.is_some_and(|(last, _)| last == in_file);
    let is_askew = (run.file_block ^ run.start) & ((1 << log) - 1) != 0;
    if is_divided || is_askew {
        let place = Location::inode(inode).at_file_block(run.file_block);
        let kind = ProblemKind::ClusterMisaligned;
        state.report.add_found(kind, place, run.start);
    }
    let own = first + u64::from(is_shared);
    state.claim_run(own << log, (end - own) << log);
    mapped.clusters += end - own;
    mapped.last_cluster = Some((file_end - 1, end - 1));
}

impl Run {
    /// Iterates over the blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Visit> + use<> {
        let (start, file_block) = (self.start, self.file_block);
        (0..self.count).map(move |index| Visit {
            block: start + index,
            file_block: file_block + index,
            level: 0,
        })
    }
}

/// Visits all nodes and extents of a tree. If the visitor returns [`Next::Below`] for a node, the
/// entries of the node follow. A tree that is too deep is not entered.
pub(crate) fn walk<'a>(
    state: &mut State<'a>,
    inode: u32,
    tree: &Tree,
    visitor: &mut impl FnMut(&mut State<'a>, Item) -> Next,
) -> Result<(), Error> {
    let depth = header(tree.bytes()).map(|header| header.depth.get());
    let Some(depth) = depth.filter(|depth| *depth <= disk::DEPTH_MAX) else {
        return Ok(());
    };
    let mut walk = Walk {
        tree,
        owner: state.owner_seed(inode, tree.generation),
        path: Vec::with_capacity(depth.into()),
        next: 0,
    };
    let scope = Scope {
        depth,
        start: 0,
        bound: None,
        end: tree.end,
    };
    walk.node(state, tree.bytes(), scope, visitor)?;
    Ok(())
}

impl Walk<'_> {
    fn node<'a>(
        &mut self,
        state: &mut State<'a>,
        bytes: &[u8],
        scope: Scope,
        visitor: &mut impl FnMut(&mut State<'a>, Item) -> Next,
    ) -> Result<Next, Error> {
        if scope.depth == 0 {
            return Ok(self.leaf(state, bytes, scope, visitor));
        }
        let indexes: &[Index] = entries(bytes);
        for (number, index) in indexes.iter().enumerate() {
            let end = indexes
                .get(number + 1)
                .map_or(scope.end, |next| next.file_block.get().into());
            if self.below(state, index, Scope { end, ..scope }, visitor)? == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        Ok(Next::Below)
    }

    /// Enters the node that an index entry of a node leads to. The scope is that of the node, with
    /// the end of the entry.
    fn below<'a>(
        &mut self,
        state: &mut State<'a>,
        index: &Index,
        scope: Scope,
        visitor: &mut impl FnMut(&mut State<'a>, Item) -> Next,
    ) -> Result<Next, Error> {
        let (block, file_block) = (index.node(), u64::from(index.file_block.get()));
        let fault = |kind| Item::Fault {
            kind,
            block,
            file_block,
        };
        let bound = (scope.end >= file_block).then(|| scope.end.checked_sub(1));
        let bound = bound.flatten();
        if let Some(kind) = self.judge_index(state, index, scope, bound) {
            return Ok(visitor(state, fault(kind)));
        }
        let visit = Visit {
            block,
            file_block,
            level: scope.depth as u8,
        };
        let node = state.block(block)?;
        let Some(header) = header(&node) else {
            return Ok(visitor(state, fault(ProblemKind::ExtentNode)));
        };
        if header.entry_count.get() == 0 {
            return Ok(visitor(state, fault(ProblemKind::ExtentNodeEmpty)));
        }
        let next = visitor(state, Item::Node(visit));
        if next != Next::Below {
            return Ok(next);
        }
        let first = first_file_block(&node);
        for kind in self.faults_of(&node, header, scope.depth - 1, first != file_block) {
            if visitor(state, fault(kind)) == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        let below = Scope {
            depth: scope.depth - 1,
            start: first,
            // As in e2fsck, block 0 as the last one is no limit.
            bound: bound.filter(|bound| *bound != 0),
            end: scope.end,
        };
        self.path.push(block);
        let next = self.node(state, &node, below, visitor)?;
        self.path.pop();
        Ok(next)
    }

    /// Returns the fault that keeps an index entry from being followed.
    fn judge_index(
        &self,
        state: &State<'_>,
        index: &Index,
        scope: Scope,
        bound: Option<u64>,
    ) -> Option<ProblemKind> {
        let block = index.node();
        let is_beyond = match (scope.bound, bound) {
            (Some(most), Some(last)) => last > most,
            (limit, _) => limit.is_some(),
        };
        if block == 0 || !state.geometry.contains(block) {
            Some(ProblemKind::ExtentStart)
        } else if u64::from(index.file_block.get()) < scope.start {
            Some(ProblemKind::ExtentOrder)
        } else if is_beyond {
            Some(ProblemKind::ExtentOutsideNode)
        } else if self.path.contains(&block) {
            Some(ProblemKind::ExtentCycle)
        } else if state.is_metadata(block) {
            Some(ProblemKind::BlockInMetadata)
        } else {
            None
        }
    }

    /// Returns faults of a node that do not keep it from being read.
    fn faults_of(
        &self,
        node: &[u8],
        header: &Header,
        depth: u16,
        starts_elsewhere: bool,
    ) -> impl Iterator<Item = ProblemKind> + use<> {
        let sealed = self.owner.map(|owner| metadata::extent_block(owner, node));
        let has_wrong_checksum = sealed.is_some_and(|sealed| {
            sealed.is_none_or(|(tail, expected)| tail.checksum.get() != expected)
        });
        let has_wrong_depth = header.depth.get() != depth;
        let faults = [
            (ProblemKind::ExtentDepth, has_wrong_depth),
            (ProblemKind::ExtentIndexStart, starts_elsewhere),
            (ProblemKind::ExtentChecksum, has_wrong_checksum),
        ];
        let faults = faults.into_iter().filter(|(_, is_wrong)| *is_wrong);
        faults.map(|(kind, _)| kind)
    }

    fn leaf<'a>(
        &mut self,
        state: &mut State<'a>,
        bytes: &[u8],
        mut scope: Scope,
        visitor: &mut impl FnMut(&mut State<'a>, Item) -> Next,
    ) -> Next {
        for extent in entries::<Extent>(bytes) {
            let run = Run {
                start: extent.start(),
                file_block: extent.file_block.get().into(),
                count: extent.block_count().into(),
                is_unwritten: extent.is_unwritten(),
            };
            let item = match self.judge(state, &run, scope) {
                Some(kind) => Item::Fault {
                    kind,
                    block: run.start,
                    file_block: run.file_block,
                },
                None => {
                    self.next = run.file_block + run.count;
                    scope.start = self.next - 1;
                    Item::Run(run)
                }
            };
            if visitor(state, item) == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Below
    }

    /// Returns the fault of an extent.
    fn judge(&self, state: &State<'_>, run: &Run, scope: Scope) -> Option<ProblemKind> {
        let end = run.file_block + run.count;
        // Unwritten blocks and hashes may lie behind the end of the file.
        let may_follow = run.is_unwritten || self.tree.has_hashes;
        let is_behind_end = may_follow && end > self.tree.end;
        let is_beyond = scope.bound.is_some_and(|bound| end > bound + 1);
        let directory_end = directory_end(state);
        if run.start == 0 || !state.geometry.contains(run.start) {
            Some(ProblemKind::ExtentStart)
        } else if run.file_block < scope.start {
            Some(ProblemKind::ExtentOrder)
        } else if is_beyond && !is_behind_end {
            Some(ProblemKind::ExtentOutsideNode)
        } else if run.count == 0 {
            Some(ProblemKind::ExtentLength)
        } else if run.start + run.count > state.geometry.block_count {
            Some(ProblemKind::ExtentEnd)
        } else if self.tree.is_directory && end > directory_end {
            Some(ProblemKind::DirectoryTooLarge)
        } else if run.file_block < self.next {
            Some(ProblemKind::ExtentOverlap)
        } else {
            None
        }
    }
}

/// Returns the block of the file at which the first entry of a node starts.
fn first_file_block(node: &[u8]) -> u64 {
    let first = U32::ref_from_prefix(&node[size_of::<Header>()..]);
    first.map_or(0, |(first, _)| first.get().into())
}
