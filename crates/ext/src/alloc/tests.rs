//! Tests of the allocators: against a model, down to the last block, with many threads, and on
//! damage.

mod flex_groups;
mod inodes;
mod model;
mod multi_block;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use block::{BlockDevice, MemoryDevice};

use jbd2::Credits;
use layout::superblock::State;

use std::sync::Arc;

use layout::{GroupNr, Tid};
use rt::atomic::Ordering;

use super::*;
use crate::cache::space::group::Group;
use crate::core::handle::Handle;
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};
use crate::format::mkfs::{self, FileSystemType};
use crate::options::{MountOptions, OnError};
use crate::tuning::{AllocationProfile, Tuning};
use crate::volume::Volume;

const PROFILES: [AllocationProfile; 3] = [
    AllocationProfile::Modern,
    AllocationProfile::MultiBlock,
    AllocationProfile::Ext3Linux24,
];

/// Returns options for small groups, so that there are many.
fn small(file_system: FileSystemType) -> mkfs::Options {
    mkfs::Options {
        file_system,
        block_bytes: Some(1024),
        blocks_per_group: Some(512),
        journal: match file_system {
            FileSystemType::Ext2 => mkfs::JournalOption::Default,
            FileSystemType::Ext3 | FileSystemType::Ext4 => mkfs::JournalOption::Blocks(1024),
        },
        ..mkfs::Options::default()
    }
}

fn open(size: u64, made: &mkfs::Options, options: MountOptions) -> Volume {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(size));
    mkfs::format(&device, made).expect("the options fit");
    Volume::open(device, None, options).expect("a new volume")
}

fn with_profile(allocation: AllocationProfile) -> MountOptions {
    let log_policy = match allocation {
        AllocationProfile::Ext3Linux24 => jbd2::LogPolicy::LINUX24,
        _ => jbd2::LogPolicy::DEFAULT,
    };
    MountOptions {
        tuning: Tuning {
            allocation,
            log_policy,
            ..Tuning::default()
        },
        privileged: true,
        ..MountOptions::default()
    }
}

fn begin(core: &Core) -> Handle<'_> {
    core.begin(Credits {
        blocks: 8,
        revokes: 8,
    })
    .expect("writable")
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn allocate(core: &Core, goal: u64, count_max: u32, window: Option<&Mutex<Window>>) -> Result<Run> {
    request(
        core,
        &BlockRequest {
            owner: InodeNr::new(11),
            goal: BlockNr::new(goal),
            count_max,
            window,
            place: None,
            is_narrow: false,
        },
    )
}

fn request(core: &Core, request: &BlockRequest<'_>) -> Result<Run> {
    let mut handle = begin(core);
    let run = core.allocate_blocks(&mut handle, request);
    handle.finish().expect("works");
    run
}

fn free(core: &Core, run: Run) -> Option<Tid> {
    let mut handle = begin(core);
    core.free_blocks(&mut handle, run)
        .expect("allocated before");
    handle.finish().expect("works")
}

fn blocks_of(run: Run) -> impl Iterator<Item = u64> {
    run.first.get()..run.end().get()
}

/// Checks that bitmaps, descriptors and counts agree, and that exactly `ours` is taken besides the
/// blocks taken at the start.
fn check_bitmaps(core: &Core, before: &BTreeSet<u64>, ours: &BTreeSet<u64>) {
    let taken = taken_blocks(core);
    let expected: BTreeSet<u64> = before.union(ours).copied().collect();
    assert_eq!(taken, expected);
    let free =
        core.geometry().block_count - core.geometry().first_data_block.get() - taken.len() as u64;
    assert_eq!(core.usage().blocks_free, free);
    let mut sum = 0;
    for group in core.space.groups() {
        let bytes = core.space.descriptor(group.nr).read();
        let at = group.descriptor.start + 12;
        sum += u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    }
    assert_eq!(sum, free);
}

/// Returns the blocks that the bitmaps on disk mark as taken.
fn taken_blocks(core: &Core) -> BTreeSet<u64> {
    let mut taken = BTreeSet::new();
    for group in core.space.groups() {
        let buffer = core.block_bitmap(group).expect("readable");
        let bytes = buffer.read();
        let is_set = |bit: &u32| bytes[(bit / 8) as usize] & (1 << (bit % 8)) != 0;
        let set = (0..group.block_count).filter(is_set);
        taken.extend(set.map(|bit| group.first.get() + u64::from(bit)));
    }
    taken
}

#[test]
fn every_block_can_be_had_and_the_reserve_only_by_the_privileged() {
    for profile in PROFILES {
        for file_system in [FileSystemType::Ext2, FileSystemType::Ext3] {
            let mut options = with_profile(profile);
            for privileged in [true, false] {
                options.privileged = privileged;
                let volume = open(6 << 20, &small(file_system), options.clone());
                let core = volume.core();
                let usage = core.usage();
                assert!(usage.blocks_available < usage.blocks_free);
                let window = Mutex::default();
                let mut total = 0;
                loop {
                    match allocate(core, 3000, 7, Some(&window)) {
                        Ok(run) => total += u64::from(run.count),
                        Err(Error::NoSpace) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                let most = if privileged {
                    usage.blocks_free
                } else {
                    usage.blocks_available
                };
                assert_eq!(total, most);
                assert_eq!(core.usage().blocks_free, usage.blocks_free - most);
                assert!(!core.wait_for_freed().expect("works"));
            }
        }
    }
}

#[test]
fn freed_blocks_come_back_when_their_transaction_is_durable() {
    let volume = open(
        6 << 20,
        &small(FileSystemType::Ext3),
        with_profile(AllocationProfile::Modern),
    );
    let core = volume.core();
    let mut runs = Vec::new();
    while let Ok(run) = allocate(core, 2000, 64, None) {
        runs.push(run);
    }
    let run = runs.pop().expect("there was space");
    free(core, run);
    assert_eq!(core.usage().blocks_free, u64::from(run.count));
    assert!(matches!(allocate(core, 2000, 1, None), Err(Error::NoSpace)));
    assert!(core.wait_for_freed().expect("works"));
    assert_eq!(allocate(core, 2000, 64, None).expect("released"), run);
    assert!(!core.wait_for_freed().expect("works"));
}

#[test]
fn files_that_grow_in_turns_do_not_interleave() {
    let made = mkfs::Options {
        file_system: FileSystemType::Ext3,
        ..mkfs::Options::default()
    };
    let volume = open(64 << 20, &made, MountOptions::default());
    let core = volume.core();
    let windows: Vec<Mutex<Window>> = (0..3).map(|_| Mutex::default()).collect();
    let mut files: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
    for _ in 0..400 {
        for (file, window) in windows.iter().enumerate() {
            let runs = files.entry(file).or_default();
            let goal = runs.last().map_or(5000, |run| run.end().get());
            let run = allocate(core, goal, 1, Some(window)).expect("there is space");
            match runs.last_mut() {
                Some(last) if last.end() == run.first => last.count += 1,
                _ => runs.push(run),
            }
        }
    }
    for runs in files.values() {
        assert!(runs.len() <= 8, "400 blocks lie in {} runs", runs.len());
    }
    let free: u32 = core.space.groups().iter().map(load_usable).sum();
    assert_eq!(u64::from(free), core.usage().blocks_free);
    windows
        .iter()
        .for_each(|window| core.discard_window(window));
    let next = core.block_goal(InodeNr::ROOT, false).get();
    let small: Vec<Run> = (0..20)
        .map(|_| {
            let window = Mutex::default();
            let run = allocate(
                core,
                core.block_goal(InodeNr::ROOT, false).get(),
                2,
                Some(&window),
            );
            core.discard_window(&window);
            run.expect("there is space")
        })
        .collect();
    assert!(
        small
            .iter()
            .zip(&small[1..])
            .all(|(one, two)| one.end() == two.first),
        "{small:?} {next}"
    );
}

fn load_usable(group: &Group) -> u32 {
    group.usable_clusters.load(Ordering::Relaxed)
}

#[test]
fn the_old_allocator_goes_forward_from_its_goal() {
    let profile = AllocationProfile::Ext3Linux24;
    let volume = open(6 << 20, &small(FileSystemType::Ext2), with_profile(profile));
    let core = volume.core();
    let group = core.space.group(GroupNr::new(2));
    let first = group.first.get();
    let data = (0..512_u32)
        .find(|index| {
            let first = group.first + u64::from(*index);
            *index > 8 && core.is_data_run(Run { first, count: 1 })
        })
        .expect("data");
    let at = |index: u32| first + u64::from(index);
    // Blocks 101 to 104 are taken, then the goal 101 leads to 105. After 120..128 the next free
    // byte starts at 128, and the search back ends at 125.
    for index in 101..105 {
        assert_eq!(
            allocate(core, at(index), 9, None)
                .expect("space")
                .first
                .get(),
            at(index)
        );
    }
    assert_eq!(
        allocate(core, at(101), 9, None).expect("space"),
        Run {
            first: BlockNr::new(at(105)),
            count: 1
        }
    );
    for index in (106..125).chain([129]) {
        allocate(core, at(index), 1, None).expect("space");
    }
    assert_eq!(
        allocate(core, at(101), 1, None).expect("space").first.get(),
        at(125)
    );
    for index in (126..128).chain(130..200) {
        allocate(core, at(index), 1, None).expect("space");
    }
    // No free byte before 200: the neighbourhood of 101 ends at 128, and 128 itself is in no free
    // byte.
    assert_eq!(
        allocate(core, at(101), 1, None).expect("space").first.get(),
        at(200)
    );
    assert!(data < 101);
}

#[test]
fn the_old_allocator_does_not_look_past_blocks_that_wait_for_a_commit() {
    let profile = AllocationProfile::Ext3Linux24;
    let volume = open(6 << 20, &small(FileSystemType::Ext3), with_profile(profile));
    let core = volume.core();
    // Waits until the freed blocks are released, shortly after their transaction is durable.
    let settle = || {
        let journal = core.journal.as_ref().expect("it is ext3");
        journal.checkpoint_all().expect("it works");
    };
    let group = core.space.group(GroupNr::new(10));
    let first = group.first.get();
    let at = |index: u32| first + u64::from(index);
    for index in 100..200 {
        let run = allocate(core, at(index), 1, None).expect("space");
        assert_eq!(run.first.get(), at(index), "the group is free there");
    }
    let freed = |index: u32, count: u32| Run {
        first: BlockNr::new(at(index)),
        count,
    };
    // A byte that waits for its commit, single free blocks, a free byte: the byte that waits comes
    // first and ends the search for bytes.
    free(core, freed(131, 1));
    free(core, freed(152, 8));
    settle();
    free(core, freed(136, 8));
    let next = |goal: u32| {
        allocate(core, at(goal), 1, None)
            .expect("space")
            .first
            .get()
    };
    assert_eq!(
        next(100),
        at(131),
        "the first free block, not the free byte at 152"
    );
    settle();
    assert_eq!(next(100), at(136), "the first free byte");
}

#[test]
fn damage_is_noticed_and_acted_upon() {
    for on_error in [OnError::RemountReadOnly, OnError::Continue, OnError::Panic] {
        let options = MountOptions {
            on_error,
            ..MountOptions::default()
        };
        let volume = open(6 << 20, &small(FileSystemType::Ext2), options);
        let core = volume.core();
        let run = allocate(core, 1000, 4, None).expect("space");
        free(core, run);
        let mut handle = begin(core);
        let free_again = AssertUnwindSafe(|| core.free_blocks(&mut handle, run));
        let again = match catch_unwind(free_again) {
            Ok(again) => again,
            Err(_) => {
                assert_eq!(on_error, OnError::Panic);
                assert!(volume.sync().is_err(), "nothing more is written");
                let bytes = core.device.read_block(1024, 1024).expect("readable");
                let stored = crate::disk::superblock::Superblock::decode(&bytes, 6 << 20);
                assert!(!stored.expect("sound").is_clean());
                continue;
            }
        };
        assert_eq!(
            core.is_read_only.load(Ordering::Acquire),
            on_error == OnError::RemountReadOnly
        );
        match on_error {
            OnError::Panic => panic!("it goes on"),
            OnError::RemountReadOnly => {
                assert!(matches!(again, Err(Error::Corrupt(Corrupt::Bitmap { .. }))));
                let bitmap = Run {
                    first: core.space.group(GroupNr::new(1)).block_bitmap,
                    count: 1,
                };
                assert!(core.free_blocks(&mut handle, bitmap).is_err());
                let outside = Run {
                    first: BlockNr::new(core.geometry().block_count),
                    count: 1,
                };
                assert!(core.free_blocks(&mut handle, outside).is_err());
            }
            OnError::Continue => {
                again.expect("goes on");
                core.store_counts().expect("works");
                assert!(
                    core.superblock_now()
                        .expect("in memory")
                        .state()
                        .contains(State::ERROR)
                );
            }
        }
        handle.finish().expect("works");
    }
}

#[test]
fn a_bitmap_that_denies_its_own_group_is_damage() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(6 << 20));
    mkfs::format(&device, &small(FileSystemType::Ext2)).expect("fits");
    let volume = Volume::open(Arc::clone(&device), None, MountOptions::default()).expect("new");
    let bitmap = volume.core().space.group(GroupNr::new(1)).block_bitmap;
    drop(volume);
    let zeroes = layout::Block::zeroed(1024).into_arc();
    device
        .write_blocks(bitmap.get() * 1024, vec![zeroes])
        .expect("in range");
    let volume = Volume::open(device, None, MountOptions::default()).expect("not looked at yet");
    let error = allocate(volume.core(), 600, 1, None).expect_err("damaged");
    assert!(
        matches!(error, Error::Corrupt(Corrupt::Bitmap { .. })),
        "{error}"
    );
    assert!(volume.is_read_only());
}

#[test]
fn blocks_for_data_are_those_that_mke2fs_does_not_count_as_overhead() {
    for file_system in [FileSystemType::Ext2, FileSystemType::Ext3] {
        for size in [20 << 20, 70 << 20] {
            let made = mkfs::Options {
                file_system,
                ..mkfs::Options::default()
            };
            let volume = open(size, &made, MountOptions::default());
            let raw = &volume.superblock().raw;
            let overhead = u64::from(raw.overhead_clusters.get());
            assert_eq!(volume.usage().blocks, raw.blocks_count() - overhead);
        }
    }
}

#[test]
fn counts_reach_the_superblock() {
    let volume = open(
        6 << 20,
        &small(FileSystemType::Ext3),
        MountOptions::default(),
    );
    let core = volume.core();
    allocate(core, 1000, 9, None).expect("space");
    let stale = core
        .superblock_now()
        .expect("in memory")
        .free_blocks_count();
    assert_ne!(stale, core.usage().blocks_free);
    core.store_counts().expect("works");
    let now = core.superblock_now().expect("in memory");
    assert_eq!(now.free_blocks_count(), core.usage().blocks_free);
    assert_eq!(now.free_inodes_count.get(), core.usage().inodes_free);
}

#[test]
fn no_block_of_a_zone_is_freed() {
    let made = small(FileSystemType::Ext3);
    let volume = open(
        6 << 20,
        &made,
        MountOptions {
            on_error: OnError::Continue,
            ..MountOptions::default()
        },
    );
    let core = volume.core();
    let log = crate::volume::log_of_inode(core, InodeNr::JOURNAL).expect("a journal");
    let second = core.space.group(GroupNr::new(1));
    let blocks = [
        core.geometry().first_data_block,
        second.first,
        second.first + 1,
        second.block_bitmap,
        second.inode_bitmap,
        second.inode_table,
        second.inode_table + 1,
        log.extents[0].first,
    ];
    let before = taken_blocks(core);
    for first in blocks {
        // The extent ends in the zone.
        for count in [1, 2] {
            let run = Run {
                first: BlockNr::new(first.get() + 1 - u64::from(count)),
                count,
            };
            let mut handle = begin(core);
            let freed = core.free_blocks(&mut handle, run);
            let is_refused = matches!(freed, Err(Error::Corrupt(Corrupt::Bitmap { .. })));
            assert!(is_refused, "{run:?}: {freed:?}");
            handle.finish().expect("nothing has changed");
        }
    }
    assert!(taken_blocks(core) == before);
}
