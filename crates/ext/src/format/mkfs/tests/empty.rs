//! Empty parts of a new volume: zeroes that take no space in a file.

use std::os::unix::fs::MetadataExt;

use super::*;

/// Empty blocks are zeroed, whatever their old contents, and take no space in a file, even if the
/// file existed before.
#[test]
fn what_is_empty_is_neither_left_nor_written() {
    const SIZE: u64 = 32 * MIB;
    let folder = TempDir::new().expect("a folder");
    let options = Options {
        uuid: Some(UUID),
        hash_seed: Some(SEED),
        seconds: Some(SECONDS),
        ..ext3()
    };
    let images: Vec<Vec<u8>> = [0x00, 0xA5]
        .into_iter()
        .map(|byte| {
            let path = folder.path().join("image");
            std::fs::write(&path, vec![byte; SIZE as usize]).expect("it is written");
            let device = block::FileDevice::open(&path, &block::OpenOptions::default());
            let device: Arc<dyn BlockDevice> = Arc::new(device.expect("it opens"));
            format(&device, &options).expect("a volume");
            std::fs::read(&path).expect("it is read")
        })
        .collect();
    let fresh = Arc::new(MemoryDevice::new(SIZE));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&fresh);
    let summary = format(&shared, &options).expect("a volume");
    assert_eq!(images[0], fresh.to_bytes());
    let block_bytes = summary.geometry.block_bytes as usize;
    let blocks = images[1]
        .chunks(block_bytes)
        .zip(images[0].chunks(block_bytes));
    let differing = blocks.filter(|(old, new)| old != new);
    let left: usize = differing
        .map(|(old, _)| usize::from(old.iter().all(|byte| *byte == 0xA5)))
        .sum();
    // The last 64 KiB, which are free, are zeroed: the superblock of an array may be there.
    let zeroed = ((64 << 10) / block_bytes) as u64;
    assert_eq!(
        left as u64,
        summary.free_blocks - zeroed,
        "only free blocks are left"
    );
}

#[test]
fn a_sparse_file_stays_sparse() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("image");
    block::file::create_sparse(&path, 64 << 30).expect("a file");
    let device = block::FileDevice::open(&path, &block::OpenOptions::default());
    let device: Arc<dyn BlockDevice> = Arc::new(device.expect("it opens"));
    let geometry = format(&device, &ext3()).expect("a volume").geometry;
    let tables = u64::from(geometry.inode_count) * u64::from(geometry.inode_bytes);
    let taken = std::fs::metadata(&path).expect("it is there").blocks() * 512;
    assert!(taken < tables / 16, "{taken} bytes are taken");
}
