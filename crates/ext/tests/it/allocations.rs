//! Allocations that find no space.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ext::options::DataMode;
use ext::volume::{Durability, NewInode, RangeChange, Writer};
use ext::{Error, Volume};
use layout::InodeNr;
use rt::Nanos;
use testkit::{Behaviour, UnreliableDevice};

use crate::cell;
use crate::image::Image;
use crate::oracle::assert_fsck_clean;
use crate::rig::{Place, Rig, Structures, device, quiet, take_free_blocks};

const IMAGE_BYTES: u64 = 8 << 20;

fn available_bytes(volume: &Volume) -> u64 {
    let usage = volume.usage();
    usage.blocks_available * u64::from(usage.block_bytes)
}

/// Images of ext3, of ext4, and of ext4 with clusters.
fn images() -> Vec<(&'static str, Image)> {
    let ext4 = |more: &[&str]| Image::with_arguments("ext4", 1024, IMAGE_BYTES, false, more);
    vec![
        ("ext3", Image::by_mke2fs(cell::all()[1], IMAGE_BYTES)),
        ("ext4", ext4(&[])),
        ("clusters", ext4(&["-O", "bigalloc", "-C", "4096"])),
    ]
}

/// The blocks stay free for what is written meanwhile: a refused allocation has not taken them.
#[test]
fn an_allocation_that_cannot_fit_takes_nothing() {
    for (name, image) in images() {
        let volume = image.open(&cell::all()[1]);
        volume.write_file("/file", &[7; 30_001]).expect("write");
        let nr = volume.resolve("/file", true).expect("it is there");
        volume.sync().expect("sync");
        let sectors = || volume.attributes(nr).expect("attributes").sectors;
        let before = (sectors(), volume.usage());
        for what in [RangeChange::Allocate, RangeChange::Zero] {
            for start in [0, 30_001, 1 << 30] {
                let length = before.1.blocks_available * 1024 + 40_000;
                let changed = volume.change_range(nr, start, length, what, false);
                assert!(
                    matches!(changed, Err(Error::NoSpace)),
                    "{name}: {changed:?}"
                );
                let after = (sectors(), volume.usage());
                assert_eq!(after, before, "{name}: {what:?} at {start}");
            }
        }
        volume.close().expect("close");
        assert_fsck_clean(&image, name);
    }
}

/// Neither blocks that are there nor those that are claimed for written pages count as missing, and
/// blocks that are about to be free count as free.
#[test]
fn an_allocation_that_fits_is_made() {
    for (name, image) in images() {
        let volume = image.open(&cell::all()[1]);
        let nr = volume
            .create(InodeNr::ROOT, b"file", &NewInode::default())
            .expect("create");
        let write = |offset: u64, length: usize| {
            let (bytes, later) = (vec![7; length], Durability::Later);
            let written = volume.write_node(nr, offset, &bytes, false, later, Writer::Unknown);
            assert_eq!(written.expect("write"), length);
        };
        write(0, 300_000);
        volume.sync().expect("sync");
        let free = available_bytes(&volume);
        volume.write_file("/old", &vec![1; 2 << 20]).expect("write");
        volume.sync().expect("sync");
        volume.remove_file("/old").expect("remove");
        for part in 0..100 {
            write(400_000 + part * 9_000, 3_000);
        }
        // A part of the range has blocks, a part has pages; some space is left to the block map.
        let length = 300_000 + free - free / 16;
        volume
            .change_range(nr, 0, length, RangeChange::Allocate, false)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(volume.attributes(nr).expect("attributes").size, length);
        volume.close().expect("close");
        assert_fsck_clean(&image, name);
    }
}

/// After the error, the file has its size, its contents, and no other blocks.
#[test]
fn an_allocation_that_fails_is_cut() {
    for cell in cell::all() {
        let image = Image::by_mke2fs(cell, IMAGE_BYTES);
        let volume = image.open(&cell);
        let bytes = vec![7; 30_001];
        volume.write_file("/file", &bytes).expect("write");
        let nr = volume.resolve("/file", true).expect("it is there");
        volume.sync().expect("sync");
        let before = volume.attributes(nr).expect("attributes");
        // The blocks of the map find no space.
        let all = available_bytes(&volume);
        for what in [RangeChange::Allocate, RangeChange::Zero] {
            let changed = volume.change_range_or_cut(nr, before.size, all, what);
            assert!(
                matches!(changed, Err(Error::NoSpace)),
                "{cell}: {changed:?}"
            );
            let after = volume.attributes(nr).expect("attributes");
            let facts = (after.size, after.sectors);
            assert_eq!(facts, (before.size, before.sectors), "{cell}: {what:?}");
            assert!(volume.read_file("/file").expect("read") == bytes, "{cell}");
        }
        // An allocation that is made stays.
        let end = before.size + 10_000;
        volume
            .change_range_or_cut(nr, before.size, 10_000, RangeChange::Allocate)
            .expect("allocate");
        assert_eq!(volume.attributes(nr).expect("attributes").size, end);
        volume.close().expect("close");
        assert_fsck_clean(&image, &format!("{cell}"));
    }
}

/// A write during an allocation that fails stays, although it may lie beyond the size before.
#[test]
fn a_write_during_an_allocation_is_not_cut() {
    const PART: usize = 1000;
    const PARTS: usize = 400;
    let cell = cell::all()[1];
    let image = Image::by_mke2fs(cell, IMAGE_BYTES);
    let volume = image.open(&cell);
    let nr = volume
        .create(InodeNr::ROOT, b"file", &NewInode::default())
        .expect("create");
    let is_over = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while count.load(Relaxed) < PARTS && !is_over.load(Relaxed) {
                let part = count.load(Relaxed);
                let (at, bytes) = (part * PART, [1 + (part % 250) as u8; PART]);
                let later = Durability::Later;
                match volume.write_node(nr, at as u64, &bytes, false, later, Writer::Unknown) {
                    Ok(PART) => count.store(part + 1, Relaxed),
                    Ok(_) | Err(Error::NoSpace) => std::thread::yield_now(),
                    Err(error) => panic!("write: {error}"),
                }
            }
        });
        let mut round = 0;
        while round < 10 || count.load(Relaxed) == 0 {
            let has = volume.attributes(nr).expect("attributes").sectors * 512;
            let all = has + available_bytes(&volume);
            let changed = volume.change_range_or_cut(nr, 0, all, RangeChange::Allocate);
            assert!(matches!(changed, Err(Error::NoSpace)), "{changed:?}");
            round += 1;
        }
        is_over.store(true, Relaxed);
    });
    let written = count.load(Relaxed);
    assert!(written > 0, "nothing is written");
    let found = volume.read_file("/file").expect("read");
    assert!(found.len() >= written * PART, "{} bytes", found.len());
    for (count, part) in found.chunks(PART).take(written).enumerate() {
        assert!(part.iter().all(|byte| *byte == 1 + (count % 250) as u8));
    }
    volume.close().expect("close");
    assert_fsck_clean(&image, "a write during an allocation");
}

/// Zeroes within an inode need no block.
#[test]
fn zeroes_within_an_inode_need_no_space() {
    let more = ["-O", "inline_data", "-I", "256"];
    let image = Image::with_arguments("ext4", 1024, 8 << 20, false, &more);
    let volume = image.open(&cell::all()[1]);
    volume.write_file("/small", &[7; 60]).expect("write");
    let nr = volume.resolve("/small", true).expect("it is there");
    volume.sync().expect("sync");
    assert_eq!(
        volume.attributes(nr).expect("attributes").sectors,
        0,
        "inline"
    );
    // The rest is reserved for others.
    let changed = volume.with_reserve(true, || {
        take_free_blocks(&volume);
        assert_eq!(volume.usage().blocks_free, 0);
        volume.change_range(nr, 10, 20, RangeChange::Zero, false)
    });
    assert!(changed.is_ok(), "{changed:?}");
    volume.close().expect("close");
    assert_fsck_clean(&image, "inline");
}

/// A request for more than the volume has ends, whatever others free meanwhile.
#[test]
fn a_hopeless_allocation_ends() {
    for (structures, size) in [(Structures::Ext3, 2 << 30), (Structures::Ext4, 2 << 30)] {
        let run = sim::run(sim::Config::fair(1), move || {
            let rig = Rig::of(structures, Place::Internal, 1024, 32 << 20);
            let slow = UnreliableDevice::new(device(&rig.home));
            let opened = Volume::open(
                Arc::<UnreliableDevice>::clone(&slow),
                None,
                quiet(DataMode::Ordered),
            );
            let volume = Arc::new(opened.expect("it opens"));
            let nr = volume
                .create(InodeNr::ROOT, b"large", &NewInode::default())
                .expect("create");
            volume.sync().expect("sync");
            slow.set(Behaviour::slow(Nanos::from_millis(1)));
            let is_over = Arc::new(AtomicBool::new(false));
            let churn = rt::spawn("churn", {
                let (volume, is_over) = (Arc::clone(&volume), Arc::clone(&is_over));
                move || {
                    let began = rt::monotonic();
                    while !is_over.load(Relaxed)
                        && rt::monotonic().saturating_sub(began) < Nanos::from_secs(30)
                    {
                        let step = || {
                            volume.write_file("/churn", &[1; 20_000])?;
                            // Blocks are allocated before the file is removed.
                            let nr = volume.resolve("/churn", true)?;
                            volume.change_range(nr, 20_000, 1, RangeChange::Allocate, false)?;
                            volume.remove_file("/churn")
                        };
                        match step() {
                            Ok(()) | Err(Error::NoSpace) => {}
                            Err(error) => panic!("{error}"),
                        }
                        rt::sleep(Nanos::from_micros(100));
                    }
                }
            });
            rt::sleep(Nanos::from_millis(5));
            let began = rt::monotonic();
            let changed = volume.change_range(nr, 0, size, RangeChange::Allocate, false);
            let took = rt::monotonic().saturating_sub(began);
            is_over.store(true, Relaxed);
            assert!(matches!(changed, Err(Error::NoSpace)), "{changed:?}");
            churn.join().expect("no panic");
            slow.set(Behaviour::default());
            assert!(took < Nanos::from_secs(10), "{took:?}");
        });
        run.unwrap_or_else(|error| panic!("{structures:?}: {error}"));
    }
}
