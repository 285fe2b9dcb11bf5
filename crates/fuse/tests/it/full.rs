//! A volume that fills up under the mount.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};

use super::support::on_a_mount;

/// Size of a file: larger than the reserved blocks, and a fraction of the volume.
const FILE_BYTES: usize = 5_000_000;

fn contents(number: usize) -> Vec<u8> {
    let number = number as u8;
    (0..FILE_BYTES)
        .map(|at| (at / 512) as u8 ^ number)
        .collect()
}

fn write(path: &std::path::Path, number: usize) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&contents(number))?;
    file.sync_all()
}

/// A write to a full volume reports the error in the write or in the sync. All synced data remains,
/// and deleting files frees space.
#[test]
fn what_was_synced_is_there_when_the_volume_is_full() {
    on_a_mount(|mounted| {
        let path = |number: usize| mounted.at(&format!("file-{number}"));
        let mut count = 0;
        let told = loop {
            match write(&path(count), count) {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(told.kind(), ErrorKind::StorageFull);
        assert!(count > 5, "{count} files fit");
        for number in 0..count {
            assert!(
                fs::read(path(number)).unwrap() == contents(number),
                "file {number}"
            );
        }
        // The error has been reported: a new open file does not report it again.
        File::open(path(count)).unwrap().sync_all().unwrap();
        fs::remove_file(path(count)).unwrap();
        fs::remove_file(path(0)).unwrap();
        write(&path(0), 77).unwrap();
        assert!(fs::read(path(0)).unwrap() == contents(77));
    });
}

/// The kernel writes back a whole megabyte at once. A short write must not count as complete.
#[test]
fn a_part_that_fits_is_not_taken_for_all() {
    on_a_mount(|mounted| {
        let space = || rustix::fs::statvfs(mounted.at("")).unwrap();
        let left = |bytes: u64| (space().f_bfree * space().f_frsize).saturating_sub(bytes);
        let filler = File::create(mounted.at("filler")).unwrap();
        let length = left(600 << 10);
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, length).unwrap();
        filler.sync_all().unwrap();
        let mut file = File::create(mounted.at("file")).unwrap();
        let written = file.write_all(&vec![9; 900 << 10]);
        let told = written.and_then(|()| file.sync_all()).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::StorageFull);
    });
}

/// `write` reports the error to a program that does not sync, and all data written before that fits
/// is present.
#[test]
fn nothing_that_had_room_is_lost_when_write_says_that_the_volume_is_full() {
    const PART: usize = 64 << 10;
    on_a_mount(|mounted| {
        let part = |number: usize| vec![1 + (number % 250) as u8; PART];
        let space = || {
            let space = rustix::fs::statvfs(mounted.at("")).unwrap();
            space.f_bavail * space.f_frsize
        };
        let before = space();
        let path = mounted.at("file");
        let mut file = File::create(&path).unwrap();
        // Far more than the volume holds, so that the loop ends.
        let parts = 64 * before as usize / PART;
        let taken = (0..parts)
            .find(|number| {
                let written = file.write_all(&part(*number));
                written.is_err_and(|error| error.kind() == ErrorKind::StorageFull)
            })
            .expect("an error of write");
        let _ = file.sync_all();
        drop(file);
        assert!(space() < 2 * PART as u64, "{} bytes are left", space());
        let found = fs::read(&path).unwrap();
        let is_there = |number: &usize| {
            found.get(number * PART..(number + 1) * PART) == Some(&part(*number)[..])
        };
        let intact = (0..taken).take_while(is_there).count();
        // The rest are indirect blocks.
        assert!(
            (intact * PART) as u64 > before - before / 50,
            "{intact} parts of {taken}, {before} bytes"
        );
    });
}
