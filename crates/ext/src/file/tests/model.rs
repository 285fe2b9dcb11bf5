//! Random reads, writes and truncations against a vector of bytes.

use std::sync::Arc;

use testkit::Random;

use super::testing::write_back;
use super::testing::{Bench, check, image};
use crate::cache::inode::Inode;
use crate::error::Error;
use crate::file::{self, ByteRange, RangeChange, WriteOptions};
use crate::map::FileMap;
use crate::options::{DataMode, MountOptions, OrderedScope};
use crate::tuning::AllocationProfile;

const SIZE_MAX: u64 = 3 << 20;

struct Pair {
    name: String,
    inode: Arc<Inode>,
    bytes: Vec<u8>,
}

/// Runs random operations on a few files, with remounts; then compares and checks everything.
fn run(seed: u64, block_bytes: u32, kind: &str, options: MountOptions) {
    let block_size = block_bytes.to_string();
    let mut arguments = vec!["-b", &block_size, "-t"];
    arguments.extend(kind.split(' '));
    let device = image(48 << 20, &arguments);
    let mut random = Random::new(seed);
    let mut bench = Bench::open(device.clone(), options.clone());
    let mut files: Vec<Pair> = Vec::new();
    for step in 0..400 {
        if files.len() < 3 || random.below(40) == 0 {
            let name = format!("file-{step}");
            files.push(Pair {
                inode: bench.create(&name),
                name,
                bytes: Vec::new(),
            });
        }
        let index = random.below(files.len() as u64) as usize;
        match random.below(100) {
            0..45 => write(&bench, &mut files[index], &mut random),
            45..70 => read(&bench, &files[index], &mut random),
            70..79 => truncate(&bench, &mut files[index], &mut random),
            79..83 => change_range(&bench, &mut files[index], &mut random),
            83..85 => move_blocks(&bench, &mut files[index], &mut random),
            85..90 => file::sync(&bench.core, &files[index].inode, random.below(2) == 0).unwrap(),
            90..93 => file::sync_all(&bench.core).unwrap(),
            93..96 => {
                let pair = files.swap_remove(index);
                bench.unlink(&pair.name);
            }
            96..98 => write_back(&bench.core),
            _ => {
                for pair in &files {
                    compare(&bench, pair);
                }
                let names: Vec<_> = files
                    .drain(..)
                    .map(|pair| (pair.name, pair.bytes))
                    .collect();
                bench.close();
                check(&device);
                bench = Bench::open(device.clone(), options.clone());
                for (name, bytes) in names {
                    files.push(Pair {
                        inode: bench.find(&name),
                        name,
                        bytes,
                    });
                }
            }
        }
    }
    for pair in &files {
        compare(&bench, pair);
    }
    drop(files);
    bench.close();
    check(&device);
}

fn write(bench: &Bench, pair: &mut Pair, random: &mut Random) {
    let length = match random.below(4) {
        0 => 1 + random.below(64),
        1 => 4096,
        2 => 1 + random.below(20_000),
        _ => 1 + random.below(200_000),
    };
    let size = pair.bytes.len() as u64;
    let offset = match random.below(4) {
        0 => size,
        1 => random.below(SIZE_MAX - length),
        2 => random.below(size + 1).min(SIZE_MAX - length) / 4096 * 4096,
        _ => random.below(size + 1).min(SIZE_MAX - length),
    };
    let offset = if offset + length > SIZE_MAX {
        0
    } else {
        offset
    };
    let bytes = random.bytes(length as usize);
    let options = WriteOptions {
        sync: random.below(30) == 0,
        data_sync: random.below(30) == 0,
        direct: random.below(8) == 0,
        append: random.below(8) == 0 && size + length <= SIZE_MAX,
        bounded: false,
    };
    let count = file::write(&bench.core, &pair.inode, offset, &bytes, options).unwrap();
    assert_eq!(count, bytes.len());
    let start = if options.append {
        pair.bytes.len()
    } else {
        offset as usize
    };
    let end = start + count;
    if pair.bytes.len() < end {
        pair.bytes.resize(end, 0);
    }
    pair.bytes[start..end].copy_from_slice(&bytes);
}

fn read(bench: &Bench, pair: &Pair, random: &mut Random) {
    let length = 1 + random.below(100_000) as usize;
    let start = random.below(pair.bytes.len() as u64 + 1000) as usize;
    let expected = pair.bytes.get(start..).unwrap_or_default();
    let expected = &expected[..expected.len().min(length)];
    if random.below(8) == 0 {
        let mut bytes = vec![0xEE; length];
        let read =
            file::read_direct(&bench.core, &pair.inode, None, start as u64, &mut bytes).unwrap();
        assert!(
            bytes[..read] == *expected,
            "{}: direct, {length} at {start}",
            pair.name
        );
        return;
    }
    let bytes = bench.read(&pair.inode, start as u64, length);
    assert!(bytes == expected, "{}: {length} at {start}", pair.name);
}

fn truncate(bench: &Bench, pair: &mut Pair, random: &mut Random) {
    let size = pair.bytes.len() as u64;
    let new = match random.below(5) {
        0 => 0,
        1 => size,
        2 => random.below(SIZE_MAX),
        _ => random.below(size + 1),
    };
    file::truncate(&bench.core, &pair.inode, new).unwrap();
    pair.bytes.resize(new as usize, 0);
}

fn change_range(bench: &Bench, pair: &mut Pair, random: &mut Random) {
    let size = pair.bytes.len() as u64;
    let start = random.below(size + 20_000);
    let end = (start + 1 + random.below(400_000)).min(SIZE_MAX);
    let range = ByteRange { start, end };
    let has_unwritten = FileMap::of(&pair.inode.state.read()).has_unwritten();
    let kind = random.below(4);
    let what = match kind {
        0 => RangeChange::Allocate,
        1 => RangeChange::Zero,
        _ => RangeChange::PunchHole,
    };
    let keeps_size = kind > 1 || has_unwritten && random.below(2) == 0;
    file::change_range(&bench.core, &pair.inode, range, what, keeps_size).unwrap();
    if !keeps_size && end > size {
        pair.bytes.resize(end as usize, 0);
    }
    if what != RangeChange::Allocate {
        let end = pair.bytes.len().min(end as usize);
        let start = end.min(start as usize);
        pair.bytes[start..end].fill(0);
    }
}

/// Collapses or inserts a range of whole blocks.
fn move_blocks(bench: &Bench, pair: &mut Pair, random: &mut Random) {
    if !FileMap::of(&pair.inode.state.read()).has_unwritten() {
        return change_range(bench, pair, random);
    }
    let size = pair.bytes.len() as u64;
    let block_bytes = u64::from(bench.core.geometry().block_bytes);
    let start = random.below(size / block_bytes + 1) * block_bytes;
    let length = (1 + random.below(60)) * block_bytes;
    let end = start + length;
    let is_collapse = size + length > SIZE_MAX || random.below(2) == 0;
    let (what, is_refused) = match is_collapse {
        true => (RangeChange::Collapse, end >= size),
        false => (RangeChange::Insert, start >= size),
    };
    let range = ByteRange { start, end };
    let changed = file::change_range(&bench.core, &pair.inode, range, what, false);
    if is_refused {
        assert!(matches!(changed, Err(Error::Invalid(_))), "{changed:?}");
        return;
    }
    changed.unwrap();
    let (start, end) = (start as usize, end as usize);
    if is_collapse {
        pair.bytes.drain(start..end);
    } else {
        pair.bytes.splice(start..start, vec![0; end - start]);
    }
}

fn compare(bench: &Bench, pair: &Pair) {
    assert_eq!(
        pair.inode.state.read().size,
        pair.bytes.len() as u64,
        "{}",
        pair.name
    );
    let bytes = bench.read(&pair.inode, 0, pair.bytes.len() + 1);
    let differs = bytes
        .iter()
        .zip(&pair.bytes)
        .position(|(ours, theirs)| ours != theirs);
    assert_eq!(differs, None, "{} differs", pair.name);
}

fn options(data: DataMode) -> MountOptions {
    MountOptions {
        data,
        ..MountOptions::default()
    }
}

fn small_memory(data: DataMode) -> MountOptions {
    let mut options = options(data);
    options.memory.budget_bytes = 1 << 20;
    options
}

#[test]
fn files_without_a_journal() {
    for (seed, block_bytes) in [(1, 1024), (2, 2048), (3, 4096)] {
        run(seed, block_bytes, "ext2", options(DataMode::Ordered));
        run(
            seed + 10,
            block_bytes,
            "ext2",
            small_memory(DataMode::Ordered),
        );
    }
}

#[test]
fn files_as_linux_2_4_places_them() {
    let mut options = options(DataMode::Ordered);
    options.tuning.allocation = AllocationProfile::Ext3Linux24;
    run(4, 1024, "ext2", options.clone());
    run(5, 4096, "ext2", options);
}

#[test]
fn files_in_ordered_mode() {
    for (seed, block_bytes) in [(21, 1024), (22, 2048), (23, 4096)] {
        run(seed, block_bytes, "ext3", options(DataMode::Ordered));
        run(
            seed + 10,
            block_bytes,
            "ext3",
            small_memory(DataMode::Ordered),
        );
    }
    let allocated = MountOptions {
        ordered: OrderedScope::Allocated,
        ..MountOptions::default()
    };
    run(29, 4096, "ext3", allocated);
}

#[test]
fn files_in_writeback_mode() {
    for (seed, block_bytes) in [(41, 1024), (42, 2048), (43, 4096)] {
        run(seed, block_bytes, "ext3", options(DataMode::Writeback));
    }
}

#[test]
fn files_in_journal_mode() {
    for (seed, block_bytes) in [(61, 1024), (62, 2048), (63, 4096)] {
        run(seed, block_bytes, "ext3", options(DataMode::Journal));
        run(
            seed + 10,
            block_bytes,
            "ext3",
            small_memory(DataMode::Journal),
        );
    }
}

#[test]
fn files_with_extents() {
    let extents = "ext4 -O ^metadata_csum,^64bit,^flex_bg,^huge_file";
    for (seed, block_bytes) in [(81, 1024), (82, 2048), (83, 4096)] {
        let none = format!("{extents},^has_journal");
        run(seed, block_bytes, &none, options(DataMode::Ordered));
        run(
            seed + 10,
            block_bytes,
            extents,
            small_memory(DataMode::Ordered),
        );
        run(seed + 20, block_bytes, "ext4", options(DataMode::Journal));
        run(
            seed + 30,
            block_bytes,
            "ext4",
            small_memory(DataMode::Writeback),
        );
    }
    let mut restarts = options(DataMode::Journal);
    restarts.tuning.log_policy.restart_every = 1;
    run(119, 1024, "ext4", restarts);
    for (seed, data) in [(120, DataMode::Ordered), (121, DataMode::Journal)] {
        let mut options = options(data);
        options.tuning.log_policy.restart_every = 1;
        run(seed, 1024, "ext4", options);
    }
}

#[test]
fn files_with_extents_as_linux_2_4_places_them() {
    let mut options = options(DataMode::Ordered);
    options.tuning.allocation = AllocationProfile::Ext3Linux24;
    run(84, 1024, "ext4", options);
}
