//! Quotas: the counts of the quota files against e2fsck, debugfs and the checker, after random
//! changes and after power cuts.

mod damaged;
mod entries;
mod full;
mod shares;
mod tuned;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FeatureEdits, FileSystemType, Options};
use ext::options::DataMode;
use ext::volume::{InodeFlags, NewInode, QuotaKind, QuotaLimits, SetAttributes};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use testkit::{Random, privilege, tool};

use crate::damage::assert_notices;
use crate::image::{Image, look_at};
use crate::oracle;
use crate::rig::{device, quiet};

const MIB: u64 = 1 << 20;
/// Owners of the random changes: more than a data block of a quota file holds, some far apart.
const OWNERS: [u32; 18] = [
    0,
    1,
    2,
    3,
    5,
    8,
    13,
    21,
    34,
    55,
    255,
    256,
    65_535,
    65_536,
    1 << 24,
    1_000_000,
    4_000_000_000,
    7,
];

fn make(block_bytes: u32, features: &str) -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(16 * MIB));
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(block_bytes),
        features: FeatureEdits::parse(features).expect("known features"),
        ..Options::default()
    };
    mkfs::format(&device(&memory), &options).expect("the volume is made");
    memory
}

fn open(memory: &Arc<MemoryDevice>) -> Volume {
    Volume::open(device(memory), None, quiet(DataMode::Ordered)).expect("the volume opens")
}

/// Asserts that both releases of e2fsck and the checker agree with the counts.
fn assert_counted(memory: &MemoryDevice, when: &str) {
    let report = fsck::check_bytes(&memory.to_bytes(), None, &fsck::Options::default());
    let report = report.expect("it can be checked");
    assert!(report.is_clean(), "{when}: {:?}", report.problems);
    for e2fsck in e2fscks() {
        let (code, said) = run_on_copy(memory, &e2fsck, "-fn");
        assert!(
            code == Some(0) && !said.contains("QUOTA"),
            "{when}: {e2fsck}: {said}"
        );
    }
}

/// Returns the releases of e2fsck that are there.
fn e2fscks() -> Vec<String> {
    let newer = oracle::newer_e2fsck();
    std::iter::once("e2fsck".to_owned()).chain(newer).collect()
}

/// Runs e2fsck on a copy of a volume. Returns its exit code and its output.
fn run_on_copy(memory: &MemoryDevice, e2fsck: &str, option: &str) -> (Option<i32>, String) {
    let image = Image::empty("ext4", 1024, 16 * MIB, false);
    memory.write_to_file(&image.path).unwrap();
    let output = tool::run(e2fsck, &[option, image.path.to_str().unwrap()]);
    (output.status.code(), tool::said(&output))
}

/// Returns a device whose writes fail after a number of them.
fn failing(memory: &Arc<MemoryDevice>, writes: u64) -> Arc<dyn BlockDevice> {
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::From(writes + 1),
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    Arc::new(FaultDevice::new(device(memory), plan))
}

/// Returns the inodes and the space of an owner.
fn usage(volume: &Volume, kind: QuotaKind, id: u32) -> Option<(u64, u64)> {
    let quotas = volume.quotas(kind).expect("read").expect("counted");
    let found = quotas.iter().find(|quota| quota.id == id)?;
    Some((found.inodes, found.space))
}

fn new(random: &mut Random) -> NewInode {
    NewInode {
        uid: *random.pick(&OWNERS),
        gid: *random.pick(&OWNERS),
        ..NewInode::default()
    }
}

/// Does one random change. Failures that a change can have are accepted.
fn change(volume: &Volume, random: &mut Random, names: &mut Vec<String>) {
    let name = format!("/f{}", random.below(40));
    match random.below(10) {
        0..3 => {
            if let Ok(mut file) = volume.create_file(&name, &new(random)) {
                let count = random.below(30_000) as usize;
                let bytes = random.bytes(count);
                std::io::Write::write_all(&mut file, &bytes).expect("there is room");
                file.close().expect("close");
                names.push(name);
            }
        }
        3 => drop(volume.make_directory(InodeNr::ROOT, &name.as_bytes()[1..], &new(random))),
        4 => drop(volume.remove_file(&name)),
        5 => drop(volume.remove_directory_at(&name)),
        6 => {
            let to = format!("/f{}", random.below(40));
            drop(volume.rename_path(&name, &to));
        }
        7 => {
            if let Ok(nr) = volume.resolve(&name, false) {
                let change = SetAttributes {
                    uid: Some(*random.pick(&OWNERS)),
                    gid: Some(*random.pick(&OWNERS)),
                    project: volume
                        .superblock()
                        .has_project()
                        .then_some(*random.pick(&OWNERS)),
                    ..SetAttributes::default()
                };
                volume.set_attributes(nr, &change).expect("chown");
            }
        }
        8 => {
            if let Ok(nr) = volume.resolve(&name, false) {
                let size = Some(random.below(100_000));
                let change = SetAttributes {
                    size,
                    ..SetAttributes::default()
                };
                drop(volume.set_attributes(nr, &change));
            }
        }
        _ => {
            if let Ok(nr) = volume.resolve(&name, false) {
                let count = match volume.superblock().has_ea_inode() {
                    true => random.below(6000) as usize,
                    false => 200,
                };
                let value = random.bytes(count);
                drop(volume.set_attribute(nr, b"user.x", &value, ext::volume::SetMode::Any));
            }
        }
    }
}

#[test]
fn counts_are_right_after_random_changes() {
    for (block_bytes, features) in [
        (1024, "quota"),
        (4096, "quota,project"),
        (1024, "quota,project,^metadata_csum,^extent,^64bit"),
        (1024, "quota,project,^has_journal"),
        (2048, "quota,project,orphan_file"),
        (1024, "quota,project,ea_inode"),
    ] {
        for seed in 0..4 {
            let when = format!("{block_bytes}, {features}, {seed}");
            let memory = make(block_bytes, features);
            assert_counted(&memory, &when);
            let mut random = Random::new(seed);
            let mut names = Vec::new();
            for _ in 0..3 {
                let volume = open(&memory);
                for _ in 0..100 {
                    change(&volume, &mut random, &mut names);
                }
                volume.close().expect("close");
                assert_counted(&memory, &when);
            }
        }
    }
}

/// The log is replayed to each commit: usage and inodes are of one transaction.
fn counts_after_power_cuts() {
    for features in ["quota,project", "quota,project,orphan_file,ea_inode"] {
        let memory = make(1024, features);
        let mut random = Random::new(9);
        let mut names = Vec::new();
        let volume = open(&memory);
        for number in 0..120 {
            change(&volume, &mut random, &mut names);
            if number % 12 != 0 {
                continue;
            }
            volume.sync().expect("sync");
            let cut = Arc::new(memory.snapshot());
            open(&cut).close().expect("close");
            assert_counted(&cut, &format!("{features}, after {number}"));
        }
        // A deletion that is not complete.
        let owner = NewInode {
            uid: 77,
            ..NewInode::default()
        };
        let mut file = volume.create_file("/orphan", &owner).expect("create");
        std::io::Write::write_all(&mut file, &[7; 50_000]).expect("write");
        file.sync_all().expect("sync");
        volume.remove_file("/orphan").expect("unlink");
        volume.sync().expect("sync");
        let cut = Arc::new(memory.snapshot());
        open(&cut).close().expect("close");
        assert_counted(&cut, "with an orphan");
        file.close().expect("close");
        volume.close().expect("close");
        assert_counted(&memory, "closed");
    }
}

#[test]
fn counts_are_right_after_power_cuts() {
    for mutant in ["quota/freed-inode-kept", "quota/owner-not-moved"] {
        assert_notices(mutant, counts_after_power_cuts);
    }
}

#[test]
fn debugfs_lists_the_same_counts() {
    let memory = make(1024, "quota,project");
    let volume = open(&memory);
    let owner = NewInode {
        uid: 1000,
        gid: 100,
        ..NewInode::default()
    };
    let mut file = volume.create_file("/f", &owner).expect("create");
    std::io::Write::write_all(&mut file, &[7; 5000]).expect("write");
    file.close().expect("close");
    let limits = QuotaLimits {
        space_soft: 100,
        space_hard: 200,
        inodes_soft: 10,
        inodes_hard: 20,
    };
    volume
        .set_quota_limits(QuotaKind::User, 1000, &limits)
        .expect("set");
    volume.sync().expect("sync");
    let quotas = volume
        .quotas(QuotaKind::User)
        .expect("read")
        .expect("counted");
    let found = quotas
        .iter()
        .find(|quota| quota.id == 1000)
        .expect("it has an entry");
    assert_eq!((found.space, found.inodes, found.limits), (5120, 1, limits));
    volume.close().expect("close");
    assert_counted(&memory, "with limits");
    let image = Image::empty("ext4", 1024, 16 * MIB, false);
    memory.write_to_file(&image.path).unwrap();
    let said = tool::run_well(
        "debugfs",
        &["-R", "list_quota user", image.path.to_str().unwrap()],
    );
    let row: Vec<&str> = said
        .lines()
        .find(|line| line.trim_start().starts_with("1000 "))
        .expect("debugfs lists the user")
        .split_whitespace()
        .collect();
    assert_eq!(row, ["1000", "5120", "100", "200", "1", "10", "20"]);
}

#[test]
fn projects_are_inherited_and_not_crossed() {
    let memory = make(1024, "quota,project");
    let volume = open(&memory);
    let directory = volume.create_directory("/d").expect("mkdir");
    let change = SetAttributes {
        project: Some(42),
        flags: Some(InodeFlags::PROJECT_INHERIT),
        ..SetAttributes::default()
    };
    volume
        .set_attributes(directory, &change)
        .expect("chattr -p 42 +P");
    volume.write_file("/d/inside", &[7; 3000]).expect("write");
    volume.write_file("/outside", &[7; 3000]).expect("write");
    let project = |path: &str| {
        let nr = volume.resolve(path, false).expect("it is there");
        volume.attributes(nr).expect("it is there").project
    };
    assert_eq!((project("/d/inside"), project("/outside")), (42, 0));
    let crossed = volume.rename_path("/outside", "/d/moved");
    assert!(matches!(crossed, Err(Error::OtherProject)), "{crossed:?}");
    let outside = volume.resolve("/outside", false).expect("it is there");
    let linked = volume.link(outside, directory, b"linked");
    assert!(matches!(linked, Err(Error::OtherProject)), "{linked:?}");
    volume
        .rename_path("/d/inside", "/left")
        .expect("out is allowed");
    let quotas = volume
        .quotas(QuotaKind::Project)
        .expect("read")
        .expect("counted");
    let counts: BTreeMap<u32, u64> = quotas
        .iter()
        .map(|quota| (quota.id, quota.inodes))
        .collect();
    assert_eq!(counts[&42], 2);
    volume.close().expect("close");
    assert_counted(&memory, "with projects");
    let without = make(1024, "quota");
    let volume = open(&without);
    let refused = volume.set_attributes(InodeNr::ROOT, &change);
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    volume.close().expect("close");
}

#[test]
fn volumes_of_mke2fs_are_counted_on() {
    let more = ["-O", "quota,project"];
    let image = Image::with_arguments("ext4", 1024, 16 * MIB, false, &more);
    let volume = Volume::open(look_at(&image.path), None, MountOptions::default()).unwrap();
    let mut random = Random::new(3);
    let mut names = Vec::new();
    for _ in 0..100 {
        change(&volume, &mut random, &mut names);
    }
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after changes");
    if privilege::is_granted() {
        let mount = image.mount("ro").expect("the kernel reads it");
        drop(mount);
    }
}

#[test]
fn a_damaged_quota_file_is_named() {
    let memory = make(1024, "quota");
    let bytes = memory.to_bytes();
    let magic = 0xD9C0_1F11_u32.to_le_bytes();
    let at = bytes
        .windows(4)
        .position(|word| word == magic)
        .expect("the file is there");
    let mut bytes = bytes;
    bytes[at] = 0;
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let opened = Volume::open(device(&memory), None, quiet(DataMode::Ordered));
    let error = opened.expect_err("it is damaged").to_string();
    assert!(error.contains("inode 3"), "{error}");
}
