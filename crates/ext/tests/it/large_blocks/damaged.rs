//! Superblocks with impossible sizes: they are refused, or the volume is read as far as it can be.

use ext::volume::FileKind;
use testkit::Random;
use zerocopy::IntoBytes;

use layout::superblock::{OFFSET, Superblock};
use zerocopy::FromBytes;

use super::*;

/// Number of random changes of each image.
const CHANGES: u64 = 200;
/// Offsets of the fields with sizes and counts, and their lengths in bytes.
const FIELDS: &[(usize, usize)] = &[
    (0x00, 4),
    (0x04, 4),
    (0x14, 4),
    (0x18, 4),
    (0x1C, 4),
    (0x20, 4),
    (0x24, 4),
    (0x28, 4),
    (0x54, 4),
    (0x58, 2),
    (0x60, 4),
    (0x64, 4),
    (0xCE, 2),
    (0xFE, 2),
    (0x104, 4),
    (0x150, 4),
    (0x174, 1),
];

/// Opens and reads a volume, as far as it can be.
fn read_all(memory: &Arc<MemoryDevice>) {
    let Ok(volume) = Volume::open(device(memory), None, quiet(DataMode::Ordered)) else {
        return;
    };
    for entry in volume.list("/").unwrap_or_default() {
        let path = format!("/{}", entry.file_name().display());
        if entry.kind == Some(FileKind::Regular) {
            drop(volume.read_file(&path));
        } else {
            drop(volume.list(&path));
        }
    }
    drop(volume.close());
}

/// Returns an image in memory with a file and a directory, without checksums.
fn plain(block_bytes: u32) -> Arc<MemoryDevice> {
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir(source.path().join("d")).unwrap();
    std::fs::write(source.path().join("f"), vec![b'f'; 100_000]).unwrap();
    let from = source.path().to_str().unwrap();
    let features = "-O ^metadata_csum,^has_journal";
    let image = image("ext4", block_bytes, &format!("{features} -d {from}"));
    in_memory(&image)
}

fn change(memory: &Arc<MemoryDevice>, change: impl FnOnce(&mut Superblock)) {
    let bytes = device(memory).read_block(OFFSET, 1024).unwrap();
    let mut bytes = layout::Block::copy_from(&bytes);
    change(Superblock::mut_from_prefix(&mut bytes).unwrap().0);
    let written = device(memory).write_blocks(OFFSET, vec![bytes.into_arc()]);
    written.unwrap();
}

#[test]
fn random_sizes() {
    for block_bytes in SIZES {
        let good = plain(block_bytes);
        let mut random = Random::new(u64::from(block_bytes));
        for number in 0..CHANGES {
            let memory = Arc::new(good.snapshot());
            change(&memory, |raw| {
                for _ in 0..=random.below(2) {
                    let (offset, length) = *random.pick(FIELDS);
                    let field = &mut raw.as_mut_bytes()[offset..offset + length];
                    match random.below(3) {
                        0 => field[0] = random.below(8) as u8,
                        1 => field[random.below(length as u64) as usize] ^= 1 << random.below(8),
                        _ => field.copy_from_slice(&random.bytes(length)),
                    }
                }
            });
            println!("blocks of {block_bytes}, change {number}");
            read_all(&memory);
        }
    }
}

/// Every other size of blocks and of inodes, and the largest tables.
#[test]
fn other_sizes() {
    for block_bytes in SIZES {
        let good = plain(block_bytes);
        for log in 0..=8 {
            for inode_log in 6..16 {
                let memory = Arc::new(good.snapshot());
                change(&memory, |raw| {
                    raw.log_block_size.set(log);
                    raw.log_cluster_size.set(log);
                    raw.dynamic_inode_size.set(1 << inode_log);
                });
                read_all(&memory);
                change(&memory, |raw| {
                    let count = 8192 << log.min(6);
                    raw.inodes_per_group.set(count);
                    raw.inodes_count.set(count);
                });
                read_all(&memory);
            }
        }
    }
}
