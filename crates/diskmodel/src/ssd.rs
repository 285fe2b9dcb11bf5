//! A solid-state disk: dies that work in parallel behind a page-mapping translation layer and a
//! cache in DRAM.
//!
//! - A *write* is acknowledged when it is in the cache, and waits while that is full. Slots of 4
//!   KiB are collected in the open page of a die, in rotation. A full page is programmed, and
//!   leaves the cache when that is done.
//! - A *flush* programs the open pages, full or not, and waits for all programs. With power-loss
//!   protection it takes [`SsdModel::flush_protected`], because the cache need not be emptied. A
//!   FUA write also programs its own pages.
//! - A *read* waits for the die that has the page. Data in the cache, or never written, needs no
//!   die.
//! - A die works first come, first served. When it is short of free blocks, it collects garbage
//!   first (`ftl.rs`).
//!
//! All times are computed at submission, in the order of requests. No task is needed.

mod ftl;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use block::{BlockDevice, DetachedErrors, DeviceError, Geometry, Request, Ticket};
use layout::{Block, SectorNr};
use rt::{Mutex, Nanos};

use crate::SimulatedDevice;
use crate::stats::{DiskStats, FlashStats};
use crate::timed::timed_ticket;
use ftl::{Ftl, Place};

/// Size of a slot, the unit of the translation layer, in sectors: 4 KiB.
const SLOT_SECTORS: u64 = 8;

/// Number of requests accepted before the host should hold back.
const QUEUE_DEPTH: u32 = 1_024;

/// The parameters of an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsdModel {
    /// Number of dies that work in parallel.
    pub dies: u32,
    /// Number of slots of 4 KiB in a page, the unit of programming.
    pub page_slots: u32,
    /// Number of pages in a block, the unit of erasing.
    pub block_pages: u32,
    /// Additional flash in percent of the capacity.
    pub over_provisioning_percent: u32,
    /// Time to read a page.
    pub read: Nanos,
    /// Time to program a page.
    pub program: Nanos,
    /// Time to erase a block.
    pub erase: Nanos,
    /// Time to move a page between the die and the controller.
    pub transfer: Nanos,
    /// Time of each command on the host's side.
    pub command: Nanos,
    /// Bytes per second on the host's side.
    pub bus_bytes_per_second: u64,
    /// Number of slots in the cache.
    pub cache_slots: u32,
    /// True if the cache survives a power cut.
    pub has_power_loss_protection: bool,
    /// Time of a flush with power-loss protection.
    pub flush_protected: Nanos,
}

impl Default for SsdModel {
    /// Returns the defaults of MQSim (A. Tavakkol et al., "MQSim: a framework for enabling
    /// realistic studies of modern multi-queue SSD devices", FAST 2018), without the chips' two
    /// planes and with a cache of 16 MiB.
    fn default() -> Self {
        Self {
            dies: 64,
            page_slots: 2,
            block_pages: 256,
            over_provisioning_percent: 7,
            read: Nanos::from_micros(75),
            program: Nanos::from_micros(750),
            erase: Nanos::from_micros(3_800),
            transfer: Nanos::from_micros(25),
            command: Nanos::from_micros(10),
            bus_bytes_per_second: 2_000_000_000,
            cache_slots: 4_096,
            has_power_loss_protection: false,
            flush_protected: Nanos::from_micros(20),
        }
    }
}

/// A simulated solid-state disk. It exists in the world that created it.
pub struct Ssd {
    store: Arc<dyn BlockDevice>,
    geometry: Geometry,
    name: String,
    controller: Mutex<Controller>,
    detached: Arc<DetachedErrors>,
}

impl Ssd {
    /// Creates an SSD as large as `store`, which holds its contents and must answer at once. The
    /// flash is empty: the present contents of the store count as never written.
    pub fn new(model: &SsdModel, store: Arc<dyn BlockDevice>, name: String) -> Self {
        let geometry = Geometry {
            has_volatile_cache: !model.has_power_loss_protection,
            has_force_unit_access: true,
            can_flush: true,
            queue_depth: QUEUE_DEPTH,
            ..store.geometry()
        };
        let slots = geometry.size_bytes.div_ceil(SLOT_SECTORS * 512);
        let controller = Mutex::new(Controller::new(*model, slots));
        Self {
            store,
            geometry,
            name,
            controller,
            detached: Arc::default(),
        }
    }
}

impl BlockDevice for Ssd {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, requests: Vec<Request>) -> Ticket {
        sim::settle();
        let now = rt::monotonic();
        let mut controller = self.controller.lock();
        let valid = requests
            .iter()
            .filter(|request| self.geometry.check(request).is_ok());
        let done = valid
            .map(|request| controller.take(now, request))
            .max()
            .unwrap_or(now);
        drop(controller);
        // The store charges the host for building the requests.
        timed_ticket(done, self.store.submit(requests).wait(), &self.detached)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}

impl SimulatedDevice for Ssd {
    fn stats(&self) -> DiskStats {
        let controller = self.controller.lock();
        DiskStats {
            flash: controller.flash,
            ..controller.stats.clone()
        }
    }

    /// Only known with power-loss protection.
    fn lost_by_power_cut(&self) -> Option<Vec<(SectorNr, Arc<Block>)>> {
        let is_protected = !self.geometry.has_volatile_cache;
        is_protected.then(Vec::new)
    }
}

/// The part of a die's open page that has been written.
#[derive(Debug, Clone, Default)]
struct OpenPage {
    slots: Vec<u64>,
}

struct Controller {
    model: SsdModel,
    ftl: Ftl,
    /// Time at which each die is free.
    die_free: Vec<Nanos>,
    open: Vec<OpenPage>,
    /// Die whose page is filled next.
    next_die: usize,
    bus_free: Nanos,
    /// Slots in open pages and their dies: in the cache until they are programmed.
    gathered: BTreeMap<u64, usize>,
    /// Unfinished programs by completion time, with the number of slots that they free.
    programs: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Number of slots in the cache.
    cached: usize,
    stats: DiskStats,
    flash: FlashStats,
}

impl Controller {
    fn new(model: SsdModel, slots: u64) -> Self {
        let dies = model.dies as usize;
        Self {
            ftl: Ftl::new(&model, slots),
            die_free: vec![Nanos::ZERO; dies],
            open: vec![OpenPage::default(); dies],
            next_die: 0,
            bus_free: Nanos::ZERO,
            gathered: BTreeMap::new(),
            programs: BinaryHeap::new(),
            cached: 0,
            stats: DiskStats::default(),
            flash: FlashStats::default(),
            model,
        }
    }

    /// Accepts a request and returns its completion time.
    fn take(&mut self, now: Nanos, request: &Request) -> Nanos {
        self.stats.count(request);
        let (sector, sectors) = request.range();
        let bus = self.occupy_bus(now, request, sectors);
        let first = sector.get() / SLOT_SECTORS;
        let slots = first..(sector.get() + sectors).div_ceil(SLOT_SECTORS);
        let done = match request {
            Request::Read { .. } => self.read(now, slots).max(bus),
            Request::Write {
                force_unit_access, ..
            } => {
                let cached = slots
                    .clone()
                    .map(|slot| self.write(bus, slot))
                    .max()
                    .unwrap_or(bus);
                if *force_unit_access && !self.model.has_power_loss_protection {
                    self.force(bus, slots).max(cached)
                } else {
                    cached
                }
            }
            Request::Flush => self.flush(bus),
            Request::Discard { .. } => {
                // Slots that are covered only in part keep their contents.
                let whole =
                    sector.get().div_ceil(SLOT_SECTORS)..(sector.get() + sectors) / SLOT_SECTORS;
                whole.for_each(|slot| self.ftl.forget(slot));
                bus
            }
        };
        self.stats.request_nanos.record((done - now).get());
        done
    }

    /// Occupies the bus for a command and its data. Returns the time at which the last byte has
    /// passed.
    fn occupy_bus(&mut self, now: Nanos, request: &Request, sectors: u64) -> Nanos {
        let bytes = match request {
            Request::Read { .. } | Request::Write { .. } => sectors * 512,
            Request::Flush | Request::Discard { .. } => 0,
        };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.model.bus_bytes_per_second);
        let nanos = Nanos::new(u64::try_from(nanos).expect("a request takes less than an age"));
        self.bus_free = self.bus_free.max(now) + nanos;
        self.bus_free + self.model.command
    }

    /// Occupies a die. Returns the time at which it is done.
    fn occupy_die(&mut self, now: Nanos, die: usize, time: Nanos) -> Nanos {
        self.die_free[die] = self.die_free[die].max(now) + time;
        self.die_free[die]
    }

    /// Reads slots; those of one page are read together. Returns the completion time.
    fn read(&mut self, now: Nanos, slots: core::ops::Range<u64>) -> Nanos {
        let mut done = now;
        let mut last: Option<(usize, u64)> = None;
        for slot in slots {
            if self.gathered.contains_key(&slot) {
                continue;
            }
            let Some(Place { die, page }) = self.ftl.place(slot) else {
                continue;
            };
            if last == Some((die, page)) {
                continue;
            }
            last = Some((die, page));
            self.flash.page_reads += 1;
            done = done.max(self.occupy_die(now, die, self.model.read + self.model.transfer));
        }
        done + self.model.command
    }

    /// Puts a slot into the cache when there is room. Returns that time.
    fn write(&mut self, now: Nanos, slot: u64) -> Nanos {
        self.flash.host_slots += 1;
        if self.gathered.contains_key(&slot) {
            return now;
        }
        let room = self.wait_for_room(now);
        self.cached += 1;
        let die = self.die_for_next_slot();
        self.gathered.insert(slot, die);
        self.open[die].slots.push(slot);
        if self.open[die].slots.len() == self.model.page_slots as usize {
            self.program(room, die);
            self.next_die = (die + 1) % self.die_free.len();
        }
        room
    }

    /// Returns the die whose open page takes the next slot; a page is opened only on a die with
    /// room for it.
    fn die_for_next_slot(&mut self) -> usize {
        for _ in 0..self.die_free.len() {
            let die = self.next_die;
            if !self.open[die].slots.is_empty() || self.ftl.has_room(die) {
                break;
            }
            self.next_die = (die + 1) % self.die_free.len();
        }
        self.next_die
    }

    /// Returns the time at which there is room for one more slot in the cache.
    fn wait_for_room(&mut self, now: Nanos) -> Nanos {
        let mut at = now;
        let mut is_late = false;
        while let Some(Reverse((done, slots))) = self.programs.peek().copied() {
            if done > at {
                if self.cached < self.model.cache_slots as usize {
                    break;
                }
                is_late = true;
                at = done;
            }
            self.programs.pop();
            self.cached -= slots;
        }
        self.flash.throttled_writes += u64::from(is_late);
        at
    }

    /// Programs a die's open page. Returns the completion time.
    fn program(&mut self, now: Nanos, die: usize) -> Nanos {
        let slots = core::mem::take(&mut self.open[die].slots);
        if slots.is_empty() {
            return now;
        }
        for slot in &slots {
            self.gathered.remove(slot);
        }
        let work = self.ftl.program(die, &slots);
        self.flash.programs += 1 + work.programs;
        self.flash.page_reads += work.reads;
        self.flash.moved_slots += work.moved;
        self.flash.erases += work.erases;
        let model = self.model;
        let collecting =
            model.read * work.reads + model.program * work.programs + model.erase * work.erases;
        let done = self.occupy_die(now, die, collecting + model.transfer + model.program);
        self.programs.push(Reverse((done, slots.len())));
        done
    }

    /// Programs the pages that hold these slots, or waits for their programs. Returns the
    /// completion time.
    fn force(&mut self, now: Nanos, slots: core::ops::Range<u64>) -> Nanos {
        let mut done = now;
        for slot in slots {
            if let Some(die) = self.gathered.get(&slot).copied() {
                self.program(now, die);
            }
            if let Some(Place { die, .. }) = self.ftl.place(slot) {
                done = done.max(self.die_free[die]);
            }
        }
        done
    }

    fn flush(&mut self, now: Nanos) -> Nanos {
        if self.model.has_power_loss_protection {
            return now + self.model.flush_protected;
        }
        for die in 0..self.open.len() {
            self.program(now, die);
        }
        let last = self.programs.iter().map(|Reverse((done, _))| *done).max();
        last.map_or(now, |last| last.max(now))
    }
}

#[cfg(test)]
mod tests;
