//! Devices that panic, and that wait, on request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

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

/// A device on which writes wait for each other.
pub(crate) struct Meeting {
    inner: Arc<dyn BlockDevice>,
    expected: Mutex<Expected>,
    arrived: Condvar,
}

/// The writes that wait.
#[derive(Default)]
struct Expected {
    /// The byte of which all blocks of such a write consist.
    byte: Option<u8>,
    count: usize,
    patience: Duration,
    /// Number of those that wait now.
    waiting: usize,
    /// Largest number of those that were there at once.
    met: usize,
}

impl Meeting {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            expected: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Lets each write of blocks that consist of a byte wait for others, until so many are there.
    pub(crate) fn expect(&self, byte: u8, count: usize, patience: Duration) {
        *self.expected.lock().unwrap() = Expected {
            byte: Some(byte),
            count,
            patience,
            ..Expected::default()
        };
    }

    /// Returns the largest number of these writes that were there at once.
    pub(crate) fn met(&self) -> usize {
        self.expected.lock().unwrap().met
    }

    fn meet(&self) {
        let mut expected = self.expected.lock().unwrap();
        expected.waiting += 1;
        expected.met = expected.met.max(expected.waiting);
        self.arrived.notify_all();
        let patience = expected.patience;
        let is_alone = |expected: &mut Expected| expected.met < expected.count;
        let waited = self
            .arrived
            .wait_timeout_while(expected, patience, is_alone);
        waited.unwrap().0.waiting -= 1;
    }
}

impl BlockDevice for Meeting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let byte = self.expected.lock().unwrap().byte;
        let is_expected = |request: &Request| match request {
            Request::Write { payload, .. } => payload
                .iter()
                .all(|block| block.iter().all(|found| Some(*found) == byte)),
            _ => false,
        };
        if batch.iter().any(is_expected) {
            self.meet();
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
