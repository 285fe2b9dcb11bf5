//! Meta block groups (`meta_bg`): descriptor blocks that lie in the groups they describe. The
//! volumes are written in turn with the kernel.

use std::path::Path;

use ext::census::{BlockUse, census};
use ext::mkfs::{FeatureEdits, FileSystemType, Options};
use ext::{Corrupt, Error, Sealed};
use layout::GroupNr;
use layout::feature::{Compatible, Incompatible};
use testkit::{privilege, tool};

use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::tree::assert_same;

/// Size of the volumes in MiB: more than 128 groups of 256 blocks of 1 KiB.
const SIZE: u64 = 33;

/// Makes an image over garbage whose descriptor blocks from the one with this index on lie in
/// their groups.
fn with_meta_groups(block_bytes: u32, first: u32, more: &str) -> Image {
    let image = Image::empty("ext4", block_bytes, SIZE * MIB, false);
    std::fs::write(&image.path, vec![0xA5; (SIZE * MIB) as usize]).unwrap();
    let (variable, block_bytes) = (
        format!("MKE2FS_FIRST_META_BG={first}"),
        block_bytes.to_string(),
    );
    let mut arguments = vec![&*variable, "mke2fs", "-q", "-F", "-t", "ext4"];
    arguments.extend(["-b", &block_bytes, "-g", "256", "-N", "6000"]);
    arguments.extend(["-E", "nodiscard,lazy_itable_init=1"]);
    arguments.extend(more.split_whitespace());
    arguments.push(image.path.to_str().unwrap());
    tool::run_well("env", &arguments);
    let raw = superblock(&image);
    assert_eq!(raw.first_meta_group.get(), first);
    image
}

fn open_on(image: &Image) -> Result<Volume> {
    Volume::open(image.device(), None, MountOptions::default())
}

/// Spreads directories and files over all groups.
fn fill_by_kernel(root: &Path, round: u32) {
    for number in 0..40 {
        let directory = root.join(format!("kernel-{round}-{number}"));
        std::fs::create_dir(&directory).unwrap();
        for file in 0..6 {
            let contents = vec![number as u8; 9000 + file];
            std::fs::write(directory.join(format!("{file}")), contents).unwrap();
        }
    }
    std::fs::write(root.join(format!("large-{round}")), vec![7; 3 << 20]).unwrap();
}

fn fill_by_engine(volume: &Volume, round: u32) {
    for number in 0..40 {
        let directory = format!("/engine-{round}-{number}");
        volume.create_directory(&directory).unwrap();
        for file in 0..6 {
            let contents = vec![number as u8; 9000 + file];
            let path = format!("{directory}/{file}");
            volume.write_file(&path, &contents).unwrap();
        }
    }
    let contents = vec![9; 3 << 20];
    let path = format!("/engine-{round}-large");
    volume.write_file(&path, &contents).unwrap();
    for number in (0..40).step_by(2) {
        for file in 0..6 {
            let path = format!("/kernel-{round}-{number}/{file}");
            volume.remove_file(&path).unwrap();
        }
    }
}

/// Asserts that the census knows every block, and as many descriptor blocks as the kernel has.
fn assert_census(image: &Image, descriptor_blocks: usize) {
    let device = image.device();
    let volume = Volume::open(Arc::clone(&device), None, read_only()).unwrap();
    let uses = census(&device, all_blocks(&volume)).unwrap();
    let count = |wanted| uses.values().filter(|found| **found == wanted).count();
    assert_eq!(count(BlockUse::Free) as u64, volume.usage().blocks_free);
    assert_eq!(count(BlockUse::Unknown), 0);
    let is_descriptors = |found: &&BlockUse| matches!(found, BlockUse::Descriptors { .. });
    assert_eq!(
        uses.values().filter(is_descriptors).count(),
        descriptor_blocks
    );
    volume.close().unwrap();
}

/// Returns the number of descriptor blocks, copies included, by `dumpe2fs`.
fn descriptor_blocks(image: &Image) -> usize {
    let text = tool::run_well("dumpe2fs", &[image.path.to_str().unwrap()]);
    let places = text.split("Group descriptor").skip(1);
    let counts = places.filter_map(|place| {
        let place = place.trim_start_matches('s').strip_prefix(" at ")?;
        let place = place.split_whitespace().next()?;
        let mut ends = place.split('-').map(|end| end.parse::<usize>().unwrap());
        let first = ends.next()?;
        Some(1 + ends.next().unwrap_or(first) - first)
    });
    counts.sum()
}

fn write_in_turn(block_bytes: u32, first: u32, more: &str) {
    if !privilege::is_granted() {
        return;
    }
    let image = with_meta_groups(block_bytes, first, more);
    oracle::assert_fsck_clean(&image, "new");
    for round in 0..2 {
        let mounted = mount(&image);
        fill_by_kernel(mounted.path(), round);
        drop(mounted);
        oracle::assert_fsck_clean(&image, "after the kernel");
        let volume = open_on(&image).unwrap();
        fill_by_engine(&volume, round);
        let own = image.own_tree(&volume);
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, "after the engine");
        let expected = oracle::kernel_tree(&image).expect("it was mounted before");
        assert_same(&expected, &own, "the volume itself");
    }
    assert_census(&image, descriptor_blocks(&image));
}

/// One test for each format, so that they run in parallel.
macro_rules! formats {
    ($($name:ident: $block_bytes:expr, $first:expr, $more:expr;)*) => {
        $(
            #[test]
            fn $name() {
                write_in_turn($block_bytes, $first, $more);
            }
        )*
    };
}

formats! {
    all_descriptors_in_their_groups: 1024, 0, "-O meta_bg,^resize_inode";
    some_descriptors_behind_superblocks: 1024, 3, "-O meta_bg,^resize_inode";
    all_descriptors_behind_superblocks: 1024, 9, "-O meta_bg,^resize_inode";
    short_descriptors_in_rigid_groups: 1024, 2, "-O meta_bg,^resize_inode,^64bit,^flex_bg";
    copies_in_every_group: 1024, 1, "-O meta_bg,^resize_inode,^sparse_super,^flex_bg";
    copies_in_two_groups: 1024, 2, "-O meta_bg,^resize_inode,sparse_super2";
    block_bitmaps_without_checksums: 1024, 0, "-O meta_bg,^resize_inode,^metadata_csum,^extent,^64bit";
    lazy_groups_with_crc16: 1024, 0, "-O meta_bg,^resize_inode,^metadata_csum,uninit_bg";
    blocks_of_2k: 2048, 0, "-O meta_bg,^resize_inode,^has_journal";
    wide_descriptors: 1024, 1, "-O meta_bg,^resize_inode,uninit_bg,^metadata_csum -E desc_size=512";
}

/// Writes a changed superblock to an image without checksums.
fn change(image: &Image, change: impl FnOnce(&mut Superblock)) {
    let mut bytes = std::fs::read(&image.path).unwrap();
    let (raw, _) = Superblock::mut_from_prefix(&mut bytes[OFFSET as usize..]).unwrap();
    change(raw);
    std::fs::write(&image.path, bytes).unwrap();
}

#[test]
fn an_impossible_first_meta_group_is_one_error() {
    let image = with_meta_groups(1024, 0, "-O meta_bg,^resize_inode,^metadata_csum");
    let blocks = superblock(&image).blocks_count();
    let most = (blocks as u32 - 1).div_ceil(256).div_ceil(16);
    for first in [most + 1, 1 << 31, u32::MAX] {
        change(&image, |raw| raw.first_meta_group.set(first));
        let error = open_on(&image).expect_err("refused");
        assert!(
            matches!(
                error,
                Error::Corrupt(Corrupt::Superblock { field: "s_first_meta_bg", value, .. })
                    if value == u64::from(first)
            ),
            "{error}"
        );
    }
    change(&image, |raw| {
        raw.first_meta_group.set(0);
        let mut features = raw.features();
        features.compatible |= Compatible::RESIZE_INODE;
        raw.set_features(features);
    });
    let error = open_on(&image).expect_err("refused");
    assert!(error.to_string().contains("resize_inode"), "{error}");
    change(&image, |raw| {
        let mut features = raw.features();
        features.compatible -= Compatible::RESIZE_INODE;
        raw.set_features(features);
    });
    open_on(&image).unwrap().close().unwrap();
    oracle::assert_fsck_clean(&image, "restored");
}

#[test]
fn a_damaged_descriptor_is_found_in_its_group() {
    let image = with_meta_groups(1024, 0, "-O meta_bg,^resize_inode");
    let volume = open_on(&image).unwrap();
    for number in 0..200 {
        let path = format!("/{number}");
        volume.write_file(&path, &[1; 5000]).unwrap();
    }
    volume.close().unwrap();
    // The descriptor of group 37, which lies behind the start of group 32.
    let at = (1 + 32 * 256) * 1024 + (37 - 32) * 64;
    let mut bytes = std::fs::read(&image.path).unwrap();
    bytes[at + 12] ^= 1;
    std::fs::write(&image.path, bytes).unwrap();
    let error = open_on(&image).expect_err("refused for writing");
    let Error::Corrupt(Corrupt::Checksum(Sealed::Descriptor { group })) = error else {
        panic!("{error}");
    };
    assert_eq!(group, GroupNr::new(37));
    let volume = Volume::open(image.device(), None, read_only()).unwrap();
    for number in (0..200).step_by(7) {
        let contents = volume.read_file(&format!("/{number}")).unwrap();
        assert_eq!(contents, vec![1; 5000]);
    }
    volume.close().unwrap();
}

#[test]
fn a_volume_of_this_crate_is_written_by_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    for features in [
        "meta_bg,^resize_inode",
        "meta_bg,^resize_inode,^flex_bg,^64bit",
    ] {
        let image = Image::empty("ext4", 1024, SIZE * MIB, false);
        let options = Options {
            file_system: FileSystemType::Ext4,
            block_bytes: Some(1024),
            blocks_per_group: Some(256),
            inode_count: Some(6000),
            features: FeatureEdits::parse(features).unwrap(),
            ..Options::default()
        };
        ext::mkfs::format(&image.device(), &options).unwrap();
        let incompatible = superblock(&image).features().incompatible;
        assert!(incompatible.contains(Incompatible::META_BG));
        oracle::assert_fsck_clean(&image, "new");
        assert_census(&image, descriptor_blocks(&image));
        let mounted = mount(&image);
        fill_by_kernel(mounted.path(), 0);
        drop(mounted);
        oracle::assert_fsck_clean(&image, "after the kernel");
        let volume = open_on(&image).unwrap();
        fill_by_engine(&volume, 0);
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, "after the engine");
    }
}

#[test]
fn descriptors_are_read_from_their_groups() {
    assert_notices("groups/descriptors-in-first-group", write_and_check);
}

#[test]
fn copies_of_descriptors_are_in_use() {
    assert_notices("groups/copies-not-counted", write_and_check);
}

/// Makes a volume, uses groups for the first time, and checks.
fn write_and_check() {
    let memory = Arc::new(MemoryDevice::new(SIZE * MIB));
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        blocks_per_group: Some(256),
        inode_count: Some(6000),
        features: FeatureEdits::parse("meta_bg,^resize_inode").expect("known features"),
        ..Options::default()
    };
    ext::mkfs::format(&device, &options).expect("it is made");
    let volume = Volume::open(Arc::clone(&device), None, MountOptions::default());
    let volume = volume.expect("it opens");
    for number in 0..8 {
        let contents = vec![number; 1 << 20];
        let written = volume.write_file(&format!("/{number}"), &contents);
        written.expect("it is written");
    }
    volume.close().expect("it closes");
    let report = fsck::check(&*device, None, &fsck::Options::default()).expect("a superblock");
    assert!(report.is_clean(), "{:?}", report.problems);
}
