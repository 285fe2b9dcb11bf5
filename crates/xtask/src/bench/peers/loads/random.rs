//! Random reads and writes of 4 KiB in a file.

use std::time::Instant;

use anyhow::{Result, ensure};
use rt::split_mix::SplitMix;
use workload::OpenFlags;

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;
use crate::compare_kernel::sequential;

const PIECE_BYTES: usize = 4096;
const SEED: u64 = 4096;

/// Reads and writes at random places of a file.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Random {
    /// Size of the file.
    pub(in super::super) bytes: u64,
    /// Number of reads, and of writes.
    pub(in super::super) count: u32,
}

impl Random {
    /// Returns the rates of writes, with a final sync, and of reads.
    pub(super) fn run(self, site: &Site, opened: &Opened) -> Result<Done> {
        let target = &**opened.target();
        sequential::write(target, self.bytes)?;
        let mut piece = [0x6a; PIECE_BYTES];
        let mut random = SplitMix::new(SEED);
        let pieces = self.bytes / PIECE_BYTES as u64;
        let mut place = || random.below(pieces) * PIECE_BYTES as u64;
        let file = target.open(sequential::PATH, OpenFlags::READ_WRITE)?;
        let started = Instant::now();
        for _ in 0..self.count {
            site.check_running()?;
            let written = target.pwrite(&file, &piece, place())?;
            ensure!(written == PIECE_BYTES, "a write was short");
        }
        opened.sync()?;
        let writes = started.elapsed().as_secs_f64();
        let started = Instant::now();
        for _ in 0..self.count {
            site.check_running()?;
            let read = target.pread(&file, &mut piece, place())?;
            ensure!(read == PIECE_BYTES, "a read was short");
        }
        let reads = started.elapsed().as_secs_f64();
        target.close(file)?;
        let count = f64::from(self.count);
        Ok(Done::of([count / writes, count / reads]))
    }
}
