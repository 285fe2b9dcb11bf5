//! The open file and the system calls on it.
//!
//! Direct I/O requires the alignment of memory and offsets that `statx` reports. Less aligned
//! requests use a bounce buffer. A write then reads the edges of its range first, one such write at
//! a time, so that writes of neighbours in one unit of the disk do not undo each other.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use core::ops::Range;
use core::sync::atomic::Ordering;
use layout::{Block, SectorNr};
use rt::Mutex;
use rt::atomic::AtomicBool;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::ioctl::{Opcode, Setter, opcode};

use super::alignment::Alignment;
use super::bounce::Bounce;
use super::guard;
use super::plan::{Operation, ReadPart};
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::payload::{Payload, payload_bytes};
use crate::ticket::Outcome;

/// Maximum number of pieces in one system call (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// An open file.
pub(super) struct Backing {
    pub(super) file: OwnedFd,
    name: String,
    /// Alignment of direct I/O; `None` for buffered I/O.
    direct: Option<Alignment>,
    /// True if no other program may write it meanwhile.
    is_guarded: bool,
    /// The process that has locked the file.
    process: u32,
    /// Held by a write that reads its edges first.
    edges: Mutex<()>,
    /// True if `RWF_DSYNC` is supported, and costs no more than a write and a flush.
    has_forced_writes: AtomicBool,
    /// A flush or forced write has failed. The kernel reports lost writes of a file once, to any of
    /// its users, so that all later ones fail, too.
    has_lost_writes: AtomicBool,
}

/// The error of a write.
#[derive(Debug)]
struct Unwritten {
    errno: Errno,
    /// True if a part was written.
    is_partial: bool,
}

impl From<Errno> for Unwritten {
    fn from(errno: Errno) -> Self {
        Self {
            errno,
            is_partial: false,
        }
    }
}

/// Unlocks explicitly: a child process that is being forked shares the open file, and with it the
/// lock, for a moment. A child that closes its own copy leaves the lock to its parent.
impl Drop for Backing {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            guard::unlock(&self.file);
        }
    }
}

impl Backing {
    pub(super) fn new(
        file: OwnedFd,
        name: String,
        direct: Option<Alignment>,
        is_guarded: bool,
    ) -> Self {
        Self {
            has_forced_writes: AtomicBool::new(direct.is_none() || !guard::is_block_device(&file)),
            file,
            name,
            direct,
            is_guarded,
            process: std::process::id(),
            edges: Mutex::new(()),
            has_lost_writes: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns a loop device that was attached to the file after it was opened for writing.
    pub(super) fn intruder(&self) -> Option<String> {
        if !self.is_guarded {
            return None;
        }
        let name = guard::loop_of_file(&self.file)?;
        Some(format!(
            "{} was attached to /dev/{name} while it was open; what was changed there may be damaged",
            self.name
        ))
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    pub(super) fn alignment(&self) -> u64 {
        self.direct.map_or(SectorNr::SIZE, |direct| {
            direct.offset.max(direct.memory as u64)
        })
    }

    /// Executes an operation and returns the answers to its requests. If a merged one fails, its
    /// parts are executed one by one.
    pub(super) fn run(&self, operation: Operation) -> Vec<(usize, Answer)> {
        match operation {
            Operation::Read { offset, parts } => match self.read(offset, &parts) {
                Ok(payloads) => {
                    let answer = |(part, payload): (&ReadPart, _)| (part.index, Ok(payload));
                    parts
                        .iter()
                        .zip(payloads.into_iter().map(Outcome::Read))
                        .map(answer)
                        .collect()
                }
                Err(errno) if parts.len() == 1 => {
                    let error = self.failure("read", offset, parts[0].bytes(), errno);
                    vec![(parts[0].index, Err(error))]
                }
                Err(_) => self.run_apart(Operation::Read { offset, parts }),
            },
            Operation::Write {
                offset,
                is_forced,
                parts,
            } => {
                let pieces: Payload = parts
                    .iter()
                    .flat_map(|(_, payload)| payload.iter().cloned())
                    .collect();
                match self.write(offset, &pieces, is_forced) {
                    Ok(()) => parts
                        .iter()
                        .map(|(index, _)| (*index, Ok(Outcome::Done)))
                        .collect(),
                    Err(unwritten) if parts.len() == 1 => {
                        let error = self.unwritten(offset, payload_bytes(&pieces), unwritten);
                        vec![(parts[0].0, Err(error))]
                    }
                    Err(_) => self.run_apart(Operation::Write {
                        offset,
                        is_forced,
                        parts,
                    }),
                }
            }
            Operation::Flush { index } => {
                // Data that a flush could not write is lost, for any reason: never `NoSpace`.
                let done = self.flush();
                let answer = done.map_err(|errno| self.failed("flush", 0, 0, errno));
                vec![(index, answer.map(|()| Outcome::Done))]
            }
            Operation::Discard {
                index,
                offset,
                bytes,
            } => {
                vec![(
                    index,
                    self.answer("discard", offset, bytes, self.discard(offset, bytes)),
                )]
            }
        }
    }

    fn run_apart(&self, operation: Operation) -> Vec<(usize, Answer)> {
        operation
            .split()
            .into_iter()
            .flat_map(|single| self.run(single))
            .collect()
    }

    fn answer(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
        done: Result<(), Errno>,
    ) -> Answer {
        done.map(|()| Outcome::Done)
            .map_err(|errno| self.failure(operation, offset, bytes, errno))
    }

    fn failure(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
        errno: Errno,
    ) -> DeviceError {
        match errno {
            Errno::NOSPC | Errno::DQUOT => DeviceError::NoSpace {
                device: self.name.clone(),
            },
            Errno::NODEV | Errno::NXIO => DeviceError::Gone,
            errno => self.failed(operation, offset, bytes, errno),
        }
    }

    fn unwritten(&self, offset: u64, bytes: u64, unwritten: Unwritten) -> DeviceError {
        match unwritten.errno {
            // What was written in part is not refused: it has changed something.
            errno @ (Errno::NOSPC | Errno::DQUOT) if unwritten.is_partial => {
                self.failed("write", offset, bytes, errno)
            }
            errno => self.failure("write", offset, bytes, errno),
        }
    }

    fn failed(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
        errno: Errno,
    ) -> DeviceError {
        DeviceError::Failed {
            operation,
            sector: SectorNr::from_byte_offset(offset),
            sectors: bytes / SectorNr::SIZE,
            device: self.name.clone(),
            cause: errno.to_string(),
        }
    }

    /// Allocates ranges of a file, as far as its file system can. A block device has nothing to
    /// allocate.
    pub(super) fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (offset, bytes) = (range.start, range.end - range.start);
            let mode = FallocateFlags::KEEP_SIZE;
            match retry(|| rustix::fs::fallocate(&self.file, mode, offset, bytes)) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => return Ok(()),
                Err(errno) => return Err(self.failure("reservation", offset, bytes, errno)),
            }
        }
        Ok(())
    }

    /// Returns the first part of a range that is not a hole of the file.
    pub(super) fn next_data(&self, range: Range<u64>) -> Range<u64> {
        let seek = |from| retry(|| rustix::fs::seek(&self.file, from));
        match seek(SeekFrom::Data(range.start)) {
            Ok(start) if start < range.end => {
                let hole = seek(SeekFrom::Hole(start)).unwrap_or(range.end);
                start.max(range.start)..hole.clamp(start, range.end)
            }
            Ok(_) | Err(Errno::NXIO) => range.end..range.end,
            Err(_) => range,
        }
    }

    /// Punches holes into a file, or zeroes ranges of a block device. Returns the ranges for which
    /// neither is possible.
    pub(super) fn zero<'r>(
        &self,
        ranges: &'r [Range<u64>],
        size_bytes: u64,
    ) -> Result<&'r [Range<u64>], DeviceError> {
        let modes = [
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        ];
        let mut left = ranges;
        // A write that has read its edges would bring back what a neighbour's hole has removed.
        let _guard = self.direct.map(|_| self.edges.lock());
        while let Some((range, rest)) = left.split_first() {
            let (offset, bytes) = (range.start, range.end.saturating_sub(range.start));
            if range.end > size_bytes {
                let (sector, sectors) =
                    (SectorNr::from_byte_offset(offset), bytes / SectorNr::SIZE);
                return Err(DeviceError::OutOfRange { sector, sectors });
            }
            let punch = |mode| retry(|| rustix::fs::fallocate(&self.file, mode, offset, bytes));
            let done = modes
                .into_iter()
                .map(punch)
                .find(|done| !matches!(done, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)));
            match done {
                Some(Err(errno)) => return Err(self.failure("zeroing", offset, bytes, errno)),
                None if bytes > 0 => return Ok(left),
                _ => left = rest,
            }
        }
        Ok(left)
    }

    fn read(&self, offset: u64, parts: &[ReadPart]) -> Result<Vec<Payload>, Errno> {
        let mut blocks: Vec<Block> = parts
            .iter()
            .flat_map(|part| (0..part.blocks).map(|_| Block::zeroed(part.block_bytes as usize)))
            .collect();
        if blocks.iter().all(|block| self.is_aligned(offset, block)) {
            let mut pieces: Vec<_> = blocks
                .iter_mut()
                .map(|block| IoSliceMut::new(block))
                .collect();
            self.read_pieces(offset, &mut pieces)?;
        } else {
            let bytes: u64 = parts.iter().map(ReadPart::bytes).sum();
            let mut bounce = Bounce::around(offset, bytes, self.direct);
            let from = bounce.from;
            self.read_pieces(from, &mut [IoSliceMut::new(bounce.whole())])?;
            let mut rest: &[u8] = bounce.inner(offset, bytes);
            for block in &mut blocks {
                let (piece, after) = rest.split_at(block.len());
                block.copy_from_slice(piece);
                rest = after;
            }
        }
        let mut blocks = blocks.into_iter().map(Arc::new);
        Ok(parts
            .iter()
            .map(|part| blocks.by_ref().take(part.blocks as usize).collect())
            .collect())
    }

    fn write(&self, offset: u64, payload: &[Arc<Block>], is_forced: bool) -> Result<(), Unwritten> {
        if payload.iter().all(|block| self.is_aligned(offset, block)) {
            let mut pieces: Vec<_> = payload.iter().map(|block| IoSlice::new(block)).collect();
            return self.write_pieces(offset, &mut pieces, is_forced);
        }
        let bytes = payload_bytes(payload);
        let mut bounce = Bounce::around(offset, bytes, self.direct);
        let _guard = self.edges.lock();
        let from = bounce.from;
        for (start, edge) in bounce.edges(offset, bytes) {
            self.read_pieces(start, &mut [IoSliceMut::new(edge)])?;
        }
        let mut at = 0;
        let inner = bounce.inner(offset, bytes);
        for block in payload {
            inner[at..at + block.len()].copy_from_slice(block);
            at += block.len();
        }
        self.write_pieces(from, &mut [IoSlice::new(bounce.whole())], is_forced)
    }

    /// True if a block is aligned for the device in an operation that starts at an offset.
    fn is_aligned(&self, offset: u64, block: &Block) -> bool {
        self.direct.is_none_or(|direct| {
            offset.is_multiple_of(direct.offset)
                && (block.len() as u64).is_multiple_of(direct.offset)
                && block.as_ptr().addr().is_multiple_of(direct.memory)
        })
    }

    fn flush(&self) -> Result<(), Errno> {
        self.check_forced()?;
        self.note_forced(retry(|| rustix::fs::fdatasync(&self.file)))
    }

    /// Fails after a failed flush or forced write.
    fn check_forced(&self) -> Result<(), Errno> {
        match self.has_lost_writes.load(Ordering::Acquire) {
            true => Err(Errno::IO),
            false => Ok(()),
        }
    }

    /// Notes the result of a flush or forced write.
    fn note_forced<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        if done.is_err() {
            self.has_lost_writes.store(true, Ordering::Release);
        }
        done
    }

    fn read_pieces(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<(), Errno> {
        let (mut at, mut rest) = (offset, pieces);
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let count = rest.len().min(PIECES_MAX);
            match retry(|| rustix::io::preadv(&self.file, &mut rest[..count], at))? {
                // The file was truncated by another program.
                0 => return Err(Errno::IO),
                done => {
                    at += done as u64;
                    IoSliceMut::advance_slices(&mut rest, done);
                }
            }
        }
        Ok(())
    }

    fn write_pieces(
        &self,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
        is_forced: bool,
    ) -> Result<(), Unwritten> {
        let mut at = offset;
        self.write_from(&mut at, pieces, is_forced)
            .map_err(|errno| Unwritten {
                errno,
                is_partial: at > offset,
            })
    }

    /// Writes pieces at an offset, which is moved to where the write has come to.
    fn write_from(
        &self,
        at: &mut u64,
        pieces: &mut [IoSlice<'_>],
        is_forced: bool,
    ) -> Result<(), Errno> {
        if is_forced {
            self.check_forced()?;
        }
        let mut needs_flush = false;
        let mut rest = pieces;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let count = rest.len().min(PIECES_MAX);
            let done = if is_forced && self.has_forced_writes.load(Ordering::Relaxed) {
                let flags = ReadWriteFlags::DSYNC;
                match retry(|| rustix::io::pwritev2(&self.file, &rest[..count], *at, flags)) {
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                        self.has_forced_writes.store(false, Ordering::Relaxed);
                        continue;
                    }
                    // Either the write or the flush failed; only the write may be repeated.
                    Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                        *at +=
                            retry(|| rustix::io::pwritev(&self.file, &rest[..count], *at))? as u64;
                        return self.note_forced(Err(errno));
                    }
                    done => self.note_forced(done)?,
                }
            } else {
                needs_flush = is_forced;
                retry(|| rustix::io::pwritev(&self.file, &rest[..count], *at))?
            };
            if done == 0 {
                return Err(Errno::IO);
            }
            *at += done as u64;
            IoSlice::advance_slices(&mut rest, done);
        }
        if needs_flush { self.flush() } else { Ok(()) }
    }

    /// Punches a hole. On a device this unmaps blocks, which then read as zeroes; `BLKDISCARD` is
    /// the fallback. Does nothing if the file system or device does not support it: a discard is a
    /// hint.
    fn discard(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry(|| rustix::fs::fallocate(&self.file, mode, offset, bytes)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            done => return done,
        }
        match retry(|| discard_blocks(&self.file, offset, bytes)) {
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => Ok(()),
            done => done,
        }
    }
}

/// Discards a range of a block device (`BLKDISCARD`), whose contents are then undefined.
fn discard_blocks(file: &OwnedFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    const BLKDISCARD: Opcode = opcode::none(0x12, 119);
    // SAFETY: the call reads two 64-bit numbers, the offset and the length, and writes to no memory
    // of this process.
    unsafe { rustix::ioctl::ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new([offset, bytes])) }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{payload_from_bytes, payload_to_bytes};
    use rt::split_mix::SplitMix;

    /// The kernel tells of lost writes once.
    #[test]
    fn no_flush_succeeds_after_a_failed_one() {
        let file = tempfile::tempfile().expect("a file");
        let backing = Backing::new(file.into(), "file".to_owned(), None, false);
        let block = [Arc::new(Block::zeroed(512))];
        backing.write(0, &block, true).expect("it can be written");
        backing.flush().expect("it can be flushed");
        assert!(backing.note_forced::<()>(Err(Errno::IO)).is_err());
        assert!(backing.flush().is_err());
        assert!(backing.write(0, &block, true).is_err());
        backing.write(0, &block, false).expect("no promise is made");
    }

    /// A buffered file stands for a disk with sectors of 4096 bytes: less aligned requests use the
    /// bounce buffer and must not change their neighbours.
    #[test]
    fn unaligned_requests_leave_their_neighbours_alone() {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        let size = 16 * 4096_usize;
        file.set_len(size as u64).expect("there is room");
        let direct = Some(Alignment {
            memory: 4096,
            offset: 4096,
        });
        let backing = Backing::new(file.into(), "disk".to_owned(), direct, true);
        let mut model = vec![0_u8; size];
        let mut random = SplitMix::new(11);
        for _ in 0..2000 {
            let sectors = 1 + random.below(24);
            let first = random.below(128 - sectors + 1);
            let (offset, bytes) = (first * 512, sectors * 512);
            let range = offset as usize..(offset + bytes) as usize;
            let operation = if random.below(2) == 0 {
                model[range.clone()].fill(random.next_u64() as u8);
                let payload = payload_from_bytes(&model[range.clone()], 512);
                let is_forced = random.below(4) == 0;
                Operation::Write {
                    offset,
                    is_forced,
                    parts: vec![(0, payload)],
                }
            } else {
                let part = ReadPart {
                    index: 0,
                    blocks: sectors as u32,
                    block_bytes: 512,
                };
                Operation::Read {
                    offset,
                    parts: vec![part],
                }
            };
            for (_, answer) in backing.run(operation) {
                if let Outcome::Read(payload) = answer.expect("the file system works") {
                    assert_eq!(payload_to_bytes(&payload), model[range.clone()]);
                }
            }
        }
    }
}
