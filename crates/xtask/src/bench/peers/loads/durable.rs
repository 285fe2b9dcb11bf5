//! One thread that appends to a file or overwrites it by 4 KiB, and makes each write durable.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use workload::{OpenFlags, Target};

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;

const PIECE_BYTES: usize = 4096;
const PATH: &str = "/file";

/// Writes, each followed by fdatasync.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Durable {
    /// True for writes at the end, false for writes to blocks that are there.
    pub(in super::super) appends: bool,
    pub(in super::super) count: u32,
}

impl Durable {
    pub(super) fn run(self, site: &Site, opened: &Opened) -> Result<Done> {
        let target = &**opened.target();
        let piece = [0x6a; PIECE_BYTES];
        if !self.appends {
            self.fill(target, &piece)?;
            opened.sync()?;
        }
        let flags = match self.appends {
            true => OpenFlags::WRITE.create_new(),
            false => OpenFlags::WRITE,
        };
        let mut file = target.open(PATH, flags)?;
        let started = Instant::now();
        for _ in 0..self.count {
            site.check_running()?;
            let written = target.write(&mut file, &piece)?;
            ensure!(written == PIECE_BYTES, "a write was short");
            target.fdatasync(&file)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        target.close(file)?;
        Ok(self.rate(seconds))
    }

    /// Overwrites a file on disk, preallocated and written before, with direct I/O: what the disk
    /// takes for the writes alone.
    pub(super) fn run_raw(self, site: &Site) -> Result<Done> {
        let path = site.disk_file("raw")?;
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options
        };
        // Twice the piece holds an aligned one.
        let memory = vec![0x6a; 2 * PIECE_BYTES];
        let piece = &memory[memory.as_ptr().align_offset(PIECE_BYTES)..][..PIECE_BYTES];
        let mut file = open().open(&path).context("the raw file")?;
        for _ in 0..self.count {
            file.write_all(piece).context("the raw file")?;
        }
        file.sync_all().context("the raw file")?;
        drop(file);
        let direct = i32::try_from(OFlags::DIRECT.bits()).context("O_DIRECT")?;
        let file = open().custom_flags(direct).open(&path);
        let file = file.context("the raw file")?;
        let started = Instant::now();
        for place in (0..u64::from(self.count)).map(|index| index * PIECE_BYTES as u64) {
            site.check_running()?;
            file.write_all_at(piece, place).context("the raw file")?;
            file.sync_data().context("the raw file")?;
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(self.rate(seconds))
    }

    fn fill(self, target: &dyn Target, piece: &[u8]) -> Result<()> {
        let mut file = target.open(PATH, OpenFlags::WRITE.create_new())?;
        for _ in 0..self.count {
            let written = target.write(&mut file, piece)?;
            ensure!(written == PIECE_BYTES, "a write was short");
        }
        Ok(target.close(file)?)
    }

    fn rate(self, seconds: f64) -> Done {
        Done::of([f64::from(self.count) / seconds])
    }
}
