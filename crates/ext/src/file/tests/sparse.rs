//! Holes, and blocks on both sides of every boundary of the indirect trees.

use std::sync::Arc;

use block::memory::MemoryDevice;

use testkit::Random;

use super::testing::{Bench, check, image};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::file_size::size_max;
use crate::file::{self, ByteRange, RangeChange, Sought, WriteOptions};
use crate::map::FileMap;
use crate::options::MountOptions;

/// Number of random schedules, and of attempts to evict in each.
const SEEDS: u64 = 100;
const SWEEPS: usize = 60;

/// Returns the file blocks around the boundaries of the direct, single, double and triple indirect
/// parts.
fn borders(block_bytes: u64) -> Vec<u64> {
    let width = block_bytes / 4;
    let single = 12;
    let double = single + width;
    let triple = double + width * width;
    let end = size_max(block_bytes as u32) / block_bytes;
    let mut blocks = vec![0, 1, single - 1, single, double - 1, double, double + width];
    blocks.extend([
        triple - 1,
        triple,
        triple + width,
        triple + width * width,
        end - 1,
    ]);
    blocks.retain(|block| *block < end);
    blocks
}

fn block_count(core: &Core, inode: &Inode) -> u64 {
    let state = inode.state.read();
    let mut count = 0;
    FileMap::of(&state)
        .walk(core, inode, &state, &mut |_, run| {
            count += u64::from(run.count);
            Ok(())
        })
        .unwrap();
    assert_eq!(count * core.sectors_per_block(), state.sectors);
    count
}

#[test]
fn every_border_of_the_trees_is_written_read_and_cut() {
    for block_bytes in [1024, 2048, 4096] {
        let size = block_bytes.to_string();
        let device = image(32 << 20, &["-t", "ext2", "-b", &size]);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let inode = bench.create("sparse");
        let block_bytes = block_bytes as u64;
        let blocks = borders(block_bytes);
        let mut random = Random::new(block_bytes);
        let contents: Vec<_> = blocks
            .iter()
            .map(|_| random.bytes(block_bytes as usize))
            .collect();
        for (block, bytes) in blocks.iter().zip(&contents) {
            bench.write(&inode, block * block_bytes, bytes);
        }
        let count = block_count(&bench.core, &inode);
        bench.close();
        check(&device);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let inode = bench.find("sparse");
        assert_eq!(block_count(&bench.core, &inode), count);
        for (block, bytes) in blocks.iter().zip(&contents) {
            let read = bench.read(&inode, block * block_bytes, bytes.len());
            assert!(read == *bytes, "block {block} of {block_bytes} bytes");
        }
        let hole = bench.read(&inode, 5 * block_bytes, 3000);
        assert!(hole.iter().all(|byte| *byte == 0));
        for block in blocks.iter().rev() {
            file::truncate(&bench.core, &inode, block * block_bytes + 1).unwrap();
            let state = inode.state.read().clone();
            assert_eq!(state.size, block * block_bytes + 1);
            block_count(&bench.core, &inode);
        }
        file::truncate(&bench.core, &inode, 0).unwrap();
        assert_eq!(inode.state.read().sectors, 0);
        assert_eq!(inode.state.read().words.to_raw(), [0; 15]);
        bench.close();
        check(&device);
    }
}

#[test]
fn a_file_beyond_2_gib_sets_the_feature() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096", "-O", "^large_file"]);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("large");
    bench.write(&inode, (1 << 31) - 1, b"x");
    bench.close();
    check(&device);
    let features = super::testing::debugfs(&device, "features");
    assert!(features.contains("large_file"), "{features}");
}

/// Returns a volume whose `/file` has 5000 bytes, and non-zero bytes beyond its end in its last
/// block.
fn with_bytes_behind_the_end() -> Arc<MemoryDevice> {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[7; 5000]);
    bench.close();
    let block: u64 = super::testing::debugfs(&device, "bmap /file 1")
        .trim()
        .parse()
        .unwrap();
    let device_trait: &dyn block::BlockDevice = &*device;
    let mut image = device_trait.read_block(block * 4096, 4096).unwrap();
    Arc::make_mut(&mut image)[1000..].fill(9);
    device_trait
        .write_blocks(block * 4096, vec![image])
        .unwrap();
    device
}

fn assert_only_zeroes_behind(device: &Arc<MemoryDevice>) {
    let bench = Bench::open(device.clone(), MountOptions::default());
    let bytes = bench.read(&bench.find("file"), 4990, 3000);
    assert!(bytes[..10] == [7; 10] && bytes[10..].iter().all(|byte| *byte == 0));
    bench.close();
}

#[test]
fn what_lies_beyond_the_end_is_never_seen() {
    let device = with_bytes_behind_the_end();
    for extend in [true, false] {
        let snapshot = Arc::new(device.snapshot());
        let bench = Bench::open(snapshot.clone(), MountOptions::default());
        let inode = bench.find("file");
        if extend {
            file::truncate(&bench.core, &inode, 8192).unwrap();
        } else {
            bench.write(&inode, 8000, b"end");
        }
        bench.close();
        assert_only_zeroes_behind(&snapshot);
        check(&snapshot);
    }
}

/// The page is evicted again and again, for example between the look at its contents and the look
/// at its tail.
#[test]
fn what_lies_beyond_the_end_is_never_seen_under_eviction() {
    let device = with_bytes_behind_the_end();
    let has_failed = |mutant, seed| {
        let snapshot = Arc::new(device.snapshot());
        let config = sim::Config {
            mutant,
            ..sim::Config::random(seed)
        };
        sim::run(config, move || grow_under_eviction(&snapshot)).is_err()
    };
    assert!((0..SEEDS).all(|seed| !has_failed(None, seed)));
    if rt::mutant::IS_POSSIBLE {
        let mutant = Some("truncate/evicted-tail-not-zeroed");
        assert!((0..SEEDS).any(|seed| has_failed(mutant, seed)));
    }
}

fn grow_under_eviction(device: &Arc<MemoryDevice>) {
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.find("file");
    let (core, evicted) = (Arc::clone(&bench.core), Arc::clone(&inode));
    let evictor = rt::spawn("evictor", move || {
        for _ in 0..SWEEPS {
            evicted.pages.lock().sweep(&core.pages.counts, 0, 16);
        }
    });
    file::truncate(&bench.core, &inode, 8192).unwrap();
    assert!(evictor.join().is_ok());
    drop(inode);
    bench.close();
    assert_only_zeroes_behind(device);
}

#[test]
fn writes_behind_the_largest_size_are_refused() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "1024"]);
    let bench = Bench::open(device, MountOptions::default());
    let inode = bench.create("file");
    let limit = size_max(1024);
    let options = WriteOptions::default();
    let count = file::write(&bench.core, &inode, limit - 3, b"12345", options).unwrap();
    assert_eq!(count, 3);
    let error = file::write(&bench.core, &inode, limit, b"1", options).unwrap_err();
    assert!(matches!(error, crate::Error::FileTooLarge));
    assert!(file::truncate(&bench.core, &inode, limit + 1).is_err());
    file::truncate(&bench.core, &inode, limit).unwrap();
    bench.close();
}

/// Written blocks are data before they reach the device, including the unwritten part of a block.
/// The end is a hole.
#[test]
fn data_and_holes_are_found() {
    for block_bytes in [1024, 4096] {
        let size = block_bytes.to_string();
        let device = image(32 << 20, &["-t", "ext3", "-b", &size]);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let inode = bench.create("sparse");
        let block_bytes = block_bytes as u64;
        let far = (12 + block_bytes / 4 + 7) * block_bytes;
        bench.write(&inode, 3 * block_bytes + 5, b"data");
        bench.write(&inode, far, &vec![7; 3 * block_bytes as usize]);
        file::truncate(&bench.core, &inode, far + 1_000_000_000).unwrap();
        let found = |sought, offset| file::seek(&bench.core, &inode, offset, sought).unwrap();
        for (offset, data, hole) in [
            (0, Some(3 * block_bytes), Some(0)),
            (
                3 * block_bytes - 1,
                Some(3 * block_bytes),
                Some(3 * block_bytes - 1),
            ),
            (
                3 * block_bytes,
                Some(3 * block_bytes),
                Some(4 * block_bytes),
            ),
            (
                3 * block_bytes + 9,
                Some(3 * block_bytes + 9),
                Some(4 * block_bytes),
            ),
            (4 * block_bytes, Some(far), Some(4 * block_bytes)),
            (far + 1, Some(far + 1), Some(far + 3 * block_bytes)),
            (far + 3 * block_bytes, None, Some(far + 3 * block_bytes)),
            (far + 999_999_999, None, Some(far + 999_999_999)),
            (far + 1_000_000_000, None, None),
            (u64::MAX, None, None),
        ] {
            assert_eq!(found(Sought::Data, offset), data, "data from {offset}");
            assert_eq!(found(Sought::Hole, offset), hole, "a hole from {offset}");
        }
        file::truncate(&bench.core, &inode, far + 10).unwrap();
        assert_eq!(found(Sought::Hole, far), Some(far + 10));
        bench.close();
        check(&device);
    }
}

/// Bytes of a file that is allocated in several steps.
const STEPS_BYTES: u64 = 4 << 20;

/// A truncation between two steps of an allocation that keeps the size.
#[test]
fn an_allocation_that_keeps_the_size_does_not_undo_a_truncation() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    for seed in 0..SEEDS {
        let snapshot = Arc::new(device.snapshot());
        let world = sim::run(sim::Config::random(seed), move || {
            truncate_amid_an_allocation(&snapshot);
        });
        world.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn truncate_amid_an_allocation(device: &Arc<MemoryDevice>) {
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("file");
    file::truncate(&bench.core, &inode, STEPS_BYTES).unwrap();
    let (core, cut) = (Arc::clone(&bench.core), Arc::clone(&inode));
    let cutter = rt::spawn("cutter", move || {
        file::truncate(&core, &cut, 0).unwrap();
    });
    let range = ByteRange {
        start: 0,
        end: STEPS_BYTES,
    };
    let what = RangeChange::Allocate;
    let allocated = file::change_range(&bench.core, &inode, range, what, true);
    assert!(
        matches!(allocated, Ok(()) | Err(crate::Error::Unsupported(_))),
        "{allocated:?}"
    );
    assert!(cutter.join().is_ok());
    assert_eq!(inode.state.read().size, 0, "the size of the truncation");
    drop(inode);
    bench.close();
    check(device);
}

/// A window that was read ahead before its blocks became zeroes does not come back when their pages
/// leave the cache.
#[test]
fn zeroes_replace_what_was_read_ahead() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let bench = Bench::open(device.clone(), MountOptions::default());
    bench.write(&bench.create("file"), 0, &vec![7; 256 << 10]);
    bench.close();
    let bench = Bench::open(device.clone(), MountOptions::default());
    let (core, inode) = (&bench.core, bench.find("file"));
    for block in 0..2 {
        assert_eq!(bench.read(&inode, block * 4096, 4096), [7; 4096]);
    }
    let is_ahead = !inode.pages.lock().windows.is_empty();
    assert!(is_ahead, "the next window was requested");
    let range = ByteRange {
        start: 0,
        end: 256 << 10,
    };
    file::change_range(core, &inode, range, RangeChange::Zero, true).unwrap();
    file::sync(core, &inode, false).unwrap();
    // The first sweep clears marks, the second evicts pages.
    for _ in 0..2 {
        inode.pages.lock().sweep(&core.pages.counts, 0, 1000);
    }
    let resident = core.pages.counts.resident_bytes();
    assert_eq!(resident, 0, "they were evicted");
    let found = bench.read(&inode, 0, 256 << 10);
    assert!(found.iter().all(|byte| *byte == 0), "zeroes");
    drop(inode);
    bench.close();
    check(&device);
}
