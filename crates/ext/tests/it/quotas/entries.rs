//! Entries of owners that come and go.

use std::sync::Arc;

use ext::options::DataMode;
use ext::volume::{NewInode, QuotaKind, QuotaLimits, SetAttributes};
use ext::{Volume, tune};
use layout::InodeNr;
use testkit::tool;

use super::{MIB, assert_counted, make, open, usage};
use crate::damage::assert_notices;
use crate::image::{Image, look_at};
use crate::oracle;
use crate::rig::{device, quiet};

/// Number of owners: many data blocks, and nodes of each level.
const OWNERS: u32 = 200;

fn owner(number: u32) -> NewInode {
    let id = 1000 + number.wrapping_mul(0x0101_0101);
    NewInode {
        uid: id,
        gid: id,
        ..NewInode::default()
    }
}

fn create(volume: &Volume, number: u32) {
    let name = format!("f{number}");
    let nr = volume.create(InodeNr::ROOT, name.as_bytes(), &owner(number));
    volume.forget(nr.expect("create"), 1).expect("it is pinned");
}

fn ids(volume: &Volume, kind: QuotaKind) -> Vec<u32> {
    let quotas = volume.quotas(kind).expect("read").expect("counted");
    quotas.iter().map(|quota| quota.id).collect()
}

/// Owners without inodes and limits have no entry, and their blocks are used again.
fn entries_come_and_go() {
    let memory = make(1024, "quota");
    let mut free = Vec::new();
    for round in 0..3 {
        let volume = open(&memory);
        for number in 0..OWNERS {
            create(&volume, number);
        }
        let kept = owner(5).uid;
        let limits = QuotaLimits {
            inodes_hard: 10 + round,
            ..QuotaLimits::default()
        };
        let set = volume.set_quota_limits(QuotaKind::User, kept, &limits);
        set.expect("it is counted");
        volume.close().expect("close");
        assert_counted(&memory, "with owners");
        let volume = open(&memory);
        for number in 0..OWNERS {
            volume.remove_file(&format!("/f{number}")).expect("unlink");
        }
        assert_eq!(usage(&volume, QuotaKind::User, kept), Some((0, 0)));
        volume.close().expect("close");
        assert_counted(&memory, "without owners");
        let volume = open(&memory);
        assert_eq!(ids(&volume, QuotaKind::User), [0, kept]);
        assert_eq!(ids(&volume, QuotaKind::Group), [0]);
        free.push(volume.usage().blocks_free);
        volume.close().expect("close");
    }
    assert_eq!(free[0], free[2], "the files have not grown");
}

#[test]
fn unused_entries_are_removed() {
    assert_notices("quota/unused-entries-kept", entries_come_and_go);
}

/// Gives a file one project after the other.
fn go_through_projects(volume: &Volume) -> ext::Result<()> {
    let file = volume.lookup(InodeNr::ROOT, b"f0")?;
    for number in 1..=30_u32 {
        let change = SetAttributes {
            project: Some(number << 8),
            ..SetAttributes::default()
        };
        volume.set_attributes(file, &change)?;
        if number % 3 == 0 {
            volume.sync()?;
        }
    }
    Ok(())
}

/// The power is cut after each write while new entries take the room of former ones.
#[test]
fn entries_are_reused_in_whole() {
    let memory = make(1024, "quota,project");
    let volume = open(&memory);
    create(&volume, 0);
    volume.close().expect("close");
    for writes in 0.. {
        let copy = Arc::new(memory.snapshot());
        let cut = super::failing(&copy, writes);
        let opened = Volume::open(cut, None, quiet(DataMode::Ordered));
        let is_whole = opened
            .is_ok_and(|volume| go_through_projects(&volume).is_ok() & volume.close().is_ok());
        Volume::open(device(&copy), None, quiet(DataMode::Ordered))
            .expect("it opens")
            .close()
            .expect("close");
        let report = fsck::check_bytes(&copy.to_bytes(), None, &fsck::Options::default());
        let report = report.expect("it can be checked");
        assert!(report.is_clean(), "{writes}: {:?}", report.problems);
        if is_whole {
            assert!(writes > 20, "{writes}");
            break;
        }
    }
}

/// The power is cut after each write of a close that removes entries.
#[test]
fn entries_are_removed_in_whole() {
    let memory = make(1024, "quota");
    let volume = open(&memory);
    for number in 0..40 {
        create(&volume, number);
    }
    for number in 0..40 {
        volume.remove_file(&format!("/f{number}")).expect("unlink");
    }
    volume.sync().expect("sync");
    let before = memory.snapshot();
    volume.close().expect("close");
    for writes in 0.. {
        let copy = Arc::new(before.snapshot());
        let cut = super::failing(&copy, writes);
        let opened = Volume::open(cut, None, quiet(DataMode::Ordered));
        let is_whole = opened.is_ok_and(|volume| volume.close().is_ok());
        Volume::open(device(&copy), None, quiet(DataMode::Ordered))
            .expect("it opens")
            .close()
            .expect("close");
        let report = fsck::check_bytes(&copy.to_bytes(), None, &fsck::Options::default());
        let report = report.expect("it can be checked");
        assert!(report.is_clean(), "{writes}: {:?}", report.problems);
        if is_whole {
            assert!(writes > 4);
            break;
        }
    }
}

/// A quota file with a block behind its size, as an interrupted growth or preallocation leaves it.
#[test]
fn blocks_behind_the_size_are_used() {
    let more = ["-O", "quota"];
    let image = Image::with_arguments("ext4", 1024, 16 * MIB, false, &more);
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", "fallocate <3> 6 9", path]);
    oracle::assert_fsck_clean(&image, "with blocks behind the size");
    let volume = Volume::open(look_at(&image.path), None, quiet(DataMode::Ordered));
    let volume = volume.expect("it opens");
    for number in 0..40 {
        create(&volume, number);
    }
    assert_eq!(usage(&volume, QuotaKind::User, owner(3).uid), Some((1, 0)));
    volume.close().expect("close");
    oracle::assert_fsck_clean(&image, "with owners");
}

/// Large identifiers, and the highest one.
#[test]
fn any_identifier_has_an_entry() {
    let memory = make(1024, "quota");
    let volume = open(&memory);
    for id in [0, 1, u32::MAX - 1, u32::MAX, 0x8000_0000, 0xFF00_0000] {
        let new = NewInode {
            uid: id,
            gid: id,
            ..NewInode::default()
        };
        let name = format!("{id}");
        let nr = volume.create(InodeNr::ROOT, name.as_bytes(), &new);
        volume.forget(nr.expect("create"), 1).expect("it is pinned");
    }
    volume.close().expect("close");
    assert_counted(&memory, "with large identifiers");
    let changes = tune::Changes {
        quotas: vec![(QuotaKind::User, true)],
        ..tune::Changes::default()
    };
    tune::apply(&device(&memory), None, &changes).expect("tuned");
    assert_counted(&memory, "counted again");
}
