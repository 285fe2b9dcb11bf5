//! The mechanism itself, checked on the record of all requests, in hostile worlds with several
//! threads:
//!
//! 1. every log block of a transaction is complete before its commit block is submitted, and a
//!    flush after that too; the commit block is forced;
//! 2. no block goes home before a transaction with this very image is durable;
//! 3. the tail passes a transaction only when each of its blocks is home and flushed, or in a later
//!    durable transaction, or freed by one;
//! 4. no log block is written while it belongs to a transaction that the durable superblock still
//!    needs;
//! 5. the first commit block is submitted only when the superblock that says where the log begins
//!    is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, Event, MemoryDevice, Request, Trace};
use jbd2::LogPolicy;
use layout::journal::{BlockType, Header, JournalSuperblock, MAGIC_BYTES};
use layout::tag::{TagFlags, TagFormat};
use layout::{Block, BlockNr, Tid};
use zerocopy::FromBytes;

use crate::harness::Kind;
use crate::stress::{Started, start};

const HOME: usize = 0;
const LOG: usize = 1;

/// A transaction as the checker knows it.
#[derive(Default)]
struct Logged {
    images: BTreeMap<u64, Arc<Block>>,
    revokes: Vec<u64>,
    is_durable: bool,
}

/// The history of a block's image after it was logged.
#[derive(Clone, Default)]
struct Home {
    image: Option<Arc<Block>>,
    is_flushed: bool,
}

#[derive(Default)]
struct Checker {
    transactions: BTreeMap<u32, Logged>,
    /// The last transaction that wrote each log block.
    owner: BTreeMap<u64, u32>,
    home: BTreeMap<u64, Home>,
    /// Requests in flight, by batch.
    in_flight: BTreeMap<u64, (usize, Arc<Vec<Request>>)>,
    /// Homes that were complete when a flush in flight was submitted.
    flushing: BTreeMap<u64, Vec<u64>>,
    /// True if the log has been flushed since its last ordinary write was complete.
    is_log_flushed: bool,
    log_flushes: BTreeMap<u64, u64>,
    log_writes: u64,
    /// `s_sequence` and whether `s_start` is set, as it is durable.
    durable: Option<(u32, bool)>,
    /// The same of a superblock that was written without force and has not been flushed.
    written: Option<(u32, bool)>,
    commits: u32,
}

fn writes(requests: &[Request]) -> impl Iterator<Item = (u64, &Arc<Block>, bool)> {
    requests.iter().flat_map(|request| match request {
        Request::Write {
            sector,
            payload,
            force_unit_access,
        } => {
            let first = sector.get() / 2;
            let blocks = payload.iter().enumerate();
            blocks
                .map(|(index, block)| (first + index as u64, block, *force_unit_access))
                .collect()
        }
        _ => Vec::new(),
    })
}

/// `s_sequence` of a journal's superblock, and whether its `s_start` is set.
fn tail_of(block: &Block) -> (u32, bool) {
    let (raw, _) = JournalSuperblock::ref_from_prefix(block).expect("it is one");
    (raw.sequence.get(), raw.start.get() != 0)
}

impl Checker {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } => {
                self.in_flight
                    .insert(*batch, (*device, Arc::clone(requests)));
                let is_flush = requests
                    .iter()
                    .any(|request| matches!(request, Request::Flush));
                match (*device, is_flush) {
                    (HOME, true) => {
                        let complete = |home: &&Home| home.image.is_some();
                        let done = self.home.iter().filter(|(_, home)| complete(home));
                        let done: Vec<u64> = done.map(|(nr, _)| *nr).collect();
                        self.flushing.insert(*batch, done);
                    }
                    (LOG, true) => drop(self.log_flushes.insert(*batch, self.log_writes)),
                    (HOME, false) => self.submit_home(requests),
                    _ => self.submit_log(requests),
                }
            }
            Event::Completed { batch, results, .. } => {
                assert!(results.iter().all(Result::is_ok), "nothing fails here");
                if let Some((device, requests)) = self.in_flight.remove(batch) {
                    self.complete(*batch, device, &requests);
                }
            }
            _ => {}
        }
    }

    /// Rule 2.
    fn submit_home(&mut self, requests: &[Request]) {
        for (nr, image, _) in writes(requests) {
            let is_durable = self.transactions.values().any(|logged| {
                logged.is_durable && logged.images.get(&nr).is_some_and(|it| ***it == ***image)
            });
            assert!(is_durable, "block {nr} goes home before it is durable");
            // Until this is complete nothing is known about it.
            self.home.insert(nr, Home::default());
        }
    }

    fn submit_log(&mut self, requests: &[Request]) {
        let blocks: Vec<_> = writes(requests).collect();
        let Some((_, first, is_forced)) = blocks.first() else {
            return;
        };
        let Some((kind, tid)) = Header::recognise(first) else {
            panic!("a log write has a header")
        };
        match kind {
            BlockType::SuperblockV1 | BlockType::SuperblockV2 => {
                self.check_tail(tail_of(first).0);
                return;
            }
            BlockType::Commit => {
                let is_waiting = self.in_flight.values().filter(|(device, requests)| {
                    let first = writes(requests).next();
                    let head = first.and_then(|(_, block, _)| Header::recognise(block));
                    let is_superblock = matches!(
                        head,
                        Some((BlockType::SuperblockV1 | BlockType::SuperblockV2, _))
                    );
                    *device == LOG && head.is_some() && !is_superblock
                });
                assert_eq!(
                    is_waiting.count(),
                    1,
                    "rule 1: only the commit block is in flight"
                );
                assert!(
                    self.is_log_flushed,
                    "rule 1: {tid} is not flushed before its commit block"
                );
                assert!(is_forced, "rule 1: the commit block of {tid} is forced");
                let has_start = self.durable.is_some_and(|(_, has_start)| has_start);
                assert!(has_start, "rule 5: {tid} could not be found");
            }
            _ => self.note_images(tid, &blocks),
        }
        for (at, _, _) in &blocks {
            if let Some(owner) = self.owner.insert(*at, tid) {
                let needed = self.durable.map_or(0, |(sequence, _)| sequence);
                let is_free = owner == tid || Tid::new(needed).is_after(Tid::new(owner));
                assert!(
                    is_free,
                    "rule 4: {tid} overwrites {owner}, {needed} is needed"
                );
            }
        }
    }

    fn note_images(&mut self, tid: u32, blocks: &[(u64, &Arc<Block>, bool)]) {
        let format = TagFormat::default();
        let logged = self.transactions.entry(tid).or_default();
        let mut blocks = blocks.iter();
        while let Some((_, block, _)) = blocks.next() {
            match Header::recognise(block) {
                Some((BlockType::Revoke, _)) => {
                    let entries = layout::revoke::entries(format, block).expect("it is good");
                    logged.revokes.extend(entries.map(BlockNr::get));
                }
                Some((BlockType::Descriptor, _)) => {
                    for tag in format.tags(block) {
                        let (_, image, _) = blocks.next().expect("an image for each tag");
                        let mut image = Block::copy_from(image);
                        if tag.flags.contains(TagFlags::ESCAPE) {
                            image[..4].copy_from_slice(&MAGIC_BYTES);
                        }
                        logged.images.insert(tag.home.get(), image.into_arc());
                    }
                }
                _ => panic!("a log begins with descriptors"),
            }
        }
    }

    fn complete(&mut self, batch: u64, device: usize, requests: &[Request]) {
        if let Some(homes) = self.flushing.remove(&batch) {
            for nr in homes {
                let home = self.home.entry(nr).or_default();
                home.is_flushed = home.image.is_some();
            }
        }
        if let Some(covered) = self.log_flushes.remove(&batch) {
            self.is_log_flushed = covered == self.log_writes;
            if let Some(written) = self.written.take_if(|_| covered == self.log_writes) {
                self.durable = Some(written);
            }
        }
        for (nr, image, is_forced) in writes(requests) {
            if device == HOME {
                self.home.insert(
                    nr,
                    Home {
                        image: Some(Arc::clone(image)),
                        is_flushed: false,
                    },
                );
                continue;
            }
            match Header::recognise(image) {
                Some((BlockType::SuperblockV1 | BlockType::SuperblockV2, _)) if is_forced => {
                    (self.durable, self.written) = (Some(tail_of(image)), None);
                }
                Some((BlockType::SuperblockV1 | BlockType::SuperblockV2, _)) => {
                    self.written = Some(tail_of(image));
                    self.is_log_flushed = false;
                    self.log_writes += 1;
                }
                Some((BlockType::Commit, tid)) if is_forced => {
                    self.transactions.entry(tid).or_default().is_durable = true;
                    self.commits += 1;
                }
                _ => {
                    self.is_log_flushed = false;
                    self.log_writes += 1;
                }
            }
        }
    }

    /// Rule 3: what the new tail passes is settled.
    fn check_tail(&self, sequence: u32) {
        let tail = Tid::new(sequence);
        for (tid, logged) in &self.transactions {
            if !tail.is_after(Tid::new(*tid)) || !logged.is_durable {
                continue;
            }
            for (nr, image) in &logged.images {
                let is_taken_over = self.transactions.iter().any(|(later, it)| {
                    it.is_durable
                        && Tid::new(*later).is_after(Tid::new(*tid))
                        && (it.images.contains_key(nr) || it.revokes.contains(nr))
                });
                let is_home = self.home.get(nr).is_some_and(|home| {
                    home.is_flushed && home.image.as_ref().is_some_and(|it| ***it == ***image)
                });
                assert!(
                    is_home || is_taken_over,
                    "rule 3: block {nr} of {tid}, tail at {sequence}"
                );
            }
        }
    }
}

fn record(policy: LogPolicy, log_blocks: u32) -> Vec<Event> {
    let kind = Kind {
        is_external: true,
        log_blocks,
        ..Kind::default()
    };
    let (home, log) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&log));
    let trace = Trace::new();
    let home: Arc<dyn BlockDevice> = Arc::new(trace.attach(home).with_volatile_cache(true));
    let log: Arc<dyn BlockDevice> = Arc::new(trace.attach(log).with_volatile_cache(true));
    let Started { bench, writers } = start(kind, policy, 4, 60, home, log);
    for writer in writers {
        writer.join().expect("no panic").expect("it works");
    }
    Arc::clone(&bench.journal).close().expect("it works");
    trace.events()
}

#[test]
fn the_rules_hold_in_hostile_worlds() {
    let mut commits = 0;
    for seed in 0..60 {
        let policy = if seed % 3 == 0 {
            LogPolicy::LINUX24
        } else {
            LogPolicy::DEFAULT
        };
        let log_blocks = if seed % 2 == 0 { 64 } else { 100 };
        let world = sim::Config::random(seed);
        let report = sim::run(world, move || record(policy, log_blocks))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut checker = Checker::default();
        report.value.iter().for_each(|event| checker.apply(event));
        commits += checker.commits;
    }
    assert!(commits > 1000, "{commits}");
}
