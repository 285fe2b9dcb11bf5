//! Delayed allocation: blocks for data that was written into holes.

use std::sync::Arc;

use block::fault::Operations;
use block::memory::MemoryDevice;
use layout::FileBlock;
use testkit::Random;

use super::testing::{self, Bench, assert_notices, check, image};
use crate::Error;
use crate::cache::inode::Inode;
use crate::file::{self, ByteRange, RangeChange, Sought, WriteOptions};
use crate::map::{FileMap, Visited};
use crate::namei::{self, RenameMode};
use crate::options::MountOptions;
use crate::volume::close_core;
use layout::InodeNr;
use rt::atomic::Ordering;

fn volume(options: MountOptions) -> (Arc<MemoryDevice>, Bench) {
    let device = image(32 << 20, &["-t", "ext4", "-b", "1024"]);
    let bench = Bench::open(device.clone(), options);
    (device, bench)
}

/// Returns the number of extents of a file, and of its blocks.
fn extents(bench: &Bench, inode: &Arc<Inode>) -> (usize, u64) {
    let state = inode.state.read();
    let (mut count, mut blocks, mut end) = (0, 0, None);
    let core = &bench.core;
    FileMap::of(&state)
        .walk(core, inode, &state, &mut |visited, run| {
            if let Visited::Data(_) = visited {
                count += usize::from(end != Some(run.first));
                blocks += u64::from(run.count);
                end = Some(run.end());
            }
            Ok(())
        })
        .unwrap();
    (count, blocks)
}

/// Returns the number of pages without a block, and of blocks that are claimed for them.
fn delayed(bench: &Bench) -> (u64, u64) {
    let core = &bench.core;
    let claimed = core.space.delayed_clusters.load(Ordering::Relaxed);
    (core.pages.counts.delayed(), claimed)
}

/// Returns the file after a power cut: only what was committed.
fn after_cut(device: &MemoryDevice, bench: Bench, name: &str) -> (Vec<u8>, Arc<MemoryDevice>) {
    bench
        .core
        .journal
        .as_ref()
        .unwrap()
        .commit_running()
        .unwrap();
    let copy = Arc::new(device.snapshot());
    let again = Bench::open(copy.clone(), MountOptions::default());
    let inode = again.find(name);
    let size = inode.state.read().size as usize;
    let bytes = again.read(&inode, 0, size);
    again.close();
    check(&copy);
    (bytes, copy)
}

#[test]
fn files_that_grow_in_turn_have_one_extent_each() {
    let (device, bench) = volume(MountOptions::default());
    let free = bench.core.usage().blocks_free;
    let files = ["a", "b", "c"].map(|name| bench.create(name));
    let bytes = Random::new(1).bytes(3000);
    for step in 0..50 {
        for inode in &files {
            bench.write(inode, step * 3000, &bytes);
        }
    }
    let pages = 3 * 150_000_u64.div_ceil(1024);
    assert_eq!(delayed(&bench).0, pages);
    assert!(free - bench.core.usage().blocks_free >= pages);
    for inode in &files {
        assert_eq!(extents(&bench, inode), (0, 0));
        assert_eq!(bench.read(inode, 6000, 3000), bytes);
        file::sync(&bench.core, inode, true).unwrap();
        assert_eq!(extents(&bench, inode), (1, 147));
    }
    assert_eq!(delayed(&bench), (0, 0));
    bench.close();
    check(&device);
}

#[test]
fn what_was_taken_is_there_and_no_byte_more_is_taken() {
    for block_bytes in ["1024", "4096"] {
        let device = image(8 << 20, &["-t", "ext4", "-b", block_bytes, "-m", "0"]);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let mut random = Random::new(7);
        let mut files = Vec::new();
        // Holes between the pieces: every block is an extent, and the trees need nodes.
        'full: for number in 0.. {
            let inode = bench.create(&format!("file-{number}"));
            let mut bytes = Vec::new();
            for _ in 0..600 {
                let length = 1 + random.below(900) as usize;
                let piece = random.bytes(length);
                let at = bytes.len() + random.below(3) as usize * 4096;
                match file::write(
                    &bench.core,
                    &inode,
                    at as u64,
                    &piece,
                    WriteOptions::default(),
                ) {
                    Ok(count) => {
                        bytes.resize(at, 0);
                        bytes.extend_from_slice(&piece[..count]);
                    }
                    Err(Error::NoSpace) => {
                        files.push((inode, bytes));
                        break 'full;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            files.push((inode, bytes));
        }
        file::sync_all(&bench.core).unwrap();
        assert_eq!(delayed(&bench), (0, 0));
        assert!(
            bench.core.usage().blocks_free < 12,
            "{:?}",
            bench.core.usage()
        );
        for (inode, bytes) in &files {
            assert_eq!(bench.read(inode, 0, bytes.len() + 1), *bytes);
        }
        bench.close();
        check(&device);
        let bench = Bench::open(device, MountOptions::default());
        for (number, (_, bytes)) in files.iter().enumerate() {
            let inode = bench.find(&format!("file-{number}"));
            assert_eq!(bench.read(&inode, 0, bytes.len() + 1), *bytes);
        }
        bench.close();
    }
}

#[test]
fn data_that_is_dropped_in_time_never_takes_a_block() {
    let (device, bench) = volume(MountOptions::default());
    let inode = bench.create("file");
    let before = bench.core.usage();
    bench.write(&inode, 0, &[1; 100_000]);
    file::truncate(&bench.core, &inode, 1500).unwrap();
    assert_eq!(delayed(&bench).0, 2);
    assert_eq!(bench.read(&inode, 0, 5000), [1; 1500]);
    bench.write(&inode, 3000, b"x");
    let mut expected = vec![1; 1500];
    expected.resize(3000, 0);
    expected.push(b'x');
    assert_eq!(bench.read(&inode, 0, 5000), expected);
    file::truncate(&bench.core, &inode, 0).unwrap();
    assert_eq!(delayed(&bench), (0, 0));
    assert_eq!(bench.core.usage(), before);
    bench.write(&inode, 0, &[2; 50_000]);
    drop(inode);
    bench.unlink("file");
    let left = namei::lookup(&bench.core, InodeNr::ROOT, b"file");
    assert!(matches!(left, Err(Error::NotFound)));
    bench.close();
    check(&device);
}

#[test]
fn the_size_on_disk_never_covers_data_without_blocks() {
    let (device, bench) = volume(MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 2500]);
    file::sync(&bench.core, &inode, false).unwrap();
    // The last block exists; the blocks behind it do not.
    bench.write(&inode, 2500, &[2; 10_000]);
    let (found, _) = after_cut(&device, bench, "file");
    let mut expected = vec![1; 2500];
    expected.resize(3072, 2);
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_replaces_another_has_its_blocks() {
    for is_automatic in [true, false] {
        let (device, bench) = volume(MountOptions {
            auto_da_alloc: is_automatic,
            ..MountOptions::default()
        });
        let old = bench.create("file");
        bench.write(&old, 0, b"old");
        file::sync(&bench.core, &old, false).unwrap();
        let new = bench.create("new");
        bench.write(&new, 0, &[3; 5000]);
        let (core, root) = (&bench.core, InodeNr::ROOT);
        namei::rename(core, root, b"new", root, b"file", RenameMode::Replace).unwrap();
        let (found, _) = after_cut(&device, bench, "file");
        let length = if is_automatic { 5000 } else { 0 };
        assert_eq!(found, vec![3; length]);
    }
}

#[test]
fn a_file_that_is_rewritten_from_nothing_has_its_blocks_when_it_is_closed() {
    assert_notices("delayed/closed-without-blocks", rewrite_from_nothing);
}

fn rewrite_from_nothing() {
    let (device, bench) = volume(MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, b"old");
    file::sync(&bench.core, &inode, false).unwrap();
    file::truncate(&bench.core, &inode, 0).unwrap();
    bench.write(&inode, 0, &[4; 3000]);
    file::close(&bench.core, &inode).unwrap();
    assert_eq!(delayed(&bench), (0, 0));
    bench.write(&inode, 3072, &[5; 3000]);
    file::close(&bench.core, &inode).unwrap();
    assert_eq!(delayed(&bench).0, 3);
    let (found, _) = after_cut(&device, bench, "file");
    assert_eq!(found[..3000], [4; 3000]);
    assert_eq!(found.len(), 3072);
}

#[test]
fn a_file_within_its_inode_is_rewritten_in_the_same_way() {
    let device = image(32 << 20, &["-t", "ext4", "-b", "1024", "-O", "inline_data"]);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 100]);
    file::sync(&bench.core, &inode, false).unwrap();
    file::truncate(&bench.core, &inode, 0).unwrap();
    bench.write(&inode, 0, &[4; 10 << 10]);
    file::close(&bench.core, &inode).unwrap();
    assert_eq!(delayed(&bench), (0, 0));
    let (found, _) = after_cut(&device, bench, "file");
    assert_eq!(found, [4; 10 << 10]);
}

#[test]
fn holes_and_ranges_see_the_data() {
    let (device, bench) = volume(MountOptions::default());
    let (core, inode) = (&bench.core, bench.create("file"));
    bench.write(&inode, 10 * 1024, &[1; 2048]);
    let seek = |at, sought| file::seek(core, &inode, at, sought).unwrap();
    assert_eq!(seek(0, Sought::Data), Some(10 * 1024));
    assert_eq!(seek(0, Sought::Hole), Some(0));
    assert_eq!(seek(10 * 1024, Sought::Hole), Some(12 * 1024));
    assert_eq!(bench.read(&inode, 0, 20_000)[..10 * 1024], [0; 10 * 1024]);
    let range = |start, end| ByteRange { start, end };
    let change = |range, what| file::change_range(core, &inode, range, what, false).unwrap();
    bench.write(&inode, 14 * 1024, &[2; 4096]);
    change(range(11 * 1024, 15 * 1024), RangeChange::PunchHole);
    assert_eq!(seek(11 * 1024, Sought::Data), Some(15 * 1024));
    bench.write(&inode, 30 * 1024, &[3; 1024]);
    change(range(0, 40 * 1024), RangeChange::Allocate);
    assert_eq!(delayed(&bench), (0, 0));
    let mut expected = vec![0; 40 * 1024];
    expected[10 * 1024..11 * 1024].fill(1);
    expected[15 * 1024..18 * 1024].fill(2);
    expected[30 * 1024..31 * 1024].fill(3);
    assert_eq!(bench.read(&inode, 0, 50_000), expected);
    // An unwritten extent is converted by the write itself.
    bench.write(&inode, 0, &[4; 2048]);
    assert_eq!(delayed(&bench), (0, 0));
    let direct = WriteOptions {
        direct: true,
        ..WriteOptions::default()
    };
    bench.write(&inode, 40 * 1024, &[5; 1024]);
    bench.write_with(&inode, 40 * 1024, &[6; 2048], direct);
    assert_eq!(delayed(&bench), (0, 0));
    assert_eq!(bench.read(&inode, 40 * 1024, 4096), [6; 2048]);
    bench.close();
    check(&device);
}

#[test]
fn a_write_larger_than_the_cache_keeps_to_the_dirty_limit() {
    let mut options = MountOptions::default();
    options.memory.budget_bytes = 1 << 20;
    let (device, bench) = volume(options);
    let inode = bench.create("file");
    let bytes = Random::new(3).bytes(12 << 20);
    bench.write(&inode, 0, &bytes);
    let (pages, _) = delayed(&bench);
    assert!(pages * 1024 <= 1 << 20, "{pages}");
    assert!(bench.read(&inode, 0, bytes.len()) == bytes);
    bench.close();
    check(&device);
}

#[test]
fn without_the_option_blocks_are_allocated_at_once() {
    let (device, bench) = volume(MountOptions {
        delayed_allocation: false,
        ..MountOptions::default()
    });
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 3000]);
    assert_eq!(delayed(&bench), (0, 0));
    assert_eq!(extents(&bench, &inode), (1, 3));
    assert!(!inode.pages.lock().is_delayed(FileBlock::new(0)));
    bench.close();
    check(&device);
}

#[test]
fn blocks_are_allocated_at_once_only_behind_pages_that_have_theirs() {
    assert_notices("delayed/converted-before-others", allocate_at_once);
}

fn allocate_at_once() {
    let (device, bench) = volume(MountOptions::default());
    let (core, inode) = (&bench.core, bench.create("file"));
    let range = ByteRange {
        start: 1024,
        end: 10_240,
    };
    file::change_range(core, &inode, range, RangeChange::Allocate, true).unwrap();
    bench.write(&inode, 0, &[1; 1024]);
    assert_eq!(delayed(&bench).0, 1);
    bench.write(&inode, 1024, &[2; 1024]);
    assert_eq!(delayed(&bench).0, 0);
    let other = bench.create("other");
    file::change_range(core, &other, range, RangeChange::Allocate, true).unwrap();
    bench.write(&other, 0, &[5; 2048]);
    let state = other.state.read();
    assert_eq!((delayed(&bench).0, state.size_on_disk), (0, None));
    drop(state);
    // Both kinds in one write, and a hole before a block that exists.
    bench.write(&inode, 11 * 1024, &[3; 1024]);
    bench.write(&inode, 9 * 1024, &[4; 4096]);
    let (found, copy) = after_cut(&device, bench, "file");
    assert_eq!(found[1024..2048], [2; 1024]);
    let bench = Bench::open(copy.clone(), MountOptions::default());
    let inode = bench.find("file");
    file::truncate(&bench.core, &inode, 1 << 20).unwrap();
    let bytes = bench.read(&inode, found.len() as u64, 1 << 20);
    assert!(bytes.iter().all(|byte| *byte == 0));
    bench.close();
    check(&copy);
}

#[test]
fn every_hole_of_a_write_is_claimed() {
    let (device, bench) = volume(MountOptions::default());
    let inode = bench.create("file");
    for block in [15, 31, 47] {
        bench.write(&inode, block * 1024, &[1; 1024]);
    }
    file::sync(&bench.core, &inode, false).unwrap();
    bench.write(&inode, 0, &[2; 64 << 10]);
    let (pages, claimed) = delayed(&bench);
    assert_eq!(pages, 61);
    assert!(claimed >= 2 * pages, "{claimed}");
    bench.close();
    check(&device);
}

#[test]
fn a_size_that_was_cut_does_not_come_back() {
    assert_notices("delayed/size-on-disk-not-cut", cut_and_grow);
}

fn cut_and_grow() {
    let (device, bench) = volume(MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 2048]);
    file::sync(&bench.core, &inode, false).unwrap();
    bench.write(&inode, 2048, &[2; 4096]);
    file::truncate(&bench.core, &inode, 1024).unwrap();
    file::truncate(&bench.core, &inode, 8192).unwrap();
    file::sync(&bench.core, &inode, false).unwrap();
    let (found, _) = after_cut(&device, bench, "file");
    assert_eq!(found.len(), 8192);
    assert_eq!((found[1023], found[1024]), (1, 0));
}

#[test]
fn damage_elsewhere_loses_no_data_that_was_taken() {
    for has_journal in [true, false] {
        let journal = if has_journal {
            "has_journal"
        } else {
            "^has_journal"
        };
        let device = image(32 << 20, &["-t", "ext4", "-b", "1024", "-O", journal]);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let (synced, closed) = (bench.create("synced"), bench.create("closed"));
        bench.write(&synced, 0, &[1; 5000]);
        bench.write(&closed, 0, &[2; 5000]);
        let why = "it is a test";
        drop(bench.core.damaged(crate::error::Corrupt::Orphan {
            inode: synced.nr,
            why,
        }));
        assert!(bench.core.check_writable().is_err());
        file::sync(&bench.core, &synced, false).unwrap();
        assert_eq!(bench.read(&closed, 0, 6000), [2; 5000]);
        drop(close_core(&bench.core));
        drop(bench);
        let bench = Bench::open(device, MountOptions::default());
        assert_eq!(bench.read(&bench.find("synced"), 0, 6000), [1; 5000]);
        assert_eq!(bench.read(&bench.find("closed"), 0, 6000), [2; 5000]);
    }
}

#[test]
fn writers_stop_while_no_block_can_be_allocated() {
    // The bitmaps of its groups have to be read.
    let features = "^metadata_csum,^uninit_bg";
    let device = image(32 << 20, &["-t", "ext4", "-b", "1024", "-O", features]);
    let faults = testing::failing(&device, Operations::READS);
    let mut options = MountOptions::default();
    options.memory.budget_bytes = 1 << 20;
    let bench = Bench::open(faults.clone(), options);
    let files = [bench.create("a"), bench.create("b")];
    faults.set_armed(true);
    let (piece, mut size) = ([7; 16 << 10], 0);
    let error = loop {
        let inode = &files[(size >> 14) as usize % 2];
        match file::write(&bench.core, inode, size, &piece, WriteOptions::default()) {
            Ok(count) => size += count as u64,
            Err(error) => break error,
        }
        assert!(size < 4 << 20, "the cache has no limit");
    };
    assert!(matches!(error, Error::Device(_)), "{error}");
    assert!(file::sync(&bench.core, &files[0], false).is_err());
    faults.set_armed(false);
    bench.write(&files[0], 1 << 20, b"x");
    file::sync_all(&bench.core).unwrap();
    assert_eq!(delayed(&bench), (0, 0));
    bench.close();
    check(&device);
}
