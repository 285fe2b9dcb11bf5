//! Full volumes: to the last block, to the last inode, in each data mode and without a journal.
//! Acknowledged data is there, no metadata is half-written, and deleting files frees their space.

use std::collections::BTreeMap;

use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags, RenameMode, SetAttributes};
use ext::{Error, Volume};
use layout::InodeNr;
use testkit::{Random, tool};

use crate::image::Image;
use crate::rig::{Place, Rig, quiet};

const VOLUME_BYTES: u64 = 6 << 20;

fn modes() -> Vec<(Place, DataMode)> {
    let all = [DataMode::Ordered, DataMode::Writeback, DataMode::Journal];
    let mut modes = vec![(Place::None, DataMode::Ordered)];
    modes.extend(all.map(|data| (Place::Internal, data)));
    modes.extend(all.map(|data| (Place::External, data)));
    modes
}

fn is_full<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NoSpace | Error::NoInodes))
}

/// Fills the volume with files. Returns the acknowledged contents.
fn fill(volume: &Volume, random: &mut Random) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for number in 0.. {
        let path = format!("/f{number}");
        let made = volume.create(InodeNr::ROOT, &path.as_bytes()[1..], &NewInode::default());
        let Ok(nr) = made else {
            assert!(is_full(&made), "{made:?}");
            break;
        };
        let length = 1 + random.below(100_000) as usize;
        let bytes = random.bytes(length);
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let mut done = 0;
        while done < bytes.len() {
            match volume.write(file, done as u64, &bytes[done..]) {
                Ok(count) => done += count,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("write: {error}"),
            }
        }
        volume.release(file).expect("close");
        files.insert(path, bytes[..done].to_vec());
        if done < bytes.len() {
            break;
        }
    }
    files
}

fn assert_contents(volume: &Volume, files: &BTreeMap<String, Vec<u8>>) {
    for (path, bytes) in files {
        assert!(
            volume.read_file(path).expect("read") == *bytes,
            "contents of {path}"
        );
    }
}

fn fill_to_the_last_block(place: Place, data: DataMode) {
    let what = format!("journal {place:?}, {data:?}");
    let rig = Rig::new(place, 1024, VOLUME_BYTES);
    let volume = rig.open(quiet(data));
    let mut random = Random::new(4);
    let free_before = volume.usage().blocks_free;
    let mut files = fill(&volume, &mut random);
    volume.sync().expect("sync of a full volume");
    assert_eq!(volume.usage().blocks_free, 0, "every block is used: {what}");
    assert_contents(&volume, &files);
    // An operation that needs a block fails, and leaves nothing behind.
    let new = NewInode::default();
    assert!(
        is_full(&volume.make_directory(InodeNr::ROOT, b"d", &new)),
        "{what}"
    );
    assert!(
        is_full(&volume.symlink(InodeNr::ROOT, b"s", &[b'x'; 200], &new)),
        "{what}"
    );
    assert!(volume.resolve("/d", true).is_err() && volume.resolve("/s", false).is_err());
    // An operation that needs none works.
    let (path, bytes) = files.pop_first().expect("there are files");
    let renamed = path.replace("/f", "/g");
    let to = &renamed.as_bytes()[1..];
    volume
        .rename(
            InodeNr::ROOT,
            &path.as_bytes()[1..],
            InodeNr::ROOT,
            to,
            RenameMode::Replace,
        )
        .expect("a rename in place needs no block");
    files.insert(renamed.clone(), bytes);
    let nr = volume.resolve(&renamed, true).expect("it is there");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    let size = files[&renamed].len();
    let overwrite = random.bytes(size);
    volume
        .write_all(file, 0, &overwrite)
        .expect("an overwrite needs no block");
    volume.sync_file(file, false).expect("fsync");
    volume.release(file).expect("close");
    files.insert(renamed.clone(), overwrite);
    // Space is freed, at once or after a commit that the writer waits for.
    volume.remove_file(&renamed).expect("unlink");
    let deleted = files.remove(&renamed).expect("it was there");
    let again = random.bytes(deleted.len());
    volume
        .write_file("/again", &again)
        .expect("space comes back");
    files.insert("/again".to_owned(), again);
    volume.sync().expect("sync");
    assert_contents(&volume, &files);
    volume.close().expect("close");
    rig.assert_fsck_clean(&format!("full: {what}"));
    let volume = rig.open(quiet(data));
    assert_contents(&volume, &files);
    for path in files.keys() {
        volume.remove_file(path).expect("unlink");
    }
    volume.sync().expect("sync");
    let free = volume.usage().blocks_free;
    // The root directory does not shrink.
    let root = volume.attributes(InodeNr::ROOT).expect("attributes").size / 1024;
    assert_eq!(free + root, free_before + 1, "all space is back: {what}");
    volume.close().expect("close");
    rig.assert_fsck_clean(&format!("emptied: {what}"));
}

#[test]
fn to_the_last_block() {
    for (place, data) in modes() {
        fill_to_the_last_block(place, data);
    }
}

#[test]
fn to_the_last_inode() {
    for (place, data) in modes() {
        let rig = Rig::with_inodes(place, 1024, VOLUME_BYTES, Some(64));
        let volume = rig.open(quiet(data));
        let free = volume.usage().inodes_free;
        let new = NewInode::default();
        let create =
            |number: u32| volume.create(InodeNr::ROOT, format!("f{number}").as_bytes(), &new);
        for number in 0..free {
            create(number).expect("an inode is free");
        }
        assert_eq!(volume.usage().inodes_free, 0);
        let blocks = volume.usage().blocks_free;
        assert!(is_full(&create(free)));
        assert!(is_full(&volume.make_directory(InodeNr::ROOT, b"d", &new)));
        assert!(is_full(&volume.symlink(InodeNr::ROOT, b"s", b"f1", &new)));
        assert_eq!(
            volume.usage().blocks_free,
            blocks,
            "nothing was taken for what failed"
        );
        volume.remove_file("/f3").expect("unlink");
        create(free).expect("an inode is reusable at once");
        volume.close().expect("close");
        rig.assert_fsck_clean(&format!("no inode left: {place:?}, {data:?}"));
    }
}

/// Calls without a caller do not use the reserve, unless an option allows it.
#[test]
fn the_reserve_is_kept() {
    let rig = Rig::new(Place::Internal, 1024, VOLUME_BYTES);
    let volume = rig.open(ext::MountOptions::default());
    fill(&volume, &mut Random::new(9));
    volume.sync().expect("sync");
    let usage = volume.usage();
    assert_eq!(usage.blocks_available, 0);
    assert!(usage.blocks_free > 0, "the reserve is still there");
    volume.close().expect("close");
    rig.assert_fsck_clean("filled to the reserve");
}

/// The users of the reserve, by the superblock or by `resuid=` and `resgid=`.
#[test]
fn root_and_the_owner_of_the_reserve_may_use_it() {
    let rig = Rig::new(Place::Internal, 1024, VOLUME_BYTES);
    let options = ext::MountOptions {
        reserved_uid: Some(7),
        reserved_gid: Some(8),
        ..ext::MountOptions::default()
    };
    let by_superblock = rig.open(ext::MountOptions::default());
    let owner = by_superblock.reserve_owner();
    assert_eq!((owner.uid, owner.gid), (0, None));
    assert!(by_superblock.may_use_reserve(0, &[]));
    assert!(
        !by_superblock.may_use_reserve(7, &[0]),
        "group 0 has no right"
    );
    by_superblock.close().expect("close");
    let volume = rig.open(options);
    fill(&volume, &mut Random::new(9));
    let new = NewInode::default();
    for (uid, groups, may) in [
        (1000, &[][..], false),
        (1000, &[7, 9], false),
        (7, &[], true),
        (1000, &[9, 8], true),
        (0, &[], true),
    ] {
        assert_eq!(volume.may_use_reserve(uid, groups), may);
        let name = format!("{uid}-{}", groups.len());
        let made = volume.with_reserve(may, || {
            volume.make_directory(InodeNr::ROOT, name.as_bytes(), &new)
        });
        assert_eq!(made.is_ok(), may, "user {uid} in {groups:?}: {made:?}");
        assert!(may || is_full(&made));
    }
    assert!(
        is_full(&volume.make_directory(InodeNr::ROOT, b"after", &new)),
        "the right ends with the call"
    );
    volume.close().expect("close");
    rig.assert_fsck_clean("some of the reserve is used");
}

/// With one block left, an operation that needs two is refused eventually: blocks that it takes and
/// gives back meanwhile are no reason to try again.
#[test]
fn what_needs_two_blocks_is_refused_with_one_left() {
    let modes = modes();
    for (place, data) in modes.into_iter().filter(|(place, _)| *place != Place::None) {
        let rig = Rig::new(place, 1024, VOLUME_BYTES);
        let volume = rig.open(quiet(data));
        let new = NewInode::default();
        let names = 1024 / 16 - 2;
        let full = volume.create_directory("/full").expect("mkdir");
        for number in 0..names {
            let name = format!("f{number:06}");
            volume.create(full, name.as_bytes(), &new).expect("create");
        }
        let small = volume
            .create(InodeNr::ROOT, b"small", &new)
            .expect("create");
        let filler = volume
            .create(InodeNr::ROOT, b"filler", &new)
            .expect("create");
        let open = |nr| volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let (small, filler) = (open(small), open(filler));
        // Free blocks beyond the direct blocks of each file go only to the filler, to the last
        // block.
        let block = vec![1; 1024];
        let mut size = 0;
        while volume.write(filler, size, &block).is_ok() {
            size += block.len() as u64;
        }
        let left = volume.usage().blocks_free;
        for used in 0..left.saturating_sub(1) {
            volume
                .write(small, used * 1024, &block)
                .expect("a direct block");
        }
        volume.sync().expect("sync");
        let what = format!("{place:?}, {data:?}");
        if volume.usage().blocks_free == 0 {
            let shorter = SetAttributes {
                size: Some(size - 1024),
                ..SetAttributes::default()
            };
            let nr = volume.resolve("/filler", true).expect("it is there");
            volume.set_attributes(nr, &shorter).expect("truncate");
            volume.sync().expect("sync");
        }
        assert_eq!(volume.usage().blocks_free, 1, "{what}");
        assert!(is_full(&volume.write(small, 20 * 1024, &block)), "{what}");
        assert!(
            is_full(&volume.make_directory(full, b"one-too-many", &new)),
            "{what}"
        );
        volume.sync().expect("sync");
        assert_eq!(volume.usage().blocks_free, 1, "{what}");
        volume.release(small).expect("close");
        volume.release(filler).expect("close");
        volume.close().expect("close");
        rig.assert_fsck_clean(&format!("one block left: {what}"));
    }
}

/// With `sparse_super2` only two groups have copies of the superblock; where the others would have
/// them are the blocks of files.
#[test]
fn groups_without_copies_of_the_superblock_are_filled() {
    let more = ["-O", "^resize_inode,sparse_super2", "-g", "1024"];
    let image = Image::with_arguments("ext3", 1024, 16 << 20, false, &more);
    let open = || {
        let options = quiet(DataMode::Ordered);
        Volume::open(image.device(), None, options).expect("the volume opens")
    };
    let volume = open();
    let files = fill(&volume, &mut Random::new(5));
    volume.sync().expect("sync of a full volume");
    assert_eq!(volume.usage().blocks_free, 0);
    assert_contents(&volume, &files);
    volume.close().expect("close");
    check(&image);
    let volume = open();
    for path in files.keys() {
        let name = &path.as_bytes()[1..];
        volume.unlink(InodeNr::ROOT, name).expect("unlink");
    }
    volume.close().expect("close");
    check(&image);
}

fn check(image: &Image) {
    let output = tool::run("e2fsck", &["-fn".as_ref(), image.path.as_os_str()]);
    assert!(output.status.success(), "{}", tool::said(&output));
}
