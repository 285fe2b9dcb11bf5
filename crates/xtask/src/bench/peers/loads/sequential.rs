//! A large file that is written and read in order, and memory that is copied.

use std::time::Instant;

use anyhow::{Context, Result};

use super::super::opened::Opened;
use super::super::site::Site;
use super::Done;
use crate::compare_kernel::sequential;

const MIB: u64 = 1 << 20;
/// Bytes of a copy, as of a call of the load.
const CALL_BYTES: usize = 1 << 20;

/// Writes the file, syncs everything, and reads what is cached; returns MiB per second.
pub(super) fn run(opened: &Opened, bytes: u64) -> Result<Done> {
    let target = &**opened.target();
    let written = sequential::write(target, bytes)?;
    let read = sequential::read(target, bytes)?;
    Ok(rates(bytes, [written, read]))
}

/// Copies as much memory, from a buffer of a call to all places and back; returns MiB per second.
pub(super) fn copy_memory(site: &Site, bytes: u64) -> Result<Done> {
    let bytes = usize::try_from(bytes).context("more memory than there can be")?;
    let mut call = vec![0x6a_u8; CALL_BYTES];
    // Every page is there before the copies are timed.
    let mut memory = vec![0x5b_u8; bytes];
    let started = Instant::now();
    for piece in memory.chunks_mut(CALL_BYTES) {
        piece.copy_from_slice(&call[..piece.len()]);
    }
    let written = started.elapsed().as_secs_f64();
    site.check_running()?;
    let started = Instant::now();
    for piece in memory.chunks(CALL_BYTES) {
        call[..piece.len()].copy_from_slice(piece);
        std::hint::black_box(&mut call);
    }
    let read = started.elapsed().as_secs_f64();
    Ok(rates(bytes as u64, [written, read]))
}

fn rates(bytes: u64, seconds: [f64; 2]) -> Done {
    let mebibytes = bytes as f64 / MIB as f64;
    Done::of(seconds.map(|seconds| mebibytes / seconds))
}
