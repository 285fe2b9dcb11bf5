//! A very small file system over a journal: numbered blocks with versions, and a model of what they
//! should hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, DeviceError, MemoryDevice};
use jbd2::format::{Checksums, Features, LogOptions, Version};
use jbd2::{Buffer, Client, Config, Credits, Error, Journal, Location, LogExtent};
use layout::{Block, BlockNr, Tid};
use rt::{Mutex, Nanos};
use testkit::Random;

/// Blocks that the small file system has.
pub(crate) const BLOCKS: u64 = 96;
/// The place of the log, in pieces that are out of order.
const LOG_FIRST: u64 = 100;

/// The kind of a log and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) block_bytes: u32,
    pub(crate) version: Version,
    pub(crate) features: Features,
    pub(crate) is_external: bool,
    /// True for asynchronous commits.
    pub(crate) is_async: bool,
    pub(crate) log_blocks: u32,
    pub(crate) sequence: u32,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            block_bytes: 1024,
            version: Version::V2,
            features: Features::default(),
            is_external: false,
            is_async: false,
            log_blocks: 64,
            sequence: 0xFFFF_FFF0,
        }
    }
}

impl Kind {
    /// All formats.
    pub(crate) fn all() -> Vec<Self> {
        let mut kinds = vec![Self {
            version: Version::V1,
            ..Self::default()
        }];
        for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
            for is_64bit in [false, true] {
                for block_bytes in [1024, 2048, 4096] {
                    let features = Features {
                        revoke: false,
                        is_64bit,
                        checksums,
                    };
                    kinds.push(Self {
                        block_bytes,
                        features,
                        ..Self::default()
                    });
                }
            }
        }
        kinds
    }

    pub(crate) fn with_checksums(checksums: Checksums) -> Self {
        let features = Features {
            checksums,
            ..Features::default()
        };
        Self {
            features,
            ..Self::default()
        }
    }

    /// Empty devices: home, and the log's if it is another one.
    pub(crate) fn devices(&self) -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
        let home = Arc::new(MemoryDevice::new(256 * u64::from(self.block_bytes)));
        let log = if self.is_external {
            Arc::new(MemoryDevice::new(256 * u64::from(self.block_bytes)))
        } else {
            Arc::clone(&home)
        };
        (home, log)
    }

    /// The log on its device.
    pub(crate) fn location(&self, device: Arc<dyn BlockDevice>) -> Location {
        let half = self.log_blocks / 2;
        let extents = vec![
            LogExtent {
                first: BlockNr::new(LOG_FIRST + u64::from(half) + 7),
                count: half,
            },
            LogExtent {
                first: BlockNr::new(LOG_FIRST),
                count: self.log_blocks - half,
            },
        ];
        Location {
            device,
            block_bytes: self.block_bytes,
            extents,
        }
    }

    /// Makes the log.
    pub(crate) fn format(&self, device: Arc<dyn BlockDevice>) -> Location {
        let location = self.location(device);
        let options = LogOptions {
            uuid: [0x5A; 16],
            version: self.version,
            features: self.features,
            sequence: Tid::new(self.sequence),
            ..LogOptions::default()
        };
        jbd2::format::create(&location, &options).expect("memory does not fail");
        location
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            // Daemons commit only what they are asked for.
            commit_interval: Nanos::from_secs(3600),
            is_external: self.is_external,
            async_commit: self.is_async,
            ..Config::default()
        }
    }
}

/// Notes what the journal says.
pub(crate) struct Notes {
    pub(crate) committed: Mutex<Vec<Tid>>,
    pub(crate) begun: Mutex<Vec<Tid>>,
    pub(crate) aborted: Mutex<Vec<Error>>,
    pub(crate) home_flushes: Mutex<u64>,
    /// The result of the next commit's ordered data: true if it writes blocks, or its error.
    pub(crate) ordered: Mutex<Result<bool, DeviceError>>,
}

impl Notes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            committed: Mutex::default(),
            begun: Mutex::default(),
            aborted: Mutex::default(),
            home_flushes: Mutex::default(),
            ordered: Mutex::new(Ok(false)),
        })
    }
}

impl Client for Notes {
    fn commit_begins(&self, tid: Tid) {
        self.begun.lock().push(tid);
    }

    fn write_ordered_data(&self, _tid: Tid) -> Result<bool, DeviceError> {
        self.ordered.lock().clone()
    }

    fn committed(&self, tid: Tid) {
        self.committed.lock().push(tid);
    }

    fn home_flushed(&self, _started: u64) {
        *self.home_flushes.lock() += 1;
    }

    fn aborted(&self, error: &Error) {
        self.aborted.lock().push(error.clone());
    }
}

/// The expected contents of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// A journaled image of this version.
    Logged(u64),
    /// Data that was written past the journal.
    Data(u64),
    /// Anything.
    Free,
}

/// The expected contents of all blocks.
pub(crate) type Model = BTreeMap<u64, Held>;

/// A pattern that tells block and version. Some begin with the journal's magic number.
pub(crate) fn pattern(block_bytes: u32, nr: u64, version: u64) -> Arc<Block> {
    let mut block = Block::zeroed(block_bytes as usize);
    let mut random = Random::new(nr << 32 | version);
    for chunk in block.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    if version.is_multiple_of(5) {
        block[..4].copy_from_slice(&layout::journal::MAGIC_BYTES);
    }
    block.into_arc()
}

/// The small file system.
pub(crate) struct Small {
    pub(crate) kind: Kind,
    pub(crate) home: Arc<dyn BlockDevice>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) notes: Arc<Notes>,
    buffers: BTreeMap<u64, Arc<Buffer>>,
    /// The present contents of the blocks.
    pub(crate) model: Model,
    /// The contents after each transaction.
    pub(crate) after: BTreeMap<u32, Model>,
    /// Blocks freed by a transaction that is not durable yet.
    freed: Vec<(u64, Tid)>,
    version: u64,
}

impl Small {
    pub(crate) fn open(kind: Kind, home: Arc<dyn BlockDevice>, log: Location) -> Self {
        Self::open_with(kind, home, log, kind.config())
    }

    pub(crate) fn open_with(
        kind: Kind,
        home: Arc<dyn BlockDevice>,
        log: Location,
        config: Config,
    ) -> Self {
        let notes = Notes::new();
        let client: Arc<dyn Client> = Arc::<Notes>::clone(&notes);
        let journal =
            Journal::open(log, Arc::clone(&home), config, client).expect("the log is good");
        let model: Model = (0..BLOCKS).map(|nr| (nr, Held::Free)).collect();
        let first = kind.sequence;
        let after = [first.wrapping_sub(1), first]
            .map(|tid| (tid, model.clone()))
            .into();
        Self {
            kind,
            home,
            journal,
            notes,
            buffers: BTreeMap::new(),
            model,
            after,
            freed: Vec::new(),
            version: 0,
        }
    }

    pub(crate) fn buffer(&mut self, nr: u64) -> Arc<Buffer> {
        let size = self.kind.block_bytes as usize;
        let new = || Buffer::new(BlockNr::new(nr), Block::zeroed(size).into_arc());
        Arc::clone(self.buffers.entry(nr).or_insert_with(new))
    }

    /// Notes the model at the end of a handle: another thread may close its transaction next, and
    /// commit it before data is written past the journal.
    fn note(&mut self, tid: Tid) {
        self.after.insert(tid.get(), self.model.clone());
    }

    /// One handle that does a few things at random. Returns its transaction.
    pub(crate) fn step(&mut self, random: &mut Random) -> Tid {
        let journal = Arc::clone(&self.journal);
        let mut handle = journal
            .start(Credits {
                blocks: 4,
                revokes: 4,
            })
            .expect("it works");
        for _ in 0..1 + random.below(4) {
            let nr = random.below(BLOCKS);
            let is_reserved = self.freed.iter().any(|(freed, _)| *freed == nr);
            self.version += 1;
            match (self.model[&nr], random.below(4)) {
                (Held::Logged(_), 0) => {
                    let buffer = self.buffers.remove(&nr);
                    handle
                        .forget(BlockNr::new(nr), buffer.as_ref(), true)
                        .expect("it has credits");
                    self.model.insert(nr, Held::Free);
                    self.freed.push((nr, handle.tid()));
                }
                // A freed block is used again at once, as metadata, now and then.
                (Held::Free, choice) if is_reserved && choice < 2 => {}
                (_, choice) => {
                    let image = pattern(self.kind.block_bytes, nr, self.version);
                    let buffer = self.buffer(nr);
                    if choice == 1 {
                        handle.replace(&buffer, image).expect("it has credits");
                    } else {
                        handle
                            .write(&buffer)
                            .expect("it has credits")
                            .copy_from_slice(&image);
                    }
                    self.model.insert(nr, Held::Logged(self.version));
                    self.freed.retain(|(freed, _)| *freed != nr);
                }
            }
        }
        self.note(handle.tid());
        handle.finish().expect("it works")
    }

    /// Writes one block, in a transaction of its own handle.
    pub(crate) fn write(&mut self, nr: u64) -> Tid {
        let journal = Arc::clone(&self.journal);
        let mut handle = journal.start(Credits::blocks(1)).expect("it works");
        self.version += 1;
        let image = pattern(self.kind.block_bytes, nr, self.version);
        let buffer = self.buffer(nr);
        handle.replace(&buffer, image).expect("it has credits");
        self.model.insert(nr, Held::Logged(self.version));
        self.note(handle.tid());
        handle.finish().expect("it works")
    }

    /// Frees one block.
    pub(crate) fn free(&mut self, nr: u64) -> Tid {
        let journal = Arc::clone(&self.journal);
        let mut handle = journal
            .start(Credits {
                blocks: 0,
                revokes: 1,
            })
            .expect("it works");
        let buffer = self.buffers.remove(&nr);
        handle
            .forget(BlockNr::new(nr), buffer.as_ref(), true)
            .expect("it has credits");
        self.model.insert(nr, Held::Free);
        self.freed.push((nr, handle.tid()));
        self.note(handle.tid());
        handle.finish().expect("it works")
    }

    /// Commits what runs and notes the model as it is then.
    pub(crate) fn commit(&mut self) -> Option<Tid> {
        if let Some(tid) = self.journal.running() {
            self.after.insert(tid.get(), self.model.clone());
        }
        self.journal.commit_running().expect("it works")
    }

    /// Writes data past the journal into a block that was freed durably, if there is one.
    pub(crate) fn write_data(&mut self) {
        let committed = self.notes.committed.lock().clone();
        let Some(at) = self
            .freed
            .iter()
            .position(|(_, tid)| committed.contains(tid))
        else {
            return;
        };
        let (nr, _) = self.freed.remove(at);
        self.version += 1;
        let image = pattern(self.kind.block_bytes, nr, self.version);
        let offset = nr * u64::from(self.kind.block_bytes);
        self.home
            .write_blocks(offset, vec![image])
            .expect("memory does not fail");
        self.home.flush().expect("memory does not fail");
        self.model.insert(nr, Held::Data(self.version));
    }
}

/// Checks that a recovered device has the contents of the model.
pub(crate) fn check(kind: Kind, home: &MemoryDevice, model: &Model, context: &str) {
    let bytes = home.to_bytes();
    let size = kind.block_bytes as usize;
    for (nr, held) in model {
        let version = match held {
            Held::Logged(version) | Held::Data(version) => *version,
            Held::Free => continue,
        };
        let at = *nr as usize * size;
        let expect = pattern(kind.block_bytes, *nr, version);
        assert!(
            bytes[at..at + size] == expect[..],
            "block {nr} is not {held:?}: {context}"
        );
    }
}
