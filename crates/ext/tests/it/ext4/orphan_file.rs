//! The orphan file: orphans that the engine leaves in slots, completed by the kernel and e2fsck,
//! and the other way round; more orphans than slots.

mod damaged;

use std::fs::File;

use ext::volume::{OpenFlags, OpenReport};
use layout::feature::{Incompatible, ReadOnlyCompatible};
use layout::{InodeNr, orphan};
use testkit::{Shutdown, privilege, tool};

use super::written::{change_by_engine, change_by_kernel};
use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::tree::assert_same;

/// Formats: with checksums of all metadata, without, and without extents.
const FORMATS: [&str; 3] = [
    "-O orphan_file",
    "-O orphan_file,^metadata_csum,uninit_bg",
    "-O orphan_file,^extent,^64bit",
];
/// Number of blocks of the smallest orphan file of mke2fs.
const BLOCKS: usize = 32;

fn open_for_writing(image: &Image) -> Result<(Volume, OpenReport)> {
    Volume::open_with_report(image.device(), None, MountOptions::default())
}

/// Returns true for `needs_recovery`, and for `orphan_present`.
fn marks(image: &Image) -> (bool, bool) {
    let features = superblock(image).features();
    let (incompatible, read_only) = (features.incompatible, features.read_only_compatible);
    (
        incompatible.contains(Incompatible::NEEDS_RECOVERY),
        read_only.contains(ReadOnlyCompatible::ORPHAN_PRESENT),
    )
}

/// Returns the blocks of the orphan file.
fn blocks(image: &Image) -> Vec<u64> {
    let options = MountOptions {
        no_recovery: true,
        ..read_only()
    };
    let volume = Volume::open(look_at(&image.path), None, options).unwrap();
    let inode = InodeNr::new(superblock(image).orphan_file_inode.get());
    let runs = volume.blocks_of(inode).unwrap();
    volume.close().unwrap();
    let data = runs.iter().filter(|run| run.file_block.is_some());
    let blocks: Vec<u64> = data.flat_map(|run| run.blocks()).collect();
    assert_eq!(blocks.len(), BLOCKS);
    blocks
}

/// Returns the numbers in the slots on the device.
fn slots(image: &Image) -> Vec<u32> {
    let block_bytes = image.block_bytes;
    let device = look_at(&image.path);
    let mut numbers = Vec::new();
    for block in blocks(image) {
        let offset = block * u64::from(block_bytes);
        let bytes = device.read_block(offset, block_bytes).unwrap();
        let slots = orphan::slots(&bytes).iter().map(|slot| slot.get());
        numbers.extend(slots.filter(|number| *number != 0));
    }
    numbers
}

/// Unlinks open files, and cuts the volume off. Returns the image, whose log is not replayed.
fn cut_off(image: &Image, count: usize) {
    let device = in_memory(image);
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(shared, None, MountOptions::default()).unwrap();
    volume.write_file("/kept", b"kept").unwrap();
    for number in 0..count {
        let name = format!("/file-{number}");
        volume.write_file(&name, &[number as u8; 3000]).unwrap();
        let inode = volume.resolve(&name, false).unwrap();
        volume.open_inode(inode, OpenFlags::READ).unwrap();
        volume.remove_file(&name).unwrap();
    }
    volume.sync().unwrap();
    assert_eq!(volume.orphan_count(), count);
    drop(volume);
    device.write_to_file(&image.path).unwrap();
}

fn assert_completed(image: &Image, when: &str) {
    assert_eq!(slots(image), [0; 0], "{when}");
    assert_eq!(marks(image), (false, false), "{when}");
    assert_eq!(superblock(image).first_orphan.get(), 0, "{when}");
    oracle::assert_fsck_clean(image, when);
    let tree = oracle::view_tree(image);
    let names: Vec<_> = tree.keys().map(|path| path.escape_ascii()).collect();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["", "/kept", "/lost+found"], "{when}");
}

/// Replays the log of a copy, and leaves its orphans alone.
fn replayed(image: &Image) -> Image {
    let copy = image.copy();
    let volume = Volume::open(copy.device(), None, read_only()).unwrap();
    volume.close().unwrap();
    copy
}

/// Lets e2fsck complete orphans: the one that `scripts/build-e2fsprogs` builds, if it is there.
/// Without a full check e2fsck 1.47.0 leaves some of the slots that it has read.
fn complete_by_e2fsck(image: &Image) {
    let newer = oracle::newer_e2fsck();
    let (program, how) = match &newer {
        Some(newer) => (newer.as_str(), "-p"),
        None => ("e2fsck", "-fy"),
    };
    let output = tool::run(program, &[how, image.path.to_str().unwrap()]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{}", tool::said(&output));
}

/// Lets the engine, e2fsck and the kernel complete orphans.
fn complete(image: &Image, count: usize) {
    assert_eq!(marks(image), (true, true));
    let (volume, report) = open_for_writing(&image.copy()).unwrap();
    assert_eq!(report.orphans_deleted, count, "{report:?}");
    assert_eq!(volume.orphan_count(), 0);
    volume.close().unwrap();
    for is_replayed in [false, true] {
        let image = if is_replayed {
            replayed(image)
        } else {
            image.copy()
        };
        let own = image.copy();
        let (volume, report) = open_for_writing(&own).unwrap();
        assert_eq!(report.orphans_deleted, count, "{report:?}");
        volume.close().unwrap();
        assert_completed(&own, "after the engine");
        let theirs = image.copy();
        complete_by_e2fsck(&theirs);
        assert_completed(&theirs, "after e2fsck");
        if privilege::is_granted() {
            drop(mount(&image));
            assert_completed(&image, "after the kernel");
        }
    }
}

#[test]
fn orphans_of_the_engine_are_completed_by_all() {
    for format in FORMATS {
        for block_bytes in [1024, 4096] {
            println!("blocks of {block_bytes}, {format}");
            let image = image(block_bytes, 32 * MIB, format);
            cut_off(&image, 3);
            let replayed = replayed(&image);
            assert_eq!(marks(&replayed), (false, true));
            assert_eq!(slots(&replayed).len(), 3);
            assert_eq!(superblock(&replayed).first_orphan.get(), 0);
            complete(&image, 3);
        }
    }
}

#[test]
fn an_open_volume_is_marked() {
    assert_notices("orphan/mark-not-set", open_and_close);
}

#[test]
fn what_recovery_does_with_slots_is_noticed() {
    for mutant in [
        "checksums/orphan-block-not-sealed",
        "orphan/slots-not-finished-at-open",
    ] {
        assert_notices(mutant, cut_off_and_complete);
    }
}

fn cut_off_and_complete() {
    let image = image(1024, 32 * MIB, FORMATS[0]);
    cut_off(&image, 1);
    let device = in_memory(&image);
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(shared, None, MountOptions::default()).unwrap();
    volume.close().unwrap();
    device.write_to_file(&image.path).unwrap();
    assert_completed(&image, "after the engine");
}

fn open_and_close() {
    let image = image(1024, 32 * MIB, FORMATS[0]);
    let (volume, _) = open_for_writing(&image).unwrap();
    let marked = marks(&image);
    volume.close().unwrap();
    assert_eq!((marked, marks(&image)), ((true, true), (false, false)));
}

#[test]
fn slots_are_cleared_while_the_volume_is_open() {
    let image = image(1024, 32 * MIB, FORMATS[0]);
    let (volume, _) = open_for_writing(&image).unwrap();
    for round in 0..3 {
        for number in 0..300 {
            let name = format!("/file-{number}");
            volume.write_file(&name, &[round; 2000]).unwrap();
        }
        for number in 0..300 {
            volume.remove_file(&format!("/file-{number}")).unwrap();
        }
    }
    assert_eq!(volume.orphan_count(), 0);
    volume.write_file("/kept", b"kept").unwrap();
    volume.close().unwrap();
    assert_completed(&image, "after the close");
}

#[test]
fn orphans_beyond_the_slots_are_chained() {
    let image = image(1024, 32 * MIB, "-O orphan_file -N 16384");
    let in_slots = BLOCKS * (1024 - orphan::TAIL_SIZE) / orphan::SLOT_SIZE;
    let device = in_memory(&image);
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(shared, None, MountOptions::default()).unwrap();
    volume.write_file("/kept", b"kept").unwrap();
    let mut open = Vec::new();
    for number in 0..in_slots + 10 {
        let name = format!("/file-{number}");
        volume.write_file(&name, b"").unwrap();
        let inode = volume.resolve(&name, false).unwrap();
        open.push((volume.open_inode(inode, OpenFlags::READ).unwrap(), inode));
        volume.remove_file(&name).unwrap();
    }
    volume.sync().unwrap();
    device.write_to_file(&image.path).unwrap();
    let cut = replayed(&image);
    assert_eq!(slots(&cut).len(), in_slots);
    let newest = open.last().unwrap().1;
    assert_eq!(superblock(&cut).first_orphan.get(), newest.get());
    complete(&image, in_slots + 10);
    // A slot that becomes free is taken by the next orphan.
    for (file, _) in open.drain(5..20) {
        volume.release(file).unwrap();
    }
    for number in 0..10 {
        let name = format!("/again-{number}");
        volume.write_file(&name, b"").unwrap();
        let inode = volume.resolve(&name, false).unwrap();
        volume.open_inode(inode, OpenFlags::READ).unwrap();
        volume.remove_file(&name).unwrap();
    }
    volume.sync().unwrap();
    device.write_to_file(&image.path).unwrap();
    let cut = replayed(&image);
    assert_eq!(slots(&cut).len(), in_slots - 5);
    assert_eq!(superblock(&cut).first_orphan.get(), newest.get());
    drop(volume);
    complete(&image, in_slots + 5);
}

#[test]
fn orphans_of_the_kernel_are_completed() {
    if !privilege::is_granted() {
        return;
    }
    for format in FORMATS {
        for how in [Shutdown::FlushesLog, Shutdown::CutsLog] {
            println!("{format}, {how:?}");
            let image = image(1024, 32 * MIB, format);
            let mounted = mount(&image);
            let names = ["large", "small", "third"].map(|name| mounted.path().join(name));
            std::fs::write(mounted.path().join("kept"), b"kept").unwrap();
            for (name, size) in names.iter().zip([300_000, 300, 5000]) {
                std::fs::write(name, vec![1; size]).unwrap();
            }
            let open = [0, 1, 2].map(|index| File::open(&names[index]).unwrap());
            for name in &names {
                std::fs::remove_file(name).unwrap();
            }
            mounted.sync();
            mounted.shut_down(how);
            drop(open);
            drop(mounted);
            assert_eq!(slots(&replayed(&image)).len(), 3);
            complete(&image, 3);
        }
    }
}

/// File handles, which name a file by its number, do not reach files of the volume itself.
#[test]
fn files_of_the_volume_are_not_found_by_number() {
    let image = image(1024, 32 * MIB, "-O orphan_file,quota,project");
    let raw = superblock(&image);
    let volume = open(&in_memory(&image)).unwrap();
    for number in [raw.orphan_file_inode.get(), raw.project_quota_inode.get()] {
        assert!(number > 10, "it is no reserved number");
        let found = volume.look_up_number(InodeNr::new(number));
        assert!(matches!(found, Err(Error::NotFound)), "{number}: {found:?}");
    }
    let lost_found = volume.resolve("/lost+found", true).unwrap();
    volume.look_up_number(lost_found).unwrap();
}

#[test]
fn the_kernel_and_the_engine_write_and_fail_in_turn() {
    if !privilege::is_granted() {
        return;
    }
    for format in FORMATS {
        println!("{format}");
        let image = image(1024, 48 * MIB, format);
        for round in 0..3 {
            let mounted = mount(&image);
            change_by_kernel(mounted.path(), round);
            let held = mounted.path().join(format!("kernel-{round}-50/file"));
            let open = File::open(&held).unwrap();
            std::fs::remove_file(&held).unwrap();
            mounted.shut_down(Shutdown::FlushesLog);
            drop(open);
            drop(mounted);
            let device = in_memory(&image);
            let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
            let (volume, report) =
                Volume::open_with_report(shared, None, MountOptions::default()).unwrap();
            // Others, too, if a process of another test had a file open when it was removed.
            assert!(report.orphans_deleted >= 1, "{report:?}");
            change_by_engine(&volume, round);
            let held = format!("/engine-{round}-50/file");
            let inode = volume.resolve(&held, false).unwrap();
            volume.open_inode(inode, OpenFlags::READ).unwrap();
            volume.remove_file(&held).unwrap();
            volume.sync().unwrap();
            let expected = image.own_tree(&volume);
            drop(volume);
            device.write_to_file(&image.path).unwrap();
            let other = image.copy();
            drop(mount(&other));
            oracle::assert_fsck_clean(&other, "after the kernel");
            let tree = oracle::kernel_tree(&other).expect("it was mounted before");
            assert_same(&expected, &tree, "the kernel");
            assert_eq!(slots(&other), [0; 0]);
        }
    }
}
