//! Writes by number to inodes that are immutable or append-only, by the source of the write.

use ext::volume::{Durability, FileId, InodeFlags, NewInode, OpenFlags, SetAttributes, Writer};
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
