//! The data of the host's files on its way to a device, by several threads.
//!
//! A job says where a file's data belongs. Whoever sends jobs has made sure that no two of them share a block; so they may be
//! done in any order, and the device holds the same bytes in the end. The sender is one of the threads: where more jobs wait than
//! the others can do, it does some itself, and at the end helps until none is left.
//!
//! A thread reads into blocks of memory that it uses over and over, and few enough for the cache of its processor. The full ones go to
//! the device as one batch, which merges what lies side by side. A file takes one write at a time, and whoever waits for another
//! thread's in the kernel does so at the cost of a processor: here he reads on meanwhile.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Error, Result, bail};
use block::{BlockDevice, Request};
use ext::volume::Stretch;
use layout::{Block, SectorNr};
use rustix::io::retry_on_intr;

use super::{Counter, host, split_path, worker_count};

/// What is said of a file that has lost data since it was looked at.
pub(crate) const TOO_SHORT: &str = "it is shorter now than it was";
/// Bytes that a thread reads before it writes, unless another one is writing.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes that a thread has read when it cannot but wait.
const MEMORY_BYTES: usize = 1 << 20;
/// Jobs are done in parcels: at most so many, or of about so many bytes.
const PARCEL_JOBS: usize = 64;
const PARCEL_BYTES: u64 = 512 << 10;
/// How many parcels may wait for a thread.
const PARCELS_WAITING: usize = 64;
/// The data of a larger file is more than one job, so that more than one thread has some of it. A multiple of all sizes of blocks.
const JOB_BYTES_MAX: u64 = 4 << 20;

/// A part of a file that belongs to a device.
struct Job<'n> {
    /// The file, below the directory that all are below.
    path: &'n [u8],
    /// Where the part begins in the file.
    offset: u64,
    bytes: u64,
    /// Where it belongs: from where the job before ends in the parcel's stretches to here.
    stretches_end: usize,
}

/// Jobs for one thread.
#[derive(Default)]
struct Parcel<'n> {
    jobs: Vec<Job<'n>>,
    /// Whole blocks.
    stretches: Vec<Stretch>,
    bytes: u64,
}

/// Takes jobs, and lets threads do them.
pub(crate) struct Jobs<'q, 'n> {
    queue: &'q Queue<'n>,
    parcel: Parcel<'n>,
    /// What the sender does itself.
    writer: Writer<'q>,
}

/// What waits for a thread.
#[derive(Default)]
struct Queue<'n> {
    state: Mutex<Waiting<'n>>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting<'n> {
    parcels: VecDeque<Parcel<'n>>,
    /// No more will come.
    is_ended: bool,
    /// The first error of all threads; then nothing more is done.
    failed: Option<Error>,
}

/// Runs `send` beside threads that do the jobs it sends: data of files below a root for a device. Returns when all are done.
pub(crate) fn with_writers<'n>(
    root: &Path,
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    count: Option<Counter<'_>>,
    send: impl FnOnce(&mut Jobs<'_, 'n>) -> Result<()>,
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
    // What has stopped the threads is why nothing more could be sent.
    let failed = queue.lock().failed.take();
    failed.map_or(sent, Err)
}

impl<'n> Queue<'n> {
    fn lock(&self) -> MutexGuard<'_, Waiting<'n>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what waits until no more will come.
    fn serve(&self, writer: &mut Writer<'_>) {
        while let Some(parcel) = self.next() {
            self.note(writer.copy_all(&parcel));
        }
        self.note(writer.write());
    }

    fn next(&self) -> Option<Parcel<'n>> {
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

impl<'n> Jobs<'_, 'n> {
    /// Sends a file's data, as several jobs if it is long: where it belongs, in the order of the file.
    pub(crate) fn send(&mut self, path: &'n [u8], bytes: u64, stretches: &[Stretch]) -> Result<()> {
        let (mut offset, mut taken) = (0, 0);
        for stretch in stretches {
            let mut rest = *stretch;
            while rest.bytes > 0 {
                let here = rest.bytes.min(JOB_BYTES_MAX - taken);
                self.parcel.stretches.push(Stretch {
                    bytes: here,
                    ..rest
                });
                rest.device_offset += here;
                rest.bytes -= here;
                taken += here;
                if taken == JOB_BYTES_MAX {
                    self.push(path, offset, taken.min(bytes - offset))?;
                    offset += taken;
                    taken = 0;
                }
            }
        }
        if taken > 0 {
            self.push(path, offset, taken.min(bytes - offset))?;
        }
        Ok(())
    }

    /// A job for the stretches that no job of the parcel has yet.
    fn push(&mut self, path: &'n [u8], offset: u64, bytes: u64) -> Result<()> {
        let parcel = &mut self.parcel;
        parcel.bytes += bytes;
        parcel.jobs.push(Job {
            path,
            offset,
            bytes,
            stretches_end: parcel.stretches.len(),
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

/// What a thread needs to do jobs.
struct Writer<'d> {
    root: &'d Path,
    device: &'d dyn BlockDevice,
    block_bytes: usize,
    /// Counts the bytes that were read.
    count: Option<Counter<'d>>,
    /// Held by whoever is writing.
    turn: &'d Mutex<()>,
    /// Memory: the first `filled` blocks wait to be written.
    blocks: Vec<Arc<Block>>,
    filled: usize,
    /// Where they belong: first byte, and how many, in order.
    waiting: Vec<(u64, usize)>,
    /// The directory of the last file: most often the next one's, too.
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
            directory: None,
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn copy_all(&mut self, parcel: &Parcel<'_>) -> Result<()> {
        let mut start = 0;
        for job in &parcel.jobs {
            let stretches = &parcel.stretches[start..job.stretches_end];
            let copied = self.copy(job, stretches);
            copied.with_context(|| self.at(job.path).display().to_string())?;
            start = job.stretches_end;
        }
        Ok(())
    }

    fn copy(&mut self, job: &Job<'_>, stretches: &[Stretch]) -> Result<()> {
        let file = self.open(job.path)?;
        let (mut offset, end) = (job.offset, job.offset + job.bytes);
        for stretch in stretches {
            let mut done = 0;
            while done < stretch.bytes {
                let left = (stretch.bytes - done) as usize / self.block_bytes;
                let count = left.min(self.blocks.len() - self.filled);
                let bytes = ((count * self.block_bytes) as u64).min(end - offset);
                self.read(&file, offset, count, bytes as usize)?;
                if let Some(count) = self.count {
                    count(bytes);
                }
                self.ask(stretch.device_offset + done, count)?;
                offset += bytes;
                done += (count * self.block_bytes) as u64;
            }
        }
        Ok(())
    }

    fn open(&mut self, path: &[u8]) -> Result<OwnedFd> {
        let (parent, name) = split_path(path);
        let is_known = self
            .directory
            .as_ref()
            .is_some_and(|(known, _)| known == parent);
        if !is_known {
            let opened = host::open_below(self.root, parent)?;
            self.directory = Some((parent.to_vec(), opened));
        }
        let Some((_, directory)) = &self.directory else {
            bail!("a file lies in a directory");
        };
        host::open_data_in(directory, name)
    }

    /// Fills the next blocks with bytes of a file, and with zeroes behind them.
    fn read(&mut self, file: &OwnedFd, offset: u64, count: usize, bytes: usize) -> Result<()> {
        let blocks = &mut self.blocks[self.filled..self.filled + count];
        let mut slices: Vec<IoSliceMut<'_>> = Vec::with_capacity(count);
        for (index, block) in blocks.iter_mut().enumerate() {
            if Arc::get_mut(block).is_none() {
                // The device has not let go of it yet.
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

    /// The blocks that have just been filled belong to the device.
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

    /// Bytes that tell where they are.
    fn numbered(length: usize) -> Vec<u8> {
        let words = (0..=length / 4).flat_map(|number| (number as u32).to_le_bytes());
        words.take(length).collect()
    }

    type Data<'n> = (&'n [u8], u64, &'n [(u64, u64)]);

    /// Files: path, length, and the first block and the number of blocks of each stretch.
    fn copy(root: &Path, device: &Arc<dyn BlockDevice>, files: &[Data<'_>]) -> Result<()> {
        with_writers(root, device, 4096, None, |jobs| {
            files.iter().try_for_each(|(path, bytes, stretches)| {
                let stretch = |(first, count): &(u64, u64)| Stretch {
                    device_offset: first * 4096,
                    bytes: count * 4096,
                };
                let stretches: Vec<_> = stretches.iter().map(stretch).collect();
                jobs.send(path, *bytes, &stretches)
            })
        })
    }

    #[test]
    fn data_comes_to_where_it_belongs_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(16 << 20));
        // What was there before, so that zeroes behind a file's end are seen.
        let before = vec![Block::copy_from(&vec![0xFF; 16 << 20]).into_arc()];
        device.write_blocks(0, before).expect("it is memory");
        std::fs::create_dir(folder.path().join("in")).expect("there is room");
        let large = numbered((9 << 20) + 5);
        std::fs::write(folder.path().join("in/large"), &large).expect("there is room");
        std::fs::write(folder.path().join("small"), b"a few bytes").expect("there is room");
        // The large file is more than one job, and none of them ends where a stretch does.
        let first_count = 1500;
        let rest = (large.len() as u64).div_ceil(4096) - first_count;
        let stretches = [(2000, first_count), (10, rest)];
        let files: [Data<'_>; 2] = [
            (b"small", 11, &[(5, 1)]),
            (b"in/large", large.len() as u64, &stretches),
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
