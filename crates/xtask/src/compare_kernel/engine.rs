//! The jext side: the engine in this process, on a device in memory.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::{BlockDevice, MemoryDevice};
use ext::Volume;
use ext::mkfs::{self, JournalOption, Options};
use jext::mount_options::ParsedOptions;
use lab::targets::VolumeTarget;
use workload::postmark::{self, FinalSync, NoObserver};
use workload::{Control, Target};

use super::{Form, MOUNT_OPTIONS, Test, sequential};
use crate::spans::{Run, Work};

/// Memory budget as a multiple of the device size, large enough to cache everything.
const BUDGET_FACTOR: u64 = 2;

/// Makes a file system and runs a test on it.
pub(super) fn run(test: Test, form: Form, control: &Arc<Control>) -> Result<Run> {
    let target = Arc::new(open(&make(form)?, form)?);
    let shared: Arc<dyn Target> = Arc::<VolumeTarget>::clone(&target);
    let options = postmark::Options {
        final_sync: FinalSync::End,
        latencies: false,
        ..postmark::Options::lab()
    };
    let outcome = postmark::run(
        &test.parameters(),
        &options,
        &shared,
        control,
        &mut NoObserver,
    )?;
    drop(shared);
    let target = Arc::into_inner(target).ok_or_else(|| anyhow!("the benchmark still runs"))?;
    target.into_volume().close().context("closing")?;
    Ok(Run {
        seconds: outcome.value("elapsed").context("the run has no time")?,
        counts: Work::of(&outcome)?,
    })
}

/// Makes a file system, and writes and reads a large file; returns the seconds of each phase.
pub(super) fn run_sequential(bytes: u64, form: Form) -> Result<[f64; 3]> {
    let device = make(form)?;
    let target = open(&device, form)?;
    let written = sequential::write(&target, bytes)?;
    target.into_volume().close().context("closing")?;
    let target = open(&device, form)?;
    let read = sequential::read(&target, bytes)?;
    let read_again = sequential::read(&target, bytes)?;
    target.into_volume().close().context("closing")?;
    Ok([written, read, read_again])
}

/// Returns a new device in memory with a file system.
fn make(form: Form) -> Result<Arc<dyn BlockDevice>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(form.size_bytes));
    let options = Options {
        file_system: form.file_system.to_mkfs(),
        journal: JournalOption::Megabytes(form.journal_megabytes),
        block_bytes: Some(form.block_bytes),
        ..Options::default()
    };
    mkfs::format(&device, &options).context("mkfs")?;
    Ok(device)
}

fn open(device: &Arc<dyn BlockDevice>, form: Form) -> Result<VolumeTarget> {
    let mut mount = ParsedOptions::default();
    mount.add(MOUNT_OPTIONS)?;
    mount.options.memory.budget_bytes = form.size_bytes * BUDGET_FACTOR;
    let volume = Volume::open(Arc::clone(device), None, mount.options).context("mount")?;
    Ok(VolumeTarget::new(volume, "mem"))
}
