//! The cost of a sync call by a fast commit, beside that of a whole commit. A change of these
//! numbers is a change of a promise, or of its cost.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, MeterCounts, MeterDevice};
use ext::mkfs::{self, FileSystemType};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags};
use ext::{MountOptions, Volume};

use crate::rig::quiet;

/// Writes, flushes and forced writes.
type Cost = (u64, u64, u64);

/// A volume on a device with a volatile cache, whose log is in use.
struct Bench {
    volume: Volume,
    device: Arc<MeterDevice>,
}

fn bench(is_fast: bool, has_force: bool) -> Bench {
    let memory = MemoryDevice::new(64 << 20).with_geometry(|geometry| {
        geometry.has_volatile_cache = true;
        geometry.has_force_unit_access = has_force;
    });
    let device = Arc::new(MeterDevice::new(Arc::new(memory)));
    let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&device);
    let mut options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        ..mkfs::Options::default()
    };
    options.features.add("fast_commit").expect("it is known");
    mkfs::format(&home, &options).expect("the volume is made");
    let options = MountOptions {
        fast_commits: is_fast,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(home, None, options).expect("the volume opens");
    volume.write_file("/first", b"first").expect("write");
    volume.sync().expect("sync");
    Bench { volume, device }
}

impl Bench {
    fn cost(&self, step: impl FnOnce(&Volume)) -> Cost {
        let before = self.device.counts();
        step(&self.volume);
        let MeterCounts {
            writes,
            flushes,
            forced_writes,
            ..
        } = self.device.counts() - before;
        (writes, flushes, forced_writes)
    }

    /// Creates a file, with contents or without, and makes it durable.
    fn create(&self, name: &str, contents: &[u8]) -> Cost {
        self.cost(|volume| {
            let file = volume
                .create_file(name, &NewInode::default())
                .expect("create");
            file.write_at(0, contents).expect("write");
            file.sync_all().expect("fsync");
            file.close().expect("close");
        })
    }
}

#[test]
fn a_new_file_is_one_forced_write() {
    let (fast, whole) = (bench(true, true), bench(false, true));
    for name in ["/a", "/b", "/c"] {
        // The log in one request, and the commit block; or the tail alone.
        assert_eq!(whole.create(name, b""), (2, 1, 1), "{name}");
        assert_eq!(fast.create(name, b""), (1, 0, 1), "{name}");
    }
}

#[test]
fn data_adds_its_own_write_and_a_flush() {
    let (fast, whole) = (bench(true, true), bench(false, true));
    for name in ["/a", "/b", "/c"] {
        assert_eq!(whole.create(name, &[1; 5000]), (3, 1, 1), "{name}");
        assert_eq!(fast.create(name, &[1; 5000]), (2, 1, 1), "{name}");
    }
}

#[test]
fn without_forced_writes_a_flush_follows() {
    let (fast, whole) = (bench(true, false), bench(false, false));
    for name in ["/a", "/b", "/c"] {
        assert_eq!(whole.create(name, b""), (2, 2, 0), "{name}");
        assert_eq!(fast.create(name, b""), (1, 1, 0), "{name}");
        assert_eq!(whole.create(&format!("{name}1"), b"data"), (3, 2, 0));
        assert_eq!(fast.create(&format!("{name}1"), b"data"), (2, 2, 0));
    }
}

/// Changes that an earlier fast commit has need nothing.
#[test]
fn what_is_durable_is_not_written_again() {
    let fast = bench(true, true);
    fast.create("/a", &[1; 5000]);
    fast.create("/b", b"");
    let again = fast.cost(|volume| {
        let file = volume.open_file("/a", OpenFlags::READ).expect("open");
        file.sync_all().expect("fsync");
        file.close().expect("close");
    });
    assert_eq!(again, (0, 0, 0));
    let stats = fast.volume.journal_stats().expect("there is a journal");
    assert_eq!((stats.fast_commits, stats.commits), (2, 1));
}
