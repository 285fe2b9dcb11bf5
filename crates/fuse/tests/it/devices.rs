//! A device that panics on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{BlockDevice, Geometry, Request, Ticket};

pub(crate) struct Bomb {
    inner: Arc<dyn BlockDevice>,
    is_armed: AtomicBool,
}

impl Bomb {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            is_armed: AtomicBool::new(false),
        }
    }

    /// Makes every later read panic, or none.
    pub(crate) fn set_armed(&self, is_armed: bool) {
        self.is_armed.store(is_armed, Ordering::SeqCst);
    }
}

impl BlockDevice for Bomb {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let reads = batch.iter().any(|one| matches!(one, Request::Read { .. }));
        assert!(
            !(reads && self.is_armed.load(Ordering::SeqCst)),
            "a panic on purpose"
        );
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
