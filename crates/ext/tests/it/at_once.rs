//! Threads that make, open, link, write, look up and remove the same few files without blocks, in
//! hostile worlds with power cuts.

use std::sync::Arc;

use ext::mkfs::{self, FeatureEdits, FileSystemType, JournalOption};
use ext::options::DataMode;
use ext::volume::SetAttributes;
use ext::volume::{DeviceNumber, Durability, FileKind, NewInode, OpenFlags, RenameMode, Writer};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use testkit::Random;

use crate::durability::{Recorded, cut_image};
use crate::hostile;
use crate::rig::{Rig, device, quiet};

fn rig(file_system: FileSystemType, features: &str) -> Rig {
    let home = Arc::new(block::memory::MemoryDevice::new(16 << 20));
    let mut edits = FeatureEdits::default();
    if !features.is_empty() {
        edits.add(features).unwrap();
    }
    let options = mkfs::Options {
        features: edits,
        file_system,
        block_bytes: Some(1024),
        uuid: Some([0x11; 16]),
        hash_seed: Some([0x22; 16]),
        seconds: Some(1_000_000_000),
        journal: match file_system {
            FileSystemType::Ext2 => JournalOption::Default,
            _ => JournalOption::Blocks(1024),
        },
        ..mkfs::Options::default()
    };
    mkfs::format(&device(&home), &options).unwrap();
    let rig = Rig {
        home,
        log: None,
        block_bytes: 1024,
    };
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.create_directory("/d0").unwrap();
    volume.create_directory("/d1").unwrap();
    volume.close().unwrap();
    rig
}

fn check<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::NotFound | Error::Exists | Error::Invalid(_) | Error::BadHandle) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Checks a result whose value does not matter.
fn tried<T>(result: Result<T, Error>) {
    check(result);
}

fn task(volume: &Volume, directories: [InodeNr; 2], seed: u64) {
    let mut random = Random::new(seed);
    let new = NewInode::default();
    for _ in 0..60 {
        let parent = directories[random.below(2) as usize];
        let other = directories[random.below(2) as usize];
        let name = format!("n{}", random.below(3)).into_bytes();
        let second = format!("n{}", random.below(3)).into_bytes();
        match random.below(15) {
            0 | 1 => tried(volume.create(parent, &name, &new)),
            2..=4 => tried(volume.unlink(parent, &name)),
            5 => tried(volume.symlink(parent, &name, b"target", &new)),
            6 => {
                let kind = FileKind::Fifo;
                tried(volume.make_node(parent, &name, kind, DeviceNumber::default(), &new));
            }
            7 | 8 => {
                let Some(nr) = check(volume.lookup(parent, &name)) else {
                    continue;
                };
                let Some(file) = check(volume.open_inode(nr, OpenFlags::READ_WRITE)) else {
                    continue;
                };
                tried(volume.write(file, 0, b"short"));
                if random.below(2) == 0 {
                    check(volume.sync_file(file, false)).unwrap();
                }
                check(volume.release(file)).unwrap();
            }
            9 => {
                if let Some(nr) = check(volume.lookup(parent, &name)) {
                    tried(volume.link(nr, other, &second));
                }
            }
            10 => {
                if let Some(nr) = check(volume.lookup(parent, &name))
                    && check(volume.look_up_number(nr)).is_some()
                {
                    check(volume.forget(nr, 1)).unwrap();
                }
            }
            11 => {
                if let Some(nr) = check(volume.lookup(parent, &name)) {
                    tried(volume.write_node(
                        nr,
                        0,
                        b"node",
                        false,
                        Durability::Later,
                        Writer::Unknown,
                    ));
                }
            }
            12 => {
                if let Some(nr) = check(volume.lookup(parent, &name)) {
                    let change = SetAttributes {
                        size: Some(random.below(3) * 700),
                        ..SetAttributes::default()
                    };
                    tried(volume.set_attributes(nr, &change));
                }
            }
            13 => tried(volume.sync_directory(parent)),
            _ => tried(volume.rename(parent, &name, other, &second, RenameMode::Replace)),
        }
    }
}

fn explore(file_system: FileSystemType, features: &'static str, data: DataMode) {
    let made = rig(file_system, features);
    for seed in 0..hostile::worlds(6) {
        let what = format!("{features} {data:?} seed {seed}");
        let initial = made.copy();
        let policy = if seed % 2 == 0 {
            sim::Config::random(seed)
        } else {
            hostile::pct(seed)
        };
        let options = MountOptions {
            data,
            fast_commits: features.contains("fast_commit"),
            ..quiet(data)
        };
        let run_options = options.clone();
        let run = sim::run(policy, move || {
            let recorded = Recorded::new(&initial, true);
            let volume = Arc::new(recorded.open(run_options));
            let directories = ["/d0", "/d1"].map(|path| volume.resolve(path, true).unwrap());
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let volume = Arc::clone(&volume);
                    rt::spawn("task", move || {
                        task(&volume, directories, seed * 8 + number)
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(volume.orphan_count(), 0);
            Arc::into_inner(volume).unwrap().close().unwrap();
            recorded.trace.events()
        });
        let events = run.unwrap_or_else(|error| panic!("{what}: {error}")).value;
        let count = events.len() as u64;
        let mut random = Random::new(!seed);
        let mut cuts: Vec<usize> = (0..5).map(|_| random.below(count + 1) as usize).collect();
        cuts.push(events.len());
        cuts.sort_unstable();
        let recorded = Recorded::new(&made, true);
        let (mut home, _) = recorded.replays();
        let mut at = 0;
        for cut in cuts {
            events[at..cut].iter().for_each(|event| home.apply(event));
            at = cut;
            if file_system == FileSystemType::Ext2 && cut < events.len() {
                continue;
            }
            let rig = cut_image(
                &home,
                None,
                1024,
                if cut == events.len() {
                    2
                } else {
                    random.next()
                },
            );
            let volume = rig.open(options.clone());
            volume.close().unwrap();
            rig.assert_fsck_clean(&format!("{what}, cut {cut} of {count}"));
        }
    }
}

#[test]
fn with_fast_commits() {
    explore(FileSystemType::Ext4, "fast_commit", DataMode::Ordered);
}

#[test]
fn with_fast_commits_quota_and_orphan_file() {
    explore(
        FileSystemType::Ext4,
        "fast_commit,quota,project,orphan_file",
        DataMode::Ordered,
    );
}

#[test]
fn within_inodes() {
    explore(FileSystemType::Ext4, "inline_data,quota", DataMode::Ordered);
}

#[test]
fn with_journaled_data() {
    explore(FileSystemType::Ext3, "", DataMode::Journal);
}

#[test]
fn without_a_journal() {
    explore(FileSystemType::Ext2, "", DataMode::Ordered);
}
