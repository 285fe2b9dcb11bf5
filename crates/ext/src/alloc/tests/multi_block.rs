//! The multi-block allocator: each pass of its search, small files side by side, stripes, full
//! volumes.

use super::*;
use crate::map::{FileMap, Visited};
use crate::volume::NewInode;

const FILE: InodeNr = InodeNr::new(12);

/// Returns an ext4 of 1 KiB blocks in 8 groups of 8192, in one flex group.
fn volume() -> Volume {
    open_with(with_profile(AllocationProfile::BySuperblock))
}

fn open_with(options: MountOptions) -> Volume {
    let made = mkfs::Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        ..mkfs::Options::default()
    };
    open(64 << 20, &made, options)
}

/// A file whose blocks are appended.
#[derive(Default)]
struct File {
    window: Mutex<Window>,
    runs: Vec<Run>,
    blocks: u64,
    is_final: bool,
    is_delayed: bool,
}

impl File {
    fn last() -> Self {
        Self {
            is_final: true,
            ..Self::default()
        }
    }

    fn delayed() -> Self {
        Self {
            is_delayed: true,
            ..Self::default()
        }
    }

    fn append(&mut self, core: &Core, count: u32) -> Result<()> {
        let end = self.blocks + u64::from(count);
        while self.blocks < end {
            let goal = match self.runs.last() {
                Some(run) if core.geometry().contains(run.end()) => run.end(),
                _ => core.block_goal(FILE, true),
            };
            let place = FilePlace {
                from: self.blocks,
                size_blocks: self.blocks,
                is_final: self.is_final,
                is_delayed: self.is_delayed,
            };
            let wanted = BlockRequest {
                owner: FILE,
                goal,
                count_max: (end - self.blocks) as u32,
                window: Some(&self.window),
                place: Some(place),
                is_narrow: false,
            };
            let run = request(core, &wanted)?;
            self.blocks += u64::from(run.count);
            match self.runs.last_mut() {
                Some(last) if last.end() == run.first => last.count += run.count,
                _ => self.runs.push(run),
            }
        }
        Ok(())
    }

    fn close(&self, core: &Core) {
        core.discard_window(&self.window);
    }
}

/// Takes all blocks that can be had, and returns them as runs.
fn take_all(core: &Core) -> Vec<Run> {
    let mut runs = Vec::new();
    while let Ok(run) = allocate(core, core.block_goal(FILE, true).get(), 8192, None) {
        runs.push(run);
    }
    runs
}

/// Takes all blocks, and frees only these, durably.
fn only_free(core: &Core, runs: &[Run]) {
    take_all(core);
    for run in runs {
        free(core, *run);
    }
    assert!(core.wait_for_freed().expect("works"));
}

/// Returns an extent of data blocks in a group, by its index there.
fn extent(core: &Core, group: u32, index: u32, count: u32) -> Run {
    let first = core.space.group(GroupNr::new(group)).first + u64::from(index);
    let run = Run { first, count };
    assert!(core.is_data_run(run));
    run
}

/// Asserts that a test fails with the mutant, and passes without it.
fn assert_notices(mutant: &'static str, test: fn(&Core)) {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, move || {
            let volume = volume();
            test(volume.core());
            volume.close().expect("works");
        })
    };
    run(None).unwrap_or_else(|error| panic!("with nothing broken: {error}"));
    if rt::mutant::IS_POSSIBLE {
        assert!(run(Some(mutant)).is_err(), "{mutant} is not noticed");
    }
}

#[test]
fn a_large_request_is_one_extent() {
    let volume = volume();
    let core = volume.core();
    let mut file = File::last();
    file.append(core, 8192).expect("there is space");
    assert_eq!(file.runs.len(), 1, "{:?}", file.runs);
    let (group, index) = core.geometry().group_of_block(file.runs[0].first);
    assert_eq!(index, 0, "a whole group is free, and {group} was");
}

#[test]
fn contents_start_behind_the_metadata_of_the_flex_group() {
    let volume = volume();
    let core = volume.core();
    let mut file = File::default();
    file.append(core, 1).expect("there is space");
    let (group, _) = core.geometry().group_of_block(file.runs[0].first);
    assert_eq!(group, GroupNr::new(1));
    let goal = core.block_goal(InodeNr::ROOT, false);
    assert_eq!(core.geometry().group_of_block(goal).0, GroupNr::new(0));
}

#[test]
fn small_files_lie_side_by_side() {
    let volume = volume();
    let core = volume.core();
    let mut runs = Vec::new();
    for number in 0..200 {
        let mut file = File::default();
        for _ in 0..number % 3 + 1 {
            file.append(core, 1 + number % 9).expect("there is space");
        }
        file.close(core);
        runs.extend(file.runs);
    }
    let gaps = runs
        .iter()
        .zip(&runs[1..])
        .filter(|(one, two)| one.end() != two.first);
    assert_eq!((runs.len(), gaps.count()), (200, 0));
}

#[test]
fn small_files_that_are_synced_before_they_are_closed_lie_side_by_side() {
    let volume = volume();
    let core = volume.core();
    let mut files: Vec<File> = (0..20).map(|_| File::delayed()).collect();
    for (file, count) in files.iter_mut().zip([1, 4, 2].into_iter().cycle()) {
        file.append(core, count).expect("there is space");
    }
    for (one, two) in files.iter().zip(&files[1..]) {
        assert_eq!(one.runs[0].end(), two.runs[0].first);
    }
}

/// As those of direct I/O, or of journaled data.
#[test]
fn small_files_whose_blocks_are_not_delayed_have_room_to_grow() {
    let volume = volume();
    let core = volume.core();
    let mut files: Vec<File> = (0..20).map(|_| File::default()).collect();
    for _ in 0..8 {
        for file in &mut files {
            file.append(core, 1).expect("there is space");
        }
    }
    assert!(files.iter().all(|file| file.runs.len() == 1));
}

#[test]
fn a_file_that_grows_out_of_the_locality_group_stays_whole() {
    let volume = volume();
    let core = volume.core();
    let mut small = File::default();
    small.append(core, 3).expect("there is space");
    small.close(core);
    let mut file = File::default();
    for _ in 0..3000 {
        file.append(core, 1).expect("there is space");
    }
    assert_eq!(file.runs.len(), 1, "{:?}", file.runs);
    file.close(core);
    let mut next = File::default();
    next.append(core, 3).expect("there is space");
    assert_eq!(next.runs[0].first, file.runs[0].end());
}

#[test]
fn files_that_grow_in_turns_have_few_extents() {
    let volume = volume();
    let core = volume.core();
    let mut files: Vec<File> = (0..4).map(|_| File::delayed()).collect();
    for _ in 0..1000 {
        for file in &mut files {
            file.append(core, 1).expect("there is space");
        }
    }
    for file in &files {
        // The first block, for the file might be complete; then the ends are 8, 16, 32 and so on,
        // up to 1024.
        assert!(file.runs.len() <= 9, "{:?}", file.runs);
    }
}

#[test]
fn directories_that_grow_in_turns_have_few_extents() {
    let volume = volume();
    let core = volume.core();
    let make = |name: &[u8]| {
        let made = volume.make_directory(InodeNr::ROOT, name, &NewInode::default());
        made.expect("there is space")
    };
    let directories = [make(b"first"), make(b"second")];
    for number in 0..5000 {
        for directory in directories {
            let name = format!("a-file-with-a-rather-long-name-{number}");
            let made = volume.create(directory, name.as_bytes(), &NewInode::default());
            made.expect("there is space");
        }
    }
    for directory in directories {
        let inode = core.inode(directory).expect("it exists");
        let state = inode.state.read();
        let (mut extents, mut blocks) = (0, 0);
        let walked = FileMap::of(&state).walk(core, &inode, &state, &mut |visited, run| {
            if matches!(visited, Visited::Data(_)) {
                extents += 1;
                blocks += run.count;
            }
            Ok(())
        });
        walked.expect("it is sound");
        // The blocks of the first 64 KiB may lie one by one.
        assert!(
            blocks > 200 && extents < blocks / 4,
            "{extents} of {blocks}"
        );
    }
}

#[test]
fn the_goal_continues_a_file_however_few_blocks_are_free_there() {
    let volume = volume();
    let core = volume.core();
    let near = extent(core, 4, 1100, 40);
    let far = extent(core, 2, 1500, 300);
    only_free(core, &[near, far]);
    let mut file = File::last();
    let head = Run { count: 30, ..near };
    allocate(core, head.first.get(), 30, None).expect("it is free");
    file.runs.push(head);
    file.blocks = 30;
    file.append(core, 100).expect("there is space");
    let rest = Run { count: 90, ..far };
    assert_eq!(file.runs, [near, rest]);
}

#[test]
fn the_shortest_extent_that_suffices_is_taken() {
    let volume = volume();
    let core = volume.core();
    let all = [
        extent(core, 2, 1100, 400),
        extent(core, 2, 2500, 130),
        extent(core, 2, 2000, 90),
        extent(core, 2, 3000, 200),
    ];
    only_free(core, &all);
    for (count, expected) in [(100, all[1]), (90, all[2]), (150, all[3])] {
        let mut file = File::last();
        file.append(core, count).expect("there is space");
        assert_eq!(file.runs, [Run { count, ..expected }]);
    }
}

#[test]
fn less_and_less_is_taken_to_the_last_block() {
    let volume = volume();
    let core = volume.core();
    let all = [
        extent(core, 2, 1100, 3),
        extent(core, 4, 1100, 70),
        extent(core, 5, 1100, 9),
        extent(core, 6, 1100, 100),
        extent(core, 7, 1100, 1),
    ];
    only_free(core, &all);
    let mut file = File::last();
    file.append(core, 183).expect("there is space");
    let counts: Vec<u32> = file.runs.iter().map(|run| run.count).collect();
    // 100 and 70 have at least half of the longest each time; the nearer one comes first.
    assert_eq!(counts, [70, 100, 9, 3, 1]);
    assert!(matches!(file.append(core, 1), Err(Error::NoSpace)));
}

#[test]
fn an_extent_that_is_freed_is_found() {
    assert_notices("allocation/bound-not-raised", |core| {
        let other = extent(core, 4, 1100, 170);
        let short = [extent(core, 2, 1100, 30), extent(core, 2, 1200, 45)];
        only_free(core, &[short[0], short[1], other]);
        let mut file = File::last();
        file.append(core, 70).expect("there is space");
        assert_eq!(file.runs, [Run { count: 70, ..other }]);
        assert_eq!(core.space.group(GroupNr::new(2)).longest_max(), 45);
        let long = extent(core, 2, 2000, 300);
        free(core, long);
        assert!(core.wait_for_freed().expect("works"));
        let mut file = File::last();
        file.append(core, 200).expect("there is space");
        assert_eq!(file.runs, [Run { count: 200, ..long }]);
    });
}

#[test]
fn a_group_without_room_is_not_read() {
    let volume = volume();
    let core = volume.core();
    let short = extent(core, 2, 1100, 10);
    let long = extent(core, 5, 1100, 500);
    only_free(core, &[short, long]);
    assert_eq!(core.space.group(GroupNr::new(2)).longest_max(), 10);
    assert_eq!(core.space.group(GroupNr::new(3)).longest_max(), 0);
    let mut file = File::last();
    file.append(core, 400).expect("there is space");
    assert_eq!(file.runs, [Run { count: 400, ..long }]);
    assert!(core.space.group(GroupNr::new(5)).longest_max() >= 100);
    file.append(core, 100).expect("there is space");
    // The search in vain makes the bound exact.
    let mut other = File::last();
    other.append(core, 10).expect("there is space");
    assert_eq!(other.runs, [short]);
    assert_eq!(core.space.group(GroupNr::new(5)).longest_max(), 0);
}

#[test]
fn preallocations_are_given_up_when_nothing_else_is_left() {
    assert_notices("allocation/windows-kept", |core| {
        let mut large = File::default();
        large.append(core, 300).expect("there is space");
        let mut small = File::default();
        small.append(core, 3).expect("there is space");
        small.close(core);
        assert!(large.window.lock().count > 100);
        let free = core.usage().blocks_free;
        let taken: u64 = take_all(core).iter().map(|run| u64::from(run.count)).sum();
        assert_eq!(taken, free);
        assert!(matches!(large.append(core, 1), Err(Error::NoSpace)));
    });
}

#[test]
fn blocks_freed_by_an_open_transaction_are_not_found() {
    let volume = volume();
    let core = volume.core();
    let mut taken = take_all(core);
    let run = taken.pop().expect("there was space");
    let mut handle = begin(core);
    core.free_blocks(&mut handle, run).expect("taken before");
    let (group, _) = core.geometry().group_of_block(run.first);
    assert_eq!(core.space.group(group).longest_max(), 0);
    let wanted = BlockRequest {
        owner: FILE,
        goal: run.first,
        count_max: 1,
        window: None,
        place: None,
        is_narrow: false,
    };
    let found = core.allocate_blocks(&mut handle, &wanted);
    assert!(matches!(found, Err(Error::NoSpace)), "{found:?}");
    handle.finish().expect("works");
    assert!(core.wait_for_freed().expect("works"));
    let mut file = File::last();
    file.append(core, run.count).expect("released");
    assert_eq!(file.runs, [run]);
}

#[test]
fn large_extents_start_at_a_stripe() {
    let options = MountOptions {
        stripe_blocks: Some(96),
        ..with_profile(AllocationProfile::BySuperblock)
    };
    let volume = open_with(options);
    let core = volume.core();
    let mut odd = File::last();
    odd.append(core, 67).expect("there is space");
    for _ in 0..10 {
        let mut file = File::last();
        file.append(core, 192).expect("there is space");
        assert_eq!(file.runs.len(), 1);
        assert_eq!(file.runs[0].first.get() % 96, 0, "{:?}", file.runs);
        let mut short = File::last();
        short.append(core, 70).expect("there is space");
        assert_eq!(short.runs.len(), 1);
    }
}

#[test]
fn a_random_write_keeps_the_window_at_the_end() {
    let volume = volume();
    let core = volume.core();
    let mut file = File::default();
    file.append(core, 100).expect("there is space");
    let before = file.window.lock().first;
    let place = FilePlace {
        from: 20,
        size_blocks: 400,
        is_final: false,
        is_delayed: true,
    };
    let wanted = BlockRequest {
        owner: FILE,
        goal: file.runs[0].first,
        count_max: 5,
        window: Some(&file.window),
        place: Some(place),
        is_narrow: false,
    };
    request(core, &wanted).expect("there is space");
    assert_eq!(file.window.lock().first, before);
    file.append(core, 20).expect("there is space");
    assert_eq!(file.runs.len(), 1);
}
