//! Changes through files opened with O_SYNC and O_DSYNC: a power cut after the call loses nothing.
//! The kernel syncs writes, but neither copies nor fallocate.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use block::{BlockDevice, FileDevice};
use ext::{MountOptions, Volume};
use fuse::Settings;
use layout::InodeNr;
use rustix::fs::{FallocateFlags, IFlags, OFlags};

use super::support::{Mounted, Place};

/// Size of the file before the change in bytes.
const BYTES: usize = 20_000;
/// O_SYNC and O_DSYNC. rustix's `DSYNC` has the value of O_SYNC.
const FLAGS: [OFlags; 2] = [OFlags::SYNC, OFlags::from_bits_retain(0o10_000)];

/// Makes a change, and returns the contents of the file after a power cut.
fn after_a_cut(flags: OFlags, change: impl Fn(&Mounted, &File)) -> Vec<u8> {
    on_a_mount_after_a_cut(&Settings::default(), flags, change)
}

fn on_a_mount_after_a_cut(
    settings: &Settings,
    flags: OFlags,
    change: impl Fn(&Mounted, &File),
) -> Vec<u8> {
    let place = Place::new();
    let mounted = place.mount(settings);
    for (name, byte) in [("file", 1), ("source", 2)] {
        fs::write(mounted.at(name), [byte; BYTES]).unwrap();
        File::open(mounted.at(name)).unwrap().sync_all().unwrap();
    }
    File::open(mounted.at("")).unwrap().sync_all().unwrap();
    if flags.contains(OFlags::APPEND) {
        let file = File::open(mounted.at("file")).unwrap();
        rustix::fs::ioctl_setflags(&file, IFlags::APPEND | mounted.extents()).unwrap();
        file.sync_all().unwrap();
    }
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flags.bits().cast_signed());
    change(&mounted, &options.open(mounted.at("file")).unwrap());
    let copy = place.image().with_extension("copy");
    fs::copy(place.image(), &copy).unwrap();
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&copy, &Default::default()).unwrap());
    let volume = Volume::open(device, None, MountOptions::default()).unwrap();
    let node = volume.lookup(InodeNr::ROOT, b"file").unwrap();
    let mut bytes = vec![0; 10 * BYTES];
    let count = volume.read_node(node, 0, &mut bytes, false).unwrap();
    volume.close().unwrap();
    mounted.end().unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn copies_are_there_after_a_power_cut() {
    if !testkit::privilege::is_granted() {
        return;
    }
    for flags in FLAGS {
        let found = after_a_cut(flags, |mounted, file| {
            let source = File::open(mounted.at("source")).unwrap();
            let mut at = BYTES as u64 - 100;
            let copied =
                rustix::fs::copy_file_range(&source, None, file, Some(&mut at), BYTES).unwrap();
            assert_eq!(copied, BYTES);
        });
        let expected = [vec![1; BYTES - 100], vec![2; BYTES]].concat();
        assert!(
            found == expected,
            "{:o}: {} bytes",
            flags.bits(),
            found.len()
        );
    }
}

#[test]
fn changed_ranges_are_there_after_a_power_cut() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zeroed = || [vec![0; 8192], vec![1; BYTES - 8192]].concat();
    let longer = || [vec![1; BYTES], vec![0; BYTES]].concat();
    for flags in FLAGS {
        for (change, length, expected) in [
            (FallocateFlags::empty(), 2 * BYTES, longer()),
            (FallocateFlags::ZERO_RANGE, 8192, zeroed()),
            (hole, 8192, zeroed()),
        ] {
            let found = after_a_cut(flags, |_, file| {
                rustix::fs::fallocate(file, change, 0, length as u64).unwrap();
            });
            assert!(found == expected, "{:o}, {change:?}", flags.bits());
        }
    }
}

/// The kernel syncs what its cache has taken. Other writes are synced here: direct ones, and those
/// to an append-only file.
#[test]
fn writes_are_there_after_a_power_cut() {
    if !testkit::privilege::is_granted() {
        return;
    }
    for (flags, is_direct_parallel) in [false, true]
        .into_iter()
        .flat_map(|parallel| FLAGS.map(|flags| (flags, parallel)))
    {
        let settings = Settings {
            is_direct_parallel,
            ..Settings::default()
        };
        for more in [OFlags::empty(), OFlags::DIRECT, OFlags::APPEND] {
            let found = on_a_mount_after_a_cut(&settings, flags | more, |_, file| {
                file.write_all_at(&Page([3; 4096]).0, 4096).unwrap();
            });
            let expected = match more {
                OFlags::APPEND => [vec![1; BYTES], vec![3; 4096]],
                _ => [
                    vec![1; 4096],
                    [vec![3; 4096], vec![1; BYTES - 8192]].concat(),
                ],
            };
            assert!(found == expected.concat(), "{:o}", (flags | more).bits());
        }
    }
}

/// A page of memory, aligned for direct I/O.
#[repr(align(4096))]
struct Page([u8; 4096]);
