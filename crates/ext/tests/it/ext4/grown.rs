//! Inodes whose extra part is short, as older systems left them: it grows when they are stored, and
//! the attributes behind it move.

use std::os::unix::fs::MetadataExt;

use ext::options::DataMode;
use ext::volume::{SetAttributes, SetTime};
use layout::time::InodeTime;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, lgetxattr, lsetxattr, utimensat};
use testkit::{privilege, tool};

use super::*;
use crate::oracle::assert_fsck_clean;
use crate::rig::quiet;

/// Sizes of the values of an attribute; the last two leave no room for growth by 28 bytes, if they
/// fit into an inode.
const VALUES: [usize; 6] = [0, 1, 20, 40, 72, 88];
const SECONDS: i64 = 4_500_000_000;
const NANOS: u32 = 123_456_789;

fn name(value: usize) -> String {
    format!("with-{value}")
}

/// Returns `i_extra_isize` of a file by debugfs.
fn extra_size(image: &Image, path: &str) -> usize {
    let request = format!("stat /{path}");
    let said = tool::run_well("debugfs", &["-R", &request, image.path.to_str().unwrap()]);
    let size = said.lines().find_map(|line| {
        let (_, size) = line.split_once("Size of extra inode fields:")?;
        size.trim().parse().ok()
    });
    size.expect("the inode has 256 bytes")
}

fn value_of(folder: &Path, value: usize) -> Vec<u8> {
    let mut bytes = vec![0; 200];
    let count = lgetxattr(folder.join(name(value)), "user.a", &mut bytes[..]);
    bytes.truncate(count.expect("it is there"));
    bytes
}

#[test]
fn the_extra_part_grows_as_under_linux() {
    if !privilege::is_granted() {
        return;
    }
    for old in [4, 16, 28] {
        let ours = image(1024, 16 * MIB, "");
        let options = format!("noatime,debug_want_extra_isize={old}");
        let mount = ours.mount(&options).unwrap_or_else(|why| panic!("{why}"));
        for value in VALUES {
            let path = mount.path().join(name(value));
            std::fs::write(&path, "contents").unwrap();
            lsetxattr(&path, "user.a", &vec![7; value], XattrFlags::empty()).unwrap();
        }
        std::fs::write(mount.path().join("plain"), "contents").unwrap();
        drop(mount);
        assert_eq!(extra_size(&ours, "plain"), old);
        let theirs = Image::empty("ext4", 1024, 16 * MIB, false);
        std::fs::copy(&ours.path, &theirs.path).unwrap();

        let names = || VALUES.map(name).into_iter().chain(["plain".to_owned()]);
        let mounted = super::mount(&theirs);
        for name in names() {
            let time = Timespec {
                tv_sec: SECONDS,
                tv_nsec: NANOS.into(),
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            let path = mounted.path().join(name);
            utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
        }
        drop(mounted);
        let volume = Volume::open(ours.device(), None, quiet(DataMode::Ordered)).unwrap();
        let time = InodeTime::new(SECONDS, NANOS);
        for name in names() {
            let change = SetAttributes {
                mtime: Some(SetTime::At(time)),
                ..SetAttributes::default()
            };
            let nr = volume.resolve(&name, false).unwrap();
            volume.set_attributes(nr, &change).unwrap();
        }
        volume.close().unwrap();

        assert_fsck_clean(&ours, "after growth");
        for name in names() {
            // Linux moves attributes to a block for room; here such an inode stays.
            let (ours, theirs) = (extra_size(&ours, &name), extra_size(&theirs, &name));
            assert!(ours == theirs || ours == old, "{name}: {ours}, {theirs}");
        }
        let grows = |value| extra_size(&ours, &name(value)) == 32;
        // The inode also has its base, a header, an entry with its name, and the end of the list.
        let room = |extra: usize| 256 - 128 - extra - 4 - 20 - 4;
        let is_in_block = |value| value > room(old);
        for value in VALUES {
            assert_eq!(grows(value), value <= room(32) || is_in_block(value));
        }
        assert_eq!(extra_size(&ours, "plain"), 32);
        let mounted = super::mount(&ours);
        for value in VALUES {
            assert_eq!(value_of(mounted.path(), value), vec![7; value]);
        }
        let plain = std::fs::metadata(mounted.path().join("plain")).unwrap();
        let mtime = (plain.mtime(), plain.mtime_nsec());
        assert_eq!(mtime, (SECONDS, NANOS.into()));
    }
}
