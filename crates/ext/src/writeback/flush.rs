//! Flushing the file-system device.

use std::sync::Arc;

use block::DeviceError;
use layout::{Block, BlockNr};
use rt::atomic::Ordering;

use crate::core::Core;
use crate::error::Result;

impl Core {
    /// Flushes the device. If that fails, no later call reports success: a device may report lost
    /// writes to one flush only.
    pub(crate) fn flush_device(&self) -> Result<()> {
        flush(self)
    }

    /// Writes a new block that holds what was durable elsewhere, before the step that points to it
    /// ends. Without a journal it is flushed, too; otherwise the commit does that.
    pub(crate) fn write_first(&self, block: BlockNr, image: &Arc<Block>) -> Result<()> {
        let at = self.geometry().byte_offset(block);
        self.device.write_blocks(at, vec![image.clone()])?;
        self.pages.flushes.note_written();
        match self.journal {
            Some(_) => Ok(()),
            None => flush(self),
        }
    }
}

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
