//! The largest quota file, and entries of former owners.

use std::sync::Arc;

use block::memory::MemoryDevice;
use layout::device::DeviceNumber;

use super::*;
use crate::Volume;
use crate::disk::new_inode::NewInode;
use crate::file::testing::{Bench, check, image};
use crate::namei;
use crate::options::MountOptions;
use crate::volume::SetAttributes;

/// A file that has its largest size takes no further owner, and is loaded by the next open.
#[test]
fn a_file_has_a_largest_size() {
    let arguments = ["-t", "ext4", "-b", "1024", "-O", "quota", "-N", "2000"];
    let device = image(16 << 20, &arguments);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let mut owners = 0;
    let refused = loop {
        let new = NewInode {
            uid: (owners + 1) << 8,
            ..NewInode::default()
        };
        let name = format!("f{owners}");
        let (kind, number) = (FileKind::Regular, DeviceNumber::default());
        let root = InodeNr::ROOT;
        match namei::create(&bench.core, root, name.as_bytes(), kind, number, &new) {
            Ok(inode) => drop(bench.core.inodes.unpin(&inode)),
            Err(error) => break error,
        }
        owners += 1;
    };
    assert!(matches!(refused, Error::NoSpace), "{refused:?}");
    assert!(owners > 200, "{owners}");
    bench.close();
    check(&device);
    let bench = Bench::open(device, MountOptions::default());
    let found = entries(&bench.core.quotas, QuotaKind::User).expect("counted");
    assert_eq!(found.len() as u32, owners + 1);
    bench.close();
}

fn open(device: &Arc<MemoryDevice>) -> Volume {
    Volume::open(device.clone(), None, MountOptions::default()).expect("it opens")
}

fn create(volume: &Volume, name: &[u8]) -> InodeNr {
    let made = volume.create(InodeNr::ROOT, name, &NewInode::default());
    made.expect("created")
}

fn set_project(volume: &Volume, file: InodeNr, project: u32) {
    let change = SetAttributes {
        project: Some(project),
        ..SetAttributes::default()
    };
    let set = volume.set_attributes(file, &change);
    set.unwrap_or_else(|error| panic!("project {project}: {error}"));
}

/// A project whose last file gets another one gives its room back: a file that goes through all
/// projects needs the room of a few.
#[test]
fn projects_without_files_take_no_room() {
    let arguments = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-O",
        "quota,project",
        "-I",
        "256",
    ];
    let device = image(16 << 20, &arguments);
    let volume = open(&device);
    let (mine, other) = (create(&volume, b"mine"), create(&volume, b"other"));
    for number in 1..2_000_u32 {
        set_project(&volume, mine, number << 8 | 7);
    }
    for number in 1..2_000_u32 {
        set_project(&volume, mine, number);
    }
    set_project(&volume, other, u32::MAX);
    let entries = volume.quotas(QuotaKind::Project).expect("read");
    let count = entries.expect("counted").len();
    assert!(count < 100, "{count}");
    // As after a power cut: the next open goes on with the entries that are left.
    volume.sync().expect("synced");
    let copy = Arc::new(device.snapshot());
    for device in [device.clone(), copy] {
        let volume = open(&device);
        let found = volume.quotas(QuotaKind::Project).expect("read");
        let used = found
            .expect("counted")
            .into_iter()
            .filter(|quota| quota.inodes > 0);
        let used: Vec<u32> = used.map(|quota| quota.id).collect();
        assert_eq!(used, [0, 1_999, u32::MAX]);
        set_project(&volume, mine, 77 << 8);
        volume.close().expect("closed");
        check(&device);
    }
}

/// An entry that an operation in progress counts on stays, and goes after the last of them.
#[test]
fn a_claimed_entry_is_not_removed() {
    let arguments = ["-t", "ext4", "-b", "1024", "-O", "quota"];
    let device = image(16 << 20, &arguments);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let users = |bench: &Bench| {
        let found = entries(&bench.core.quotas, QuotaKind::User).expect("counted");
        found.iter().map(|entry| entry.id.get()).collect::<Vec<_>>()
    };
    let claims = prepare(&bench.core, [5 << 8, 0, 0]).expect("added");
    let more = prepare(&bench.core, [5 << 8, 0, 0]).expect("there");
    drop(more);
    for number in 6..20 {
        drop(prepare(&bench.core, [number << 8, 0, 0]).expect("added"));
    }
    assert!(users(&bench).contains(&(5 << 8)));
    drop(claims);
    for number in 20..40 {
        drop(prepare(&bench.core, [number << 8, 0, 0]).expect("added"));
    }
    assert!(!users(&bench).contains(&(5 << 8)));
    bench.close();
    check(&device);
}
