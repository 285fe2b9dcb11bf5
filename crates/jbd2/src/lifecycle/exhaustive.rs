//! Two blocks, three transactions, all orders: the journal behaves as the table requires, and the
//! device after a crash has the contents that the model predicts.
//!
//! Between transactions nothing happens, or everything is checkpointed, or a checkpoint is started
//! and stays in flight until the next transaction is durable (or has to wait for it).

use std::sync::Arc;

use block::{BlockDevice, DeviceError, MemoryDevice};
use layout::{Block, BlockNr, Tid};

use crate::checkpoint_list::Chosen;
use crate::format::LogOptions;
use crate::lifecycle::{BlockState, Event, Rule, rule};
use crate::policy::HeldBlocks;
use crate::{Buffer, Client, Config, Credits, Error, Handle, Journal, Location, LogExtent};

const BLOCK: usize = 1024;

/// A change that a transaction makes to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    /// Dirty it (allocating it, if it was free).
    Write,
    Free,
    WriteThenFree,
    /// Free it and reuse it, as metadata or journaled data, with a new buffer.
    FreeThenReuse,
    /// Write ordered data to it, past the journal, before the transaction.
    Data,
}

const ACTS: [Act; 6] = [
    Act::Nothing,
    Act::Write,
    Act::Free,
    Act::WriteThenFree,
    Act::FreeThenReuse,
    Act::Data,
];

/// An event after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Checkpoint,
    StayInFlight,
}

const THENS: [Then; 3] = [Then::Nothing, Then::Checkpoint, Then::StayInFlight];

/// The model of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Model {
    is_logged: bool,
    is_data: bool,
    version: u8,
    /// True if its newest committed image is not at the final location.
    is_owed: bool,
    /// The write in flight, if there is one: true if it is of the newest image.
    in_flight: Option<bool>,
}

impl Model {
    fn allows(&self, act: Act) -> bool {
        match act {
            Act::Nothing => true,
            Act::Write => true,
            Act::Free | Act::WriteThenFree | Act::FreeThenReuse => self.is_logged,
            Act::Data => !self.is_logged,
        }
    }

    /// Applies an act when its transaction becomes durable.
    fn commit(&mut self, act: Act, version: u8) {
        match act {
            Act::Nothing => {}
            Act::Data => (self.is_data, self.version) = (true, version),
            Act::Write | Act::FreeThenReuse => {
                *self = Self {
                    is_logged: true,
                    is_data: false,
                    version,
                    is_owed: true,
                    in_flight: self.in_flight.map(|_| false),
                };
            }
            Act::Free | Act::WriteThenFree => *self = Self::default(),
        }
    }

    /// Completes the write in flight.
    fn complete(&mut self) {
        if let Some(is_newest) = self.in_flight.take() {
            self.is_owed = !is_newest;
        }
    }
}

struct Silent;

impl Client for Silent {
    fn commit_begins(&self, _tid: Tid) {}
    fn write_ordered_data(&self, _tid: Tid) -> Result<bool, DeviceError> {
        Ok(false)
    }
    fn committed(&self, _tid: Tid) {}
    fn home_flushed(&self, _started: u64) {}
    fn aborted(&self, error: &Error) {
        panic!("nothing fails here: {error}");
    }
}

struct World {
    device: Arc<MemoryDevice>,
    log: Location,
    journal: Arc<Journal>,
    buffers: [Arc<Buffer>; 2],
    models: [Model; 2],
    in_flight: Vec<Chosen>,
    version: u8,
}

fn image(nr: usize, version: u8) -> Arc<Block> {
    let mut block = Block::zeroed(BLOCK);
    block.fill(version);
    block[0] = nr as u8;
    block.into_arc()
}

fn buffer(nr: usize) -> Arc<Buffer> {
    Buffer::new(BlockNr::new(nr as u64), image(nr, 0))
}

fn location(device: &Arc<MemoryDevice>) -> Location {
    Location {
        device: Arc::<MemoryDevice>::clone(device),
        block_bytes: BLOCK as u32,
        extents: vec![LogExtent {
            first: BlockNr::new(2),
            count: 30,
        }],
    }
}

impl World {
    fn new(formatted: &MemoryDevice) -> Self {
        let device = Arc::new(formatted.snapshot());
        let log = location(&device);
        let home = Arc::<MemoryDevice>::clone(&device);
        let journal =
            Journal::open_quietly(log.clone(), home, Config::default(), Arc::new(Silent)).unwrap();
        Self {
            device,
            log,
            journal,
            buffers: [buffer(0), buffer(1)],
            models: [Model::default(); 2],
            in_flight: Vec::new(),
            version: 0,
        }
    }

    fn act(&mut self, handle: &mut Handle, nr: usize, act: Act) {
        let version = self.version;
        let place = self.place(nr);
        let write = |handle: &mut Handle, buffer: &Arc<Buffer>| {
            handle.replace(buffer, image(nr, version)).unwrap();
        };
        let forget = |handle: &mut Handle, buffer: &Arc<Buffer>| {
            handle.forget(buffer.nr(), Some(buffer), true).unwrap();
        };
        match act {
            Act::Nothing | Act::Data => {}
            Act::Write => self.dirty(handle, nr, place),
            Act::Free => forget(handle, &self.buffers[nr]),
            Act::WriteThenFree => {
                write(handle, &self.buffers[nr]);
                forget(handle, &self.buffers[nr]);
            }
            Act::FreeThenReuse => {
                forget(handle, &self.buffers[nr]);
                self.buffers[nr] = buffer(nr);
                write(handle, &self.buffers[nr]);
            }
        }
    }

    /// Returns the place that determines the effect on a block's contents.
    fn place(&self, nr: usize) -> BlockState {
        let (model, holds) = (self.models[nr], self.buffers[nr].lock().holds);
        match (holds.running, model.in_flight, model.is_owed) {
            (Some(_), _, _) => BlockState::Running,
            (None, Some(_), _) => BlockState::InFlight,
            (None, None, true) => BlockState::Awaiting,
            (None, None, false) => BlockState::Absent,
        }
    }

    /// Changes a block's bytes, and checks that this happens as the table requires.
    fn dirty(&self, handle: &mut Handle, nr: usize, place: BlockState) {
        let buffer = &self.buffers[nr];
        let older = (rule(place, Event::Dirty) == Rule::Copy).then(|| buffer.image());
        let bytes = older.as_ref().map(|image| Block::copy_from(image));
        handle
            .write(buffer)
            .unwrap()
            .copy_from_slice(&image(nr, self.version));
        assert_eq!(
            older.as_deref(),
            bytes.as_ref(),
            "the older image stays as it was"
        );
        // Again, in the same transaction.
        assert_eq!(rule(self.place(nr), Event::Dirty), Rule::InPlace);
        drop(older);
        let address = buffer.read().as_ptr();
        handle
            .write(buffer)
            .unwrap()
            .copy_from_slice(&image(nr, self.version));
        assert_eq!(buffer.read().as_ptr(), address);
    }

    fn transact(&mut self, acts: [Act; 2]) {
        self.version += 1;
        for (nr, act) in acts.into_iter().enumerate() {
            if act == Act::Data {
                let device: &dyn BlockDevice = &*self.device;
                device
                    .write_blocks((nr * BLOCK) as u64, vec![image(nr, self.version)])
                    .unwrap();
            }
        }
        let journal = Arc::clone(&self.journal);
        let mut handle = journal
            .start(Credits {
                blocks: 4,
                revokes: 2,
            })
            .unwrap();
        for (nr, act) in acts.into_iter().enumerate() {
            self.act(&mut handle, nr, act);
        }
        let frees = |act| matches!(act, Act::Free | Act::WriteThenFree);
        let must_wait = (0..2).any(|nr| frees(acts[nr]) && self.models[nr].in_flight.is_some());
        if must_wait {
            self.complete();
        }
        let tid = handle.finish().unwrap();
        self.journal.commit(tid).unwrap();
        for (nr, act) in acts.into_iter().enumerate() {
            self.models[nr].commit(act, self.version);
        }
        self.check_places();
        self.complete();
        self.check_places();
    }

    /// Completes the write in flight.
    fn complete(&mut self) {
        let chosen = core::mem::take(&mut self.in_flight);
        self.journal.shared().write_chosen(chosen).unwrap();
        self.models.iter_mut().for_each(Model::complete);
    }

    fn then(&mut self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Checkpoint => {
                self.journal.checkpoint_all().unwrap();
                self.models
                    .iter_mut()
                    .for_each(|model| model.is_owed = false);
            }
            Then::StayInFlight => {
                let shared = self.journal.shared();
                let last = shared.state.lock().durable;
                let mut checkpoint = shared.checkpoint.lock();
                let candidates = checkpoint.choose_through(last);
                self.in_flight = checkpoint.start(&candidates, HeldBlocks::Write);
                drop(checkpoint);
                for model in self.models.iter_mut().filter(|model| model.is_owed) {
                    model.in_flight = Some(true);
                }
            }
        }
        self.check_places();
    }

    fn check_places(&self) {
        for nr in 0..2 {
            let holds = self.buffers[nr].lock().holds;
            let model = self.models[nr];
            assert_eq!(holds.running, None);
            assert_eq!(holds.committing, None);
            assert_eq!(holds.owed.is_some(), model.is_owed, "{model:?}");
            assert_eq!(self.buffers[nr].is_clean(), !model.is_owed);
        }
        let owed = self.models.iter().filter(|model| model.is_owed).count();
        assert_eq!(self.journal.owed_bytes(), (owed * BLOCK) as u64);
    }

    /// Cuts the power and recovers.
    fn crash(self, path: &str) {
        let device = Arc::new(self.device.snapshot());
        let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let log = Location {
            device: Arc::clone(&home),
            ..self.log.clone()
        };
        crate::recovery::recover(&log, &home).unwrap();
        for (nr, model) in self.models.iter().enumerate() {
            if model.is_logged || model.is_data {
                let found = home.read_block((nr * BLOCK) as u64, BLOCK as u32).unwrap();
                assert!(
                    found == image(nr, model.version),
                    "block {nr}, {model:?}: {path}"
                );
            }
        }
    }
}

/// Runs one path: for each transaction, the acts on both blocks and the event after it. Returns
/// `None` if the model does not allow the path.
fn run(formatted: &MemoryDevice, path: &[([Act; 2], Then)]) -> Option<()> {
    let mut models = [Model::default(); 2];
    for (acts, _) in path {
        for nr in 0..2 {
            if !models[nr].allows(acts[nr]) {
                return None;
            }
            models[nr].commit(acts[nr], 0);
        }
    }
    let mut world = World::new(formatted);
    for (acts, then) in path {
        world.transact(*acts);
        world.then(*then);
    }
    world.crash(&format!("{path:?}"));
    Some(())
}

#[test]
fn two_blocks_three_transactions_all_orders() {
    for sequence in [1, 0xFFFF_FFFE] {
        let device = Arc::new(MemoryDevice::new(32 * BLOCK as u64));
        let options = LogOptions {
            sequence: Tid::new(sequence),
            ..LogOptions::default()
        };
        crate::format::create(&location(&device), &options).unwrap();
        let mut paths = 0;
        let steps: Vec<([Act; 2], Then)> = ACTS
            .iter()
            .flat_map(|first| ACTS.iter().map(move |second| [*first, *second]))
            .flat_map(|acts| THENS.iter().map(move |then| (acts, *then)))
            .collect();
        let firsts = steps.iter().filter(|(acts, _)| {
            // The two blocks are equivalent: one order of each pair in the first transaction is
            // enough.
            (acts[0] as usize) <= (acts[1] as usize)
        });
        for first in firsts {
            for second in &steps {
                for third in steps.iter().filter(|(_, then)| *then != Then::StayInFlight) {
                    paths += u32::from(run(&device, &[*first, *second, *third]).is_some());
                }
            }
        }
        assert!(paths > 10_000, "{paths} paths");
    }
}
