//! Inodes in flex groups.

use super::*;

/// Returns an ext4 of 512-block groups, 16 in a flex group.
fn volume(bytes: u64) -> Volume {
    let made = mkfs::Options {
        inode_count: Some(8192),
        ..small(FileSystemType::Ext4)
    };
    open(bytes, &made, MountOptions::default())
}

fn make(core: &Core, parent: InodeNr, is_directory: bool) -> InodeNr {
    let mut handle = begin(core);
    let inode = core.allocate_inode(&mut handle, parent, is_directory);
    handle.finish().expect("works");
    inode.expect("free")
}

fn flex_of(core: &Core, inode: InodeNr) -> u32 {
    let (group, _) = core.geometry().group_of_inode(inode);
    core.space.areas().flex_of(group)
}

#[test]
fn directories_of_the_root_are_spread_over_flex_groups() {
    let volume = volume(64 << 20);
    let core = volume.core();
    let count = core.space.areas().flex_count();
    assert_eq!(count, 8);
    let mut seen = BTreeMap::new();
    for _ in 0..count * 3 {
        let top = make(core, InodeNr::ROOT, true);
        *seen.entry(flex_of(core, top)).or_insert(0) += 1;
        for _ in 0..5 {
            let below = make(core, top, true);
            assert_eq!(flex_of(core, below), flex_of(core, top));
            let file = make(core, below, false);
            assert_eq!(flex_of(core, file), flex_of(core, top));
        }
    }
    assert!(seen.len() as u32 >= count / 2, "{seen:?}");
    assert!(seen.values().all(|count| *count <= 8), "{seen:?}");
}

#[test]
fn directories_of_the_root_are_spread_within_a_flex_group() {
    let volume = volume(8 << 20);
    let core = volume.core();
    assert_eq!(core.space.areas().flex_count(), 1);
    let group_of = |inode| core.geometry().group_of_inode(inode).0;
    let mut groups = BTreeSet::new();
    for _ in 0..8 {
        let top = make(core, InodeNr::ROOT, true);
        groups.insert(group_of(top));
        let below = make(core, top, true);
        assert_eq!(group_of(below), group_of(top));
        assert_eq!(group_of(make(core, below, false)), group_of(top));
    }
    assert!(groups.len() >= 6, "{groups:?}");
}

#[test]
fn files_go_to_the_next_flex_group_when_one_is_full() {
    let volume = volume(64 << 20);
    let core = volume.core();
    let top = make(core, InodeNr::ROOT, true);
    let inodes = core.geometry().inodes_per_group * core.space.areas().flex_groups();
    let flexes: Vec<u32> = (0..inodes + 10)
        .map(|_| flex_of(core, make(core, top, false)))
        .collect();
    let home = flex_of(core, top);
    let count = core.space.areas().flex_count();
    let next = (home + 1) % count;
    assert!(flexes.iter().all(|flex| *flex == home || *flex == next));
    assert!(flexes.is_sorted_by_key(|flex| *flex == next));
    assert_eq!(*flexes.last().expect("many"), next);
}

#[test]
fn a_crowded_flex_group_gets_no_more_directories() {
    let volume = volume(64 << 20);
    let core = volume.core();
    let top = make(core, InodeNr::ROOT, true);
    let inodes = core.geometry().inodes_per_group * core.space.areas().flex_groups();
    let flexes: BTreeSet<u32> = (0..inodes / 2)
        .map(|_| flex_of(core, make(core, top, true)))
        .collect();
    assert!(flexes.len() > 1, "{flexes:?}");
}

/// Directories of the root are each at the start of a group, and so are their files. Small shares
/// of the cache must not all fall to the same shard.
#[test]
fn inodes_at_the_start_of_many_groups_stay_in_memory() {
    let made = mkfs::Options {
        inode_count: Some(65_536),
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        blocks_per_group: Some(8192),
        journal: mkfs::JournalOption::Blocks(4096),
        ..mkfs::Options::default()
    };
    let mut options = MountOptions::default();
    // Room for 1024 inodes.
    options.memory.budget_bytes = 4 << 20;
    let volume = open(512 << 20, &made, options);
    assert_eq!(volume.core().geometry().inodes_per_group, 1024);
    let new = crate::volume::NewInode::default();
    let mut all = Vec::new();
    for number in 0..56 {
        let name = format!("top{number}");
        let top = volume.make_directory(InodeNr::ROOT, name.as_bytes(), &new);
        let top = top.expect("there is room");
        all.push(top);
        for number in 0..7 {
            let name = format!("file{number}");
            let file = volume.create(top, name.as_bytes(), &new);
            all.push(file.expect("there is room"));
        }
    }
    volume.sync().expect("sync");
    for _ in 0..2 {
        for nr in &all {
            volume.attributes(*nr).expect("it is there");
        }
    }
    let (kept, _) = volume.core().inodes.counts();
    assert!(
        kept >= all.len() / 2,
        "{kept} of {} are in memory",
        all.len()
    );
}
