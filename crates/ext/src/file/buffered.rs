//! Writing through the page cache.
//!
//! A write is split into chunks, each one transaction: blocks are looked up, allocated or claimed,
//! the bytes go into pages, the pages become dirty and join the transaction's ordered set (or,
//! journaled, the transaction itself), and the inode is stored with its new size. So no committed
//! size is ahead of its blocks, and in ordered mode no committed block is ahead of its data. Pages
//! with a claim get their blocks later ([`super::delayed`]), and the stored size stays below them.
//!
//! Steps that can fail precede the transaction: the old contents of partly written blocks are read,
//! and the inode's table block is held in memory. If space runs out and a commit would release
//! freed blocks, the write waits for that commit; otherwise it returns the bytes written so far.

use std::sync::Arc;

use jbd2::Credits;
use layout::{Block, BlockNr, FileBlock, Tid};

use super::delayed;
use super::large_file::{hold_for_large_file, note_large_file};
use super::read::load;
use super::tail::clear_tail;
use super::truncate::finish_cut;
use crate::cache::file_pages::{Dirt, Inner, Which};
use crate::cache::folio::Backing;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::credits::Step;
use crate::core::handle::{CREDITS_MAX, CREDITS_MAX_EXTENTS, Handle};
use crate::disk::inode::{InodeState, now};
use crate::disk::metadata::Kind;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::map::{Before, FileMap, Mapped};
use crate::options::OrderedScope;
use crate::writeback::memory;
use crate::writeback::pages::write_pages;

/// Number of blocks in one transaction.
const CHUNK_BLOCKS: u64 = 64;
/// Number of extents in one transaction.
const CHUNK_RUNS: usize = 8;
/// Number of metadata blocks that a write may dirty besides those that mapping an extent may: the
/// inode and the superblock.
const CREDITS_BASE: u32 = 2;
const _: () = assert!(FileMap::Indirect.credits_to_map() + CREDITS_BASE < CREDITS_MAX);
const _: () = assert!(FileMap::DEEPEST.credits_to_map() + CREDITS_BASE < CREDITS_MAX_EXTENTS);

/// Writes through the cache. The caller holds the inode lock exclusively.
pub(super) fn buffered(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    offset: u64,
    from: &[u8],
) -> Result<usize> {
    rt::charge(rt::Cost::CopyIn {
        into: inode.memory(state, offset),
        bytes: from.len() as u64,
    });
    let _table = core.hold_table(inode.nr)?;
    if offset + from.len() as u64 > state.size {
        finish_cut(core, inode, state)?;
    }
    if offset > state.size {
        clear_tail(core, inode, state)?;
    }
    let mut done = 0;
    while done < from.len() {
        let chunk = Chunk::new(core, state, offset + done as u64, &from[done..]);
        let before = core.space.before();
        match chunk.write(core, inode, state) {
            // Blocks are allocated at once: pages before them must not lack theirs.
            Ok(0) => match delayed::allocate(core, inode, state) {
                Err(_) if done > 0 => break,
                result => result?,
            },
            Ok(count) => {
                done += count;
                let has_more = done < from.len() && core.pages.counts.delayed() > 0;
                let is_enough = has_more && memory::excess(core) > 0;
                if is_enough && delayed::allocate(core, inode, state).is_err() {
                    break;
                }
            }
            Err(Error::NoSpace) => match core.wait_for_space(before) {
                Ok(true) => {}
                _ if done > 0 => break,
                Ok(false) => return Err(Error::NoSpace),
                Err(error) => return Err(error),
            },
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The part of a write that one transaction covers.
struct Chunk<'f> {
    position: u64,
    bytes: &'f [u8],
    block_bytes: u64,
    is_journaled: bool,
    /// True if blocks of holes may be allocated later.
    is_delayed: bool,
    /// The file's size before the write.
    old_size: u64,
}

/// A part of the chunk that has been looked up, allocated or claimed.
#[derive(Clone, Copy)]
struct Target {
    first: FileBlock,
    count: u32,
    place: Place,
}

/// The location of a target.
#[derive(Clone, Copy)]
enum Place {
    /// On the device, from this block on.
    Mapped(BlockNr, Before),
    /// Nowhere yet: the pages have a claim.
    Delayed,
}

impl Target {
    fn mapped(first: FileBlock, run: Run, before: Before) -> Self {
        Self {
            first,
            count: run.count,
            place: Place::Mapped(run.first, before),
        }
    }

    /// Returns true if the device has no data of the file here.
    fn is_new(&self) -> bool {
        !matches!(self.place, Place::Mapped(_, Before::Mapped))
    }

    /// Returns the backing of a page of the target.
    fn backing(&self, step: u64) -> Backing {
        match self.place {
            Place::Mapped(first, _) => Backing::Mapped(first + step),
            Place::Delayed => Backing::Delayed,
        }
    }

    /// Returns the transaction that must not commit before the target is written.
    fn ordering(&self, handle: &Handle<'_>) -> Option<Tid> {
        match self.place {
            // Zeroes that were promised become data, never what the device had before.
            Place::Mapped(_, Before::Unwritten) if !rt::mutant!("unwritten/not-ordered") => {
                handle.tid()
            }
            Place::Mapped(_, Before::Unwritten) | Place::Delayed => None,
            Place::Mapped(_, Before::Mapped | Before::Hole) => handle.ordering(),
        }
    }
}

impl<'f> Chunk<'f> {
    fn new(core: &Core, state: &InodeState, position: u64, bytes: &'f [u8]) -> Self {
        let block_bytes = u64::from(core.geometry().block_bytes);
        let is_journaled = state.is_journaled(core);
        let mut blocks = CHUNK_BLOCKS;
        if is_journaled && let Some(most) = core.max_credits() {
            let most = most.saturating_sub(FileMap::of(state).credits_to_map() + CREDITS_BASE) / 2;
            blocks = blocks.min(u64::from(most)).max(1);
        }
        let end = (position / block_bytes + blocks) * block_bytes;
        let length = bytes
            .len()
            .min(usize::try_from(end - position).unwrap_or(usize::MAX));
        Self {
            position,
            bytes: &bytes[..length],
            block_bytes,
            is_journaled,
            is_delayed: delayed::is_possible(core, state),
            old_size: state.size,
        }
    }

    fn first(&self) -> FileBlock {
        FileBlock::new(self.position / self.block_bytes)
    }

    fn last(&self) -> FileBlock {
        FileBlock::new((self.position + self.bytes.len() as u64 - 1) / self.block_bytes)
    }

    fn blocks(&self) -> impl Iterator<Item = FileBlock> + use<> {
        (self.first().get()..=self.last().get()).map(FileBlock::new)
    }

    /// Returns the number of blocks from a block to the end of the chunk.
    fn blocks_from(&self, block: FileBlock) -> u32 {
        (self.last().get() - block.get() + 1) as u32
    }

    /// Returns the range of a block that is written: start and end.
    fn part(&self, block: FileBlock) -> (u64, u64) {
        let start = block.get() * self.block_bytes;
        let end = self.position + self.bytes.len() as u64;
        (
            self.position.saturating_sub(start),
            (end - start).min(self.block_bytes),
        )
    }

    /// Returns the old contents of a block, if the write keeps any of them.
    fn base(
        &self,
        core: &Core,
        inode: &Arc<Inode>,
        state: &InodeState,
        block: FileBlock,
    ) -> Result<Option<Arc<Block>>> {
        let (from, to) = self.part(block);
        let start = block.get() * self.block_bytes;
        let keeps_front = from > 0;
        let keeps_back = to < self.block_bytes && start + to < self.old_size;
        if start < self.old_size && (keeps_front || keeps_back) {
            load(core, inode, state, block)
        } else {
            Ok(None)
        }
    }

    /// Writes the chunk or its first part. Returns the number of bytes; 0 if pages of the file have
    /// to get their blocks first. If it fails, nothing has changed.
    fn write(&self, core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<usize> {
        let head = self.base(core, inode, state, self.first())?;
        let tail = match self.last() {
            last if last == self.first() => None,
            last => self.base(core, inode, state, last)?,
        };
        if core.tuning.writes_before_rewrite {
            self.write_what_commits(core, inode);
        }
        let end_max = self.position + self.bytes.len() as u64;
        let _superblock = hold_for_large_file(core, end_max)?;
        let credits = self.credits(inode, state);
        let mut handle = core.begin(core.credits(Step::Write, credits))?;
        handle.describe();
        if rt::mutant!("write/size-before-blocks") && !self.is_delayed && end_max > state.size {
            state.size = end_max;
            state.store(core, &mut handle, inode.nr, true)?;
            handle.tear(core.credits(Step::Write, credits))?;
        }
        let mut targets = [const { None }; CHUNK_RUNS];
        if let Err(error) = self.map(core, &mut handle, inode, state, &mut targets) {
            handle.finish()?;
            return Err(error);
        }
        if targets[0].is_none() {
            handle.finish()?;
            return Ok(0);
        }
        let count = self.fill(core, &mut handle, inode, &targets, [head, tail])?;
        let end = self.position + count as u64;
        let has_grown = end > state.size;
        let has_new = targets.iter().flatten().any(Target::is_new);
        let stored = state.stored_size();
        state.size = state.size.max(end);
        if self.is_delayed || state.size_on_disk.is_some() {
            delayed::publish(core, &inode.pages.lock(), state, stored);
        }
        state.mtime = now();
        state.ctime = state.mtime;
        if has_grown {
            note_large_file(core, &mut handle, state.size)?;
        }
        let is_data = has_grown || has_new || self.is_journaled;
        state.store(core, &mut handle, inode.nr, is_data)?;
        handle.finish()?;
        Ok(count)
    }

    /// Writes the pages of the chunk that a committing transaction has yet to write, and waits.
    fn write_what_commits(&self, core: &Core, inode: &Arc<Inode>) {
        let Some(journal) = &core.journal else {
            return;
        };
        let running = journal.running();
        let inner = inode.pages.lock();
        let is_due = self.blocks().any(|block| {
            let slot = inner.slot(block).filter(|slot| slot.is_dirty);
            slot.is_some_and(|slot| slot.ordered.is_some() && slot.ordered != running)
        });
        drop(inner);
        if !is_due {
            return;
        }
        let began = rt::monotonic();
        if let Err(error) = write_pages(core, inode, Which::Range(self.first(), self.last())) {
            tracing::warn!(%error, "write-back failed; the pages stay dirty");
        }
        core.pages.stalls.rewrite.add_since(began);
    }

    fn credits(&self, inode: &Arc<Inode>, state: &InodeState) -> Credits {
        let inner = inode.pages.lock();
        let has_place =
            |block: FileBlock| inner.block_of(block).is_some() || inner.is_delayed(block);
        let is_mapped = self.blocks().all(has_place);
        let map = if is_mapped {
            0
        } else {
            FileMap::of(state).credits_to_map()
        };
        let data = if self.is_journaled {
            self.blocks_from(self.first())
        } else {
            0
        };
        Credits {
            blocks: CREDITS_BASE + map + data,
            revokes: 0,
        }
    }

    /// Looks up or allocates blocks from the first on, as far as credits and room for extents
    /// suffice: at least one extent.
    fn map(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        targets: &mut [Option<Target>; CHUNK_RUNS],
    ) -> Result<()> {
        let mut at = self.first();
        let mut claimed = 0;
        for (index, place) in targets.iter_mut().enumerate() {
            if at > self.last() {
                break;
            }
            let target = match self.find(core, handle, inode, state, (at, &mut claimed)) {
                Ok(Some(target)) => target,
                Ok(None) => break,
                Err(error) if index == 0 => return Err(error),
                Err(_) => break,
            };
            *place = Some(target);
            at = at + u64::from(target.count);
        }
        Ok(())
    }

    /// Looks up, claims or allocates the part of the chunk from a block on. `claimed` counts the
    /// clusters with pages of the chunk that are claimed and not in the cache yet. Returns none if
    /// blocks have to be allocated and other pages of the file have none yet, or if the handle has
    /// no credits for another part than the first.
    fn find(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        (at, claimed): (FileBlock, &mut u64),
    ) -> Result<Option<Target>> {
        let is_first = at == self.first();
        if let Some(target) = self.cached(inode, at) {
            return Ok(Some(target));
        }
        if let Some(target) = self.unallocated(core, inode, state, (at, *claimed))? {
            if matches!(target.place, Place::Delayed) {
                let geometry = core.geometry();
                *claimed += geometry.clusters_of_range(at, target.count.into());
            }
            return Ok(Some(target));
        }
        let is_early = rt::mutant!("delayed/converted-before-others");
        if *claimed + inode.pages.lock().delayed_pages() > 0 && !is_early {
            return Ok(None);
        }
        let map = FileMap::of(state);
        let data = if self.is_journaled {
            self.blocks_from(self.first())
        } else {
            0
        };
        let needed = map.credits_to_map() + CREDITS_BASE + data;
        let more = Credits {
            blocks: map.credits_to_map(),
            revokes: 0,
        };
        let has_credits = is_first || handle.credits_left() >= needed;
        if !has_credits && !handle.extend(more)? {
            return Ok(None);
        }
        let wanted = self.blocks_from(at);
        let (run, before) = map.find_or_allocate(core, handle, inode, state, at, wanted)?;
        Ok(Some(Target::mapped(at, run, before)))
    }

    /// Returns the part of the chunk from a block on that is in the cache.
    fn cached(&self, inode: &Inode, at: FileBlock) -> Option<Target> {
        let inner = inode.pages.lock();
        if let Some(run) = cached_run(&inner, at, self.last()) {
            return Some(Target::mapped(at, run, Before::Mapped));
        }
        let count = inner.delayed_length(at, self.blocks_from(at).into()) as u32;
        (count > 0).then_some(Target {
            first: at,
            count,
            place: Place::Delayed,
        })
    }

    /// Returns the part of the chunk from a block on that is not allocated here: an extent of data,
    /// or a hole for which blocks are claimed. None if blocks have to be allocated or converted.
    fn unallocated(
        &self,
        core: &Core,
        inode: &Inode,
        state: &InodeState,
        (at, claimed): (FileBlock, u64),
    ) -> Result<Option<Target>> {
        if !self.is_delayed {
            return Ok(None);
        }
        let wanted = self.blocks_from(at);
        let count = match FileMap::of(state).find(core, inode, state, at, wanted)? {
            Mapped::Run(run) => return Ok(Some(Target::mapped(at, run, Before::Mapped))),
            Mapped::Unwritten(_) => return Ok(None),
            Mapped::Hole(count) => count.min(wanted.into()),
        };
        let inner = inode.pages.lock();
        let count = inner
            .first_delayed(at)
            .map_or(count, |next| count.min(next.get() - at.get()));
        drop(inner);
        let target = Target {
            first: at,
            count: count as u32,
            place: Place::Delayed,
        };
        let pieces = claimed + core.geometry().clusters_of_range(at, count);
        Ok(delayed::claim(core, inode, state, pieces).then_some(target))
    }

    /// Copies the bytes into pages. Returns the number of bytes.
    fn fill(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        inode: &Arc<Inode>,
        targets: &[Option<Target>; CHUNK_RUNS],
        [mut head, mut tail]: [Option<Arc<Block>>; 2],
    ) -> Result<usize> {
        let since = rt::monotonic();
        let mut journaled = Vec::new();
        let mut done = 0;
        let mut inner = inode.pages.lock();
        for target in targets.iter().flatten() {
            let is_new = target.is_new();
            let tid = target.ordering(handle);
            for step in 0..u64::from(target.count) {
                let (block, backing) = (target.first + step, target.backing(step));
                let (from, to) = self.part(block);
                let bytes = &self.bytes[done..done + (to - from) as usize];
                let base = if block == self.first() {
                    &mut head
                } else {
                    &mut tail
                };
                let base = if block == self.first() || block == self.last() {
                    base.take()
                } else {
                    None
                };
                let reaches_beyond = (block + 1).get() * self.block_bytes > self.old_size;
                let is_ordered =
                    core.options.ordered == OrderedScope::All || is_new || reaches_beyond;
                let ordered = tid.filter(|_| is_ordered);
                let dirt = Dirt { ordered, since };
                let dirt = (!self.is_journaled).then_some(dirt);
                let image = inner.change(&core.pages.counts, block, backing, dirt, |old| {
                    compose(old, base, from as usize, bytes, self.block_bytes as usize)
                });
                if self.is_journaled
                    && let Backing::Mapped(nr) = backing
                {
                    journaled.push((nr, image));
                } else if let Some(dirt) = dirt {
                    drop(image);
                    core.pages.announce(&mut inner, inode, dirt);
                }
                done += bytes.len();
            }
        }
        drop(inner);
        for (nr, image) in journaled {
            handle.replace(&core.buffers.get_new(nr, Kind::Contents.of_volume()), image)?;
        }
        Ok(done)
    }
}

/// Returns the extent of consecutive cached pages, as far as their blocks are consecutive, too.
fn cached_run(inner: &Inner, from: FileBlock, last: FileBlock) -> Option<Run> {
    let first = inner.block_of(from)?;
    let follows = |step: &u64| inner.block_of(from + *step) == Some(first + *step);
    let count = 1 + (1..=last.get() - from.get()).take_while(follows).count() as u32;
    Some(Run { first, count })
}

/// Returns a page's new image: bytes written over the old contents.
fn compose(
    old: Option<Arc<Block>>,
    base: Option<Arc<Block>>,
    from: usize,
    bytes: &[u8],
    block_bytes: usize,
) -> Arc<Block> {
    let mut image = match old {
        Some(old) => {
            drop(base);
            old
        }
        None if bytes.len() == block_bytes => return Block::copy_from(bytes).into_arc(),
        None => base.unwrap_or_else(|| Block::zeroed(block_bytes).into_arc()),
    };
    if bytes.len() == block_bytes && Arc::get_mut(&mut image).is_none() {
        return Block::copy_from(bytes).into_arc();
    }
    Arc::make_mut(&mut image)[from..from + bytes.len()].copy_from_slice(bytes);
    image
}
