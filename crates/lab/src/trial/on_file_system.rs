//! A trial on a file system that is created for it, in the caller's world.

use anyhow::Result;

use super::Work;
use crate::file_system::FileSystem;
use crate::record::Measured;

pub(super) fn run(file_system: &dyn FileSystem, work: &Work) -> Result<Measured> {
    let mut instance = file_system.make()?;
    instance.begin()?;
    let mut measured = work.run(instance.target(), instance.counts())?;
    instance.measure(&mut measured)?;
    let closing = rt::monotonic();
    instance.close()?;
    let closed = rt::monotonic().saturating_sub(closing);
    let metrics = &mut measured.metrics;
    metrics.insert("close_time".to_owned(), closed.as_secs_f64());
    if file_system.memory().is_some() {
        let left = file_system.cache_bytes();
        metrics.insert("memory_left".to_owned(), left as f64);
    }
    Ok(measured)
}
