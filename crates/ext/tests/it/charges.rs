//! The costs that the engine reports to a simulated host.

use ext::Volume;
use ext::mkfs::FeatureEdits;
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags};
use layout::InodeNr;
use rt::Nanos;
use sim::{Config, HostProfile, ZERO};

use crate::rig::{Place, Rig, quiet};

/// Returns the processor time of a load on a host on which only handles cost time.
fn cost_of_handles(place: Place, load: fn(&Volume)) -> Nanos {
    let rig = Rig::new(place, 1024, 12 << 20);
    let config = Config {
        host: HostProfile {
            handle_ns: 1000,
            ..ZERO
        },
        ..Config::fair(1)
    };
    let report = sim::run(config, move || {
        let volume = rig.open(quiet(DataMode::Ordered));
        load(&volume);
        volume.close().expect("close");
    });
    report.unwrap_or_else(|error| panic!("{error}")).cpu_busy
}

#[test]
fn handles_cost_time_only_with_a_journal() {
    let load = |volume: &Volume| {
        for number in 0..10 {
            let made = volume.create_directory(&format!("/{number}"));
            made.expect("mkdir");
        }
    };
    assert_eq!(cost_of_handles(Place::None, load), Nanos::ZERO);
    assert!(cost_of_handles(Place::Internal, load) >= Nanos::from_micros(10));
}

/// Makes ten files with contents or empty ones, and removes them, or does not.
fn load_of_files<const BYTES: usize, const IS_REMOVED: bool>(volume: &Volume) {
    for number in 0..10 {
        let name = format!("{number}");
        let nr = volume.create(InodeNr::ROOT, name.as_bytes(), &NewInode::default());
        let file = volume.open_inode(nr.expect("create"), OpenFlags::READ_WRITE);
        let file = file.expect("open");
        let written = volume.write(file, 0, &[7; BYTES]);
        assert_eq!(written.expect("write"), BYTES);
        volume.release(file).expect("close");
    }
    volume.sync().expect("sync");
    for number in (0..10).filter(|_| IS_REMOVED) {
        let name = format!("{number}");
        volume
            .unlink(InodeNr::ROOT, name.as_bytes())
            .expect("unlink");
    }
}

#[test]
fn a_file_without_blocks_is_deleted_in_one_step() {
    let cost = |load| cost_of_handles(Place::Internal, load);
    let empty = cost(load_of_files::<0, true>) - cost(load_of_files::<0, false>);
    let full = cost(load_of_files::<3000, true>) - cost(load_of_files::<3000, false>);
    assert_eq!(full - empty, Nanos::from_micros(10));
}

/// Entries of `.` and `..`.
const DOTS: u64 = 2;
/// Files of the directory: several blocks of 1 KiB, with 63 entries of 16 bytes in each.
const FILES: u64 = 200;

fn name(number: u64) -> Vec<u8> {
    format!("file-{number:03}").into_bytes()
}

/// Runs `work` on a volume with a directory of [`FILES`] empty files, of which no inode is in
/// memory, on a host on which only directory entries cost time: 1 ns each.
fn with_directory(is_indexed: bool, work: fn(&Volume, InodeNr)) {
    let features = if is_indexed {
        "dir_index"
    } else {
        "^dir_index"
    };
    let features = FeatureEdits::parse(features).expect("known features");
    let rig = Rig::with_features(Place::None, 1024, 12 << 20, features);
    let config = Config {
        host: HostProfile {
            entry_ns: 1,
            ..ZERO
        },
        ..Config::fair(1)
    };
    let report = sim::run(config, move || {
        let volume = rig.open(quiet(DataMode::Ordered));
        let directory = volume.create_directory("/d").expect("mkdir");
        for number in 0..FILES {
            let made = volume.create(directory, &name(number), &NewInode::default());
            made.expect("create");
        }
        volume.close().expect("close");
        let volume = rig.open(quiet(DataMode::Ordered));
        work(&volume, directory);
        volume.close().expect("close");
    });
    report.unwrap_or_else(|error| panic!("{error}"));
}

/// Returns the number of entries that an operation is charged for.
fn entries<T>(operation: impl FnOnce() -> T) -> u64 {
    let start = rt::monotonic();
    operation();
    (rt::monotonic() - start).get()
}

#[test]
fn a_linear_search_costs_every_entry_up_to_the_match() {
    with_directory(false, |volume, directory| {
        let look_up = |number| entries(|| volume.lookup(directory, &name(number)));
        assert_eq!(look_up(0), DOTS + 1);
        assert_eq!(look_up(FILES - 1), DOTS + FILES);
        assert_eq!(look_up(FILES), DOTS + FILES, "an absent name");
        assert_eq!(look_up(FILES), 0, "a kernel remembers it");
        let last = volume.lookup(directory, &name(FILES - 1));
        volume.attributes(last.expect("there")).expect("loaded");
        assert_eq!(
            look_up(FILES - 1),
            0,
            "a kernel remembers names of its inodes"
        );
    });
}

#[test]
fn changes_of_a_linear_directory_search_it() {
    with_directory(false, |volume, directory| {
        let first = volume.lookup(directory, &name(0)).expect("there");
        volume.attributes(first).expect("loaded");
        let unlink = entries(|| volume.unlink(directory, &name(0)).expect("unlink"));
        assert_eq!(unlink, (DOTS + 1) + DOTS, "found, and the entry before it");
        let new = NewInode::default();
        let create = |number| entries(|| volume.create(directory, &name(number), &new).unwrap());
        let absent = DOTS + FILES - 1;
        assert_eq!(create(0), absent + DOTS, "into the room behind `..`");
        assert_eq!(create(FILES), absent + 1 + DOTS + FILES, "behind the last");
        let list = entries(|| volume.read_directory(directory, 0, &mut |_, _| true));
        assert_eq!(list, DOTS + FILES + 1);
    });
}

#[test]
fn an_indexed_search_costs_the_entries_of_a_leaf() {
    with_directory(true, |volume, directory| {
        for number in [0, FILES / 2, FILES - 1, FILES] {
            let cost = entries(|| volume.lookup(directory, &name(number)));
            assert!((1..=64).contains(&cost), "{cost} entries for {number}");
        }
    });
}
