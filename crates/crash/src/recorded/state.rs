//! The devices of a recording after a number of its events.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use block::trace::Event;
use block::{Geometry, MemoryDevice, Replay, Request};
use layout::SectorNr;

use super::error::RecordedError;
use super::sparse::Sparse;

/// Number of sectors of which a write is noted as one, for discards.
const TOUCHED_SECTORS: u64 = 128;
/// Maximum number of undecided versions of sectors on all devices: they take some GiB of memory.
const VERSIONS_MAX: u64 = 1 << 24;

/// The devices.
pub(crate) struct State {
    /// Their durable contents and undecided writes.
    pub(crate) replays: Vec<Replay<Sparse>>,
    /// For each device, the parts that were ever written; `None` if it was not empty.
    touched: Vec<Option<BTreeSet<u64>>>,
}

impl State {
    /// Creates the state before the first event. `is_empty` is true if the devices hold zeroes.
    pub(crate) fn new(initial: &[MemoryDevice], devices: &[Geometry], is_empty: bool) -> Self {
        let replays = initial.iter().zip(devices).enumerate();
        let replays = replays.map(|(device, (memory, geometry))| {
            Replay::on(device, geometry.clone(), &Sparse::new(memory.snapshot()))
        });
        Self {
            replays: replays.collect(),
            touched: vec![is_empty.then(BTreeSet::new); devices.len()],
        }
    }

    /// Applies an event, which has this many before it.
    ///
    /// # Errors
    /// Fails if more is undecided than memory is to hold.
    pub(crate) fn apply(&mut self, event: &Event, number: usize) -> Result<(), RecordedError> {
        let event = self.narrowed(event);
        let sectors = self.undecided().saturating_add(sectors_of(&event));
        if sectors > VERSIONS_MAX {
            return Err(RecordedError::TooMuch {
                event: number,
                sectors,
                limit: VERSIONS_MAX,
            });
        }
        for replay in &mut self.replays {
            replay.apply(&event);
        }
        Ok(())
    }

    /// Returns the number of versions that a power cut may leave or not.
    fn undecided(&self) -> u64 {
        let versions = self.replays.iter().map(|one| one.versions().count());
        versions.sum()
    }

    /// Returns the event with discards cut to what was ever written: elsewhere the device holds
    /// zeroes in any case, and a discard of a whole disk would take memory for each of its sectors.
    fn narrowed(&mut self, event: &Event) -> Event {
        let Event::Submitted {
            device,
            batch,
            requests,
        } = event
        else {
            return event.clone();
        };
        let Some(touched) = &mut self.touched[*device] else {
            return event.clone();
        };
        let mut narrowed = Vec::with_capacity(requests.len());
        for request in requests.iter() {
            let (first, sectors) = request.range();
            narrowed.push(match request {
                Request::Discard { .. } => discard_of(touched, first.get(), sectors),
                other => other.clone(),
            });
            if matches!(request, Request::Write { .. }) && sectors > 0 {
                touched.extend(parts_of(first.get(), sectors));
            }
        }
        Event::Submitted {
            device: *device,
            batch: *batch,
            requests: Arc::new(narrowed),
        }
    }
}

/// Returns the number of sectors that an event writes or discards.
fn sectors_of(event: &Event) -> u64 {
    let Event::Submitted { requests, .. } = event else {
        return 0;
    };
    let changes = requests
        .iter()
        .filter(|one| matches!(one, Request::Write { .. } | Request::Discard { .. }));
    let sectors = changes.map(|request| request.range().1);
    sectors.fold(0, u64::saturating_add)
}

/// Returns the numbers of the parts that some sectors lie in.
fn parts_of(first: u64, sectors: u64) -> RangeInclusive<u64> {
    first / TOUCHED_SECTORS..=(first + sectors - 1) / TOUCHED_SECTORS
}

/// Returns a discard of the range from the first to the last part of some sectors that was written.
fn discard_of(touched: &BTreeSet<u64>, first: u64, sectors: u64) -> Request {
    let mut range = (first, 0);
    if sectors > 0 {
        let mut inside = touched.range(parts_of(first, sectors));
        if let Some(low) = inside.next() {
            let high = inside.next_back().unwrap_or(low);
            let start = first.max(low * TOUCHED_SECTORS);
            let end = (first + sectors).min((high + 1) * TOUCHED_SECTORS);
            range = (start, end - start);
        }
    }
    Request::Discard {
        sector: SectorNr::new(range.0),
        sectors: range.1,
    }
}
