//! Power cuts: random operations are recorded, and at random events of the trace a random choice of
//! the device cache's contents is kept. The volume is opened again and must be clean for `e2fsck`,
//! and every file must have a possible state.
//!
//! A possible state: between the last completed fsync and the last operation started, each sector
//! is one of the versions it had, and the size one of the sizes. All blocks that were ever free
//! hold a poison, which must never appear in a file (except in writeback mode, which promises no
//! order).

use std::collections::BTreeMap;
use std::sync::Arc;

use block::BlockDevice;
use block::memory::MemoryDevice;
use block::trace::{Event, Replay, Trace};
use layout::InodeNr;

use testkit::Random;

use super::testing::{Bench, check, image, write_back};
use crate::cache::inode::Inode;
use crate::error::Error;
use crate::file::{self, ByteRange, RangeChange, WriteOptions};
use crate::namei;
use crate::options::{DataMode, MountOptions, OrderedScope};

const POISON: u8 = 0xA5;
const SECTOR: usize = 512;
/// A volume with extents. Its superblock has no checksum, which a cut between sectors would break.
const EXTENTS: &str = "ext4 -O ^metadata_csum,^64bit";
const STEPS: u64 = 120;
const CUTS: u64 = 40;

/// The contents of a file after an operation; none if it did not exist.
type Version = Option<Arc<Vec<u8>>>;

/// The known states of one name.
#[derive(Default)]
struct History {
    /// The file's contents after each operation, with the event at which the operation started.
    versions: Vec<(usize, Version)>,
    /// Number of versions that a sync call covers, with the event after which it had returned.
    synced: Vec<(usize, usize)>,
}

struct Recorder {
    trace: Arc<Trace>,
    bench: Bench,
    random: Random,
    files: BTreeMap<String, (Arc<Inode>, Vec<u8>)>,
    histories: BTreeMap<String, History>,
    /// True to allocate, zero and punch, too.
    has_ranges: bool,
}

impl Recorder {
    fn note(&mut self, name: &str, begun: usize) {
        let version = self
            .files
            .get(name)
            .map(|(_, bytes)| Arc::new(bytes.clone()));
        self.histories
            .entry(name.to_owned())
            .or_default()
            .versions
            .push((begun, version));
    }

    fn step(&mut self, number: u64) {
        let begun = self.trace.len();
        if self.files.len() < 4 {
            let name = format!("file-{}", self.random.below(12));
            if !self.files.contains_key(&name) {
                self.note(&name, 0);
                let inode = self.bench.create(&name);
                self.files.insert(name.clone(), (inode, Vec::new()));
                self.note(&name, begun);
            }
        }
        let index = self.random.below(self.files.len() as u64) as usize;
        let name = self
            .files
            .keys()
            .nth(index)
            .expect("there are so many")
            .clone();
        match self.random.below(20) {
            0..4 if self.has_ranges => self.change_range(&name),
            0..10 => self.write(&name),
            10..13 => self.truncate(&name),
            13..15 => {
                self.files.remove(&name);
                self.bench.unlink(&name);
            }
            15..18 => {
                file::sync(
                    &self.bench.core,
                    &self.files[&name].0,
                    number.is_multiple_of(2),
                )
                .unwrap();
                let after = self.trace.len();
                let history = self.histories.get_mut(&name).expect("it was made");
                history.synced.push((after, history.versions.len()));
            }
            18 => {
                if let Some(journal) = &self.bench.core.journal {
                    journal.request_commit();
                }
                write_back(&self.bench.core);
            }
            _ => {
                file::sync_all(&self.bench.core).unwrap();
                let after = self.trace.len();
                for history in self.histories.values_mut() {
                    history.synced.push((after, history.versions.len()));
                }
            }
        }
        self.note(&name, begun);
    }

    fn write(&mut self, name: &str) {
        let (inode, bytes) = self.files.get_mut(name).expect("it is there");
        let length = 1 + self.random.below(30_000) as usize;
        let offset = match self.random.below(3) {
            0 => bytes.len() as u64,
            1 => self.random.below(bytes.len() as u64 + 1),
            _ => self.random.below(100_000),
        };
        // No byte is the poison.
        let mut data = self.random.bytes(length);
        data.iter_mut().for_each(|byte| *byte &= 0x7F);
        let options = WriteOptions {
            direct: self.random.below(6) == 0,
            ..WriteOptions::default()
        };
        self.bench.write_with(inode, offset, &data, options);
        let end = offset as usize + length;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(&data);
    }

    fn change_range(&mut self, name: &str) {
        let (inode, bytes) = self.files.get_mut(name).expect("it is there");
        let start = self.random.below(bytes.len() as u64 + 1);
        let end = start + 1 + self.random.below(60_000);
        let what = match self.random.below(3) {
            0 => RangeChange::Allocate,
            1 => RangeChange::Zero,
            _ => RangeChange::PunchHole,
        };
        let is_punch = what == RangeChange::PunchHole;
        let keeps_size = is_punch || self.random.below(2) == 0;
        let range = ByteRange { start, end };
        file::change_range(&self.bench.core, inode, range, what, keeps_size).unwrap();
        if !keeps_size && bytes.len() < end as usize {
            bytes.resize(end as usize, 0);
        }
        if what != RangeChange::Allocate {
            let end = bytes.len().min(end as usize);
            bytes[start as usize..end].fill(0);
        }
    }

    fn truncate(&mut self, name: &str) {
        let (inode, bytes) = self.files.get_mut(name).expect("it is there");
        let size = match self.random.below(3) {
            0 => 0,
            1 => self.random.below(bytes.len() as u64 + 1),
            _ => self.random.below(120_000),
        };
        file::truncate(&self.bench.core, inode, size).unwrap();
        bytes.resize(size as usize, 0);
    }
}

/// Returns a volume with the poison in all free blocks.
fn poisoned(kind: &str, block_bytes: u32) -> Arc<MemoryDevice> {
    let block_size = block_bytes.to_string();
    let mut arguments = vec!["-b", &block_size, "-J", "size=4", "-t"];
    arguments.extend(kind.split(' '));
    let device = image(12 << 20, &arguments);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("poison");
    let bytes = vec![POISON; 1 << 20];
    let mut size = 0;
    loop {
        match file::write(&bench.core, &inode, size, &bytes, WriteOptions::default()) {
            Ok(count) => size += count as u64,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    file::sync(&bench.core, &inode, false).unwrap();
    bench.unlink("poison");
    bench.close();
    device
}

fn run(seed: u64, block_bytes: u32, options: &MountOptions) {
    run_on("ext3", seed, block_bytes, options);
}

fn run_on(kind: &str, seed: u64, block_bytes: u32, options: &MountOptions) {
    let initial = poisoned(kind, block_bytes);
    let trace = Trace::new();
    let device = trace
        .attach(Arc::new(initial.snapshot()))
        .with_volatile_cache(seed.is_multiple_of(2));
    let geometry = device.geometry();
    let mut recorder = Recorder {
        trace: Arc::clone(&trace),
        bench: Bench::open(Arc::new(device), options.clone()),
        random: Random::new(seed),
        files: BTreeMap::new(),
        histories: BTreeMap::new(),
        has_ranges: kind == EXTENTS,
    };
    for number in 0..STEPS {
        recorder.step(number);
    }
    let Recorder {
        bench,
        mut random,
        histories,
        ..
    } = recorder;
    bench.close();
    let events = trace.events();
    let mut cuts: Vec<usize> = (0..CUTS)
        .map(|_| random.below(events.len() as u64) as usize)
        .collect();
    cuts.sort_unstable();
    let mut replay = Replay::new(0, geometry, &initial);
    let mut at = 0;
    for cut in cuts {
        for event in &events[at..cut.max(at)] {
            replay.apply(event);
        }
        at = cut.max(at);
        let cut_seed = random.next();
        let left = match cut_seed % 4 {
            0 => replay.image_all_lost(),
            1 => replay.image_all_kept(),
            _ => replay.image(cut_seed),
        };
        let place = format!(
            "seed {seed}, cut at event {at} of {}, {cut_seed}",
            events.len()
        );
        judge(
            Arc::new(left),
            at,
            &histories,
            options,
            block_bytes as usize,
            &place,
        );
    }
    let has_all = events
        .iter()
        .any(|event| matches!(event, Event::Completed { .. }));
    assert!(has_all, "the device was used");
}

fn judge(
    device: Arc<MemoryDevice>,
    cut: usize,
    histories: &BTreeMap<String, History>,
    options: &MountOptions,
    block_bytes: usize,
    place: &str,
) {
    let bench = Bench::open(device.clone(), options.clone());
    for (name, history) in histories {
        let found = namei::lookup(&bench.core, InodeNr::ROOT, name.as_bytes());
        let contents = match found {
            Ok(nr) => {
                let inode = bench.core.inode(nr).unwrap();
                let size = inode.state.read().size;
                Some(bench.read(&inode, 0, size as usize))
            }
            Err(Error::NotFound) => None,
            Err(error) => panic!("{place}: {name}: {error}"),
        };
        judge_file(name, history, contents, cut, options, block_bytes, place);
    }
    bench.close();
    check(&device);
}

fn judge_file(
    name: &str,
    history: &History,
    contents: Option<Vec<u8>>,
    cut: usize,
    options: &MountOptions,
    block_bytes: usize,
    place: &str,
) {
    let synced = history.synced.iter().filter(|(event, _)| *event <= cut);
    let first = synced.map(|(_, count)| count - 1).max().unwrap_or(0);
    let last = history
        .versions
        .iter()
        .filter(|(begun, _)| *begun <= cut)
        .count();
    let possible: Vec<&Version> = if last == 0 {
        vec![&None]
    } else {
        history.versions[first.min(last - 1)..last]
            .iter()
            .map(|(_, version)| version)
            .collect()
    };
    let Some(contents) = contents else {
        let may_be_absent = possible.iter().any(|version| version.is_none());
        assert!(may_be_absent, "{place}: {name} is lost");
        return;
    };
    let files: Vec<&Vec<u8>> = possible
        .iter()
        .filter_map(|version| version.as_deref())
        .collect();
    assert!(!files.is_empty(), "{place}: {name} is back");
    let largest = files.iter().map(|file| file.len()).max().unwrap_or(0);
    // A write in progress may have extended the file in part.
    assert!(
        contents.len() <= largest,
        "{place}: {name} has {} bytes",
        contents.len()
    );
    let is_new_file = possible.iter().any(|version| version.is_none());
    let smallest = files.iter().map(|file| file.len()).min().unwrap_or(0);
    assert!(
        is_new_file || contents.len() >= smallest,
        "{place}: {name} is too short"
    );
    if options.data == DataMode::Writeback {
        return;
    }
    for (number, sector) in contents.chunks(SECTOR).enumerate() {
        let start = number * SECTOR;
        let is_version = |file: &&Vec<u8>| {
            let padded = file.len().next_multiple_of(block_bytes);
            let known = file.get(start..).unwrap_or_default();
            start + sector.len() <= padded
                && sector
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| known.get(at).copied().unwrap_or(0) == *byte)
        };
        assert!(
            files.iter().any(is_version),
            "{place}: {name}: bytes from {start} on of {} are no version: {:?}",
            contents.len(),
            &sector[..16.min(sector.len())]
        );
    }
}

fn options(data: DataMode) -> MountOptions {
    let mut options = MountOptions {
        data,
        ..MountOptions::default()
    };
    options.memory.budget_bytes = 2 << 20;
    options
}

#[test]
fn ordered_files_survive_power_cuts() {
    for (seed, block_bytes) in [(1, 1024), (2, 4096), (3, 1024), (4, 4096)] {
        run(seed, block_bytes, &options(DataMode::Ordered));
    }
    let allocated = MountOptions {
        ordered: OrderedScope::Allocated,
        ..options(DataMode::Ordered)
    };
    run(5, 1024, &allocated);
}

#[test]
fn journaled_files_survive_power_cuts() {
    for (seed, block_bytes) in [(11, 1024), (12, 4096), (13, 1024), (14, 2048)] {
        run(seed, block_bytes, &options(DataMode::Journal));
    }
}

#[test]
fn volumes_in_writeback_mode_survive_power_cuts() {
    for (seed, block_bytes) in [(21, 1024), (22, 4096)] {
        run(seed, block_bytes, &options(DataMode::Writeback));
    }
}

#[test]
fn files_with_extents_survive_power_cuts() {
    for (seed, block_bytes) in [(31, 1024), (32, 4096), (33, 1024)] {
        run_on(EXTENTS, seed, block_bytes, &options(DataMode::Ordered));
    }
    for (seed, block_bytes) in [(41, 1024), (42, 4096)] {
        run_on(EXTENTS, seed, block_bytes, &options(DataMode::Journal));
    }
    run_on(EXTENTS, 51, 1024, &options(DataMode::Writeback));
}

/// Truncations that take many transactions, cut off in between.
#[test]
fn long_truncations_of_extents_survive_power_cuts() {
    for (seed, mode) in [(61, DataMode::Ordered), (62, DataMode::Journal)] {
        let mut options = options(mode);
        options.tuning.log_policy.restart_every = 1;
        run_on(EXTENTS, seed, 1024, &options);
    }
}
