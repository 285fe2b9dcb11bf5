//! A trial on a file system that is made and mounted for it, by the kernel or by a program.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use workload::Target;
use workload::directory::DirectoryTarget;

use super::Work;
use crate::record::Measured;
use crate::setup::MountedSetup;
use crate::targets::MountedFileSystem;
use crate::timeline::Counts;

const SECTOR_BYTES: u64 = 512;

pub(super) fn run(setup: &MountedSetup, work: &Work) -> Result<Measured> {
    let mounted = MountedFileSystem::make(setup)?;
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(mounted.path())?);
    let before = mounted.requests()?;
    let mut measured = work.run(target, Counts::default)?;
    let after = mounted.requests()?;
    let closing = Instant::now();
    mounted.close()?;
    let figures = [("close_time".to_owned(), closing.elapsed().as_secs_f64())];
    measured.metrics.extend(figures);
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(measured);
    };
    let (home, log) = (after.home - before.home, after.log - before.log);
    let figures = [
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
