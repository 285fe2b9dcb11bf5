//! Writes by number to inodes that are immutable or append-only, by the source of the write; and
//! allocations that find no space.

use std::sync::atomic::{AtomicBool, Ordering};

use ext::volume::{
    Durability, FileId, InodeFlags, NewInode, OpenFlags, RangeChange, SetAttributes, Writer,
};
use ext::{Error, Result, Volume};
use layout::InodeNr;

use crate::cell;
use crate::image::Image;
use crate::oracle::assert_fsck_clean;

const IMAGE_BYTES: u64 = 8 << 20;

fn set(volume: &Volume, nr: InodeNr, flag: InodeFlags) {
    let kept = volume.attributes(nr).expect("attributes").flags;
    let frozen = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
    let change = SetAttributes {
        flags: Some(kept.difference(frozen) | flag),
        ..SetAttributes::default()
    };
    volume.set_attributes(nr, &change).expect("flags");
}

fn write(volume: &Volume, nr: InodeNr, offset: u64, writer: Writer) -> Result<usize> {
    volume.write_node(nr, offset, b"x", false, Durability::Later, writer)
}

/// The table of [`Writer`]: for each state of a file, the sources that may write to it at offset 0
/// and at the end.
#[test]
fn the_source_of_a_write_decides() {
    let append = OpenFlags {
        append: true,
        ..OpenFlags::READ_WRITE
    };
    let cell = &cell::all()[0];
    let image = Image::by_mke2fs(*cell, IMAGE_BYTES);
    let volume = image.open(cell);
    let nr = volume
        .create(InodeNr::ROOT, b"file", &NewInode::default())
        .expect("create");
    let open = |flags| volume.open_inode(nr, flags).expect("open");
    // The writers: a file opened before the flag, one opened after it, the cache, an unknown one.
    let check = |what: &str, writers: [Option<FileId>; 2], at: &dyn Fn() -> u64, allowed: &str| {
        let [before, after] = writers.map(|file| file.map(Writer::File));
        let all = [before, after, Some(Writer::Cache), Some(Writer::Unknown)];
        let mut taken = String::new();
        for (name, writer) in ["before ", "after ", "cache ", "unknown "].iter().zip(all) {
            match writer.map(|writer| write(&volume, nr, at(), writer)) {
                Some(Ok(1)) => taken.push_str(name),
                Some(Err(Error::NotPermitted)) | None => {}
                other => panic!("{what}, {name}: {other:?}"),
            }
        }
        assert_eq!(taken.trim_end(), allowed, "{what}");
    };
    let start = || 0;
    let end = || volume.attributes(nr).expect("attributes").size;
    let first = open(OpenFlags::READ_WRITE);
    write(&volume, nr, 0, Writer::File(first)).expect("write");
    set(&volume, nr, InodeFlags::APPEND);
    let later = open(append);
    assert!(volume.only_appends(later) && !volume.only_appends(first));
    let both = [Some(first), Some(later)];
    check("append-only", both, &start, "before cache unknown");
    check("append-only, end", both, &end, "before after cache unknown");
    set(&volume, nr, InodeFlags::IMMUTABLE);
    check("immutable", both, &start, "cache");
    check("immutable, end", both, &end, "cache");
    set(&volume, nr, InodeFlags::APPEND);
    volume.release(first).expect("close");
    let last = [None, Some(later)];
    check("append-only for all", last, &start, "unknown");
    check(
        "append-only for all, end",
        last,
        &end,
        "after cache unknown",
    );
    set(&volume, nr, InodeFlags::IMMUTABLE);
    volume.release(later).expect("close");
    check("immutable without writers", [None, None], &end, "");
    volume.close().expect("close");
    assert_fsck_clean(&image, "flags");
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
        let all = 2 * IMAGE_BYTES;
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
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while count < PARTS && !is_over.load(Ordering::Relaxed) {
                let (at, bytes) = (count * PART, [1 + (count % 250) as u8; PART]);
                let later = Durability::Later;
                match volume.write_node(nr, at as u64, &bytes, false, later, Writer::Unknown) {
                    Ok(PART) => count += 1,
                    Ok(_) | Err(Error::NoSpace) => std::thread::yield_now(),
                    Err(error) => panic!("write: {error}"),
                }
            }
            count
        });
        for _ in 0..10 {
            let changed = volume.change_range_or_cut(nr, 0, 2 * IMAGE_BYTES, RangeChange::Allocate);
            assert!(matches!(changed, Err(Error::NoSpace)), "{changed:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("writer")
    });
    assert!(written > 0, "nothing is written");
    let found = volume.read_file("/file").expect("read");
    assert!(found.len() >= written * PART, "{} bytes", found.len());
    for (count, part) in found.chunks(PART).take(written).enumerate() {
        assert!(part.iter().all(|byte| *byte == 1 + (count % 250) as u8));
    }
    volume.close().expect("close");
    assert_fsck_clean(&image, "a write during an allocation");
}
