//! A large file that is written and read in order, by the same code on both sides.

use std::time::Instant;

use anyhow::{Result, ensure};
use workload::{OpenFlags, Target};

pub(crate) const PATH: &str = "/file";
/// Bytes of one call.
const CALL_BYTES: usize = 1 << 20;

/// A use of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is written, and the file system is synced.
    Write,
    /// It is read after the file system was mounted again, so that nothing is cached.
    Read,
    /// It is read once more, from the cache.
    ReadAgain,
}

impl Phase {
    /// All of them, in the order in which they are timed.
    pub(crate) const ALL: [Self; 3] = [Self::Write, Self::Read, Self::ReadAgain];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write, with a sync",
            Self::Read => "read after a mount",
            Self::ReadAgain => "read again",
        }
    }
}

/// Writes the file and syncs the file system; returns the seconds that this took.
pub(crate) fn write(target: &dyn Target, bytes: u64) -> Result<f64> {
    let data: Vec<u8> = (0..CALL_BYTES).map(|place| place as u8).collect();
    let started = Instant::now();
    let mut file = target.open(PATH, OpenFlags::WRITE.create_new())?;
    let mut left = bytes;
    while left > 0 {
        let piece = &data[..left.min(CALL_BYTES as u64) as usize];
        let written = target.write(&mut file, piece)?;
        ensure!(written > 0, "a write of {} bytes wrote none", piece.len());
        left -= written as u64;
    }
    target.close(file)?;
    target.sync()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Reads the file; returns the seconds that this took.
pub(crate) fn read(target: &dyn Target, bytes: u64) -> Result<f64> {
    let mut buffer = vec![0; CALL_BYTES];
    let started = Instant::now();
    let mut file = target.open(PATH, OpenFlags::READ)?;
    let mut found = 0;
    loop {
        let read = target.read(&mut file, &mut buffer)?;
        if read == 0 {
            break;
        }
        found += read as u64;
    }
    target.close(file)?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(found == bytes, "{found} of {bytes} bytes were read");
    Ok(seconds)
}
