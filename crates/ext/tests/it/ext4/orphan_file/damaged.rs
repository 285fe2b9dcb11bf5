//! Damaged orphan files: those that are refused, slots that are stale, orphans that cannot be
//! completed, and entries and marks that do not fit.

use ext::Corrupt;
use layout::checksum::{metadata, superblock as sum_of_superblock};
use layout::feature::Compatible;
use layout::superblock::State;
use zerocopy::IntoBytes;

use super::*;

/// Writes a number into the first slot, and seals the block.
fn fill_slot(image: &Image, number: u32) {
    change_block(image, 0, |bytes| {
        bytes[..4].copy_from_slice(&number.to_le_bytes());
    });
}

/// Changes a block of the orphan file, and seals it.
fn change_block(image: &Image, index: usize, change: impl FnOnce(&mut [u8])) {
    let raw = superblock(image);
    let (block, block_bytes) = (blocks(image)[index], image.block_bytes);
    let offset = block * u64::from(block_bytes);
    let device = image.device();
    let mut bytes = device.read_block(offset, block_bytes).unwrap().to_vec();
    change(&mut bytes);
    let features = raw.features().read_only_compatible;
    if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
        let inode = raw.orphan_file_inode.get();
        let owner = metadata::owner(metadata::seed(&raw), inode, 0);
        let sum = metadata::orphan_block(owner, block, &bytes);
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&sum.to_le_bytes());
    }
    let image = layout::Block::copy_from(&bytes).into_arc();
    device.write_blocks(offset, vec![image]).unwrap();
}

/// Changes the superblock, and seals it.
fn change_superblock(image: &Image, change: impl FnOnce(&mut Superblock)) {
    let mut raw = superblock(image);
    change(&mut raw);
    raw.checksum.set(sum_of_superblock(&raw));
    let image_of = layout::Block::copy_from(raw.as_bytes()).into_arc();
    image.device().write_blocks(OFFSET, vec![image_of]).unwrap();
}

fn bytes(device: &MemoryDevice) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    device.write_to_file(&path).unwrap();
    std::fs::read(path).unwrap()
}

/// Asserts that a volume is opened read-only only. Returns the error, and true if nothing was
/// written.
fn refused(image: &Image) -> (Corrupt, bool) {
    let device = in_memory(image);
    let before = bytes(&device);
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let error = match Volume::open(shared, None, MountOptions::default()) {
        Err(Error::Corrupt(error)) => error,
        other => panic!("{:?}", other.map(drop)),
    };
    let is_same = bytes(&device) == before;
    let volume = open(&device).unwrap();
    assert_eq!(volume.read_file("/kept").unwrap(), b"kept");
    volume.close().unwrap();
    (error, is_same)
}

/// Returns an image with a file.
fn with_file() -> Image {
    let image = image(1024, 16 * MIB, FORMATS[0]);
    let (volume, _) = open_for_writing(&image).unwrap();
    volume.write_file("/kept", b"kept").unwrap();
    volume.close().unwrap();
    image
}

#[test]
fn a_damaged_file_is_refused_and_nothing_is_written() {
    let poke = |block: usize, at: usize| {
        move |image: &Image| {
            let offset = blocks(image)[block] * 1024;
            let device = image.device();
            let mut bytes = device.read_block(offset, 1024).unwrap();
            Arc::make_mut(&mut bytes)[at] ^= 1;
            device.write_blocks(offset, vec![bytes]).unwrap();
        }
    };
    let debugfs = |request: &'static str| {
        move |image: &Image| {
            let path = image.path.to_str().unwrap();
            drop(tool::run_well("debugfs", &["-w", "-R", request, path]));
        }
    };
    let number = |number: u32| {
        move |image: &Image| {
            change_superblock(image, |raw| raw.orphan_file_inode.set(number));
        }
    };
    type Damage = Box<dyn Fn(&Image)>;
    let cases: [(Damage, &str); 12] = [
        (Box::new(poke(0, 1016)), "does not end as one"),
        (Box::new(poke(31, 1016)), "does not end as one"),
        (Box::new(poke(0, 1020)), "checksum does not match"),
        (Box::new(poke(7, 12)), "checksum does not match"),
        (Box::new(debugfs("punch <12> 3 4")), "not all of its blocks"),
        (Box::new(debugfs("sif <12> size 32000")), "no size that can"),
        (Box::new(debugfs("sif <12> size 0")), "no size that can"),
        (
            Box::new(debugfs("sif <12> size 33792")),
            "not all of its blocks",
        ),
        (Box::new(debugfs("sif <12> links_count 0")), "inode is free"),
        (Box::new(number(0)), "names no inode"),
        (Box::new(number(11)), "not a regular file"),
        (Box::new(number(1 << 30)), "names no inode"),
    ];
    for (damage, why) in cases {
        let image = with_file();
        damage(&image);
        let (error, is_same) = refused(&image);
        assert!(error.to_string().contains(why), "{error}: {why}");
        assert!(is_same, "{why}: the image has changed");
    }
}

#[test]
fn slots_that_cannot_be() {
    for (number, why) in [
        (8, "a reserved inode is never an orphan"),
        (1 << 30, "there is no such inode"),
        (12, "the orphan file is never an orphan"),
    ] {
        let image = with_file();
        fill_slot(&image, number);
        let (error, is_same) = refused(&image);
        assert!(error.to_string().contains(why), "{error}: {why}");
        assert!(is_same, "{why}: the image has changed");
    }
}

/// Slots of free inodes, and of inodes that are orphans twice, are cleared.
#[test]
fn stale_slots_are_cleared() {
    let kept = 13;
    type Damage = fn(&Image);
    let cases: [(Damage, usize); 4] = [
        (|image| fill_slot(image, 100), 0),
        // An inode that was deleted.
        (
            |image| {
                let (volume, _) = open_for_writing(image).unwrap();
                volume.write_file("/gone", b"gone").unwrap();
                let inode = volume.resolve("/gone", false).unwrap();
                volume.remove_file("/gone").unwrap();
                volume.close().unwrap();
                fill_slot(image, inode.get());
            },
            0,
        ),
        // A chained inode.
        (
            |image| {
                change_superblock(image, |raw| raw.first_orphan.set(13));
                fill_slot(image, 13);
            },
            1,
        ),
        // An inode in two slots.
        (
            |image| {
                fill_slot(image, 13);
                change_block(image, 1, |bytes| {
                    bytes[8..12].copy_from_slice(&[13, 0, 0, 0])
                });
            },
            1,
        ),
    ];
    for (index, (damage, truncated)) in cases.into_iter().enumerate() {
        let image = with_file();
        damage(&image);
        assert!(!slots(&image).is_empty(), "case {index}");
        let (volume, report) = open_for_writing(&image).unwrap();
        assert_eq!(report.orphans_deleted, 0, "case {index}: {report:?}");
        assert_eq!(
            report.orphans_truncated, truncated,
            "case {index}: {report:?}"
        );
        assert!(!report.has_errors, "case {index}: {report:?}");
        assert_eq!(volume.orphan_count(), 0);
        assert_eq!(volume.resolve("/kept", false).unwrap().get(), kept);
        volume.close().unwrap();
        assert_completed(&image, "after the open");
    }
}

/// e2fsck 1.47.0 frees orphans and leaves slots of them.
#[test]
fn slots_that_e2fsck_leaves_are_cleared() {
    for format in FORMATS {
        for count in [3, 300] {
            let image = image(4096, 32 * MIB, format);
            cut_off(&image, count);
            let output = tool::run("e2fsck", &["-p", image.path.to_str().unwrap()]);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1)), "{}", tool::said(&output));
            println!("{format}: e2fsck leaves {} slots", slots(&image).len());
            let (volume, report) = open_for_writing(&image).unwrap();
            assert_eq!(report.orphans_deleted, 0, "{report:?}");
            volume.close().unwrap();
            assert_completed(&image, "after e2fsck and the engine");
        }
    }
}

/// Slots are completed without the mark, as Linux does.
#[test]
fn slots_without_the_mark_and_the_mark_without_slots() {
    let image = with_file();
    fill_slot(&image, 13);
    let (volume, report) = open_for_writing(&image).unwrap();
    assert_eq!(report.orphans_truncated, 1);
    volume.close().unwrap();
    assert_completed(&image, "without the mark");
    let mark = |raw: &mut Superblock| {
        let mut features = raw.features();
        features.read_only_compatible |= ReadOnlyCompatible::ORPHAN_PRESENT;
        raw.set_features(features);
    };
    change_superblock(&image, mark);
    let (volume, report) = open_for_writing(&image).unwrap();
    assert!(report.read_only_because.is_none(), "{report:?}");
    volume.close().unwrap();
    assert_completed(&image, "without slots");
}

/// A volume that has lost its journal: orphans are completed from the slots, and new ones chained.
#[test]
fn without_a_journal_slots_are_only_cleared() {
    let image = with_file();
    fill_slot(&image, 13);
    change_superblock(&image, |raw| {
        let mut features = raw.features();
        features.compatible -= Compatible::HAS_JOURNAL;
        features.read_only_compatible |= ReadOnlyCompatible::ORPHAN_PRESENT;
        raw.set_features(features);
        raw.journal_inode.set(0);
    });
    let (volume, report) = open_for_writing(&image).unwrap();
    assert_eq!(report.orphans_truncated, 1);
    volume.write_file("/open", b"").unwrap();
    let inode = volume.resolve("/open", false).unwrap();
    let file = volume.open_inode(inode, OpenFlags::READ).unwrap();
    volume.remove_file("/open").unwrap();
    volume.sync().unwrap();
    assert_eq!(superblock(&image).first_orphan.get(), inode.get());
    assert_eq!(slots(&image), [0; 0]);
    volume.release(file).unwrap();
    volume.close().unwrap();
    assert_eq!(marks(&image), (false, false));
}

/// An orphan that cannot be deleted stays in its slot. The mark is cleared: with it, Linux refuses
/// to mount a volume with errors read-only.
#[test]
fn an_orphan_that_cannot_be_deleted_keeps_its_slot() {
    let image = image(1024, 16 * MIB, FORMATS[1]);
    cut_off(&image, 2);
    let path = image.path.to_str().unwrap();
    let cut = replayed(&image);
    let numbers = slots(&cut);
    let request = format!("sif <{}> block[5] 0x7", numbers[1]);
    let at = cut.path.to_str().unwrap();
    assert_ne!(path, at);
    tool::run_well("debugfs", &["-w", "-R", &request, at]);
    let (volume, report) = open_for_writing(&cut).unwrap();
    assert_eq!(report.orphans_deleted, 1);
    let _ = volume.close();
    assert_eq!(slots(&cut), numbers[1..]);
    assert_eq!(marks(&cut), (false, false));
    let state = superblock(&cut).state();
    assert!(state.contains(State::ERROR), "{state:?}");
    if privilege::is_granted() {
        let mounted = cut.mount("ro").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(std::fs::read(mounted.at("/kept")).unwrap(), b"kept");
    }
}

/// The inode had a time of deletion before it was deleted.
#[test]
fn an_inode_in_a_slot_has_no_time_of_deletion() {
    let image = image(1024, 16 * MIB, FORMATS[0]);
    let (volume, _) = open_for_writing(&image).unwrap();
    volume.write_file("/file-0", b"").unwrap();
    volume.close().unwrap();
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", "sif /file-0 dtime 77777", path]);
    cut_off(&image, 1);
    complete(&image, 1);
}

/// A directory entry leads neither to the orphan file nor to a change of it.
#[test]
fn an_entry_that_names_the_orphan_file() {
    for is_truncated in [false, true] {
        let image = with_file();
        let path = image.path.to_str().unwrap();
        tool::run_well("debugfs", &["-w", "-R", "ln <12> /name", path]);
        let (volume, _) = open_for_writing(&image).unwrap();
        let error = match is_truncated {
            true => volume.write_file("/name", b"short"),
            false => volume.remove_file("/name"),
        };
        let error = error.unwrap_err().to_string();
        assert!(error.contains("an entry names the orphan file"), "{error}");
        let _ = volume.close();
        // All blocks of the file are there.
        assert_eq!(slots(&image), [0; 0]);
        let (volume, _) = open_for_writing(&image).unwrap();
        assert_eq!(volume.read_file("/kept").unwrap(), b"kept");
        volume.close().unwrap();
        tool::run_well("debugfs", &["-w", "-R", "unlink /name", path]);
        assert_completed(&image, "without the entry");
    }
}

/// The block maps of the orphan file and of the journal are sound on a volume that is open for
/// writing.
#[test]
fn blocks_of_the_volumes_own_files() {
    for format in FORMATS {
        let image = image(1024, 16 * MIB, format);
        let expected = blocks(&image);
        let (volume, _) = open_for_writing(&image).unwrap();
        let raw = superblock(&image);
        let runs = volume.blocks_of(InodeNr::new(raw.orphan_file_inode.get()));
        let runs = runs.unwrap();
        let data = runs.iter().filter(|run| run.file_block.is_some());
        let found: Vec<u64> = data.flat_map(|run| run.blocks()).collect();
        assert_eq!(found, expected);
        volume
            .blocks_of(InodeNr::new(raw.journal_inode.get()))
            .unwrap();
        volume.write_file("/kept", b"kept").unwrap();
        volume.close().unwrap();
        assert_completed(&image, "after the close");
    }
}
