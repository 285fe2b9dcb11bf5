//! Flushing the file-system device.

use block::DeviceError;
use rt::atomic::Ordering;

use crate::core::Core;
use crate::error::Result;

/// Flushes the device, unless it has no volatile cache or the volume is opened without barriers.
pub(super) fn flush(core: &Core) -> Result<()> {
    let flushes = &core.pages.flushes;
    if !core.options.barrier || !core.device.geometry().has_volatile_cache {
        return flushes.check();
    }
    let flush = || match core.device.take_detached_error() {
        Some(error) => Err(error),
        None => core.device.flush(),
    };
    flushes.share(flush, |error| give_up(core, error))
}

/// Turns the volume read-only after a failed flush: no later call reports success.
fn give_up(core: &Core, error: &DeviceError) {
    tracing::error!(%error, "a flush has failed; the volume is read-only");
    core.is_read_only.store(true, Ordering::Release);
    if let Some(journal) = &core.journal {
        journal.abort(jbd2::Error::Io(error.clone()));
    }
}
