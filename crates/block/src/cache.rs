//! The volatile cache: keeps writes from a device until a flush, a forced write or want of room, and loses what it
//! likes at a power cut.
//!
//! It keeps every version of every sector that no flush has made durable, because any one of them may be what a power cut
//! leaves. Reads see the newest. Flushes, forced writes and evictions go through to the device below one at a time and
//! within `submit`; ordinary writes and reads wait for none of them, unless the cache is full.
//!
//! A *cut* makes every later request answer `Gone`. A *power cut* is a cut after which the device below gets a choice of
//! versions: it is then what a machine would find after the power is back.

mod overlay;

use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::{Condvar, Mutex};

use crate::device::{BlockDevice, Geometry, Payload, Request};
use crate::error::DeviceError;
use crate::forward::{Answer, forward};
use crate::random::{SplitMix, mix_pair};
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};
use crate::versions::{Version, Versions, write_requests};
use overlay::{assemble, overlay_all};

/// How many sectors are evicted together.
const EVICTED_SECTORS: usize = 2048;

/// A volatile cache in front of a device.
pub struct CacheDevice {
    inner: Arc<dyn BlockDevice>,
    geometry: Geometry,
    capacity_bytes: u64,
    state: Mutex<State>,
    /// Signalled when the way to the device below is free.
    is_free: Condvar,
    detached: Arc<DetachedErrors>,
}

struct State {
    versions: Versions,
    /// The number of the last write.
    sequence: u64,
    is_cut: bool,
    /// Whether somebody writes to the device below; nobody else does so then.
    is_writing: bool,
    /// The sector at which eviction goes on.
    hand: u64,
}

impl CacheDevice {
    /// A cache of `capacity_bytes` in front of a device.
    pub fn new(inner: Arc<dyn BlockDevice>, capacity_bytes: u64) -> Self {
        let mut geometry = inner.geometry();
        geometry.has_volatile_cache = true;
        geometry.has_force_unit_access = true;
        let state = State {
            versions: Versions::default(),
            sequence: 0,
            is_cut: false,
            is_writing: false,
            hand: 0,
        };
        Self {
            inner,
            geometry,
            capacity_bytes,
            state: Mutex::new(state),
            is_free: Condvar::new(),
            detached: Arc::default(),
        }
    }

    /// The versions that no flush covers, by sector.
    pub fn unflushed(&self) -> Versions {
        self.state.lock().versions.clone()
    }

    /// From now on, every request answers `Gone`.
    pub fn cut(&self) {
        self.state.lock().is_cut = true;
    }

    /// Cuts, and leaves on the device below a choice of versions that depends on the seed alone.
    ///
    /// Errors are those of writing the choice to the device below.
    pub fn power_cut(&self, seed: u64) -> Result<(), DeviceError> {
        self.power_cut_with(&mut |sector, count| {
            let mut random = SplitMix::new(mix_pair(seed, sector.get()));
            random.below(count as u64 + 1) as usize
        })
    }

    /// Cuts, and leaves on the device below, for each unit of the device's sector size, the version that `pick` chooses
    /// among `0..=n`: 0 is the durable one, `n` the newest.
    pub fn power_cut_with(
        &self,
        pick: &mut dyn FnMut(SectorNr, usize) -> usize,
    ) -> Result<(), DeviceError> {
        self.cut();
        self.alone(|| {
            let versions = core::mem::take(&mut self.state.lock().versions);
            let chosen = versions.choose(self.geometry.sector_bytes, pick);
            let chosen: Vec<(u64, Version)> = chosen
                .into_iter()
                .map(|(sector, version)| (sector.get(), version))
                .collect();
            self.inner.submit(write_requests(&chosen)).wait_all()?;
            self.inner.submit(vec![Request::Flush]).wait_all()
        })
    }

    /// Does something while nobody else writes to the device below, unless the cache was cut before its turn came.
    fn exclusively<T>(
        &self,
        work: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        self.alone(|| {
            let is_cut = self.state.lock().is_cut;
            if is_cut {
                Err(DeviceError::Gone)
            } else {
                work()
            }
        })
    }

    /// Does something while nobody else writes to the device below. No lock is held meanwhile.
    fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        while state.is_writing {
            self.is_free.wait(&mut state);
        }
        state.is_writing = true;
        drop(state);
        let done = work();
        self.state.lock().is_writing = false;
        self.is_free.notify_one();
        done
    }

    /// Stores a write; its number.
    fn store(&self, sector: SectorNr, payload: &[Arc<Block>]) -> Result<u64, DeviceError> {
        let mut state = self.state.lock();
        if state.is_cut {
            return Err(DeviceError::Gone);
        }
        state.sequence += 1;
        let sequence = state.sequence;
        state.versions.add(sector, payload, sequence);
        Ok(sequence)
    }

    /// A write that is durable when it is done.
    fn write_through(&self, sector: SectorNr, payload: Payload) -> Answer {
        let sequence = self.store(sector, &payload)?;
        let request = Request::Write {
            sector,
            payload,
            force_unit_access: true,
        };
        let (_, sectors) = request.range();
        self.exclusively(|| {
            self.inner.submit(vec![request]).wait_all()?;
            self.state
                .lock()
                .versions
                .drop_through(sector, sectors, sequence);
            Ok(Outcome::Done)
        })
    }

    /// Makes durable everything that is there now.
    fn flush(&self) -> Answer {
        self.exclusively(|| {
            let (newest, sequence) = {
                let state = self.state.lock();
                let newest = state.versions.newest_from(0, state.sequence, usize::MAX);
                (newest, state.sequence)
            };
            self.inner.submit(write_requests(&newest)).wait_all()?;
            self.inner.submit(vec![Request::Flush]).wait_all()?;
            self.state.lock().versions.drop_all_through(sequence);
            Ok(Outcome::Done)
        })
    }

    /// Forgets a range, above and below.
    fn discard(&self, sector: SectorNr, sectors: u64) -> Answer {
        self.exclusively(|| {
            {
                let mut state = self.state.lock();
                let sequence = state.sequence;
                state.versions.drop_through(sector, sectors, sequence);
            }
            self.inner
                .submit(vec![Request::Discard { sector, sectors }])
                .wait_all()?;
            Ok(Outcome::Done)
        })
    }

    fn is_full(&self) -> bool {
        self.state.lock().versions.count() * SectorNr::SIZE > self.capacity_bytes
    }

    /// Writes sectors to the device below, in ascending order from where it stopped last time, until there is room.
    fn make_room(&self) {
        let evicted = self.exclusively(|| {
            while self.is_full() {
                let (evicted, sequence) = {
                    let state = self.state.lock();
                    let from = |hand| {
                        state
                            .versions
                            .newest_from(hand, state.sequence, EVICTED_SECTORS)
                    };
                    let ahead = from(state.hand);
                    (
                        if ahead.is_empty() { from(0) } else { ahead },
                        state.sequence,
                    )
                };
                self.inner.submit(write_requests(&evicted)).wait_all()?;
                let mut state = self.state.lock();
                for (sector, _) in &evicted {
                    state
                        .versions
                        .drop_through(SectorNr::new(*sector), 1, sequence);
                    state.hand = sector + 1;
                }
            }
            Ok(())
        });
        if let Err(error) = evicted {
            // The writes were acknowledged and are still here: whoever flushes next must know.
            self.detached.keep_error(error);
        }
    }

    /// Answers what the cache can answer; reads that it cannot are given back with what it knows of them.
    fn decide(&self, request: Request) -> Result<(Request, Vec<(u64, Version)>), Answer> {
        self.geometry.check(&request).map_err(Err)?;
        if self.state.lock().is_cut {
            return Err(Err(DeviceError::Gone));
        }
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let (_, sectors) = request.range();
                let known = self.state.lock().versions.newest(sector, sectors);
                if known.len() as u64 == sectors {
                    return Err(Ok(Outcome::Read(assemble(&known, blocks, block_bytes))));
                }
                Ok((request, known))
            }
            Request::Write {
                sector,
                payload,
                force_unit_access: true,
            } => Err(self.write_through(sector, payload)),
            Request::Write {
                sector, payload, ..
            } => {
                self.store(sector, &payload).map_err(Err)?;
                if self.is_full() {
                    self.make_room();
                }
                Err(Ok(Outcome::Done))
            }
            Request::Flush => Err(self.flush()),
            Request::Discard { sector, sectors } => Err(self.discard(sector, sectors)),
        }
    }
}

impl BlockDevice for CacheDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        rt::point();
        // (index in the batch, first sector, what is known) of the reads that go below.
        let mut reads = Vec::new();
        let mut number = 0;
        let ticket = forward(&*self.inner, &self.detached, batch, |request| {
            let index = number;
            number += 1;
            let (request, known) = self.decide(request)?;
            if !known.is_empty() {
                reads.push((index, request.range().0.get(), known));
            }
            Ok(request)
        });
        if reads.is_empty() {
            return ticket;
        }
        Ticket::joined(vec![ticket], move |mut parts| {
            let mut results: Results = parts.pop().unwrap_or_default();
            for (index, first, known) in reads {
                if let Ok(Outcome::Read(payload)) = &mut results[index] {
                    overlay_all(payload, first, &known);
                }
            }
            results
        })
    }

    fn name(&self) -> String {
        format!("{}+cache({})", self.inner.name(), self.capacity_bytes)
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached
            .take()
            .or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests;
