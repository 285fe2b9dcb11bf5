//! A trial on a file system that is created for it, in the caller's world.

use anyhow::Result;
use rt::Nanos;

use super::Work;
use super::perturbation::Perturbation;
use crate::file_system::FileSystem;
use crate::record::Measured;

pub(super) fn run(
    file_system: &dyn FileSystem,
    work: &Work,
    perturbation: &Perturbation,
) -> Result<Measured> {
    pass(perturbation.before_mkfs);
    let mut instance = file_system.make(perturbation.allocation_start)?;
    pass(perturbation.before_workload);
    instance.begin()?;
    let mut measured = work.run(instance.target(), instance.counts())?;
    instance.measure(&mut measured)?;
    let closing = rt::monotonic();
    let device = instance.close()?;
    let closed = rt::monotonic().saturating_sub(closing);
    device.measure(&mut measured)?;
    let metrics = &mut measured.metrics;
    metrics.insert("close_time".to_owned(), closed.as_secs_f64());
    if file_system.memory().is_some() {
        let left = file_system.cache_bytes();
        metrics.insert("memory_left".to_owned(), left as f64);
    }
    Ok(measured)
}

/// Lets time pass. A sleep of no length would still be a step of the world.
fn pass(span: Nanos) {
    if span > Nanos::ZERO {
        rt::sleep(span);
    }
}
