//! Reading: from the page cache, and from the device into it.

use std::sync::Arc;

use jbd2::Credits;
use layout::inode_flags::InodeFlags;
use layout::{Block, FileBlock};
use rt::Mutex;

use super::ahead::{self, Reader};
use super::spans::{fetch_spans, map_spans, mask_tail};
use super::{delayed, inline};
use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::cache::read_ahead::{ReadAhead, Span};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::error::Result;
use crate::map::{FileMap, Mapped};
use crate::options::AccessTime;
use crate::writeback::memory;
use crate::writeback::pages::write_file;

/// Number of pages copied at a time.
const PAGES_AT_A_TIME: usize = 16;
/// Number of blocks read from the device at a time.
const BLOCKS_AT_A_TIME: u64 = 256;
/// Age in seconds at which a relative access time is renewed: a day.
const RELATIVE_SECONDS: i64 = 86_400;
/// Credits for storing an access time: the inode.
const CREDITS_ACCESS: Credits = Credits {
    blocks: 1,
    revokes: 0,
};

/// Reads at an offset. Returns the number of bytes, fewer than requested only at the end of the
/// file. `ahead` is the readahead state of the open file, if the caller has one.
pub(crate) fn read(
    core: &Core,
    inode: &Arc<Inode>,
    ahead: Option<&Mutex<ReadAhead>>,
    offset: u64,
    into: &mut [u8],
) -> Result<usize> {
    let (count, is_stale) = {
        let state = inode.state.read();
        let count = read_locked(core, inode, &state, ahead, offset, into)?;
        (count, wants_access_time(core, &state))
    };
    memory::balance(core);
    if is_stale && !into.is_empty() {
        touch_access(core, inode);
    }
    Ok(count)
}

/// Reads past the page cache. Unaligned reads, and those of journaled files, go through it.
pub(crate) fn read_direct(
    core: &Core,
    inode: &Arc<Inode>,
    ahead: Option<&Mutex<ReadAhead>>,
    offset: u64,
    into: &mut [u8],
) -> Result<usize> {
    let bytes = core.block_bytes();
    let is_aligned = offset.is_multiple_of(bytes as u64) && into.len().is_multiple_of(bytes);
    if !is_aligned || into.is_empty() || has_no_blocks(core, &inode.state.read()) {
        return read(core, inode, ahead, offset, into);
    }
    let first = FileBlock::new(offset / bytes as u64);
    let last = first + ((into.len() / bytes) as u64 - 1);
    if delayed::settle(core, inode).is_err() {
        return read(core, inode, ahead, offset, into);
    }
    write_file(core, inode, Which::Range(first, last))?;
    let state = inode.state.read();
    let count = last.get() - first.get() + 1;
    let done = inode.pages.read_device(first, count, || {
        read_blocks(core, inode, &state, (first, last), into)
    })?;
    if let Some(length) = done {
        return Ok(length);
    }
    drop(state);
    read(core, inode, ahead, offset, into)
}

/// Reads blocks past the cache. Returns the number of bytes; none if they have to be read through
/// it.
fn read_blocks(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    (first, last): (FileBlock, FileBlock),
    into: &mut [u8],
) -> Result<Option<usize>> {
    let bytes = core.block_bytes();
    let offset = first.get() * bytes as u64;
    // Pages that were written since then are read from the cache. So is a file that was switched to
    // data journaling since then: its contents may be in memory alone.
    let inner = inode.pages.lock();
    let is_newer = (first.get()..=last.get()).any(|block| {
        let slot = inner.slot(FileBlock::new(block));
        slot.is_some_and(|slot| slot.is_dirty || slot.is_in_flight)
    });
    drop(inner);
    if is_newer || has_no_blocks(core, state) {
        return Ok(None);
    }
    let length = into
        .len()
        .min(usize::try_from(state.size.saturating_sub(offset)).unwrap_or(usize::MAX));
    rt::charge(rt::Cost::Copy(length as u64));
    let mut done = 0;
    while done < length {
        let block = first + (done / bytes) as u64;
        let wanted = (length - done).div_ceil(bytes) as u64;
        let spans = map_spans(core, inode, state, block, wanted.min(BLOCKS_AT_A_TIME))?;
        if spans.is_empty() {
            let end = length.min(done + bytes);
            into[done..end].fill(0);
            done = end;
            continue;
        }
        for image in fetch_spans(core, &spans)? {
            let end = length.min(done + bytes);
            into[done..end].copy_from_slice(&image[..end - done]);
            done = end;
        }
    }
    Ok(Some(length))
}

fn has_no_blocks(core: &Core, state: &InodeState) -> bool {
    state.is_journaled(core) || state.is_inline()
}

fn read_locked(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    open: Option<&Mutex<ReadAhead>>,
    offset: u64,
    into: &mut [u8],
) -> Result<usize> {
    let left = usize::try_from(state.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let length = into.len().min(left);
    if length == 0 {
        return Ok(0);
    }
    rt::charge(rt::Cost::CopyOut {
        from: inode.memory(state, offset),
        bytes: length as u64,
    });
    let into = &mut into[..length];
    if state.is_inline() {
        inline::read(core, inode, state, offset, into)?;
        return Ok(length);
    }
    let block_bytes = u64::from(core.geometry().block_bytes);
    let last = FileBlock::new((offset + length as u64 - 1) / block_bytes);
    let first = FileBlock::new(offset / block_bytes);
    let reader = Reader::note(inode, open, (first, last), block_bytes);
    let mut done = 0;
    while done < length {
        let position = offset + done as u64;
        let block = FileBlock::new(position / block_bytes);
        let within = (position % block_bytes) as usize;
        let wanted = last.get() - block.get() + 1;
        let mut images = [const { None }; PAGES_AT_A_TIME];
        let room = PAGES_AT_A_TIME.min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let count = inode.pages.lock().images(block, &mut images[..room]);
        if count > 0 {
            let images = images.iter().flatten().take(count);
            done += copy_out(images, within, &mut into[done..]);
            continue;
        }
        match fetch(core, inode, state, Some(reader), block, wanted)? {
            Fetched::Images(images) => done += copy_out(images.iter(), within, &mut into[done..]),
            Fetched::Hole(blocks) => {
                let hole = usize::try_from(blocks * block_bytes).unwrap_or(usize::MAX) - within;
                let end = length.min(done.saturating_add(hole));
                into[done..end].fill(0);
                done = end;
            }
            Fetched::Again => {}
        }
    }
    if !state.is_journaled(core) {
        ahead::extend(core, inode, state, reader);
    }
    Ok(length)
}

/// Copies pages out, from an offset in the first. Returns the number of bytes.
fn copy_out<'i>(
    images: impl Iterator<Item = &'i Arc<Block>>,
    mut within: usize,
    into: &mut [u8],
) -> usize {
    let mut done = 0;
    for image in images {
        let count = (image.len() - within).min(into.len() - done);
        into[done..done + count].copy_from_slice(&image[within..within + count]);
        done += count;
        within = 0;
    }
    done
}

/// The result of a request for blocks that are not in the cache.
enum Fetched {
    /// The images, from the wanted one on.
    Images(Vec<Arc<Block>>),
    /// A hole of this number of blocks.
    Hole(u64),
    /// The blocks were pending and are in the cache now.
    Again,
}

/// Reads blocks into the cache: the wanted ones, and readahead if there is a reader.
fn fetch(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    reader: Option<Reader<'_>>,
    block: FileBlock,
    wanted: u64,
) -> Result<Fetched> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let blocks = state.size.div_ceil(block_bytes);
    let mut inner = inode.pages.lock();
    if let Some(pending) = inner.windows.take(block) {
        inner.begin_read();
        drop(inner);
        let complete = || ahead::complete(core, inode, state, pending);
        inode.pages.end_read_after(complete);
        return Ok(Fetched::Again);
    }
    drop(inner);
    let plan = |ahead: &mut ReadAhead| ahead.plan(block, wanted, block_bytes);
    let count = reader.map_or(wanted, |reader| reader.change(inode, plan));
    let count = count.min(blocks - block.get()).min(BLOCKS_AT_A_TIME);
    inode.pages.read_device(block, count.max(1), || {
        fetch_absent(core, inode, state, block, (count, wanted))
    })
}

/// Reads blocks into the cache, as far as they are absent.
fn fetch_absent(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    block: FileBlock,
    (count, wanted): (u64, u64),
) -> Result<Fetched> {
    let count = inode.pages.lock().absent(block, count);
    let found = FileMap::of(state).find(
        core,
        inode,
        state,
        block,
        u32::try_from(count.max(1)).unwrap_or(u32::MAX),
    )?;
    if let Some(hole) = found.zeroes() {
        let most = hole.min(wanted);
        let next = inode.pages.lock().first_delayed(block);
        let hole = next.map_or(most, |next| most.min(next.get() - block.get()));
        return Ok(Fetched::Hole(hole));
    }
    if state.is_journaled(core)
        && let Some(images) = fetch_from_buffers(core, inode, state, block, found)
    {
        return Ok(Fetched::Images(images));
    }
    let spans = map_spans(core, inode, state, block, count.max(1))?;
    let images = match fetch_spans(core, &spans) {
        Ok(images) => images,
        Err(_) if count > 1 => fetch_spans(core, &[one_block(&spans[0])])?,
        Err(error) => return Err(error),
    };
    Ok(Fetched::Images(put_images(
        core, inode, state, &spans, images,
    )))
}

fn one_block(span: &Span) -> Span {
    Span {
        first: span.first,
        run: Run {
            first: span.run.first,
            count: 1,
        },
    }
}

/// Puts images into the cache, with zeroes beyond the file's size.
fn put_images(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    spans: &[Span],
    mut images: Vec<Arc<Block>>,
) -> Vec<Arc<Block>> {
    let places = spans.iter().flat_map(|span| {
        (0..u64::from(span.run.count)).map(|step| (span.first + step, span.run.first + step))
    });
    let mut inner = inode.pages.lock();
    for ((block, nr), image) in places.zip(&mut images) {
        let is_masked = mask_tail(core, state, block, image);
        inner.fill(&core.pages.counts, block, nr, image, is_masked);
    }
    images
}

/// Returns images from the buffer cache, in which the current contents of a journaled file may be
/// before they reach the device.
fn fetch_from_buffers(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    block: FileBlock,
    found: Mapped,
) -> Option<Vec<Arc<Block>>> {
    let Mapped::Run(run) = found else { return None };
    let count = (0..u64::from(run.count))
        .map_while(|step| {
            core.buffers
                .peek(run.first + step)
                .map(|buffer| buffer.image())
        })
        .collect::<Vec<_>>();
    if count.is_empty() {
        return None;
    }
    let run = Run {
        first: run.first,
        count: count.len() as u32,
    };
    Some(put_images(
        core,
        inode,
        state,
        &[Span { first: block, run }],
        count,
    ))
}

/// Returns the page of one block, from the cache or the device; none for a hole.
pub(super) fn load(
    core: &Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    block: FileBlock,
) -> Result<Option<Arc<Block>>> {
    loop {
        if let Some(image) = inode.pages.lock().image(block) {
            return Ok(Some(image));
        }
        if block.get() * u64::from(core.geometry().block_bytes) >= state.size {
            return Ok(None);
        }
        match fetch(core, inode, state, None, block, 1)? {
            Fetched::Images(images) => return Ok(images.into_iter().next()),
            Fetched::Hole(_) => return Ok(None),
            Fetched::Again => {}
        }
    }
}

fn wants_access_time(core: &Core, state: &InodeState) -> bool {
    if core.options.access_time == AccessTime::Never
        || state.flags.contains(InodeFlags::NO_ATIME)
        || core.is_read_only.load(rt::atomic::Ordering::Acquire)
    {
        return false;
    }
    if core.options.access_time == AccessTime::Strict {
        return state.atime != now();
    }
    let is_old = state.atime <= state.mtime || state.atime <= state.ctime;
    is_old || now().seconds - state.atime.seconds >= RELATIVE_SECONDS
}

/// Renews the access time after a read, if the mount options require it and it costs the reader
/// neither a wait nor an error. Otherwise the time stays as it is, and the next read tries again.
fn touch_access(core: &Core, inode: &Arc<Inode>) {
    if rt::mutant!("read/waits-for-access-time") {
        drop(core.begin(CREDITS_ACCESS));
    }
    let Some(mut state) = inode.state.try_write() else {
        return;
    };
    if state.check_exists().is_err() || !wants_access_time(core, &state) {
        return;
    }
    let Ok(_table) = core.hold_table(inode.nr) else {
        return;
    };
    let Some(mut handle) = Handle::begin_at_once(core, CREDITS_ACCESS) else {
        return;
    };
    if state.kind == FileKind::Regular {
        handle.describe();
    }
    let before = state.atime;
    state.atime = now();
    let stored = state.store(core, &mut handle, inode.nr, false);
    if let Err(error) = stored.and(handle.finish()) {
        state.atime = before;
        tracing::debug!(inode = %inode.nr, %error, "an access time is not stored");
    }
}
