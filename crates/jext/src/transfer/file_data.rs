//! The data of the host's files on its way to a device, by several threads.
//!
//! A job says where a file's data belongs. Whoever sends jobs has made sure that no two of them share a block; so they may be
//! done in any order, and the device holds the same bytes in the end.
//!
//! A thread reads into blocks of memory that it uses over and over, as many as fit into the cache of its processor. When all are
//! full, they go to the device as one batch, which merges what lies side by side.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Error, Result, anyhow, bail};
use block::{BlockDevice, Request};
use ext::volume::Stretch;
use layout::{Block, SectorNr};

use super::worker_count;

/// What is said of a file that has lost data since it was looked at.
pub(super) const TOO_SHORT: &str = "it is shorter now than it was";
/// Bytes that a thread reads before it writes.
const BATCH_BYTES: usize = 256 << 10;
/// Jobs go to the threads in parcels: at most so many, or of about so many bytes.
const PARCEL_JOBS: usize = 64;
const PARCEL_BYTES: u64 = 512 << 10;
/// How many parcels wait for a thread.
const PARCELS_WAITING: usize = 64;
/// The data of a larger file is more than one job, so that more than one thread has some of it. A multiple of all sizes of blocks.
const JOB_BYTES_MAX: u64 = 4 << 20;

/// A part of a file that belongs to a device.
pub(super) struct Job {
    pub(super) path: Arc<PathBuf>,
    /// Where the part begins in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Where it belongs, in whole blocks.
    pub(super) stretches: Vec<Stretch>,
}

type Parcel = Vec<Job>;

/// Takes jobs, and hands them on in parcels.
pub(super) struct Jobs<'f> {
    sender: SyncSender<Parcel>,
    parcel: Parcel,
    parcel_bytes: u64,
    failure: &'f Failure,
}

/// The first error of all threads.
#[derive(Default)]
struct Failure(Mutex<Option<Error>>);

/// Runs `send` beside threads that do the jobs it sends; returns when all are done.
pub(super) fn with_writers(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    send: impl FnOnce(&mut Jobs<'_>) -> Result<()>,
) -> Result<()> {
    let failure = Failure::default();
    let (sender, receiver) = sync_channel(PARCELS_WAITING);
    let receiver = Mutex::new(receiver);
    let sent = std::thread::scope(|scope| {
        for _ in 0..worker_count() {
            scope.spawn(|| Writer::new(device, block_bytes as usize).run(&receiver, &failure));
        }
        let mut jobs = Jobs {
            sender,
            parcel: Parcel::new(),
            parcel_bytes: 0,
            failure: &failure,
        };
        send(&mut jobs).and_then(|()| jobs.hand_on())
    });
    // What has stopped the threads is why nothing more could be sent.
    failure.take().map_or(sent, Err)
}

impl Failure {
    fn note(&self, error: Error) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    fn is_noted(&self) -> bool {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.is_some()
    }

    fn take(self) -> Option<Error> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs<'_> {
    /// Sends a job, as several if it is long.
    pub(super) fn send(&mut self, mut job: Job) -> Result<()> {
        while job.bytes > JOB_BYTES_MAX {
            let first = job.split_off_front();
            self.push(first)?;
        }
        self.push(job)
    }

    fn push(&mut self, job: Job) -> Result<()> {
        self.parcel_bytes += job.bytes;
        self.parcel.push(job);
        if self.parcel.len() < PARCEL_JOBS && self.parcel_bytes < PARCEL_BYTES {
            return Ok(());
        }
        self.hand_on()
    }

    fn hand_on(&mut self) -> Result<()> {
        self.parcel_bytes = 0;
        if self.failure.is_noted() {
            bail!("the copy has ended");
        }
        let parcel = std::mem::replace(&mut self.parcel, Parcel::with_capacity(PARCEL_JOBS));
        let sent = self.sender.send(parcel);
        sent.map_err(|_| anyhow!("the copy has ended"))
    }
}

impl Job {
    /// Takes the first [`JOB_BYTES_MAX`] bytes out.
    fn split_off_front(&mut self) -> Self {
        let mut wanted = JOB_BYTES_MAX;
        let mut stretches = Vec::new();
        while wanted > 0 && !self.stretches.is_empty() {
            let stretch = &mut self.stretches[0];
            let bytes = stretch.bytes.min(wanted);
            stretches.push(Stretch { bytes, ..*stretch });
            wanted -= bytes;
            stretch.device_offset += bytes;
            stretch.bytes -= bytes;
            if stretch.bytes == 0 {
                self.stretches.remove(0);
            }
        }
        let first = Self {
            path: Arc::clone(&self.path),
            offset: self.offset,
            bytes: JOB_BYTES_MAX,
            stretches,
        };
        self.offset += JOB_BYTES_MAX;
        self.bytes -= JOB_BYTES_MAX;
        first
    }
}

/// A thread that does jobs.
struct Writer<'d> {
    device: &'d dyn BlockDevice,
    block_bytes: usize,
    /// Memory: the first `filled` blocks wait to be written.
    blocks: Vec<Arc<Block>>,
    filled: usize,
    requests: Vec<Request>,
}

impl<'d> Writer<'d> {
    fn new(device: &'d Arc<dyn BlockDevice>, block_bytes: usize) -> Self {
        let fresh = || Block::zeroed(block_bytes).into_arc();
        let count = BATCH_BYTES / block_bytes;
        Self {
            device: &**device,
            block_bytes,
            blocks: std::iter::repeat_with(fresh).take(count).collect(),
            filled: 0,
            requests: Vec::new(),
        }
    }

    fn run(mut self, parcels: &Mutex<Receiver<Parcel>>, failure: &Failure) {
        loop {
            let received = {
                let parcels = parcels.lock().unwrap_or_else(PoisonError::into_inner);
                parcels.recv()
            };
            let Ok(parcel) = received else {
                return;
            };
            // After an error what is still sent is only taken.
            if failure.is_noted() {
                continue;
            }
            let done = parcel.iter().try_for_each(|job| self.copy(job));
            if let Err(error) = done.and_then(|()| self.write()) {
                failure.note(error);
            }
        }
    }

    fn copy(&mut self, job: &Job) -> Result<()> {
        let path: &Path = &job.path;
        let context = || path.display().to_string();
        let file = File::open(path).with_context(context)?;
        let (mut offset, end) = (job.offset, job.offset + job.bytes);
        for stretch in &job.stretches {
            let mut done = 0;
            while done < stretch.bytes {
                let left = (stretch.bytes - done) as usize / self.block_bytes;
                let count = left.min(self.blocks.len() - self.filled);
                let bytes = ((count * self.block_bytes) as u64).min(end - offset);
                self.read(&file, offset, count, bytes as usize)
                    .with_context(context)?;
                self.ask(stretch.device_offset + done, count)?;
                offset += bytes;
                done += (count * self.block_bytes) as u64;
            }
        }
        Ok(())
    }

    /// Fills the next blocks with bytes of a file, and with zeroes behind them.
    fn read(&mut self, file: &File, offset: u64, count: usize, bytes: usize) -> Result<()> {
        let blocks = &mut self.blocks[self.filled..self.filled + count];
        let mut slices: Vec<IoSliceMut<'_>> = Vec::with_capacity(count);
        for (index, block) in blocks.iter_mut().enumerate() {
            // A device that has not let go of a block yet keeps it.
            if Arc::get_mut(block).is_none() {
                *block = Block::zeroed(self.block_bytes).into_arc();
            }
            let memory = &mut Arc::make_mut(block)[..];
            let here = (bytes - index * self.block_bytes).min(self.block_bytes);
            let (wanted, behind) = memory.split_at_mut(here);
            behind.fill(0);
            slices.push(IoSliceMut::new(wanted));
        }
        let (mut rest, mut at) = (&mut slices[..], offset);
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::preadv(file, rest, at))? {
                0 => bail!(TOO_SHORT),
                done => {
                    at += done as u64;
                    IoSliceMut::advance_slices(&mut rest, done);
                }
            }
        }
        Ok(())
    }

    /// The blocks that have just been filled belong to the device; all go there when the memory is full.
    fn ask(&mut self, device_offset: u64, count: usize) -> Result<()> {
        self.requests.push(Request::Write {
            sector: SectorNr::from_byte_offset(device_offset),
            payload: self.blocks[self.filled..self.filled + count].to_vec(),
            force_unit_access: false,
        });
        self.filled += count;
        if self.filled < self.blocks.len() {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        self.filled = 0;
        let requests = std::mem::take(&mut self.requests);
        Ok(self.device.submit(requests).wait_all()?)
    }
}
