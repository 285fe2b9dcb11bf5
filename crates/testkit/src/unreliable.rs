//! A device whose requests take time, fail, panic, or break the contract, as a test sets.

use std::ops::Range;
use std::sync::Arc;

use block::{BlockDevice, Geometry, Outcome, Request, Results, Ticket};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Mutex, Nanos};

/// The behaviour of an [`UnreliableDevice`]. The default is that of the device below.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Returns true for the requests that it applies to. The others of their batches share the
    /// times, and batches without such a request are passed on.
    pub of: fn(&Request) -> bool,
    /// Time that the submission of a batch takes.
    pub submission: Nanos,
    /// Time from the submission to the completion, at the end of which the device below changes.
    pub completion: Nanos,
    /// Sectors whose requests fail and change nothing.
    pub bad_sectors: Range<u64>,
    /// Number of batches after which a submission panics.
    pub panic_after: Option<u64>,
    /// Number of results beyond those of the contract; negative if some are missing.
    pub surplus: i8,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            of: Request::is_write,
            submission: Nanos::ZERO,
            completion: Nanos::ZERO,
            bad_sectors: 0..0,
            panic_after: None,
            surplus: 0,
        }
    }
}

impl Behaviour {
    /// Returns the behaviour of writes that complete after a time.
    pub fn slow(completion: Nanos) -> Self {
        Self {
            completion,
            ..Self::default()
        }
    }

    /// Returns the behaviour of writes that fail, all of them.
    pub fn failing() -> Self {
        Self {
            bad_sectors: 0..u64::MAX,
            ..Self::default()
        }
    }

    /// Returns true if a request fails.
    fn fails(&self, request: &Request) -> bool {
        let (first, count) = request.range();
        let bad = &self.bad_sectors;
        (self.of)(request) && first.get() < bad.end && bad.start < first.get() + count
    }

    /// Executes a batch.
    fn execute(&self, device: &dyn BlockDevice, batch: Vec<Request>) -> Results {
        let (bad, good): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .enumerate()
            .partition(|(_, request)| self.fails(request));
        let (places, good): (Vec<_>, Vec<_>) = good.into_iter().unzip();
        let executed = places.into_iter().zip(device.submit(good).wait());
        let failed = bad.into_iter().map(|(place, request)| {
            (
                place,
                Err(request.failed("unreliable", "a failure on purpose")),
            )
        });
        let mut results: Vec<_> = executed.chain(failed).collect();
        results.sort_by_key(|(place, _)| *place);
        let mut results: Results = results.into_iter().map(|(_, result)| result).collect();
        let count = results.len().saturating_add_signed(self.surplus.into());
        results.resize_with(count, || Ok(Outcome::Done));
        results
    }
}

/// A device in front of another whose behaviour can be set.
pub struct UnreliableDevice {
    inner: Arc<dyn BlockDevice>,
    behaviour: Mutex<Behaviour>,
    batches: AtomicU64,
}

impl UnreliableDevice {
    /// Creates a device that behaves as the one below.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            behaviour: Mutex::default(),
            batches: AtomicU64::new(0),
        })
    }

    /// Sets the behaviour of later batches.
    pub fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
        self.batches.store(0, Ordering::Relaxed);
    }

    /// Returns the number of batches since the last [`set`](Self::set) that its behaviour applies
    /// to.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }
}

impl BlockDevice for UnreliableDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let behaviour = self.behaviour.lock().clone();
        if !batch.iter().any(behaviour.of) {
            return self.inner.submit(batch);
        }
        let batches = self.batches.fetch_add(1, Ordering::Relaxed);
        if let Some(limit) = behaviour.panic_after {
            assert!(batches < limit, "a panic on purpose, after {limit} batches");
        }
        if behaviour.submission > Nanos::ZERO {
            rt::sleep(behaviour.submission);
        }
        if behaviour.completion == Nanos::ZERO {
            return Ticket::ready(behaviour.execute(&*self.inner, batch));
        }
        let (ticket, completer) = Ticket::pending();
        let inner = Arc::clone(&self.inner);
        rt::spawn_daemon("unreliable", move || {
            rt::sleep(behaviour.completion);
            completer.complete(behaviour.execute(&*inner, batch));
        });
        ticket
    }

    fn name(&self) -> String {
        "unreliable".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use block::MemoryDevice;
    use layout::{Block, SectorNr};

    use super::*;

    fn write(sector: u64) -> Request {
        Request::Write {
            sector: SectorNr::new(sector),
            payload: vec![Block::copy_from(&[7; 512]).into_arc()],
            force_unit_access: false,
        }
    }

    #[test]
    fn bad_sectors_fail_and_the_others_are_written() {
        let memory = Arc::new(MemoryDevice::new(1 << 20));
        let inner: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
        let device = UnreliableDevice::new(Arc::clone(&inner));
        device.set(Behaviour {
            bad_sectors: 5..6,
            ..Behaviour::default()
        });
        let results = device.submit(vec![write(4), write(5), write(6)]).wait();
        let are_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(are_ok, [true, false, true]);
        for (sector, expect) in [(4, 7), (5, 0), (6, 7)] {
            let read = inner.read_block(sector * 512, 512);
            assert_eq!(read.expect("memory does not fail")[0], expect, "{sector}");
        }
        assert_eq!(device.batches(), 1);
    }

    #[test]
    fn results_are_missing_or_too_many() {
        let device = UnreliableDevice::new(Arc::new(MemoryDevice::new(1 << 20)));
        for (surplus, expect) in [(-1, 1), (0, 2), (2, 4)] {
            device.set(Behaviour {
                surplus,
                ..Behaviour::default()
            });
            let results = device.submit(vec![write(1), write(2)]).wait();
            assert_eq!(results.len(), expect);
        }
    }
}
