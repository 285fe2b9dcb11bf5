//! Damage without checksums: the structure itself has to be refused.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ext::Corrupt;
use ext::volume::{FileKind, OpenFlags};
use layout::InodeNr;
use testkit::{Random, privilege};

use super::*;

const BLOCK_BYTES: usize = 1024;
/// Number of images with random damage. `JEXT_TEST_DAMAGED` overrides it.
const DAMAGED: u64 = 200;
/// Largest number of damaged words in one image.
const WORDS_MAX: u64 = 8;
/// Number of inodes visited in a damaged tree, which may have cycles.
const INODES_MAX: usize = 300;

fn fill(root: &Path) {
    std::fs::create_dir(root.join("names")).unwrap();
    for number in 0..400 {
        let name = root.join(format!("names/a-name-of-some-length-{number}"));
        std::fs::write(name, vec![7; number * 10]).unwrap();
    }
    let file = File::create(root.join("deep")).unwrap();
    for number in 0..1000 {
        file.write_all_at(&[7; 1024], number * 2048).unwrap();
    }
    std::os::unix::fs::symlink("t".repeat(200), root.join("link")).unwrap();
}

/// Returns a filled image without checksums.
fn plain() -> Vec<u8> {
    let image = filled(BLOCK_BYTES as u32, 24 * MIB, "-O ^metadata_csum", fill);
    std::fs::read(&image.path).unwrap()
}

fn open_bytes(bytes: &[u8]) -> Result<Volume> {
    open(&Arc::new(MemoryDevice::from_bytes(bytes)))
}

/// Returns the blocks of a file: with a file block, or of its tree.
fn blocks(volume: &Volume, path: &str, is_wanted: fn(bool) -> bool) -> Vec<usize> {
    let inode = volume.resolve(path, false).unwrap();
    let extents = volume.blocks_of(inode).unwrap().into_iter();
    let wanted = extents.filter(|extent| is_wanted(extent.file_block.is_some()));
    wanted
        .flat_map(|extent| extent.blocks())
        .map(|block| block as usize)
        .collect()
}

#[test]
fn damaged_extent_trees_are_refused_where_they_are_damaged() {
    if !privilege::is_granted() {
        return;
    }
    let good = plain();
    let volume = open_bytes(&good).unwrap();
    let inode = volume.resolve("deep", true).unwrap();
    let nodes = blocks(&volume, "deep", |is_data| !is_data);
    let beyond = volume.superblock().geometry.block_count as u32;
    volume.close().unwrap();
    let (index, leaf) = (nodes[0], nodes[1]);
    let own = index as u32;
    // The block, the offset in it, the bytes that replace those there, the words of the error.
    let cases: &[(usize, usize, &[u8], &str)] = &[
        (index, 0, &[0], "magic"),
        (index, 2, &[0, 0], "no entry"),
        (index, 2, &[85, 0], "number of entries"),
        (index, 4, &[200, 0], "number of entries"),
        (index, 6, &[9, 0], "deeper"),
        (index, 12, &[1], "start"),
        (index, 16, &own.to_le_bytes(), "level"),
        (
            index,
            16,
            &beyond.to_le_bytes(),
            "outside the volume's data",
        ),
        (index, 16, &3_u32.to_le_bytes(), "outside the volume's data"),
        (index, 20, &[1, 0], "outside the volume's data"),
        (leaf, 6, &[1, 0], "level"),
        (leaf, 12, &[1], "start"),
        (leaf, 16, &[0, 0], "no blocks"),
        (leaf, 16, &[9, 0], "order"),
        (leaf, 20, &beyond.to_le_bytes(), "outside the volume's data"),
        (leaf, 18, &[1, 0], "outside the volume's data"),
    ];
    for (block, offset, bytes, words) in cases {
        let mut damaged = good.clone();
        let at = block * BLOCK_BYTES + offset;
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        let volume = open_bytes(&damaged).unwrap();
        for error in [
            volume.read_file("deep").map(drop),
            volume.blocks_of(inode).map(drop),
        ] {
            let error = error.expect_err("damaged");
            let is_typed = matches!(
                &error,
                Error::Corrupt(Corrupt::Extents { .. } | Corrupt::Mapping { .. })
            );
            assert!(
                is_typed && error.to_string().contains(words),
                "{error}: {words}"
            );
            assert_eq!(error.raw_os_error(), 117);
        }
        let name = "names/a-name-of-some-length-399";
        assert_eq!(volume.read_file(name).unwrap(), vec![7; 3990]);
        volume.close().unwrap();
    }
}

/// Reads whatever can be reached.
fn read_everything(volume: &Volume) {
    let mut left = vec![InodeNr::ROOT];
    let mut seen = BTreeSet::new();
    while let Some(nr) = left.pop() {
        if seen.len() == INODES_MAX || !seen.insert(nr) {
            continue;
        }
        let Ok(attributes) = volume.attributes(nr) else {
            continue;
        };
        let _ = volume.blocks_of(nr);
        let _ = volume.list_attributes(nr);
        match attributes.kind {
            FileKind::Directory => {
                let mut entries = 0;
                let mut add = |_, entry: ext::volume::Entry| {
                    left.push(entry.inode);
                    entries += 1;
                    entries < INODES_MAX * 2
                };
                let _ = volume.read_directory(nr, 0, &mut add);
                let _ = volume.lookup(nr, b"a-name-of-some-length-7");
            }
            FileKind::Symlink => drop(volume.read_link(nr)),
            FileKind::Regular => {
                let Ok(file) = volume.open_inode(nr, OpenFlags::READ) else {
                    continue;
                };
                let mut bytes = [0; 5000];
                for offset in [0, 70_000, attributes.size.saturating_sub(3000)] {
                    let _ = volume.read(file, offset, &mut bytes);
                    let _ = volume.seek_data(nr, offset);
                    let _ = volume.seek_hole(nr, offset);
                }
                volume.release(file).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn random_damage_is_survived() {
    if !privilege::is_granted() {
        return;
    }
    let count = match std::env::var("JEXT_TEST_DAMAGED") {
        Ok(count) => count.parse().expect("JEXT_TEST_DAMAGED is a number"),
        Err(_) => DAMAGED,
    };
    let good = plain();
    let volume = open_bytes(&good).unwrap();
    let nodes = blocks(&volume, "deep", |is_data| !is_data);
    let names = blocks(&volume, "names", |_| true);
    let table = volume.superblock().geometry.inode_table_blocks();
    volume.close().unwrap();
    let descriptor = &good[2 * BLOCK_BYTES..];
    let first = u32::from_le_bytes(descriptor[8..12].try_into().unwrap()) as usize;
    let inodes: Vec<usize> = (first..first + table.min(80) as usize).collect();
    for seed in 0..count {
        println!("image {seed}");
        let mut random = Random::new(seed);
        let mut bytes = good.clone();
        for _ in 0..=random.below(WORDS_MAX) {
            let place = match random.below(8) {
                0 => 1,
                1 => 2,
                2 | 3 => *random.pick(&nodes),
                4 | 5 => *random.pick(&names),
                _ => *random.pick(&inodes),
            };
            let value = match random.below(6) {
                0 => 0,
                1 => u32::MAX,
                2 => 1 << random.below(32),
                3 => *random.pick(&nodes) as u32,
                4 => random.below(30_000) as u32,
                _ => random.next() as u32,
            };
            let at = place * BLOCK_BYTES + random.below(BLOCK_BYTES as u64 / 4) as usize * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let Ok(volume) = open_bytes(&bytes) else {
            continue;
        };
        read_everything(&volume);
        volume.close().unwrap();
    }
}
