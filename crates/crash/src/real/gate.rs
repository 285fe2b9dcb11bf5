//! The gate in front of all devices of a round: it closes for all of them at the same instant.
//!
//! A request is before the cut as a whole, or after it. Nothing is lost by that: the possible
//! effects of a power cut on a write or a flush in flight are those on writes in the cache.
//!
//! Before it a request may be delayed, as on a real device: without that, memory is so fast that
//! caches are nearly always empty.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use block::{BlockDevice, DeviceError, Geometry, Request, Ticket};

/// A gate that is open until it is closed.
#[derive(Default)]
pub(super) struct Gate(RwLock<bool>);

impl Gate {
    /// Closes the gate: from now on every request fails with `Gone`.
    pub(super) fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device behind the gate.
pub(super) struct Gated {
    pub(super) inner: Arc<dyn BlockDevice>,
    pub(super) gate: Arc<Gate>,
    /// True if writes can be forced.
    pub(super) can_force: bool,
    /// The duration of a batch with a flush or a forced write.
    pub(super) delay: Duration,
}

/// Returns true if a request takes a device noticeable time.
fn is_slow(request: &Request) -> bool {
    match request {
        Request::Flush => true,
        Request::Write {
            force_unit_access, ..
        } => *force_unit_access,
        _ => false,
    }
}

impl BlockDevice for Gated {
    fn geometry(&self) -> Geometry {
        Geometry {
            has_force_unit_access: self.can_force,
            ..self.inner.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if batch.iter().any(is_slow) && !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        // Held while the cache below works, which it does within `submit`.
        let is_closed = self.gate.0.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Ticket::ready(batch.iter().map(|_| Err(DeviceError::Gone)).collect());
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.inner.take_detached_error()
    }
}
