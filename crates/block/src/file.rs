//! The file device: an image file or a block device, through the page cache or bypassing it
//! (`O_DIRECT`).
//!
//! The caller executes buffered I/O within `submit`: mostly it is a copy to or from memory, and
//! handing it to a thread would cost more than the copy. The thread that waits for a single request
//! of direct I/O executes it; a small pool of threads executes larger batches, so that the device's
//! queue is filled. Adjacent requests of a batch are merged in all cases. If a merged request
//! fails, its parts are repeated one by one, so that each reports its own result.
//!
//! A file is locked while it is open, exclusively for reading and writing, shared for reading only:
//! by `flock`, which jext itself checks, and on the byte ranges that QEMU locks. Both locks belong
//! to the open file, not to the process. `losetup` takes no lock: an image behind a loop device is
//! not opened for writing, and [`BlockDevice::intruder`] reports a loop device attached later.

mod alignment;
mod backing;
mod bounce;
mod guard;
mod open;
mod plan;
mod pool;
mod ranges;
mod uncached;

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use layout::Block;

use crate::device::zeroes;
use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::forward;
use crate::ticket::{DetachedErrors, Results, Ticket};
use backing::Backing;
pub use open::{OpenOptions, create_sparse};
use pool::Pool;

/// A regular file or a block device.
pub struct FileDevice {
    backing: Arc<Backing>,
    geometry: Geometry,
    uncached: uncached::Opener,
    /// I/O threads; `None` if the caller executes the I/O.
    pool: Option<Pool>,
    detached: Arc<DetachedErrors>,
}

impl FileDevice {
    /// True if I/O bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.backing.is_direct()
    }

    /// Returns the preferred alignment of memory and offsets in bytes; less aligned requests are
    /// copied.
    pub fn preferred_bytes(&self) -> u64 {
        self.backing.alignment()
    }
}

/// Executes a batch in the caller's thread.
struct Inline<'a>(&'a FileDevice, &'a Backing);

impl BlockDevice for Inline<'_> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let mut results: Results = batch.iter().map(|_| Err(DeviceError::Gone)).collect();
        for operation in plan::plan(batch, u64::MAX) {
            for (index, answer) in self.1.run(operation) {
                results[index] = answer;
            }
        }
        Ticket::ready_or_detached(results, &self.0.detached)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// Executes a batch in the threads of the pool, or in the waiting one.
struct Pooled<'a>(&'a FileDevice, &'a Pool);

impl BlockDevice for Pooled<'_> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let count = batch.len();
        let operations = plan::plan(batch, plan::MERGED_BYTES_MAX);
        let (backing, detached) = (&self.0.backing, &self.0.detached);
        self.1.submit(backing, operations, count, detached)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl fmt::Debug for FileDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileDevice({:?})", self.backing.name())
    }
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        rt::point();
        let check = |request: Request| match self.geometry.check(&request) {
            Ok(()) => Ok(request),
            Err(error) => Err(Err(error)),
        };
        match &self.pool {
            Some(pool) => forward(&Pooled(self, pool), &self.detached, batch, check),
            None => forward(&Inline(self, &self.backing), &self.detached, batch, check),
        }
    }

    fn name(&self) -> String {
        self.backing.name().to_owned()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        if self.geometry.is_read_only {
            return Ok(());
        }
        self.backing.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.backing.intruder()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.backing.next_data(range)
    }

    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        if self.geometry.is_read_only {
            return Err(DeviceError::ReadOnly);
        }
        let left = self.backing.zero(ranges, self.geometry.size_bytes)?;
        zeroes::write(self, left)
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        match self.uncached.backing(&self.backing)? {
            Some(uncached) => {
                let device = Inline(self, &uncached);
                let device: &dyn BlockDevice = &device;
                device.read_block(byte_offset, block_bytes)
            }
            None => {
                let device: &dyn BlockDevice = self;
                device.read_block(byte_offset, block_bytes)
            }
        }
    }

    fn drop_cached(&self) {
        self.uncached.drop_cached(&self.backing);
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}
