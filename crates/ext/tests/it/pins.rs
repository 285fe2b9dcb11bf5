//! The exact cost of durability: flushes and forced writes of each device, and log blocks, for each
//! call.
//!
//! | call | log device | file-system device |
//! |---|---|---|
//! | a commit, internal journal | 1 flush and 1 forced write; see below | the same device |
//! | a commit, external journal | the same | 1 flush for data or a tail move, else none |
//! | overwrite and fdatasync | nothing | 1 flush and no commit |
//! | without barriers | nothing | nothing |
//!
//! A device that cannot force writes gets 2 flushes and no forced write.

mod group;

use std::sync::Arc;

use block::device::BlockDevice;
use block::memory::MemoryDevice;
use block::meter::{MeterCounts, MeterDevice};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags, RenameMode, SetAttributes};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::Nanos;

use crate::rig::{Place, Rig, quiet};

const VOLUME_BYTES: u64 = 24 << 20;

/// A volume on metered media that claim to have a volatile cache.
struct Metered {
    volume: Volume,
    home: Arc<MeterDevice>,
    log: Option<Arc<MeterDevice>>,
}

/// The cost of a step: (flushes, forced writes) of each device, commits, blocks in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    home: (u64, u64),
    log: (u64, u64),
    commits: u64,
}

fn metered(inner: Arc<dyn BlockDevice>) -> Arc<MeterDevice> {
    Arc::new(MeterDevice::new(inner))
}

fn volatile(memory: &Arc<MemoryDevice>, can_force: bool) -> Arc<dyn BlockDevice> {
    Arc::new(memory.snapshot().with_geometry(|geometry| {
        geometry.has_volatile_cache = true;
        geometry.has_force_unit_access = can_force;
    }))
}

impl Metered {
    fn open(place: Place, can_force: bool, options: MountOptions) -> Self {
        let rig = Rig::new(place, 4096, VOLUME_BYTES);
        let home = metered(volatile(&rig.home, can_force));
        let log = rig
            .log
            .as_ref()
            .map(|log| metered(volatile(log, can_force)));
        Self::open_on(home, log, options)
    }

    fn open_on(
        home: Arc<MeterDevice>,
        log: Option<Arc<MeterDevice>>,
        options: MountOptions,
    ) -> Self {
        let device = Arc::<MeterDevice>::clone(&home);
        let log_device = log
            .as_ref()
            .map(|log| Arc::<MeterDevice>::clone(log) as Arc<dyn BlockDevice>);
        let volume = Volume::open(device, log_device, options).expect("the volume opens");
        Self { volume, home, log }
    }

    fn counts(&self) -> (MeterCounts, MeterCounts, jbd2::Stats) {
        let log = self
            .log
            .as_ref()
            .map(|log| log.counts())
            .unwrap_or_default();
        (
            self.home.counts(),
            log,
            self.volume.journal_stats().unwrap_or_default(),
        )
    }

    /// Runs a step and returns its cost.
    fn cost(&self, step: impl FnOnce(&Volume)) -> Cost {
        let (home, log, stats) = self.counts();
        step(&self.volume);
        let (home_after, log_after, stats_after) = self.counts();
        let (home, log, stats) = (home_after - home, log_after - log, stats_after - stats);
        assert_eq!(stats.tail_moves, 0, "the log is long enough for this");
        Cost {
            home: (home.flushes, home.forced_writes),
            log: (log.flushes, log.forced_writes),
            commits: stats.commits,
        }
    }

    /// Returns the number of blocks that a step wrote to the log, including descriptors and the
    /// commit block.
    fn log_blocks(&self, step: impl FnOnce(&Volume)) -> u64 {
        let before = self.volume.journal_stats().expect("there is a journal");
        step(&self.volume);
        let stats = self.volume.journal_stats().expect("there is a journal") - before;
        stats.logged_blocks + stats.descriptor_blocks + stats.revoke_blocks + stats.commit_blocks
    }
}

fn write(volume: &Volume, path: &str, offset: u64, bytes: &[u8], flags: OpenFlags) {
    let file = volume.open_file(path, flags).expect("the file opens");
    file.write_at(offset, bytes).expect("write");
    file.close().expect("close");
}

fn sync(volume: &Volume, path: &str, data_only: bool) {
    let file = volume
        .open_file(path, OpenFlags::READ_WRITE)
        .expect("the file opens");
    let synced = if data_only {
        file.sync_data()
    } else {
        file.sync_all()
    };
    synced.expect("fsync");
    file.close().expect("close");
}

fn sync_directory(volume: &Volume, path: &str) {
    let nr = volume.resolve(path, true).expect("the directory is there");
    volume.sync_directory(nr).expect("fsync of a directory");
}

/// A step, with true if it needs a commit, and true if its data reaches the file-system device.
type Step = (&'static str, bool, bool, fn(&Volume));

/// This step has nothing left to do if the overwrite before it was a commit.
const TIMES_ONLY: &str = "fsync after that, for the times";

const STEPS: &[Step] = &[
    ("create, fsync", true, false, |volume| {
        volume
            .create(InodeNr::ROOT, b"f", &NewInode::default())
            .expect("create");
        sync(volume, "/f", false);
    }),
    ("fsync of what is durable", false, false, |volume| {
        sync(volume, "/f", false)
    }),
    ("append, fsync", true, true, |volume| {
        write(volume, "/f", 0, &[1; 9000], OpenFlags::READ_WRITE);
        sync(volume, "/f", false);
    }),
    ("append, fdatasync", true, true, |volume| {
        write(volume, "/f", 9000, &[2; 9000], OpenFlags::READ_WRITE);
        sync(volume, "/f", true);
    }),
    ("overwrite, fdatasync", false, true, |volume| {
        write(volume, "/f", 0, &[3; 9000], OpenFlags::READ_WRITE);
        sync(volume, "/f", true);
    }),
    (TIMES_ONLY, true, false, |volume| sync(volume, "/f", false)),
    ("overwrite, fsync", true, true, |volume| {
        write(volume, "/f", 100, &[4; 200], OpenFlags::READ_WRITE);
        sync(volume, "/f", false);
    }),
    ("fdatasync of what is durable", false, false, |volume| {
        sync(volume, "/f", true)
    }),
    ("O_DSYNC overwrite", false, true, |volume| {
        let flags = OpenFlags {
            data_sync: true,
            ..OpenFlags::READ_WRITE
        };
        write(volume, "/f", 0, &[5; 4096], flags);
    }),
    ("O_SYNC append", true, true, |volume| {
        let flags = OpenFlags {
            sync: true,
            append: true,
            ..OpenFlags::READ_WRITE
        };
        write(volume, "/f", 0, &[6; 5000], flags);
    }),
    ("mkdir, fsync", true, false, |volume| {
        volume.create_directory("/d").expect("mkdir");
        sync_directory(volume, "/d");
    }),
    ("rename, fsync of the directory", true, false, |volume| {
        volume.rename_path("/f", "/d/g").expect("rename");
        sync_directory(volume, "/d");
    }),
    ("link, fsync of the file", true, false, |volume| {
        let nr = volume.resolve("/d/g", true).expect("it is there");
        volume.link(nr, InodeNr::ROOT, b"h").expect("link");
        sync(volume, "/h", false);
    }),
    ("chmod, fdatasync", false, false, |volume| {
        let nr = volume.resolve("/h", true).expect("it is there");
        let change = SetAttributes {
            permissions: Some(0o600),
            ..Default::default()
        };
        volume.set_attributes(nr, &change).expect("chmod");
        sync(volume, "/h", true);
    }),
    ("exchange, sync", true, false, |volume| {
        volume
            .create(InodeNr::ROOT, b"i", &NewInode::default())
            .expect("create");
        volume
            .rename(
                InodeNr::ROOT,
                b"h",
                InodeNr::ROOT,
                b"i",
                RenameMode::Exchange,
            )
            .expect("rename");
        volume.sync().expect("sync");
    }),
    ("unlink, fsync of the directory", true, false, |volume| {
        volume.remove_file("/h").expect("unlink");
        sync_directory(volume, "/");
    }),
    ("symlink, sync", true, false, |volume| {
        volume
            .symlink(InodeNr::ROOT, b"s", b"d/g", &NewInode::default())
            .expect("symlink");
        volume.sync().expect("sync");
    }),
    ("truncate, fsync", true, false, |volume| {
        let nr = volume.resolve("/d/g", true).expect("it is there");
        let change = SetAttributes {
            size: Some(4096),
            ..Default::default()
        };
        volume.set_attributes(nr, &change).expect("truncate");
        sync(volume, "/d/g", false);
    }),
    ("several changes, one sync", true, true, |volume| {
        for name in ["/a", "/b", "/c"] {
            volume.write_file(name, &[7; 6000]).expect("write");
        }
        volume.sync().expect("sync");
    }),
    ("sync with nothing to do", false, false, |volume| {
        volume.sync().expect("sync")
    }),
];

fn expected(place: Place, can_force: bool, needs_commit: bool, has_data: bool) -> Cost {
    let commit = match (needs_commit, can_force) {
        (false, _) => (0, 0),
        (true, true) => (1, 1),
        (true, false) => (2, 0),
    };
    let data = (u64::from(has_data), 0);
    let commits = u64::from(needs_commit);
    match place {
        Place::External => Cost {
            home: data,
            log: commit,
            commits,
        },
        _ if needs_commit => Cost {
            home: commit,
            log: (0, 0),
            commits,
        },
        _ => Cost {
            home: data,
            log: (0, 0),
            commits,
        },
    }
}

fn pin(place: Place, can_force: bool, mode: DataMode) {
    let metered = Metered::open(place, can_force, quiet(mode));
    for (what, needs_commit, has_data, step) in STEPS {
        // With data in the journal, an overwrite is a commit and no data reaches its final
        // location.
        let is_journaled = mode == DataMode::Journal;
        let is_done = is_journaled && *what == TIMES_ONLY;
        let needs_commit = (*needs_commit && !is_done) || (*has_data && is_journaled);
        let has_data = *has_data && !is_journaled;
        let found = metered.cost(step);
        let expect = expected(place, can_force, needs_commit, has_data);
        assert_eq!(
            found, expect,
            "{what}: journal {place:?}, {mode:?}, forced writes {can_force}"
        );
    }
    metered.volume.close().expect("close");
}

#[test]
fn internal_journal() {
    for mode in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        pin(Place::Internal, true, mode);
        pin(Place::Internal, false, mode);
    }
}

#[test]
fn external_journal() {
    for mode in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        pin(Place::External, true, mode);
        pin(Place::External, false, mode);
    }
}

#[test]
fn without_barriers_nothing_is_flushed() {
    for place in [Place::Internal, Place::External] {
        for mode in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
            let metered = Metered::open(
                place,
                true,
                MountOptions {
                    barrier: false,
                    ..quiet(mode)
                },
            );
            for (what, .., step) in STEPS {
                let found = metered.cost(step);
                assert_eq!(
                    (found.home, found.log),
                    ((0, 0), (0, 0)),
                    "{what}: {place:?}, {mode:?}"
                );
            }
        }
    }
}

#[test]
fn without_a_journal_a_sync_is_one_flush() {
    let metered = Metered::open(Place::None, true, quiet(DataMode::Ordered));
    for (what, .., step) in STEPS {
        let found = metered.cost(step);
        let expect = Cost {
            home: (1, 0),
            log: (0, 0),
            commits: 0,
        };
        assert_eq!(found, expect, "{what}");
    }
}

/// On a `sync` mount every call pays for a commit of its own.
#[test]
fn sync_mounts_pay_for_each_call() {
    for place in [Place::Internal, Place::External] {
        let metered = Metered::open(
            place,
            true,
            MountOptions {
                sync: true,
                ..quiet(DataMode::Ordered)
            },
        );
        let commit = |home| expected(place, true, true, home);
        let create =
            |volume: &Volume| drop(volume.create(InodeNr::ROOT, b"f", &NewInode::default()));
        assert_eq!(metered.cost(create), commit(false), "create");
        let append = |volume: &Volume| {
            write(volume, "/f", 0, &[1; 5000], OpenFlags::READ_WRITE);
        };
        assert_eq!(metered.cost(append), commit(true), "append");
        let rename = |volume: &Volume| volume.rename_path("/f", "/g").expect("rename");
        assert_eq!(metered.cost(rename), commit(false), "rename");
    }
}

/// Log blocks with 4 KiB blocks: the blocks that each operation dirties, a descriptor block, a
/// commit block.
#[test]
fn log_blocks() {
    let metered = Metered::open(Place::Internal, true, quiet(DataMode::Ordered));
    metered.cost(|volume| {
        volume.write_file("/warm", &[1; 100]).expect("write");
        volume.sync().expect("sync");
    });
    // Directory, inode bitmap, group descriptors, inode table.
    let create = metered.log_blocks(|volume| {
        volume
            .create(InodeNr::ROOT, b"f", &NewInode::default())
            .expect("create");
        sync(volume, "/f", false);
    });
    assert_eq!(create, 4 + 2, "create, fsync");
    // Block bitmap, group descriptors, inode table.
    let append = metered.log_blocks(|volume| {
        write(volume, "/f", 0, &[1; 4096], OpenFlags::READ_WRITE);
        sync(volume, "/f", false);
    });
    assert_eq!(append, 3 + 2, "append, fsync");
    let overwrite = metered.log_blocks(|volume| {
        write(volume, "/f", 0, &[1; 4096], OpenFlags::READ_WRITE);
        sync(volume, "/f", true);
    });
    assert_eq!(overwrite, 0, "overwrite, fdatasync");
    let times = metered.log_blocks(|volume| sync(volume, "/f", false));
    assert_eq!(times, 1 + 2, "the inode's times");
    // Directory, inode table.
    let rename = metered.log_blocks(|volume| {
        volume.rename_path("/f", "/g").expect("rename");
        sync_directory(volume, "/");
    });
    assert_eq!(rename, 2 + 2, "rename, fsync of the directory");
}

/// A long run in a short log: every tail move costs one forced write of the journal's superblock
/// (and, for an external journal, a flush of the file-system device), and nothing else is added.
#[test]
fn tail_moves_are_counted_apart() {
    for place in [Place::Internal, Place::External] {
        let metered = Metered::open(place, true, quiet(DataMode::Ordered));
        let (home, log, stats) = metered.counts();
        for number in 0..600 {
            volume_create(&metered.volume, number);
        }
        metered.volume.sync().expect("sync");
        // The checkpointer completes its work; only then are the counts consistent.
        let (home_after, log_after, stats_after) = loop {
            let before = metered.counts();
            rt::sleep(Nanos::from_millis(20));
            let after = metered.counts();
            if before.2.tail_moves == after.2.tail_moves
                && before.0 == after.0
                && before.1 == after.1
            {
                break after;
            }
        };
        let (home, log, stats) = (home_after - home, log_after - log, stats_after - stats);
        assert!(stats.tail_moves > 0, "the log wraps");
        let (logs, homes) = if place == Place::External {
            (log, home)
        } else {
            (home, home)
        };
        assert_eq!(
            logs.forced_writes,
            stats.commits + stats.tail_moves,
            "journal {place:?}"
        );
        let least = stats.commits;
        let most = stats.commits + stats.tail_moves;
        match place {
            Place::External => {
                assert_eq!(logs.flushes, stats.commits, "flushes of the log");
                assert!(
                    homes.flushes <= stats.tail_moves,
                    "flushes of the home device"
                );
            }
            _ => assert!(
                (least..=most).contains(&logs.flushes),
                "{} flushes",
                logs.flushes
            ),
        }
        metered.volume.close().expect("close");
    }
}

fn volume_create(volume: &Volume, number: u32) {
    let name = format!("n{number}");
    let nr = volume
        .create(InodeNr::ROOT, name.as_bytes(), &NewInode::default())
        .expect("create");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    volume.sync_file(file, false).expect("fsync");
    volume.release(file).expect("close");
}
