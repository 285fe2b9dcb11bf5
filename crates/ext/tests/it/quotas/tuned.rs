//! Quotas of a volume that is there: made, counted again and removed, beside tune2fs.

use std::sync::Arc;

use block::MemoryDevice;
use ext::options::DataMode;
use ext::tune::{self, Changes, Word, free_feature, removable_feature};
use ext::volume::{NewInode, QuotaKind, QuotaLimits, SetAttributes, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::tool;
use zerocopy::FromBytes;

use super::{MIB, assert_counted, e2fscks, failing, make, open, run_on_copy, usage};
use crate::image::Image;
use crate::rig::{device, quiet};

const OWNER: u32 = 1000;

/// Options of tune2fs, and the same as changes.
fn parse(options: &str) -> Changes {
    let mut changes = Changes::default();
    let mut words = options.split(' ');
    while let (Some(option), Some(list)) = (words.next(), words.next()) {
        for text in list.split(',') {
            let name = text.strip_prefix('^');
            match (option, name) {
                ("-O", None) => changes.features.push(free_feature(text).expect("known")),
                ("-O", Some(name)) => {
                    let feature = removable_feature(name).expect("known");
                    changes.features_removed.push(feature);
                }
                _ => {
                    let kind = match name.unwrap_or(text) {
                        "usrquota" => QuotaKind::User,
                        "grpquota" => QuotaKind::Group,
                        _ => QuotaKind::Project,
                    };
                    changes.quotas.push((kind, name.is_none()));
                }
            }
        }
    }
    changes
}

fn superblock(memory: &MemoryDevice) -> Superblock {
    let bytes = &memory.to_bytes()[OFFSET as usize..][..SIZE];
    Superblock::read_from_bytes(bytes).expect("a superblock")
}

/// Returns what the superblock says of quotas: features and inodes.
fn facts(memory: &MemoryDevice) -> (u32, [u32; 3]) {
    let raw = superblock(memory);
    let inodes = [
        raw.user_quota_inode.get(),
        raw.group_quota_inode.get(),
        raw.project_quota_inode.get(),
    ];
    (raw.features().word(Word::ReadOnlyCompatible), inodes)
}

/// Returns what debugfs lists of all quota files.
fn listed(memory: &MemoryDevice) -> String {
    let image = Image::empty("ext4", 1024, 16 * MIB, false);
    memory.write_to_file(&image.path).unwrap();
    let path = image.path.to_str().unwrap();
    let list = |kind| tool::run_well("debugfs", &["-R", &format!("list_quota {kind}"), path]);
    ["user", "group", "project"].map(list).concat()
}

/// Runs tune2fs on a copy.
fn tune2fs(memory: &MemoryDevice, options: &str) -> MemoryDevice {
    let image = Image::empty("ext4", 1024, 16 * MIB, false);
    memory.write_to_file(&image.path).unwrap();
    let mut arguments: Vec<&str> = options.split(' ').collect();
    arguments.push(image.path.to_str().unwrap());
    tool::run_well("tune2fs", &arguments);
    MemoryDevice::load_from_file(&image.path).expect("the image loads")
}

fn tuned(memory: &MemoryDevice, options: &str) -> Arc<MemoryDevice> {
    let copy = Arc::new(memory.snapshot());
    tune::apply(&device(&copy), None, &parse(options)).expect("it is tuned");
    copy
}

/// Makes a volume with files of several owners and projects.
fn filled(features: &str) -> Arc<MemoryDevice> {
    let memory = make(1024, features);
    let volume = open(&memory);
    for number in 0..40 {
        let new = NewInode {
            uid: OWNER + number * 7,
            gid: OWNER + number % 3,
            ..NewInode::default()
        };
        let path = format!("/f{number}");
        let mut file = volume.create_file(&path, &new).expect("create");
        let bytes = vec![7; 500 * number as usize];
        std::io::Write::write_all(&mut file, &bytes).expect("write");
        file.close().expect("close");
        if volume.superblock().has_ea_inode() && number % 8 == 0 {
            let nr = volume.resolve(&path, false).expect("it is there");
            let value = vec![7; 3000];
            let done = volume.set_attribute(nr, b"user.x", &value, SetMode::Any);
            done.expect("setxattr");
        }
        if volume.superblock().has_project() {
            let nr = volume.resolve(&path, false).expect("it is there");
            let change = SetAttributes {
                project: Some(number % 4),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &change).expect("a project");
        }
    }
    volume.close().expect("close");
    memory
}

#[test]
fn quotas_are_those_of_tune2fs() {
    let plain = filled("extent");
    let orphans = filled("orphan_file");
    let of_ext3 = filled("^extent,^64bit,^metadata_csum,uninit_bg");
    let all = filled("quota,project");
    let values = filled("quota,project,ea_inode");
    let cases: &[(&MemoryDevice, &str)] = &[
        (&plain, "-O quota"),
        (&plain, "-O project"),
        (&plain, "-O quota,project"),
        (&plain, "-Q usrquota"),
        (&plain, "-Q grpquota,prjquota"),
        (&plain, "-O project -Q usrquota"),
        (&orphans, "-O quota,project"),
        (&of_ext3, "-O quota,project"),
        (&all, "-O ^quota"),
        (&all, "-O ^project"),
        (&all, "-Q ^usrquota"),
        (&all, "-Q ^grpquota,^prjquota"),
        (&all, "-Q usrquota,^grpquota"),
        (&all, "-O ^quota,^project"),
        (&values, "-O ^project"),
    ];
    for (memory, options) in cases {
        let (ours, theirs) = (tuned(memory, options), tune2fs(memory, options));
        assert_eq!(facts(&ours), facts(&theirs), "{options}");
        assert_eq!(listed(&ours), listed(&theirs), "{options}");
        let free = |memory: &MemoryDevice| {
            let raw = superblock(memory);
            (raw.free_blocks_count(), raw.free_inodes_count.get())
        };
        assert_eq!(free(&ours), free(&theirs), "{options}");
        assert_counted(&ours, options);
        // It is used as any other.
        let volume = open(&ours);
        volume.write_file("/more", &[1; 4000]).expect("write");
        volume.remove_file("/f9").expect("unlink");
        volume.close().expect("close");
        assert_counted(&ours, options);
    }
}

/// tune2fs counts the inode of a value as any other, and not where e2fsck and Linux count it.
#[test]
fn values_are_counted_as_by_e2fsck() {
    let memory = filled("ea_inode");
    for options in ["-O quota", "-O quota,project", "-Q grpquota"] {
        let ours = tuned(&memory, options);
        assert_eq!(facts(&ours), facts(&tune2fs(&memory, options)), "{options}");
        assert_counted(&ours, options);
    }
    let counted = filled("quota,project,ea_inode");
    let damaged = with_wrong_counts(&counted, OWNER + 56);
    let (_, said) = run_on_copy(&damaged, "e2fsck", "-fn");
    assert!(said.contains("QUOTA WARNING"), "{said}");
    let report = fsck::check_bytes(&damaged.to_bytes(), None, &fsck::Options::default());
    assert!(!report.expect("it can be checked").is_clean());
    let again = tuned(&damaged, "-Q usrquota,grpquota,prjquota");
    assert_counted(&again, "counted again");
}

/// Wrong counts are put right, and limits are kept.
#[test]
fn quotas_are_counted_again() {
    let memory = filled("quota,project");
    let volume = open(&memory);
    let limits = QuotaLimits {
        space_hard: 4000,
        ..QuotaLimits::default()
    };
    for id in [OWNER + 7, 5] {
        let set = volume.set_quota_limits(QuotaKind::User, id, &limits);
        set.expect("it is counted");
    }
    let right = usage(&volume, QuotaKind::User, OWNER + 7);
    volume.close().expect("close");
    let damaged = with_wrong_counts(&memory, OWNER + 7);
    let (_, said) = run_on_copy(&damaged, "e2fsck", "-fn");
    assert!(said.contains("QUOTA WARNING"), "{said}");
    let changes = parse("-Q usrquota,grpquota,prjquota");
    for writes in 0.. {
        let copy = Arc::new(damaged.snapshot());
        let is_done = tune::apply(&failing(&copy, writes), None, &changes).is_ok();
        // The same command completes it, after the log was replayed.
        open(&copy).close().expect("close");
        tune::apply(&device(&copy), None, &changes).expect("tuned");
        assert_counted(&copy, &format!("counted again after {writes} writes"));
        let volume = open(&copy);
        let quotas = volume.quotas(QuotaKind::User).unwrap().unwrap();
        let limited = quotas.iter().filter(|quota| quota.limits == limits);
        let ids: Vec<u32> = limited.map(|quota| quota.id).collect();
        assert_eq!(ids, [5, OWNER + 7]);
        assert_eq!(usage(&volume, QuotaKind::User, OWNER + 7), right);
        volume.close().expect("close");
        if is_done {
            break;
        }
    }
}

/// Changes the counts in the entries of an owner.
fn with_wrong_counts(memory: &MemoryDevice, owner: u32) -> MemoryDevice {
    let mut bytes = memory.to_bytes();
    let mut found = 0;
    for entry in (16..bytes.len() - 1024).step_by(8) {
        let is_slot = entry % 1024 >= 16 && (entry % 1024 - 16) % 72 == 0;
        let id = u32::from_le_bytes(bytes[entry..entry + 4].try_into().unwrap());
        let inodes = u64::from_le_bytes(bytes[entry + 24..entry + 32].try_into().unwrap());
        if is_slot && id == owner && [1, 2].contains(&inodes) {
            bytes[entry + 24] = 9;
            found += 1;
        }
    }
    assert!(found > 0);
    MemoryDevice::from_bytes(&bytes)
}

/// The device fails after each write: what is left is a volume on which e2fsck has at most to free
/// something, and the limits of kinds that stay are there.
#[test]
fn a_change_of_quotas_that_is_cut_off_loses_nothing() {
    let limits = QuotaLimits {
        inodes_soft: 11,
        ..QuotaLimits::default()
    };
    for (features, options) in [
        ("extent", "-O quota,project"),
        ("quota", "-Q prjquota"),
        ("quota", "-Q ^grpquota"),
        ("quota,project", "-O ^project"),
        ("quota,project", "-O ^quota"),
    ] {
        let memory = filled(features);
        if features.contains("quota") {
            let volume = open(&memory);
            let set = volume.set_quota_limits(QuotaKind::User, OWNER, &limits);
            set.expect("it is counted");
            volume.close().expect("close");
        }
        for writes in 0.. {
            let when = format!("{features}, {options}, {writes} writes");
            let copy = Arc::new(memory.snapshot());
            let is_done = tune::apply(&failing(&copy, writes), None, &parse(options)).is_ok();
            for e2fsck in e2fscks() {
                let (_, said) = run_on_copy(&copy.snapshot(), &e2fsck, "-fn");
                // The file of projects that nothing names yet is counted.
                let is_alone = said.contains("Unattached inode");
                assert!(is_alone || !said.contains("QUOTA"), "{when}: {said}");
            }
            let image = Image::empty("ext4", 1024, 16 * MIB, false);
            copy.write_to_file(&image.path).unwrap();
            let path = image.path.to_str().unwrap();
            tool::run("e2fsck", &["-fy", path]);
            let repaired = Arc::new(MemoryDevice::load_from_file(path).expect("it loads"));
            assert_counted(&repaired, &when);
            let volume = open(&repaired);
            for number in 0..40_usize {
                let found = volume.read_file(&format!("/f{number}")).expect("read");
                assert_eq!(found.len(), 500 * number, "{when}");
            }
            if let Some(quotas) = volume.quotas(QuotaKind::User).expect("read")
                && features.contains("quota")
            {
                let limited = quotas.iter().find(|quota| quota.id == OWNER);
                assert_eq!(limited.map(|quota| quota.limits), Some(limits), "{when}");
            }
            volume.close().expect("close");
            if is_done {
                assert_eq!(facts(&copy), facts(&tuned(&memory, options)), "{when}");
                break;
            }
        }
    }
}

#[test]
fn what_cannot_have_quotas_is_refused() {
    let memory = make(1024, "extent");
    let volume = open(&memory);
    fill_and_close(volume);
    let before = memory.snapshot();
    let refused = tune::apply(&device(&memory), None, &parse("-O quota"));
    assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
    assert_eq!(memory.first_difference(&before), None);
    let volume = open(&memory);
    drop(volume);
    let refused = tune::apply(&device(&memory), None, &parse("-O quota"));
    assert!(matches!(refused, Err(Error::NotClean)), "{refused:?}");
}

/// Writes a file until there is no room.
fn fill_and_close(volume: Volume) {
    let filler = volume.create(InodeNr::ROOT, b"filler", &NewInode::default());
    let nr = filler.expect("create");
    let file = volume.open_inode(nr, ext::volume::OpenFlags::READ_WRITE);
    let file = file.expect("open");
    let mut at = 0;
    while volume.write_all(file, at, &[1; 1024]).is_ok() {
        at += 1024;
    }
    volume.release(file).expect("release");
    volume.close().expect("close");
}

/// A volume that is full for users has its reserve for the administrator.
#[test]
fn the_reserve_is_for_who_tunes() {
    for options in ["-O quota", "-O mmp"] {
        let memory = make(1024, "extent");
        let as_user = MountOptions {
            privileged: false,
            ..quiet(DataMode::Ordered)
        };
        let volume = Volume::open(device(&memory), None, as_user).expect("it opens");
        fill_and_close(volume);
        tune::apply(&device(&memory), None, &parse(options)).expect(options);
    }
}

/// With other changes, and with multiple mount protection, which is there before and after.
#[test]
fn quotas_change_with_other_things() {
    let memory = filled("extent,orphan_file,mmp");
    let mut changes = parse("-O quota -O ^orphan_file");
    changes.label = Some("counted".to_owned());
    tune::apply(&device(&memory), None, &changes).expect("tuned");
    assert_counted(&memory, "with a label");
    assert_eq!(&superblock(&memory).label[..7], b"counted");
    let changes = parse("-O ^mmp,project -Q usrquota");
    tune::apply(&device(&memory), None, &changes).expect("tuned");
    assert_counted(&memory, "without protection");
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered));
    let volume = volume.expect("it opens");
    let quotas = volume.quotas(QuotaKind::Project).expect("read");
    assert!(quotas.is_some());
    volume.close().expect("close");
}
