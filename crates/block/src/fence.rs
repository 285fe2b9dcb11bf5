//! A device whose changes can be stopped for good: after its fence is closed, it only reads.
//!
//! Several devices can share a fence. It is open for the time of a lease: a change after its end
//! asks first.

use core::ops::Range;
use std::sync::Arc;

use layout::Block;
use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{Mutex, Nanos};

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::forward;
use crate::ticket::{DetachedErrors, Ticket};

/// The switch of fenced devices. Once closed, it stays closed.
pub struct Fence {
    is_closed: AtomicBool,
    cause: Mutex<String>,
    /// The moment of [`rt::uptime`] until which changes pass; later ones ask first.
    lease_end: AtomicU64,
    /// Returns true if a change passes although the lease has ended.
    passes: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Fence {
    /// Returns an open fence whose lease has ended. `passes` is called in the thread of a change
    /// when the lease has ended, and returns false to refuse the change.
    pub fn leased(passes: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_closed: AtomicBool::new(false),
            cause: Mutex::default(),
            lease_end: AtomicU64::new(0),
            passes: Box::new(passes),
        }
    }

    /// Sets the end of the lease, a moment of [`rt::uptime`].
    pub fn extend(&self, lease_end: Nanos) {
        self.lease_end.store(lease_end.get(), Ordering::Release);
    }

    /// Returns true if the lease has not ended.
    pub fn is_leased(&self) -> bool {
        rt::uptime().get() < self.lease_end.load(Ordering::Acquire)
    }

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

    /// Checks that the fence is open.
    ///
    /// # Errors
    /// - [`DeviceError::InUse`] with the cause if it is closed.
    pub fn check(&self, device: &dyn BlockDevice) -> Result<(), DeviceError> {
        if !self.is_closed() {
            return Ok(());
        }
        Err(DeviceError::InUse {
            device: device.name(),
            cause: self.cause.lock().clone(),
        })
    }

    /// Checks that a change passes.
    fn admit(&self, device: &dyn BlockDevice) -> Result<(), DeviceError> {
        self.check(device)?;
        if !self.is_leased() && !(self.passes)() {
            self.close("its lease has ended");
        }
        self.check(device)
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
        if !self.fence.is_closed() && self.fence.is_leased() {
            return self.inner.submit(batch);
        }
        forward(&*self.inner, &self.detached, batch, |request| {
            if matches!(request, Request::Read { .. }) {
                return Ok(request);
            }
            // A flush would report writes as durable that were never made.
            self.fence.admit(&*self.inner).map_err(Err)?;
            Ok(request)
        })
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.fence.admit(&*self.inner)?;
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.inner.next_data(range)
    }

    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.fence.admit(&*self.inner)?;
        self.inner.zero(ranges)
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        self.inner.read_fresh(byte_offset, block_bytes)
    }

    fn drop_cached(&self) {
        self.inner.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        let own = self.detached.take();
        own.or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryDevice;

    #[test]
    fn behind_a_closed_fence_nothing_changes() {
        let memory = Arc::new(MemoryDevice::new(1 << 16));
        let fence = Arc::new(Fence::leased(|| true));
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

    #[test]
    fn a_change_after_the_end_of_the_lease_asks() {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let fence = Arc::new(Fence::leased(move || {
            count.fetch_add(1, Ordering::Relaxed) == 0
        }));
        let memory = Arc::new(MemoryDevice::new(1 << 16));
        let device: Arc<dyn BlockDevice> = Arc::new(FenceDevice::new(memory, Arc::clone(&fence)));
        let write = || device.write_blocks(0, vec![Block::zeroed(512).into_arc()]);
        fence.extend(rt::uptime() + Nanos::from_secs(60));
        write().expect("it is leased");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        fence.extend(Nanos::ZERO);
        device.read_block(0, 512).expect("reads do not ask");
        write().expect("it is asked for the first time");
        assert!(!fence.is_closed());
        write().expect_err("it is refused");
        fence.extend(rt::uptime() + Nanos::from_secs(60));
        write().expect_err("it stays closed");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
