//! A volume that fills up under the mount.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};

use super::support::on_a_mount;

/// A file is larger than what the volume keeps for root, and a part of what it has.
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

/// Who writes too much is told, by the write or by the sync. All that was synced is there, and what is taken away makes room.
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
        // The error has been told: who opens the file anew hears nothing of it.
        File::open(path(count)).unwrap().sync_all().unwrap();
        fs::remove_file(path(count)).unwrap();
        fs::remove_file(path(0)).unwrap();
        write(&path(0), 77).unwrap();
        assert!(fs::read(path(0)).unwrap() == contents(77));
    });
}

/// The kernel passes a whole megabyte on at once. If a part of it fits, that is not all that was promised.
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
