//! The instants of a recording at which the power is cut, found by reading it once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use block::trace::{Event, RecordingError};
use block::{Geometry, RecordingReader, Request};
use layout::SectorNr;
use rt::split_mix::mix_pair;

use super::error::RecordedError;

/// Number of instants up to which all are chosen by default.
const INSTANTS_FEW: u64 = 256;

/// The contents of a recording, as far as they are needed before it is explored.
pub(crate) struct Plan {
    /// The recorded devices.
    pub(crate) devices: Vec<Geometry>,
    pub(crate) events: usize,
    pub(crate) commands: u64,
    pub(crate) flushes: u64,
    /// Numbers of events before the instants at which a flush or a forced write is about to be
    /// complete, or is.
    at_flushes: BTreeSet<usize>,
    /// The same of all other instants at which something changes.
    between: BTreeSet<usize>,
}

/// Opens a recording.
pub(crate) fn open(path: &Path) -> Result<RecordingReader<BufReader<File>>, RecordedError> {
    let file = File::open(path).map_err(RecordingError::Io)?;
    Ok(RecordingReader::new(BufReader::new(file))?)
}

impl Plan {
    /// Reads a recording to its end.
    ///
    /// # Errors
    /// Fails if it is invalid, or if a request lies beyond the end of its device.
    pub(crate) fn read(path: &Path) -> Result<Self, RecordedError> {
        let mut reader = open(path)?;
        let mut plan = Self {
            devices: Vec::new(),
            events: 0,
            commands: 0,
            flushes: 0,
            at_flushes: BTreeSet::new(),
            between: BTreeSet::new(),
        };
        // For each batch in flight: it writes, and it settles writes.
        let mut batches = BTreeMap::new();
        while let Some(recorded) = reader.next() {
            let event = recorded?.event;
            let devices = reader.devices();
            plan.note(&event, devices, &mut batches)?;
            plan.events += 1;
        }
        let devices = reader.devices().iter();
        plan.devices = devices.map(|(_, geometry)| geometry.clone()).collect();
        plan.between
            .retain(|event| !plan.at_flushes.contains(event));
        Ok(plan)
    }

    fn note(
        &mut self,
        event: &Event,
        devices: &[(String, Geometry)],
        batches: &mut BTreeMap<u64, (bool, bool)>,
    ) -> Result<(), RecordedError> {
        let number = self.events;
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } => {
                let (_, geometry) = &devices[*device];
                let mut writes = false;
                let mut settles = false;
                for request in requests.iter() {
                    self.commands += 1;
                    self.flushes += u64::from(matches!(request, Request::Flush));
                    let (first, sectors) = request.range();
                    if (first.get() + sectors) * SectorNr::SIZE > geometry.size_bytes {
                        return Err(RecordedError::Beyond {
                            event: number,
                            device: *device,
                            size_bytes: geometry.size_bytes,
                        });
                    }
                    writes |= matches!(request, Request::Write { .. } | Request::Discard { .. });
                    settles |= match request {
                        Request::Flush => true,
                        Request::Write {
                            force_unit_access, ..
                        } => *force_unit_access && geometry.has_volatile_cache,
                        _ => false,
                    };
                }
                batches.insert(*batch, (writes, settles));
                if writes {
                    self.between.insert(number + 1);
                }
            }
            Event::Completed { batch, device, .. } => {
                let (writes, settles) = batches.remove(batch).unwrap_or_default();
                if settles {
                    self.at_flushes.extend([number, number + 1]);
                } else if writes && !devices[*device].1.has_volatile_cache {
                    self.between.insert(number + 1);
                }
            }
            Event::Detached { batch, .. } => {
                batches.remove(batch);
            }
            Event::Awaited { .. } | Event::Mark(_) => {}
        }
        Ok(())
    }

    /// Returns the size of a sector of each device, in sectors of 512 bytes.
    pub(crate) fn unit_sectors(&self) -> Vec<u64> {
        let sectors = |geometry: &Geometry| u64::from(geometry.sector_bytes) / SectorNr::SIZE;
        self.devices.iter().map(sectors).collect()
    }

    /// Returns the number of instants at flushes, and of those between.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.at_flushes.len() as u64, self.between.len() as u64)
    }

    /// Returns the chosen instants: those at flushes, and one in a number of those between. By
    /// default that is all if they are few.
    pub(crate) fn chosen(&self, seed: u64, one_in: Option<u64>) -> BTreeSet<usize> {
        let (_, between) = self.counts();
        let one_in = one_in
            .unwrap_or_else(|| between.div_ceil(INSTANTS_FEW))
            .max(1);
        let is_chosen = |event: &usize| mix_pair(seed, *event as u64).is_multiple_of(one_in);
        let between = self.between.iter().copied().filter(is_chosen);
        between.chain(self.at_flushes.iter().copied()).collect()
    }
}
