//! Tests of the inode allocator.

use super::*;

#[test]
fn inodes_are_taken_to_the_last_and_given_back() {
    for profile in PROFILES {
        let volume = open(4 << 20, &small(FileSystemType::Ext2), with_profile(profile));
        let core = volume.core();
        let usage = core.usage();
        let mut taken = BTreeSet::new();
        loop {
            let mut handle = begin(core);
            let is_directory = taken.len() % 5 == 0;
            let result = core.allocate_inode(&mut handle, InodeNr::ROOT, is_directory);
            handle.finish().expect("works");
            match result {
                Ok(inode) => {
                    assert!(inode > InodeNr::new(11));
                    assert!(taken.insert((inode, is_directory)));
                    core.inode_location(inode).expect("exists");
                }
                Err(Error::NoInodes) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(taken.len() as u32, usage.inodes_free);
        let directories: u32 = core
            .space
            .groups()
            .iter()
            .map(|group| group.directories.load(Ordering::Relaxed))
            .sum();
        assert_eq!(
            directories as usize,
            2 + taken.iter().filter(|(_, is)| *is).count()
        );
        for (inode, is_directory) in taken {
            let mut handle = begin(core);
            core.free_inode(&mut handle, inode, is_directory)
                .expect("taken before");
            handle.finish().expect("works");
        }
        assert_eq!(core.usage(), usage);
        let mut handle = begin(core);
        assert!(
            core.free_inode(&mut handle, InodeNr::new(20), false)
                .is_err()
        );
        assert!(core.free_inode(&mut handle, InodeNr::ROOT, true).is_err());
        handle.finish().expect("works");
        assert!(core.inode_location(InodeNr::new(0)).is_err());
        assert!(
            core.inode_location(InodeNr::new(core.geometry().inode_count + 1))
                .is_err()
        );
    }
}

#[test]
fn directories_of_the_root_are_spread_and_files_stay_near() {
    let volume = open(
        8 << 20,
        &small(FileSystemType::Ext2),
        MountOptions::default(),
    );
    let core = volume.core();
    let count = core.geometry().group_count;
    let mut groups = BTreeSet::new();
    for _ in 0..count {
        let mut handle = begin(core);
        let top = core
            .allocate_inode(&mut handle, InodeNr::ROOT, true)
            .expect("free");
        let (group, _) = core.geometry().group_of_inode(top);
        groups.insert(group);
        let file = core.allocate_inode(&mut handle, top, false).expect("free");
        assert_eq!(core.geometry().group_of_inode(file).0, group);
        handle.finish().expect("works");
    }
    assert!(groups.len() as u32 > count / 2, "{groups:?} of {count}");
}

#[test]
fn a_policy_for_tests_takes_the_inode_that_was_freed_last() {
    let mut options = with_profile(AllocationProfile::Modern);
    options.tuning.reuse_inodes = true;
    let volume = open(1 << 20, &small(FileSystemType::Ext2), options);
    let core = volume.core();
    let allocate = || {
        let mut handle = begin(core);
        let allocated = core.allocate_inode(&mut handle, InodeNr::ROOT, false);
        handle.finish().expect("works");
        allocated
    };
    let mut taken = Vec::new();
    while let Ok(inode) = allocate() {
        taken.push(inode);
    }
    // The inode freed last comes first, then those after it, then the rest.
    let freed = [taken[7], taken[2], taken[4]];
    for inode in freed {
        let mut handle = begin(core);
        core.free_inode(&mut handle, inode, false)
            .expect("taken before");
        handle.finish().expect("works");
    }
    let again: Vec<InodeNr> = (0..3).map(|_| allocate().expect("free")).collect();
    assert_eq!(again, [taken[4], taken[7], taken[2]]);
}
