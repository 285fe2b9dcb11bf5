//! A device whose changes can be stopped for good: after its fence is closed, it only reads.
//!
//! Several devices can share a fence.

use core::ops::Range;
use std::sync::Arc;

use rt::Mutex;
use rt::atomic::{AtomicBool, Ordering};

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::forward;
use crate::ticket::{DetachedErrors, Ticket};

/// The switch of fenced devices. Once closed, it stays closed.
#[derive(Default)]
pub struct Fence {
    is_closed: AtomicBool,
    cause: Mutex<String>,
}

impl Fence {
    /// Closes the fence: requests submitted from now on change nothing. The first cause counts.
    pub fn close(&self, cause: &str) {
        let mut held = self.cause.lock();
        if !self.is_closed() {
            cause.clone_into(&mut held);
            self.is_closed.store(true, Ordering::Release);
        }
    }

    /// Returns true if the fence is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Fails if the fence is closed.
    fn check(&self, device: &dyn BlockDevice) -> Result<(), DeviceError> {
        if !self.is_closed() {
            return Ok(());
        }
        Err(DeviceError::InUse {
            device: device.name(),
            cause: self.cause.lock().clone(),
        })
    }
}

/// A device behind a [`Fence`].
pub struct FenceDevice {
    inner: Arc<dyn BlockDevice>,
    fence: Arc<Fence>,
    detached: Arc<DetachedErrors>,
}

impl FenceDevice {
    /// Puts a device behind a fence.
    pub fn new(inner: Arc<dyn BlockDevice>, fence: Arc<Fence>) -> Self {
        Self {
            inner,
            fence,
            detached: Arc::default(),
        }
    }
}

impl BlockDevice for FenceDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if !self.fence.is_closed() {
            return self.inner.submit(batch);
        }
        forward(&*self.inner, &self.detached, batch, |request| {
            if matches!(request, Request::Read { .. }) {
                return Ok(request);
            }
            // A flush would report writes as durable that were never made.
            self.fence.check(&*self.inner).map_err(Err)?;
            Ok(request)
        })
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.fence.check(&*self.inner)?;
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.inner.next_data(range)
    }

    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.fence.check(&*self.inner)?;
        self.inner.zero(ranges)
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        let own = self.detached.take();
        own.or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests {
    use layout::Block;

    use super::*;
    use crate::memory::MemoryDevice;

    #[test]
    fn behind_a_closed_fence_nothing_changes() {
        let memory = Arc::new(MemoryDevice::new(1 << 16));
        let fence = Arc::new(Fence::default());
        let inner: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
        let device: Arc<dyn BlockDevice> = Arc::new(FenceDevice::new(inner, Arc::clone(&fence)));
        let block = |byte: u8| vec![Block::copy_from(&[byte; 512]).into_arc()];
        device.write_blocks(0, block(1)).expect("the fence is open");
        device.flush().expect("the fence is open");
        fence.close("first");
        fence.close("second");
        let range = 0..512;
        let ranges = std::slice::from_ref(&range);
        let errors = [
            device.write_blocks(0, block(2)),
            device.flush(),
            device.discard(ranges),
            device.zero(ranges),
            device.reserve(ranges),
        ];
        for error in errors {
            let error = error.expect_err("the fence is closed").to_string();
            assert!(error.ends_with("is in use: first"), "{error}");
        }
        let read = device.read_block(0, 512).expect("reads pass");
        assert_eq!(read[0], 1);
    }
}
