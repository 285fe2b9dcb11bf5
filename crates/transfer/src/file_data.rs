//! Copies the data of host files to a device on several threads.
//!
//! A job names a part of a file and its location on the device. The sender guarantees that no two
//! jobs share a block, so any order of execution leaves the same bytes on the device. The sender is
//! one of the threads: it executes jobs itself when the queue is full, and at the end helps until
//! the queue is empty.
//!
//! Each thread reads into its own blocks, reuses them, and keeps them few enough for its
//! processor's cache. Full blocks go to the device as one batch, which merges adjacent ones. The
//! kernel serialises writes to one file, and waiting for another thread's write would idle a
//! processor; so a thread that finds the device busy continues to read.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Error, Result, bail};
use block::{BlockDevice, Request};
use ext::volume::DeviceExtent;
use layout::{Block, SectorNr};
use rustix::io::retry_on_intr;

use super::host::{ScannedFile, Tree};
use super::{Counter, host, split_path, worker_count};

/// Error text for a file that has shrunk since it was scanned.
pub(crate) const TOO_SHORT: &str = "it is shorter now than it was";
/// Bytes that a thread reads before it tries to write.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes that a thread may hold before it must wait for its turn to write.
const MEMORY_BYTES: usize = 1 << 20;
/// Limits of a parcel of jobs: their maximum number, and approximately their bytes.
const PARCEL_JOBS: usize = 64;
const PARCEL_BYTES: u64 = 512 << 10;
/// Maximum number of parcels in the queue.
const PARCELS_WAITING: usize = 64;
/// Maximum bytes of a job, so that several threads share the data of a large file. It is a multiple
/// of every block size.
const JOB_BYTES_MAX: u64 = 4 << 20;

/// Copies a part of a file to a device.
struct Job {
    file: ScannedFile,
    /// Offset of the part in the file, in bytes.
    offset: u64,
    bytes: u64,
    /// End of the job's range in the parcel's extents; the range starts at the end of the previous
    /// job's.
    stretches_end: usize,
}

/// Jobs for one thread.
#[derive(Default)]
struct Parcel {
    jobs: Vec<Job>,
    /// Extents on the device, in whole blocks.
    extents: Vec<DeviceExtent>,
    bytes: u64,
}

/// Accepts jobs and passes them to the threads in parcels.
pub(crate) struct Jobs<'q> {
    queue: &'q Queue,
    parcel: Parcel,
    /// Executes jobs on the sender's thread.
    writer: Writer<'q>,
}

/// Queue of parcels for the threads.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    parcels: VecDeque<Parcel>,
    /// True if no more parcels will arrive.
    is_ended: bool,
    /// The first error of any thread; after it no further job starts.
    failed: Option<Error>,
}

/// Runs `send` while other threads execute the jobs that it sends, and returns when all are
/// complete. Jobs copy data of files below `root` to `device`.
pub(crate) fn with_writers(
    root: &Path,
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    count: Option<Counter<'_>>,
    send: impl FnOnce(&mut Jobs<'_>) -> Result<()>,
) -> Result<()> {
    let (queue, turn) = (Queue::default(), Mutex::default());
    let writer = || Writer::new(root, device, block_bytes as usize, count, &turn);
    let sent = std::thread::scope(|scope| {
        for _ in 1..worker_count() {
            scope.spawn(|| queue.serve(&mut writer()));
        }
        let mut jobs = Jobs {
            queue: &queue,
            parcel: Parcel::default(),
            writer: writer(),
        };
        let sent = send(&mut jobs).and_then(|()| jobs.hand_on());
        queue.end();
        queue.serve(&mut jobs.writer);
        sent
    });
    // An error of a thread makes `send` fail too, so the thread's error is the cause.
    let failed = queue.lock().failed.take();
    failed.map_or(sent, Err)
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes parcels until no more will arrive.
    fn serve(&self, writer: &mut Writer<'_>) {
        while let Some(parcel) = self.next() {
            self.note(writer.copy_all(&parcel));
        }
        self.note(writer.write());
    }

    fn next(&self) -> Option<Parcel> {
        let mut waiting = self.lock();
        while waiting.failed.is_none() {
            let parcel = waiting.parcels.pop_front();
            if parcel.is_some() || waiting.is_ended {
                return parcel;
            }
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn note(&self, done: Result<()>) {
        if let Err(error) = done {
            self.lock().failed.get_or_insert(error);
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }
}

impl Jobs<'_> {
    /// Sends the data of a file to the given extents, in file order. A long file becomes several
    /// jobs.
    pub(crate) fn send(
        &mut self,
        file: &ScannedFile,
        bytes: u64,
        extents: &[DeviceExtent],
    ) -> Result<()> {
        let (mut offset, mut taken) = (0, 0);
        for extent in extents {
            let mut rest = *extent;
            while rest.bytes > 0 {
                let here = rest.bytes.min(JOB_BYTES_MAX - taken);
                self.parcel.extents.push(DeviceExtent {
                    bytes: here,
                    ..rest
                });
                rest.device_offset += here;
                rest.bytes -= here;
                taken += here;
                if taken == JOB_BYTES_MAX {
                    self.push(file, offset, taken.min(bytes - offset))?;
                    offset += taken;
                    taken = 0;
                }
            }
        }
        if taken > 0 {
            self.push(file, offset, taken.min(bytes - offset))?;
        }
        Ok(())
    }

    /// Adds a job for the extents that belong to no job of the parcel yet.
    fn push(&mut self, file: &ScannedFile, offset: u64, bytes: u64) -> Result<()> {
        let parcel = &mut self.parcel;
        parcel.bytes += bytes;
        parcel.jobs.push(Job {
            file: file.clone(),
            offset,
            bytes,
            stretches_end: parcel.extents.len(),
        });
        if parcel.jobs.len() < PARCEL_JOBS && parcel.bytes < PARCEL_BYTES {
            return Ok(());
        }
        self.hand_on()
    }

    fn hand_on(&mut self) -> Result<()> {
        let parcel = std::mem::take(&mut self.parcel);
        let mut waiting = self.queue.lock();
        if waiting.failed.is_some() {
            bail!("the copy has ended");
        }
        waiting.parcels.push_back(parcel);
        if waiting.parcels.len() <= PARCELS_WAITING {
            drop(waiting);
            self.queue.changed.notify_one();
            return Ok(());
        }
        let first = waiting.parcels.pop_front().unwrap_or_default();
        drop(waiting);
        self.writer.copy_all(&first)
    }
}

/// State of a thread that executes jobs.
struct Writer<'d> {
    root: &'d Path,
    device: &'d dyn BlockDevice,
    block_bytes: usize,
    /// Called with the number of bytes read.
    count: Option<Counter<'d>>,
    /// Held by the thread that writes.
    turn: &'d Mutex<()>,
    /// Block memory; the first `filled` blocks wait to be written.
    blocks: Vec<Arc<Block>>,
    filled: usize,
    /// Locations of the filled blocks, in order: device offset in bytes, and number of blocks.
    waiting: Vec<(u64, usize)>,
    /// The root, open from the first file on.
    tree: Option<Tree>,
    /// Directory of the last file, kept open because the next file is usually in it too.
    directory: Option<(Vec<u8>, OwnedFd)>,
}

impl<'d> Writer<'d> {
    fn new(
        root: &'d Path,
        device: &'d Arc<dyn BlockDevice>,
        block_bytes: usize,
        counter: Option<Counter<'d>>,
        turn: &'d Mutex<()>,
    ) -> Self {
        let fresh = || Block::zeroed(block_bytes).into_arc();
        let count = MEMORY_BYTES / block_bytes;
        Self {
            root,
            device: &**device,
            block_bytes,
            count: counter,
            turn,
            blocks: std::iter::repeat_with(fresh).take(count).collect(),
            filled: 0,
            waiting: Vec::new(),
            tree: None,
            directory: None,
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn copy_all(&mut self, parcel: &Parcel) -> Result<()> {
        let mut start = 0;
        for job in &parcel.jobs {
            let extents = &parcel.extents[start..job.stretches_end];
            let copied = self.copy(job, extents);
            copied.with_context(|| self.at(&job.file.path).display().to_string())?;
            start = job.stretches_end;
        }
        Ok(())
    }

    fn copy(&mut self, job: &Job, extents: &[DeviceExtent]) -> Result<()> {
        let file = self.open(&job.file)?;
        let (mut offset, end) = (job.offset, job.offset + job.bytes);
        for extent in extents {
            let mut done = 0;
            while done < extent.bytes {
                let left = (extent.bytes - done) as usize / self.block_bytes;
                let count = left.min(self.blocks.len() - self.filled);
                let bytes = ((count * self.block_bytes) as u64).min(end - offset);
                self.read(&file, offset, count, bytes as usize)?;
                if let Some(count) = self.count {
                    count(bytes);
                }
                self.ask(extent.device_offset + done, count)?;
                offset += bytes;
                done += (count * self.block_bytes) as u64;
            }
        }
        Ok(())
    }

    fn open(&mut self, file: &ScannedFile) -> Result<OwnedFd> {
        let (parent, _) = split_path(&file.path);
        let is_known = self
            .directory
            .as_ref()
            .is_some_and(|(known, _)| known == parent);
        if !is_known {
            let tree = match self.tree.take() {
                Some(tree) => tree,
                None => Tree::open(self.root)?,
            };
            let opened = self.tree.insert(tree).place(parent)?;
            self.directory = Some((parent.to_vec(), opened));
        }
        let Some((_, directory)) = &self.directory else {
            bail!("a file lies in a directory");
        };
        host::open_data_in(directory, file)
    }

    /// Fills the next blocks with bytes of a file, and zeroes the rest of them.
    fn read(&mut self, file: &OwnedFd, offset: u64, count: usize, bytes: usize) -> Result<()> {
        let blocks = &mut self.blocks[self.filled..self.filled + count];
        let mut slices: Vec<IoSliceMut<'_>> = Vec::with_capacity(count);
        for (index, block) in blocks.iter_mut().enumerate() {
            if Arc::get_mut(block).is_none() {
                // The device still holds a reference to it.
                *block = Block::zeroed(self.block_bytes).into_arc();
            }
            let Some(memory) = Arc::get_mut(block) else {
                bail!("a new block is nobody else's");
            };
            let here = (bytes - index * self.block_bytes).min(self.block_bytes);
            let (wanted, behind) = memory.split_at_mut(here);
            behind.fill(0);
            slices.push(IoSliceMut::new(wanted));
        }
        let (mut rest, mut at) = (&mut slices[..], offset);
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::preadv(file, rest, at))? {
                0 => bail!(TOO_SHORT),
                done => {
                    at += done as u64;
                    IoSliceMut::advance_slices(&mut rest, done);
                }
            }
        }
        Ok(())
    }

    /// Queues the blocks that were just filled for writing at a device offset.
    fn ask(&mut self, device_offset: u64, count: usize) -> Result<()> {
        let bytes = |count: usize| (count * self.block_bytes) as u64;
        match self.waiting.last_mut() {
            Some((first, length)) if *first + bytes(*length) == device_offset => *length += count,
            _ => self.waiting.push((device_offset, count)),
        }
        self.filled += count;
        if self.filled == self.blocks.len() {
            return self.write();
        }
        if self.filled * self.block_bytes >= BATCH_BYTES
            && let Ok(turn) = self.turn.try_lock()
        {
            return self.write_now(turn);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_now(turn)
    }

    fn write_now(&mut self, turn: MutexGuard<'_, ()>) -> Result<()> {
        let mut blocks = self.blocks.iter().cloned();
        let request = |(offset, count)| Request::Write {
            sector: SectorNr::from_byte_offset(offset),
            payload: blocks.by_ref().take(count).collect(),
            force_unit_access: false,
        };
        let ticket = self
            .device
            .submit(self.waiting.drain(..).map(request).collect());
        drop(turn);
        self.filled = 0;
        Ok(ticket.wait_all()?)
    }
}

#[cfg(test)]
mod tests {
    use block::memory::MemoryDevice;
    use block::payload::payload_to_bytes;

    use super::*;

    /// Returns bytes that encode their own offset.
    fn numbered(length: usize) -> Vec<u8> {
        let words = (0..=length / 4).flat_map(|number| (number as u32).to_le_bytes());
        words.take(length).collect()
    }

    type Data<'n> = (&'n [u8], u64, &'n [(u64, u64)]);

    /// Copies files, each given as path, length, and its extents as first block and number of
    /// blocks.
    fn copy(root: &Path, device: &Arc<dyn BlockDevice>, files: &[Data<'_>]) -> Result<()> {
        with_writers(root, device, 4096, None, |jobs| {
            files.iter().try_for_each(|(path, bytes, extents)| {
                let extent = |(first, count): &(u64, u64)| DeviceExtent {
                    device_offset: first * 4096,
                    bytes: count * 4096,
                };
                let extents: Vec<_> = extents.iter().map(extent).collect();
                let file = ScannedFile {
                    path: (*path).into(),
                    identity: None,
                };
                jobs.send(&file, *bytes, &extents)
            })
        })
    }

    #[test]
    fn data_comes_to_where_it_belongs_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(16 << 20));
        // Earlier contents, so that the zeroes after a file's end are visible.
        let before = vec![Block::copy_from(&vec![0xFF; 16 << 20]).into_arc()];
        device.write_blocks(0, before).expect("it is memory");
        std::fs::create_dir(folder.path().join("in")).expect("there is room");
        let large = numbered((9 << 20) + 5);
        std::fs::write(folder.path().join("in/large"), &large).expect("there is room");
        std::fs::write(folder.path().join("small"), b"a few bytes").expect("there is room");
        // The large file takes several jobs, and no job ends at the end of an extent.
        let first_count = 1500;
        let rest = (large.len() as u64).div_ceil(4096) - first_count;
        let extents = [(2000, first_count), (10, rest)];
        let files: [Data<'_>; 2] = [
            (b"small", 11, &[(5, 1)]),
            (b"in/large", large.len() as u64, &extents),
        ];
        copy(folder.path(), &device, &files).expect("all is there");
        let found = payload_to_bytes(&device.read_blocks(0, 4096, 4096).expect("it is memory"));
        let mut expected = vec![0xFF; 16 << 20];
        let mut put = |block: u64, count: u64, bytes: &[u8]| {
            let at = block as usize * 4096;
            expected[at..at + count as usize * 4096].fill(0);
            expected[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(5, 1, b"a few bytes");
        let (head, tail) = large.split_at(first_count as usize * 4096);
        put(2000, first_count, head);
        put(10, rest, tail);
        assert!(found == expected);
    }

    #[test]
    fn what_cannot_be_read_is_told_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 20));
        std::fs::write(folder.path().join("short"), b"short").expect("there is room");
        let told = |path: &[u8]| {
            let files: [Data<'_>; 1] = [(path, 5000, &[(0, 2)])];
            let error = copy(folder.path(), &device, &files).expect_err("it cannot be read");
            format!("{error:#}")
        };
        let said = told(b"short");
        assert!(
            said.ends_with("short: it is shorter now than it was"),
            "{said}"
        );
        let said = told(b"absent");
        assert!(said.contains("absent: No such file"), "{said}");
    }
}
