//! Nonvolatile memory: [`Nvram`] behind a bus, and [`RamDisk`] as part of the host's memory.
//!
//! *NVRAM* takes a latency for each request and the transfer time on the bus, one request after
//! another. It has no volatile cache: a completed write is durable, and a flush has no effect. It
//! needs no task: a waiter sleeps until the completion time computed at submission.
//!
//! A *RAM disk* copies: the host's processor is charged for the bytes, and there is no wait. It
//! models the RAM disks that replaced NVRAM in experiments.

use std::sync::Arc;

use block::{BlockDevice, DetachedErrors, DeviceError, Geometry, Request, Ticket};
use layout::{Block, SectorNr};
use rt::{Cost, Mutex, Nanos};

use crate::SimulatedDevice;
use crate::stats::DiskStats;
use crate::timed::timed_ticket;

/// Number of requests accepted before the host should hold back.
const QUEUE_DEPTH: u32 = 128;

/// Battery-backed memory on a bus.
pub struct Nvram {
    store: Arc<dyn BlockDevice>,
    geometry: Geometry,
    name: String,
    latency: Nanos,
    bytes_per_second: u64,
    state: Mutex<State>,
    detached: Arc<DetachedErrors>,
}

#[derive(Debug, Default)]
struct State {
    /// Time at which the bus is free.
    bus_free: Nanos,
    stats: DiskStats,
}

impl Nvram {
    /// Creates NVRAM with its contents in `store`, which must answer at once.
    ///
    /// # Panics
    /// Panics if the bandwidth is zero.
    pub fn new(
        store: Arc<dyn BlockDevice>,
        latency: Nanos,
        bytes_per_second: u64,
        name: String,
    ) -> Self {
        assert!(bytes_per_second > 0, "a bus moves bytes");
        let geometry = durable(store.geometry());
        let (state, detached) = (Mutex::default(), Arc::default());
        Self {
            store,
            geometry,
            name,
            latency,
            bytes_per_second,
            state,
            detached,
        }
    }

    /// Returns the completion time of a batch submitted now.
    fn done_at(&self, requests: &[Request]) -> Nanos {
        let now = rt::monotonic();
        let mut state = self.state.lock();
        let mut done = now;
        for request in requests {
            state.stats.count(request);
            let bytes = transferred(request);
            let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
            let time = Nanos::new(u64::try_from(time).expect("a request takes less than an age"));
            let sent = state.bus_free.max(now) + time;
            state.bus_free = sent;
            done = sent + self.latency;
            state.stats.request_nanos.record((done - now).get());
        }
        done
    }
}

impl BlockDevice for Nvram {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, requests: Vec<Request>) -> Ticket {
        let done = self.done_at(&requests);
        // The store charges the host for building the requests.
        let results = self.store.submit(requests).wait();
        timed_ticket(done, results, &self.detached)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}

impl SimulatedDevice for Nvram {
    fn stats(&self) -> DiskStats {
        self.state.lock().stats.clone()
    }

    fn lost_by_power_cut(&self) -> Option<Vec<(SectorNr, Arc<Block>)>> {
        Some(Vec::new())
    }
}

/// A part of the host's memory.
pub struct RamDisk {
    store: Arc<dyn BlockDevice>,
    geometry: Geometry,
    name: String,
    stats: Mutex<DiskStats>,
}

impl RamDisk {
    /// Creates a RAM disk with its contents in `store`, which must answer at once.
    pub fn new(store: Arc<dyn BlockDevice>, name: String) -> Self {
        let geometry = durable(store.geometry());
        Self {
            store,
            geometry,
            name,
            stats: Mutex::default(),
        }
    }
}

impl BlockDevice for RamDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, requests: Vec<Request>) -> Ticket {
        let bytes = requests.iter().map(transferred).sum();
        rt::charge(Cost::Copy(bytes));
        let mut stats = self.stats.lock();
        requests.iter().for_each(|request| stats.count(request));
        drop(stats);
        self.store.submit(requests)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl SimulatedDevice for RamDisk {
    fn stats(&self) -> DiskStats {
        self.stats.lock().clone()
    }
}

/// Returns the store's geometry without a volatile cache.
fn durable(store: Geometry) -> Geometry {
    Geometry {
        has_volatile_cache: false,
        has_force_unit_access: true,
        can_flush: true,
        queue_depth: QUEUE_DEPTH,
        ..store
    }
}

/// Returns the number of bytes that cross the bus.
fn transferred(request: &Request) -> u64 {
    match request {
        Request::Read { .. } | Request::Write { .. } => request.range().1 * 512,
        Request::Flush | Request::Discard { .. } => 0,
    }
}
