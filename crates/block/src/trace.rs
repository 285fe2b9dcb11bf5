//! The trace: a record of submitted and completed requests, for the exploration of crashes.
//!
//! One [`Trace`] may record several devices, so that the order of events between them is kept. A
//! request counts as completed when its ticket is waited for, and not before: no caller may rely on
//! it earlier. Payloads are kept by reference.
//!
//! A [`Recording`] has the same events, with their times, in a file.
//!
//! The trace also checks the contract: two requests in flight on one sector, one of them a write,
//! panic.

mod recording;
mod replay;

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

use rt::Mutex;

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::ticket::{Results, Ticket, Work};
pub use recording::{Recorded, Recording, RecordingError, RecordingReader};
pub use replay::{Medium, Replay};

/// A keeper of events.
trait Log: Send + Sync {
    /// Keeps a batch; returns its number.
    fn submitted(&self, device: usize, requests: &Arc<Vec<Request>>) -> u64;

    /// True if it keeps the start of a wait.
    fn keeps_waits(&self) -> bool;

    /// Keeps the start of a wait.
    fn awaited(&self, event: Event);

    /// Keeps the end of a batch.
    fn settled(&self, event: Event, batch: u64);
}

/// An event of a trace.
#[derive(Debug, Clone)]
pub enum Event {
    /// A batch was submitted to a device.
    Submitted {
        /// Number of the device in the trace.
        device: usize,
        /// Number of the batch in the trace, which is also the event's.
        batch: u64,
        /// Requests of the batch.
        requests: Arc<Vec<Request>>,
    },
    /// A batch is waited for from now on. Only recordings have this event.
    Awaited {
        /// Number of the device in the trace.
        device: usize,
        /// Number of the batch.
        batch: u64,
    },
    /// A batch is known to be completed.
    Completed {
        /// Number of the device in the trace.
        device: usize,
        /// Number of the batch.
        batch: u64,
        /// Result of each request.
        results: Vec<Result<(), DeviceError>>,
    },
    /// The completion of the batch will never be known: its ticket was dropped.
    Detached {
        /// Number of the device in the trace.
        device: usize,
        /// Number of the batch.
        batch: u64,
    },
    /// A mark of the recording program, such as an acknowledged sync call.
    Mark(u64),
}

/// A record of the requests to several devices.
#[derive(Default)]
pub struct Trace {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    batches: u64,
    devices: usize,
    in_flight: BTreeMap<u64, InFlight>,
}

struct InFlight {
    device: usize,
    requests: Arc<Vec<Request>>,
}

/// A device whose requests are recorded.
pub struct TraceDevice {
    inner: Arc<dyn BlockDevice>,
    log: Arc<dyn Log>,
    number: usize,
    geometry: Geometry,
}

impl Trace {
    /// Creates an empty trace.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Records a device from now on. Devices are numbered from 0 in the order of these calls.
    pub fn attach(self: &Arc<Self>, inner: Arc<dyn BlockDevice>) -> TraceDevice {
        let mut state = self.state.lock();
        let number = state.devices;
        state.devices += 1;
        TraceDevice::new(inner, Arc::<Self>::clone(self), number)
    }

    /// Records a mark.
    pub fn mark(&self, mark: u64) {
        self.state.lock().events.push(Event::Mark(mark));
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.state.lock().events.len()
    }

    /// True if there are no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the events so far.
    pub fn events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }
}

impl Log for Trace {
    fn submitted(&self, device: usize, requests: &Arc<Vec<Request>>) -> u64 {
        let mut state = self.state.lock();
        let conflict = state
            .in_flight
            .values()
            .filter(|other| other.device == device)
            .find_map(|other| find_conflict(&other.requests, requests, false));
        let conflict = conflict.or_else(|| find_conflict(requests, requests, true));
        if let Some((first, second)) = conflict {
            drop(state);
            panic!("two requests in flight on one sector of device {device}: {first}, {second}");
        }
        let batch = state.batches;
        state.batches += 1;
        state.in_flight.insert(
            batch,
            InFlight {
                device,
                requests: Arc::clone(requests),
            },
        );
        state.events.push(Event::Submitted {
            device,
            batch,
            requests: Arc::clone(requests),
        });
        batch
    }

    fn keeps_waits(&self) -> bool {
        false
    }

    fn awaited(&self, _event: Event) {}

    fn settled(&self, event: Event, batch: u64) {
        let mut state = self.state.lock();
        state.in_flight.remove(&batch);
        state.events.push(event);
    }
}

/// Returns two requests that must not be in flight together. Within one batch a request does not
/// conflict with itself.
fn find_conflict(
    earlier: &[Request],
    later: &[Request],
    is_same_batch: bool,
) -> Option<(String, String)> {
    later.iter().enumerate().find_map(|(number, second)| {
        let others = if is_same_batch {
            &earlier[..number]
        } else {
            earlier
        };
        let first = others.iter().find(|first| {
            let ((start, count), (other_start, other_count)) = (first.range(), second.range());
            (first.is_write() || second.is_write())
                && start.get() < other_start.get() + other_count
                && other_start.get() < start.get() + count
        })?;
        let describe = |request: &Request| {
            let (sector, sectors) = request.range();
            format!(
                "{} of {sectors} sectors at sector {sector}",
                request.operation()
            )
        };
        Some((describe(first), describe(second)))
    })
}

impl TraceDevice {
    fn new(inner: Arc<dyn BlockDevice>, log: Arc<dyn Log>, number: usize) -> Self {
        let geometry = inner.geometry();
        Self {
            inner,
            log,
            number,
            geometry,
        }
    }

    /// Returns the number of the device in the trace.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the device with a simulated volatile cache, with or without forced writes. Callers
    /// then flush as on such a device, and the replay of the trace shows what a power cut could
    /// leave.
    #[must_use]
    pub fn with_volatile_cache(mut self, has_force_unit_access: bool) -> Self {
        self.geometry.has_volatile_cache = true;
        self.geometry.has_force_unit_access = has_force_unit_access;
        self
    }
}

/// Records that the ticket was dropped, unless it was waited for.
struct Watch {
    log: Arc<dyn Log>,
    device: usize,
    batch: u64,
    is_settled: bool,
}

impl Watch {
    fn complete(mut self, results: &Results) {
        let (device, batch) = (self.device, self.batch);
        let results = results
            .iter()
            .map(|result| result.as_ref().map(|_| ()).map_err(DeviceError::clone))
            .collect();
        self.is_settled = true;
        self.log.settled(
            Event::Completed {
                device,
                batch,
                results,
            },
            batch,
        );
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_settled && !std::thread::panicking() {
            let (device, batch) = (self.device, self.batch);
            self.log.settled(Event::Detached { device, batch }, batch);
        }
    }
}

/// A ticket of which the start and the end of the wait are recorded.
struct Watched(Mutex<Option<(Ticket, Watch)>>);

impl Work for Watched {
    fn is_ready(&self) -> bool {
        let state = self.0.lock();
        state.as_ref().is_none_or(|(ticket, _)| ticket.is_ready())
    }

    fn start(&self) {
        if let Some((ticket, _)) = &*self.0.lock() {
            ticket.start();
        }
    }

    fn wait(&self) -> Results {
        let Some((ticket, watch)) = self.0.lock().take() else {
            return Results::new();
        };
        let (device, batch) = (watch.device, watch.batch);
        watch.log.awaited(Event::Awaited { device, batch });
        let results = ticket.wait_at_once();
        watch.complete(&results);
        results
    }

    fn abandon(&self) {
        drop(self.0.lock().take());
    }
}

impl BlockDevice for TraceDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let requests = Arc::new(batch);
        let number = self.log.submitted(self.number, &requests);
        let watch = Watch {
            log: Arc::clone(&self.log),
            device: self.number,
            batch: number,
            is_settled: false,
        };
        let ticket = self.inner.submit(requests.to_vec());
        if self.log.keeps_waits() {
            return Ticket::for_work(Arc::new(Watched(Mutex::new(Some((ticket, watch))))));
        }
        // Without a lock, which would be a point of a hostile world.
        Ticket::joined(vec![ticket], move |mut parts| {
            let results = parts.pop().unwrap_or_default();
            watch.complete(&results);
            results
        })
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn drop_cached(&self) {
        self.inner.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.inner.take_detached_error()
    }
}

#[cfg(test)]
mod tests {
    use layout::{Block, SectorNr};

    use super::*;
    use crate::memory::MemoryDevice;

    fn write(sector: u64, sectors: usize) -> Request {
        Request::Write {
            sector: SectorNr::new(sector),
            payload: vec![Block::zeroed(sectors * 512).into_arc()],
            force_unit_access: false,
        }
    }

    fn traced() -> (Arc<Trace>, TraceDevice) {
        let trace = Trace::new();
        let device = trace.attach(Arc::new(MemoryDevice::new(1 << 20)));
        (trace, device)
    }

    #[test]
    fn events_are_recorded_in_order() {
        let (trace, first) = traced();
        let second = trace.attach(Arc::new(MemoryDevice::new(1 << 20)));
        let ticket = first.submit(vec![write(0, 2), write(8, 1)]);
        drop(second.submit(vec![Request::Flush]));
        trace.mark(9);
        ticket.wait_all().expect("memory does not fail");
        let events: Vec<String> = trace
            .events()
            .iter()
            .map(|event| match event {
                Event::Submitted {
                    device,
                    batch,
                    requests,
                } => {
                    format!("submit {device} {batch} {}", requests.len())
                }
                Event::Completed {
                    device,
                    batch,
                    results,
                } => {
                    format!("complete {device} {batch} {}", results.len())
                }
                Event::Awaited { .. } => panic!("a trace has no such event"),
                Event::Detached { device, batch } => format!("detach {device} {batch}"),
                Event::Mark(mark) => format!("mark {mark}"),
            })
            .collect();
        let expected = [
            "submit 0 0 2",
            "submit 1 1 1",
            "detach 1 1",
            "mark 9",
            "complete 0 0 2",
        ];
        assert_eq!(events, expected);
    }

    #[test]
    #[should_panic(expected = "two requests in flight on one sector of device 0")]
    fn a_conflict_between_batches_stops() {
        let (_, device) = traced();
        let _ticket = device.submit(vec![write(0, 4)]);
        drop(device.submit(vec![Request::Read {
            sector: SectorNr::new(3),
            blocks: 1,
            block_bytes: 512,
        }]));
    }

    #[test]
    #[should_panic(expected = "write of 1 sectors at sector 3")]
    fn a_conflict_within_a_batch_stops() {
        let (_, device) = traced();
        drop(device.submit(vec![write(0, 4), write(3, 1)]));
    }

    #[test]
    fn what_was_waited_for_conflicts_with_nothing() {
        let (_, device) = traced();
        for _ in 0..3 {
            device
                .submit(vec![write(0, 4)])
                .wait_all()
                .expect("memory does not fail");
        }
    }
}
