//! Sparse files that reach the double and the triple indirect tree: their contents are compared
//! with the source, and the places of their blocks with debugfs.

use std::os::unix::fs::FileExt;

use ext::volume::OpenFlags;

use super::*;

/// Size in bytes of a piece of data.
const PIECE: usize = 300;
/// Largest size of the source in bytes, which other file systems have to hold: with blocks of
/// 64 KiB the triple tree starts at 16 TiB.
const SOURCE_BYTES_MAX: u64 = 12 << 40;

/// Returns the file blocks with data: the ends of the direct pointers and of each tree that can be
/// reached.
fn blocks(block_bytes: u64) -> Vec<u64> {
    let width = block_bytes / 4;
    let [double, triple] = [12 + width, 12 + width + width * width];
    let mut blocks = vec![0, 11, 12, double - 1, double, double + width, triple / 2];
    if triple * block_bytes < SOURCE_BYTES_MAX {
        blocks.extend([triple - 1, triple, triple + width]);
    }
    blocks
}

/// Compares a sparse file on an image of this kind with its source.
fn compare(kind: &'static str, block_bytes: u32) {
    let (image, unit) = (image(kind, block_bytes, ""), u64::from(block_bytes));
    let source = image.path.with_file_name("source");
    let file = std::fs::File::create_new(&source).unwrap();
    let places: Vec<(u64, u8)> = blocks(unit).into_iter().zip(1..).collect();
    for (block, byte) in &places {
        file.write_all_at(&[*byte; PIECE], block * unit + 17)
            .unwrap();
    }
    let requests: String = places
        .iter()
        .map(|(block, _)| format!("bmap /sparse {block}\n"))
        .collect();
    let write = format!("write {} sparse\n", source.display());
    let said = debugfs(&image, &(write + &requests));
    let physical: Vec<u64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(physical.len(), places.len(), "{said}");
    crate::oracle::assert_fsck_clean(&image, "sparse");
    look_at(&image, |_, volume| {
        let nr = volume.resolve("/sparse", true).unwrap();
        let extents = volume.blocks_of(nr).unwrap();
        let opened = volume.open_inode(nr, OpenFlags::READ).unwrap();
        assert_eq!(
            volume.attributes(nr).unwrap().size,
            file.metadata().unwrap().len()
        );
        for ((block, byte), physical) in places.iter().zip(physical) {
            let found = extents.iter().find_map(|extent| {
                let nth = block.checked_sub(extent.file_block?.get())?;
                extent.blocks().nth(usize::try_from(nth).ok()?)
            });
            assert_eq!(found, Some(physical), "block {block}");
            // From the hole before it on, and across the end of the block.
            let from = (block * unit).saturating_sub(1000);
            let mut read = vec![0xFF; 2 * block_bytes as usize];
            let mut expected = vec![0; read.len()];
            let count = volume.read(opened, from, &mut read).unwrap();
            let length = file.read_at(&mut expected, from).unwrap();
            assert_eq!(count, length, "block {block}");
            assert!(read[..count] == expected[..length], "block {block}");
            assert!(read.contains(byte), "block {block}");
        }
        volume.release(opened).unwrap();
    });
}

#[test]
fn block_maps() {
    for block_bytes in SIZES {
        compare("ext2", block_bytes);
    }
}

#[test]
fn extents() {
    for block_bytes in SIZES {
        compare("ext4", block_bytes);
    }
}
