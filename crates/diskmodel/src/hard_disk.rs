//! The hard disk as a block device: [`HardDisk`].
//!
//! `submit` adds pieces of requests to the host's queue and blocks while it is full. A device task
//! submits them to the drive, sleeps until the next event, and completes tickets. Building requests
//! costs host time; serving them costs virtual time.

use std::sync::{Arc, Weak};

use block::{BlockDevice, DetachedErrors, Geometry, Request, Ticket};
use layout::{Block, SectorNr};
use rt::{Condvar, Cost, Mutex, MutexGuard, Nanos};

use crate::SimulatedDevice;
use crate::batch::{Batch, Piece, Waited};
use crate::elevator::{Class, Queueing};
use crate::host_queue::Queue;
use crate::model::DiskModel;
use crate::overwritten::{Extent, Overwritten};
use crate::stats::DiskStats;

/// A simulated hard disk with the host's elevator in front of it. It exists in the world that
/// created it.
pub struct HardDisk {
    shared: Arc<Shared>,
    geometry: Geometry,
    name: String,
    sectors_max: u64,
    detached: Arc<DetachedErrors>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when the device's task has work.
    work: Condvar,
    /// Signalled when there is room in the queue.
    room: Condvar,
    /// Contents of the platters, and of the write cache in front of them.
    store: Arc<dyn BlockDevice>,
    // [leaf] Contents below those of the write cache, if they are kept. Taken after the queue.
    overwritten: Option<Mutex<Overwritten>>,
}

impl HardDisk {
    /// Creates a disk with its contents in `store`, which must answer at once and be at least as
    /// large as the model. `keeps_overwritten` is true if the result of a power cut will be asked
    /// for.
    ///
    /// # Panics
    /// Panics outside a simulated world, or if the store is too small.
    pub fn new(
        model: &DiskModel,
        queueing: Queueing,
        store: Arc<dyn BlockDevice>,
        name: String,
        keeps_overwritten: bool,
    ) -> Self {
        let size_bytes = model.capacity_sectors * 512;
        assert!(
            store.geometry().size_bytes >= size_bytes,
            "the store holds the whole disk"
        );
        let mut queue = Queue::new(model, queueing);
        let keeps_overwritten = keeps_overwritten && model.has_write_cache;
        if keeps_overwritten {
            queue.record_destaged();
        }
        let sectors_max = queue.sectors_max();
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            room: Condvar::new(),
            store,
            overwritten: keeps_overwritten.then(Mutex::default),
        });
        let device = Arc::clone(&shared);
        sim::spawn_device(&name, move || device.run());
        let geometry = Geometry {
            size_bytes,
            sector_bytes: 512,
            has_volatile_cache: model.has_write_cache,
            has_force_unit_access: model.has_force_unit_access,
            can_flush: true,
            atomic_write_bytes: 512,
            queue_depth: queueing.requests_max,
            is_read_only: false,
        };
        Self {
            shared,
            geometry,
            name,
            sectors_max,
            detached: Arc::default(),
        }
    }

    /// Returns the number of pieces of a request.
    fn pieces(&self, request: &Request) -> u32 {
        let (_, sectors) = request.range();
        match request {
            Request::Read { .. } | Request::Write { .. } => {
                let pieces = sectors.div_ceil(self.sectors_max).max(1);
                u32::try_from(pieces).expect("a request is shorter than the disk")
            }
            Request::Flush | Request::Discard { .. } => 1,
        }
    }

    /// Adds a request to the queue, or answers it at once.
    fn enqueue<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        plan: Plan,
        piece: Piece,
    ) -> MutexGuard<'a, Queue> {
        let (class, start, end) = match plan {
            Plan::Flush => {
                queue.add_flush(piece);
                return queue;
            }
            Plan::Instant => {
                drop(queue);
                piece.batch.piece_done(piece.index, &*self.shared.store);
                return self.shared.queue.lock();
            }
            Plan::Transfer { class, start, end } => (class, start, end),
        };
        let mut from = start;
        while from < end {
            let to = end.min(from + self.sectors_max);
            let mut part = piece.clone();
            while let Err(refused) = queue.add(rt::monotonic().get(), class, from, to, part) {
                part = refused;
                queue = self.wait_for_room(queue);
            }
            from = to;
        }
        queue
    }

    fn wait_for_room<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.unplug();
        queue.count_submit_wait();
        queue.has_room_waiters = true;
        self.shared.work.notify_one();
        self.shared.room.wait(&mut queue);
        queue
    }
}

/// The treatment of a request by the queue.
#[derive(Debug, Clone, Copy)]
enum Plan {
    Flush,
    /// Completes at once.
    Instant,
    Transfer {
        class: Class,
        start: u64,
        end: u64,
    },
}

impl Plan {
    fn of(request: &Request) -> Self {
        let (sector, sectors) = request.range();
        let class = match request {
            Request::Flush => return Self::Flush,
            // These drives do not support discard: only the store forgets.
            Request::Discard { .. } => return Self::Instant,
            Request::Read { .. } => Class::Read,
            Request::Write {
                force_unit_access: true,
                ..
            } => Class::Through,
            Request::Write { .. } => Class::Write,
        };
        if sectors == 0 {
            return Self::Instant;
        }
        Self::Transfer {
            class,
            start: sector.get(),
            end: sector.get() + sectors,
        }
    }
}

impl BlockDevice for HardDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, requests: Vec<Request>) -> Ticket {
        for _ in &requests {
            rt::charge(Cost::Request);
        }
        sim::settle();
        let checks: Vec<_> = requests
            .iter()
            .map(|request| self.geometry.check(request))
            .collect();
        let plans: Vec<_> = requests.iter().map(Plan::of).collect();
        let submitted = rt::monotonic().get();
        let mut queue = self.shared.queue.lock();
        let was_plugged = queue.is_plugged();
        requests.iter().for_each(|request| queue.count(request));
        let device: Weak<dyn Waited> = Arc::<Shared>::downgrade(&self.shared);
        let detached = Arc::clone(&self.detached);
        let pieces = |request: &Request| self.pieces(request);
        let batch = Arc::new(Batch::new(requests, pieces, device, detached));
        for (index, (check, plan)) in checks.into_iter().zip(plans).enumerate() {
            match check {
                Err(error) => batch.refuse(index, error),
                Ok(()) => {
                    let piece = Piece {
                        batch: Arc::clone(&batch),
                        index,
                        submitted,
                    };
                    queue = self.enqueue(queue, plan, piece);
                }
            }
        }
        let is_wanted = queue.can_send() || (queue.is_plugged() && !was_plugged);
        drop(queue);
        if is_wanted {
            self.shared.work.notify_one();
        }
        Ticket::for_work(batch)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<block::DeviceError> {
        self.detached.take()
    }
}

impl SimulatedDevice for HardDisk {
    fn stats(&self) -> DiskStats {
        let now = rt::monotonic().get();
        self.shared.queue.lock().stats(now)
    }

    fn lost_by_power_cut(&self) -> Option<Vec<(SectorNr, Arc<Block>)>> {
        let Some(overwritten) = &self.shared.overwritten else {
            return (!self.geometry.has_volatile_cache).then(Vec::new);
        };
        let now = rt::monotonic().get();
        let mut queue = self.shared.queue.lock();
        queue.stats(now);
        let mut overwritten = overwritten.lock();
        overwritten.destaged(&queue.take_destaged());
        Some(overwritten.contents())
    }
}

impl Waited for Shared {
    fn waited_for(&self) {
        let is_wanted = self.queue.lock().unplug();
        if is_wanted {
            self.work.notify_one();
        }
    }
}

impl Shared {
    /// Returns the parts of each completed piece that are still in volatile memory; nothing if old
    /// contents are not kept.
    fn volatile(&self, queue: &mut Queue, done: &[Piece]) -> Vec<Vec<Extent>> {
        let Some(overwritten) = &self.overwritten else {
            return Vec::new();
        };
        overwritten.lock().destaged(&queue.take_destaged());
        let volatile = |piece: &Piece| {
            let written = piece.batch.last_written(piece.index);
            written.map_or_else(Vec::new, |extent| queue.volatile_within(extent))
        };
        done.iter().map(volatile).collect()
    }

    /// Keeps the contents that the write of a piece replaces.
    fn keep_overwritten(&self, piece: &Piece, volatile: &[Extent]) {
        if let (Some(overwritten), Some(extent)) =
            (&self.overwritten, piece.batch.last_written(piece.index))
        {
            let mut overwritten = overwritten.lock();
            overwritten.before_write(&*self.store, extent, volatile);
        }
    }

    /// Runs the device's task. It ends with the world.
    fn run(&self) {
        let mut done = Vec::new();
        let mut queue = self.queue.lock();
        loop {
            let next = queue.turn(rt::monotonic().get(), &mut done);
            let is_room = queue.takes_waiters();
            if !done.is_empty() || is_room {
                let volatile = self.volatile(&mut queue, &done);
                drop(queue);
                if is_room {
                    self.room.notify_all();
                }
                for (index, piece) in done.drain(..).enumerate() {
                    if let Some(volatile) = volatile.get(index) {
                        self.keep_overwritten(&piece, volatile);
                    }
                    piece.batch.piece_done(piece.index, &*self.store);
                }
                queue = self.queue.lock();
                continue;
            }
            match next {
                Some(at) => {
                    self.work.wait_until(&mut queue, Nanos::new(at));
                }
                None => self.work.wait(&mut queue),
            }
        }
    }
}
