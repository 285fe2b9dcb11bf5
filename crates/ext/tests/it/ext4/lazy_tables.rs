//! Inode tables that are zeroed in the background (`init_itable`), on images over garbage whose
//! tables mke2fs has left as they were, while files take their first inodes.

use block::CacheDevice;
use layout::InodeNr;
use layout::group::{GroupDescriptor64, GroupFlags, SIZE_64BIT};
use rt::Nanos;

use super::*;
use crate::oracle;
use crate::rig::device;

const SIZE_BYTES: u64 = 24 * MIB;
/// Files that are made while the tables are zeroed: more than the inodes of the first group.
const FILES: u32 = 200;

fn over_garbage() -> Image {
    Image::over_garbage(
        "ext4",
        1024,
        SIZE_BYTES,
        false,
        &["-g", "512", "-N", "4800"],
    )
}

fn descriptors(bytes: &[u8], raw: &Superblock) -> Vec<GroupDescriptor64> {
    let per_group = u64::from(raw.blocks_per_group.get());
    let count = (raw.blocks_count() - 1).div_ceil(per_group) as usize;
    let table = &bytes[2048..];
    (0..count)
        .map(|group| GroupDescriptor64::read(&table[group * SIZE_64BIT..]))
        .collect()
}

/// Asserts that inodes that were never used are zeroes in every group that is marked. Returns the
/// number of these groups.
fn assert_zeroed_where_marked(image: &Image) -> usize {
    let bytes = std::fs::read(&image.path).unwrap();
    let raw = superblock(image);
    let mut marked = 0;
    let (inodes, size) = (raw.inodes_per_group.get(), usize::from(raw.inode_size()));
    for (group, descriptor) in descriptors(&bytes, &raw).iter().enumerate() {
        if !descriptor.flags().contains(GroupFlags::INODE_ZEROED) {
            continue;
        }
        marked += 1;
        let used = match descriptor.flags().contains(GroupFlags::INODE_UNINIT) {
            true => 0,
            false => inodes - descriptor.unused_inodes_count(),
        };
        let start = descriptor.inode_table() as usize * 1024;
        let unused = &bytes[start + used as usize * size..start + inodes as usize * size];
        assert!(unused.iter().all(|byte| *byte == 0), "group {group}");
    }
    marked
}

/// Makes files until all tables are zeroed, and a while longer.
fn work(device: Arc<dyn BlockDevice>, seed: u64) {
    let options = MountOptions {
        init_tables: Some(1),
        ..MountOptions::default()
    };
    let volume = Volume::open(device, None, options).unwrap();
    // The first pause is of five seconds.
    rt::sleep(Nanos::from_millis(4_990));
    for number in 0..FILES {
        let directory = format!("/{}", number % 7);
        if number < 7 {
            volume.create_directory(&directory).unwrap();
        }
        let path = format!("{directory}/{number}");
        volume.write_file(&path, &[number as u8; 700]).unwrap();
        if (u64::from(number) + seed).is_multiple_of(3) {
            rt::sleep(Nanos::from_micros(150 + 40 * seed));
        }
    }
    rt::sleep(Nanos::from_secs(60));
    for number in 0..FILES {
        let path = format!("/{}/{number}", number % 7);
        assert_eq!(volume.read_file(&path).unwrap(), [number as u8; 700]);
    }
    volume.close().unwrap();
}

#[test]
fn tables_are_zeroed_while_inodes_are_used() {
    let fresh = std::fs::read(over_garbage().path).unwrap();
    for seed in 1..=6 {
        let image = Image::empty("ext4", 1024, SIZE_BYTES, false);
        let device = Arc::new(MemoryDevice::from_bytes(&fresh));
        let inside: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let run = sim::run(sim::Config::random(seed), move || work(inside, seed));
        run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        std::fs::write(&image.path, device.to_bytes()).unwrap();
        let groups = descriptors(&fresh, &superblock(&image)).len();
        assert_eq!(assert_zeroed_where_marked(&image), groups, "seed {seed}");
        oracle::assert_fsck_clean(&image, &format!("seed {seed}"));
    }
}

/// After a power cut at any moment, no group is marked whose table is not zeroed.
#[test]
fn a_mark_follows_the_zeroes() {
    let fresh = std::fs::read(over_garbage().path).unwrap();
    let mut marked = 0;
    for seed in 1..=30 {
        let memory = Arc::new(MemoryDevice::from_bytes(&fresh));
        let inside: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
        let run = sim::run(sim::Config::random(seed), move || cut(inside, seed));
        run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let image = Image::empty("ext4", 1024, SIZE_BYTES, false);
        std::fs::write(&image.path, memory.to_bytes()).unwrap();
        let volume = Volume::open(image.device(), None, MountOptions::default()).unwrap();
        volume.close().unwrap();
        marked += assert_zeroed_where_marked(&image);
        oracle::assert_fsck_clean(&image, &format!("seed {seed}"));
    }
    assert!(marked > 100, "{marked} groups");
}

/// Uses a volume until the power goes, some time after the first table.
fn cut(device: Arc<dyn BlockDevice>, seed: u64) {
    let cache = Arc::new(CacheDevice::new(device, MIB));
    let inside: Arc<dyn BlockDevice> = Arc::<CacheDevice>::clone(&cache);
    let options = MountOptions {
        init_tables: Some(1),
        commit_interval: Nanos::from_millis(1),
        ..MountOptions::default()
    };
    let volume = Volume::open(inside, None, options).unwrap();
    rt::sleep(Nanos::from_millis(4_999));
    for number in 0..seed {
        volume
            .write_file(&format!("/{number}"), b"contents")
            .unwrap();
        rt::sleep(Nanos::from_micros(200));
    }
    cache.power_cut(seed).unwrap();
    drop(volume);
    // The daemons of a volume that is dropped end when they next look.
    rt::sleep(Nanos::from_secs(1));
}

/// A file handle may name any inode, and the table of one that was never used has garbage.
#[test]
fn a_handle_of_an_inode_that_was_never_used_is_stale() {
    let image = over_garbage();
    let memory = Arc::new(MemoryDevice::from_bytes(
        &std::fs::read(&image.path).unwrap(),
    ));
    let volume = Volume::open(device(&memory), None, MountOptions::default()).unwrap();
    for number in [60, 4800] {
        let found = volume.look_up_number(InodeNr::new(number));
        assert!(matches!(found, Err(Error::NotFound)), "{found:?}");
    }
    volume.write_file("/file", b"").unwrap();
    volume.close().unwrap();
}
