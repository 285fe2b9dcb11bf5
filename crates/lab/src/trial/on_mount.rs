//! A trial on a file system that is made and mounted for it, by the kernel or by a program.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use workload::directory::DirectoryTarget;
use workload::{Control, Target};

use super::{measured, work};
use crate::record::Measured;
use crate::setup::{MountedSetup, Workload};
use crate::targets::MountedFileSystem;

const SECTOR_BYTES: u64 = 512;

pub(super) fn run(
    setup: &MountedSetup,
    workload: &Workload,
    control: &Arc<Control>,
) -> Result<Measured> {
    let mounted = MountedFileSystem::make(setup)?;
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(mounted.path())?);
    let before = mounted.requests()?;
    let outcome = work(workload, &target, control)?;
    let after = mounted.requests()?;
    drop(target);
    let closing = Instant::now();
    mounted.close()?;
    let mut measured = measured(&outcome);
    let (home, log) = (after.home - before.home, after.log - before.log);
    let figures = [
        ("close_time", closing.elapsed().as_secs_f64()),
        ("flushes", (home.flushes + log.flushes) as f64),
        ("home_reads", home.reads as f64),
        ("home_writes", home.writes as f64),
        ("home_bytes_read", (home.read_sectors * SECTOR_BYTES) as f64),
        (
            "home_bytes_written",
            (home.write_sectors * SECTOR_BYTES) as f64,
        ),
        ("log_writes", log.writes as f64),
        (
            "log_bytes_written",
            (log.write_sectors * SECTOR_BYTES) as f64,
        ),
    ];
    let figures = figures.map(|(name, value)| (name.to_owned(), value));
    measured.metrics.extend(figures);
    Ok(measured)
}
