//! The jext side: the engine in this process, on a device in memory.

use std::sync::Arc;

use anyhow::Result;
use block::{BlockDevice, MemoryDevice};
use lab::targets::VolumeTarget;
use workload::{Control, Target};

use super::{Form, MOUNT_OPTIONS, Test, sequential};
use crate::engine;
use crate::spans::Run;

/// Makes a file system and runs a test on it.
pub(super) fn run(test: Test, form: Form, control: &Arc<Control>) -> Result<Run> {
    let target = Arc::new(engine::open(make(form)?, MOUNT_OPTIONS)?);
    let shared: Arc<dyn Target> = Arc::<VolumeTarget>::clone(&target);
    let run = test.run(&shared, control)?;
    drop(shared);
    engine::close(target)?;
    Ok(run)
}

/// Makes a file system, and writes and reads a large file; returns the seconds of each phase.
pub(super) fn run_sequential(bytes: u64, form: Form) -> Result<[f64; 3]> {
    let device = make(form)?;
    let open = || engine::open(Arc::clone(&device), MOUNT_OPTIONS).map(Arc::new);
    let target = open()?;
    let written = sequential::write(&*target, bytes)?;
    engine::close(target)?;
    let target = open()?;
    let read = sequential::read(&*target, bytes)?;
    let read_again = sequential::read(&*target, bytes)?;
    engine::close(target)?;
    Ok([written, read, read_again])
}

/// Returns a new device in memory with a file system.
fn make(form: Form) -> Result<Arc<dyn BlockDevice>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(form.size_bytes));
    engine::format(&device, form)?;
    Ok(device)
}
