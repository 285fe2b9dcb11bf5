//! [`Player`]: submits the batches of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::ticket::Ticket;
use block::trace::{Event, Recorded};
use block::{BlockDevice, DeviceError, DeviceText, Request};
use rt::{JoinHandle, Nanos};

use super::summary::{Comparison, Tally};

/// The state of a replay.
pub(super) struct Player {
    devices: Vec<Arc<dyn BlockDevice>>,
    has_pauses: bool,
    start: Nanos,
    // The time of the last event in the recording.
    recorded: Nanos,
    in_flight: BTreeMap<u64, InFlight>,
    // Batches whose completion the recorded program never noticed.
    detached: Vec<InFlight>,
    tallies: Vec<Tally>,
}

/// A batch in flight.
struct InFlight {
    device: usize,
    requests: Arc<Vec<Request>>,
    recorded: Nanos,
    replayed: Nanos,
    state: State,
}

enum State {
    Submitted(Ticket),
    Awaited(JoinHandle<Ended>),
    /// Between the two.
    Taken,
}

/// The time at which a batch was complete, and the result of each request.
type Ended = (Nanos, Vec<Result<(), DeviceError>>);

impl InFlight {
    /// Starts to wait, at the moment at which the recorded program did: some devices start to work
    /// then.
    fn await_it(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Taken) {
            State::Submitted(ticket) => {
                let wait = move || {
                    let results = ticket.wait().into_iter();
                    let results = results.map(|result| result.map(drop)).collect();
                    (rt::monotonic(), results)
                };
                let task = rt::spawn("replayed request", wait);
                if rt::is_simulated() {
                    sim::quiesce();
                }
                State::Awaited(task)
            }
            other => other,
        };
    }

    /// Waits for the end.
    fn end(&mut self) -> Result<Ended> {
        self.await_it();
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Awaited(task) => task.join().map_err(|_| anyhow!("a device failed")),
            _ => bail!("a batch that ends twice"),
        }
    }
}

fn not_in_flight(batch: u64) -> String {
    format!("the recording ends batch {batch} before it starts")
}

impl Player {
    pub(super) fn new(devices: Vec<Arc<dyn BlockDevice>>, has_pauses: bool) -> Self {
        Self {
            tallies: devices.iter().map(|_| Tally::default()).collect(),
            devices,
            has_pauses,
            start: rt::monotonic(),
            recorded: Nanos::ZERO,
            in_flight: BTreeMap::new(),
            detached: Vec::new(),
        }
    }

    /// Replays an event.
    pub(super) fn play(&mut self, recorded: Recorded) -> Result<()> {
        let Recorded { time, event } = recorded;
        // Before a completion it waited.
        if self.has_pauses && !matches!(event, Event::Completed { .. }) {
            rt::sleep(time.saturating_sub(self.recorded));
        }
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } => {
                let batch_in_flight = self.submit(device, requests, time);
                if self.in_flight.insert(batch, batch_in_flight).is_some() {
                    bail!("the recording has two batches of number {batch}");
                }
            }
            Event::Awaited { batch, .. } => {
                let found = self.in_flight.get_mut(&batch);
                let found = found.with_context(|| not_in_flight(batch))?;
                found.await_it();
            }
            Event::Completed { batch, results, .. } => {
                let found = self.in_flight.remove(&batch);
                let found = found.with_context(|| not_in_flight(batch))?;
                self.complete(found, Some((time, &results)))?;
            }
            Event::Detached { batch, .. } => {
                self.detached.extend(self.in_flight.remove(&batch));
            }
            Event::Mark(_) => {}
        }
        self.recorded = time;
        Ok(())
    }

    fn submit(&self, device: usize, requests: Arc<Vec<Request>>, recorded: Nanos) -> InFlight {
        let replayed = rt::monotonic();
        let ticket = self.devices[device].submit(requests.to_vec());
        ticket.start();
        InFlight {
            device,
            requests,
            recorded,
            replayed,
            state: State::Submitted(ticket),
        }
    }

    /// Waits for a batch, and counts it; compares it with its results in the recording, if they are
    /// known.
    fn complete(
        &mut self,
        mut batch: InFlight,
        known: Option<(Nanos, &[Result<(), DeviceError>])>,
    ) -> Result<()> {
        let (end, results) = batch.end()?;
        for (number, (request, result)) in batch.requests.iter().zip(results).enumerate() {
            let before = known.and_then(|(_, results)| results.get(number));
            let was_error = before.is_some_and(Result::is_err);
            if let (Err(error), false) = (result, was_error) {
                return Err(error).context("a request that did not fail in the recording");
            }
            let recorded = known.map(|(end, _)| end.saturating_sub(batch.recorded));
            let replayed = end.saturating_sub(batch.replayed);
            self.tallies[batch.device].add(request, recorded, replayed);
        }
        Ok(())
    }

    /// Waits for everything in flight; returns the comparison.
    pub(super) fn finish(mut self, names: &[String], devices: &[DeviceText]) -> Result<Comparison> {
        let in_flight = std::mem::take(&mut self.in_flight).into_values();
        let rest: Vec<InFlight> = in_flight
            .chain(std::mem::take(&mut self.detached))
            .collect();
        for batch in rest {
            self.complete(batch, None)?;
        }
        let elapsed = rt::monotonic().saturating_sub(self.start);
        let recorded_ns = self.recorded.get();
        let devices = devices.iter().zip(names).zip(self.tallies);
        Ok(Comparison {
            recorded_ns,
            replayed_ns: elapsed.get(),
            devices: devices
                .map(|((device, name), tally)| tally.compare(name, &device.to_string()))
                .collect(),
        })
    }
}
