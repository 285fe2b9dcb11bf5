//! Long calls that Ctrl-C ends.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use jext::device::{Block, Geometry, Request, Ticket};
use jext::{BlockDevice, DeviceError};
use pyo3::prelude::*;
use transfer::Stop;

/// Time between two looks for signals.
const POLL: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own with the GIL released, and looks for signals meanwhile. After
/// the first signal handler that raises, calls `cancel` and waits for the end of `work`.
///
/// # Errors
/// Fails with the exception of the signal handler.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: impl Fn() + Send + Sync,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(1);
            let worker = scope.spawn(move || {
                let value = work();
                // The receiver lives until the worker has been joined.
                let _ = sender.send(());
                value
            });
            let mut interrupted = None;
            while receiver.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if interrupted.is_none()
                    && let Err(raised) = Python::attach(|py| py.check_signals())
                {
                    cancel();
                    interrupted = Some(raised);
                }
            }
            match (worker.join(), interrupted) {
                (Err(panic), _) => resume_unwind(panic),
                (Ok(_), Some(raised)) => Err(raised),
                (Ok(value), None) => Ok(value),
            }
        })
    })
}

/// A switch that makes devices fail, and ends the reading of trees.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Stop);

impl Cancel {
    /// Makes all further requests fail.
    pub(crate) fn request(&self) {
        self.0.request();
    }

    /// Returns the switch of trees.
    pub(crate) fn stop(&self) -> &Stop {
        &self.0
    }

    /// Returns a device that fails after [`Cancel::request`].
    pub(crate) fn over(&self, below: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        Arc::new(Cancellable {
            below,
            cancel: self.clone(),
        })
    }

    fn is_requested(&self) -> bool {
        self.0.is_requested()
    }
}

/// A device whose requests fail once its switch is set.
struct Cancellable {
    below: Arc<dyn BlockDevice>,
    cancel: Cancel,
}

impl BlockDevice for Cancellable {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if !self.cancel.is_requested() {
            return self.below.submit(batch);
        }
        let failed = batch.iter().map(|request| {
            let cause = "the call was interrupted";
            Err(request.failed(self.below.name(), cause))
        });
        Ticket::ready(failed.collect())
    }

    fn name(&self) -> String {
        self.below.name()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.below.next_data(range)
    }

    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.below.zero(ranges)
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.below.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.below.intruder()
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        self.below.read_fresh(byte_offset, block_bytes)
    }

    fn drop_cached(&self) {
        self.below.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.below.take_detached_error()
    }
}
