//! Ranges that are collapsed and inserted, by the kernel and by this crate; and defragmentation.

use std::os::unix::fs::FileExt;
use std::path::Path;

use ext::Error;
use ext::options::DataMode;
use ext::volume::RangeChange;
use testkit::{Random, privilege, tool};

use super::*;
use crate::oracle;
use crate::rig::quiet;

/// Number of changes of a file.
const CHANGES: u64 = 40;

/// Makes a file with data, holes and unwritten extents, in many pieces.
fn fill(root: &Path) {
    let mut random = Random::new(3);
    let open = |name: &str| std::fs::File::create(root.join(name)).unwrap();
    let (file, other) = (open("file"), open("other"));
    for number in 0..300_u64 {
        if number % 9 > 2 {
            let bytes = random.bytes(4096);
            file.write_all_at(&bytes, number * 4096).unwrap();
        }
        other.write_all_at(&[7; 4096], number * 4096).unwrap();
        if number % 5 == 0 {
            file.sync_all().unwrap();
        }
    }
    file.write_all_at(b"the end", 300 * 4096 + 5).unwrap();
    let path = root.join("file").display().to_string();
    for number in [0, 20, 40, 297] {
        let offset = (number * 4096).to_string();
        tool::run_well("fallocate", &["-n", "-o", &offset, "-l", "12288", &path]);
    }
    let behind = (310 * 4096).to_string();
    tool::run_well("fallocate", &["-n", "-o", &behind, "-l", "65536", &path]);
}

/// Some of them are not of whole blocks, or lie beyond the end.
fn changes(block_bytes: u64) -> Vec<(RangeChange, u64, u64)> {
    let mut random = Random::new(block_bytes);
    let of = |random: &mut Random| {
        let what = match random.below(2) {
            0 => RangeChange::Collapse,
            _ => RangeChange::Insert,
        };
        let odd = u64::from(random.below(8) == 0) * 512;
        let offset = random.below(320 * 4096 / block_bytes) * block_bytes;
        let length = (1 + random.below(30)) * block_bytes + odd;
        (what, offset, length)
    };
    (0..CHANGES).map(|_| of(&mut random)).collect()
}

fn compare(block_bytes: u32, more: &str) {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(block_bytes, 40 * MIB, more, fill);
    let ours = in_memory(&image);
    let mounted = mount(&image);
    let path = mounted.path().join("file").display().to_string();
    let mut done = Vec::new();
    for (what, offset, length) in changes(block_bytes.into()) {
        let mode = match what {
            RangeChange::Collapse => "-c",
            _ => "-i",
        };
        let (offset, length) = (offset.to_string(), length.to_string());
        let output = tool::run("fallocate", &[mode, "-o", &offset, "-l", &length, &path]);
        let said = tool::said(&output);
        assert!(
            output.status.success() || said.contains("Invalid argument"),
            "{said}"
        );
        done.push(output.status.success());
    }
    let expected = std::fs::read(&path).unwrap();
    drop(mounted);
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&ours);
    let volume = Volume::open(device, None, MountOptions::default()).unwrap();
    let nr = volume.resolve("/file", true).unwrap();
    for ((what, offset, length), done) in changes(block_bytes.into()).into_iter().zip(&done) {
        let changed = volume.change_range(nr, offset, length, what, false);
        match done {
            true => changed.unwrap_or_else(|error| panic!("{what:?} {offset} {length}: {error}")),
            false => assert!(
                matches!(changed, Err(Error::Invalid(_))),
                "{what:?} {offset} {length}: {changed:?}"
            ),
        }
    }
    let sectors = volume.attributes(nr).unwrap().sectors;
    volume.close().unwrap();
    ours.write_to_file(&image.path).unwrap();
    oracle::assert_fsck_clean(&image, "after the moves");
    let count = done.iter().filter(|done| **done).count();
    assert!(count > 10, "{count} changes were made");
    let mounted = mount(&image);
    let found = std::fs::read(mounted.path().join("file")).unwrap();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "the contents");
    let counted = std::os::unix::fs::MetadataExt::blocks(
        &std::fs::metadata(mounted.path().join("file")).unwrap(),
    );
    assert_eq!(counted, sectors);
}

#[test]
fn moves_are_those_of_the_kernel() {
    compare(4096, "");
    compare(1024, "");
    compare(2048, "-O ^has_journal,^metadata_csum");
}

/// A file in many pieces, beside one that takes the space between them.
#[test]
fn a_file_is_defragmented() {
    for (block_bytes, more) in [
        (4096, ""),
        (1024, "-O inline_data"),
        (1024, "-O ^has_journal"),
    ] {
        let image = image(block_bytes, 48 * MIB, more);
        let device = in_memory(&image);
        let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let options = MountOptions {
            delayed_allocation: false,
            ..MountOptions::default()
        };
        let volume = Volume::open(shared, None, options).unwrap();
        let mut random = Random::new(9);
        let block = u64::from(block_bytes);
        let mut bytes = vec![0; 400 * block as usize - 300];
        let (file, other) = (
            volume.create_file("/file", &Default::default()).unwrap(),
            volume.create_file("/other", &Default::default()).unwrap(),
        );
        for number in (0..399).filter(|number| number % 60 != 5) {
            let data = random.bytes(block as usize);
            let at = number * block as usize;
            bytes[at..at + data.len()].copy_from_slice(&data);
            file.write_at(at as u64, &data).unwrap();
            file.sync_all().unwrap();
            other.write_at(at as u64, &data).unwrap();
            other.sync_all().unwrap();
        }
        let end = bytes.len() - 10;
        bytes[end..].fill(3);
        file.write_at(end as u64, &[3; 10]).unwrap();
        let nr = volume.resolve("/file", true).unwrap();
        let unwritten = RangeChange::Allocate;
        volume
            .change_range(nr, 65 * block, block, unwritten, true)
            .unwrap();
        file.close().unwrap();
        other.close().unwrap();
        let times = volume.attributes(nr).unwrap();
        let done = volume.defragment("/file").unwrap();
        assert!(done.extents_after < done.extents_before, "{more}: {done:?}");
        assert!(done.extents_after <= 10, "{more}: {done:?}");
        assert!(volume.read_file("/file").unwrap() == bytes, "{more}");
        assert_eq!(volume.attributes(nr).unwrap().mtime, times.mtime);
        assert_eq!(volume.attributes(nr).unwrap().sectors, times.sectors);
        let again = volume.defragment("/file").unwrap();
        assert_eq!(again.extents_before, done.extents_after);
        let names = volume.list("/").unwrap();
        assert!(
            names
                .iter()
                .all(|entry| !entry.name.starts_with(b".defrag"))
        );
        volume.close().unwrap();
        device.write_to_file(&image.path).unwrap();
        oracle::assert_fsck_clean(&image, "after the defragmentation");
        let volume = open(&device).unwrap();
        assert!(volume.read_file("/file").unwrap() == bytes, "{more}");
        volume.close().unwrap();
    }
}

/// `chattr +e`: files of an ext3 that has become an ext4.
#[test]
fn block_maps_become_extents() {
    use ext::volume::{InodeFlags, SetAttributes};
    for (block_bytes, more) in [(1024, ""), (4096, ""), (1024, "-O ^has_journal")] {
        let words: Vec<&str> = more.split_whitespace().collect();
        let image = Image::with_arguments("ext3", block_bytes, 64 * MIB, false, &words);
        let device = in_memory(&image);
        let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let block = u64::from(block_bytes);
        let mut files = Vec::new();
        let volume = Volume::open(Arc::clone(&shared), None, MountOptions::default()).unwrap();
        let mut random = Random::new(5);
        for (name, blocks) in [
            ("/empty", vec![]),
            ("/small", vec![0, 1]),
            ("/dense", (0..800).collect()),
            (
                "/sparse",
                (0..400).map(|number| number * 3).collect::<Vec<u64>>(),
            ),
            ("/far", vec![0, 11, 12, 13, 300, 5000]),
        ] {
            let file = volume.create_file(name, &Default::default()).unwrap();
            for number in blocks {
                let bytes = random.bytes(block as usize - 7);
                file.write_at(number * block, &bytes).unwrap();
            }
            file.close().unwrap();
            files.push((name, volume.read_file(name).unwrap()));
        }
        let refused = SetAttributes {
            flags: Some(InodeFlags::EXTENTS),
            ..SetAttributes::default()
        };
        let nr = volume.resolve("/small", true).unwrap();
        let error = volume.set_attributes(nr, &refused);
        assert!(matches!(error, Err(Error::Unsupported(_))), "{error:?}");
        volume.close().unwrap();
        let changes = ext::tune::Changes {
            features: vec![ext::tune::free_feature("extent").unwrap()],
            ..Default::default()
        };
        ext::tune::apply(&shared, None, &changes).unwrap();
        let volume = Volume::open(Arc::clone(&shared), None, MountOptions::default()).unwrap();
        for (name, bytes) in &files {
            let nr = volume.resolve(*name, true).unwrap();
            let flags = volume.attributes(nr).unwrap().flags;
            let change = SetAttributes {
                flags: Some(flags | InodeFlags::EXTENTS),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &change).unwrap();
            assert!(
                volume
                    .attributes(nr)
                    .unwrap()
                    .flags
                    .contains(InodeFlags::EXTENTS),
                "{name}"
            );
            assert!(volume.read_file(*name).unwrap() == *bytes, "{name}");
            let file = volume
                .open_file(*name, ext::volume::OpenFlags::READ_WRITE)
                .unwrap();
            file.write_at(5 * block, b"after").unwrap();
            file.close().unwrap();
        }
        volume.close().unwrap();
        device.write_to_file(&image.path).unwrap();
        oracle::assert_fsck_clean(&image, "after the migration");
        if privilege::is_granted() {
            let mounted = Mount::new(&image.path, None, "ext4", "ro").unwrap();
            for (name, bytes) in &files {
                let mut bytes = bytes.clone();
                let at = 5 * block as usize;
                bytes.resize(bytes.len().max(at + 5), 0);
                bytes[at..at + 5].copy_from_slice(b"after");
                let found = std::fs::read(mounted.path().join(&name[1..])).unwrap();
                assert!(found == bytes, "{name}");
            }
        }
    }
}

/// Bytes of a sparse file, which is allocated in several steps.
const SPARSE_BYTES: u64 = 4 << 20;
/// Number of schedules in which a file gets extents while it is allocated.
const WORLDS: u64 = 100;

/// A file gets extents between two steps of an allocation, and then data in a hole.
#[test]
fn an_allocation_keeps_what_is_written_to_new_extents() {
    let image = Image::with_arguments("ext3", 4096, 32 * MIB, false, &[]);
    let device = in_memory(&image);
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(Arc::clone(&shared), None, quiet(DataMode::Ordered)).unwrap();
    let file = volume.create_file("/file", &Default::default()).unwrap();
    file.set_len(SPARSE_BYTES).unwrap();
    file.close().unwrap();
    volume.close().unwrap();
    let changes = ext::tune::Changes {
        features: vec![ext::tune::free_feature("extent").unwrap()],
        ..Default::default()
    };
    ext::tune::apply(&shared, None, &changes).unwrap();
    for seed in 0..WORLDS {
        let copy: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
        let world = sim::run(sim::Config::random(seed), move || allocate_and_write(copy));
        world.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn allocate_and_write(device: Arc<dyn BlockDevice>) {
    use ext::volume::{InodeFlags, OpenFlags, SetAttributes};
    let volume = Volume::open(device, None, quiet(DataMode::Ordered)).expect("it opens");
    let volume = Arc::new(volume);
    let nr = volume.resolve("/file", true).expect("it is there");
    let last = SPARSE_BYTES - 4096;
    let other = Arc::clone(&volume);
    let writer = rt::spawn("writer", move || {
        let flags = other.attributes(nr).expect("it is there").flags;
        let change = SetAttributes {
            flags: Some(flags | InodeFlags::EXTENTS),
            ..SetAttributes::default()
        };
        other.set_attributes(nr, &change).expect("chattr +e");
        let file = other.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        other.write_all(file, last, &[7; 4096]).expect("write");
        other.release(file).expect("close");
    });
    volume
        .change_range(nr, 0, SPARSE_BYTES, RangeChange::Allocate, true)
        .expect("there is room");
    writer.join().expect("it ends well");
    let mut found = [0; 4096];
    let read = volume.read_node(nr, last, &mut found, false);
    assert_eq!(read.expect("it is read"), 4096);
    assert!(found == [7; 4096], "what was written stays");
    let volume = Arc::into_inner(volume).expect("the writer is gone");
    volume.close().expect("close");
}
