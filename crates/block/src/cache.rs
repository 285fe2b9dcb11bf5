//! A volatile write cache: it keeps writes from the device below until a flush, a forced write or
//! eviction, and may lose them at a power cut.
//!
//! The cache keeps every version of every sector since the last flush, because a power cut may
//! leave any of them. Reads return the newest version. Flushes, forced writes and evictions go to
//! the device below one at a time and within `submit`; ordinary reads and writes wait for none of
//! them, unless the cache is full.
//!
//! After a *cut* every request fails with `Gone`. A *power cut* is a cut that also writes a choice
//! of versions to the device below, which then holds what a machine would find after the power
//! returns.

mod overlay;

use core::ops::Range;
use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::{Condvar, Mutex};

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::{Answer, forward};
use crate::payload::Payload;
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};
use crate::versions::{Version, Versions, write_requests};
use overlay::{assemble, overlay_all};
use rt::split_mix::{SplitMix, mix_pair};

/// Number of sectors evicted together.
const EVICTED_SECTORS: usize = 2048;

/// A volatile cache in front of a device.
pub struct CacheDevice {
    inner: Arc<dyn BlockDevice>,
    geometry: Geometry,
    capacity_bytes: u64,
    state: Mutex<State>,
    /// Signalled when the device below is free.
    is_free: Condvar,
    detached: Arc<DetachedErrors>,
}

struct State {
    versions: Versions,
    /// Number of the last write.
    sequence: u64,
    is_cut: bool,
    /// True while a thread writes to the device below; no other thread does so then.
    is_writing: bool,
    /// Sector at which the next eviction starts.
    hand: u64,
}

impl CacheDevice {
    /// Creates a cache of `capacity_bytes` in front of a device.
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

    /// Returns the versions not covered by a flush, by sector.
    pub fn unflushed(&self) -> Versions {
        self.state.lock().versions.clone()
    }

    /// Makes every later request fail with `Gone`.
    pub fn cut(&self) {
        self.state.lock().is_cut = true;
    }

    /// Cuts the power, and writes a choice of versions that depends only on the seed to the device
    /// below.
    ///
    /// # Errors
    /// Returns the errors of those writes.
    pub fn power_cut(&self, seed: u64) -> Result<(), DeviceError> {
        self.power_cut_with(&mut |sector, count| {
            let mut random = SplitMix::new(mix_pair(seed, sector.get()));
            random.below(count as u64 + 1) as usize
        })
    }

    /// Cuts the power, and writes one version of each sector of the device below. `pick` chooses
    /// among `0..=n`: 0 is the durable version, `n` the newest.
    ///
    /// # Errors
    /// Returns the errors of those writes.
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

    /// Runs `work` while no other thread writes to the device below. Fails if the cache has been
    /// cut.
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

    /// Runs `work` while no other thread writes to the device below, without holding a lock.
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

    /// Stores a write. Returns its number.
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

    /// Writes data that is durable on completion.
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

    /// Makes all completed writes durable.
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

    /// Discards a range, in the cache and below.
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

    /// Writes sectors to the device below until there is room, in ascending order from the end of
    /// the last eviction.
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
            // The writes were acknowledged and are still in the cache: the next flush must report
            // the error.
            self.detached.keep_error(error);
        }
    }

    /// Answers a request from the cache if possible. A read that needs the device below is returned
    /// with the cached versions.
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
        // (index in the batch, first sector, cached versions) of the reads that go below.
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
        self.detached
            .take()
            .or_else(|| self.inner.take_detached_error())
    }
}

#[cfg(test)]
mod tests;
