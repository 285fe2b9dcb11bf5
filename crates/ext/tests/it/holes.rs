//! Punching ranges frees their blocks, including indirect blocks.

use ext::volume::{OpenFlags, RangeChange};

use crate::cell;
use crate::image::Image;
use crate::oracle::assert_fsck_clean;

const BLOCK: u64 = 1024;
/// Number of pointers in an indirect block.
const POINTERS: u64 = BLOCK / 4;
/// The first blocks of the file below the single, double and triple indirect trees.
const SINGLE: u64 = 12;
const DOUBLE: u64 = SINGLE + POINTERS;
const TRIPLE: u64 = DOUBLE + POINTERS * POINTERS;

/// One block of data in each place, and the number of blocks that it needs with its indirect
/// blocks.
#[test]
fn map_blocks_without_pointers_are_given_back() {
    for cell in cell::all() {
        if u64::from(cell.block_bytes) != BLOCK {
            continue;
        }
        let image = Image::by_mke2fs(cell, 16 << 20);
        let volume = image.open(&cell);
        volume.write_file("/file", &[]).expect("write");
        let nr = volume.resolve("/file", true).expect("it is there");
        let handle = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let put = |block: u64| {
            let bytes = [7; BLOCK as usize];
            volume.write(handle, block * BLOCK, &bytes).expect("write");
            volume.sync_node(nr, false).expect("sync");
        };
        let punch = |block: u64, count: u64| {
            let (from, length) = (block * BLOCK, count * BLOCK);
            volume
                .change_range(nr, from, length, RangeChange::PunchHole, true)
                .expect("punch");
        };
        let blocks = || volume.attributes(nr).expect("attributes").sectors * 512 / BLOCK;
        put(TRIPLE + 3 * POINTERS * POINTERS);
        assert_eq!(blocks(), 4, "{cell}");
        for (block, held) in [
            (3, 1),
            (SINGLE + 7, 2),
            (DOUBLE + 5 * POINTERS, 3),
            (TRIPLE + 2 * POINTERS * POINTERS + POINTERS, 3),
        ] {
            put(block);
            assert_eq!(blocks(), 4 + held, "{cell}: block {block}");
            punch(block, 1);
            assert_eq!(blocks(), 4, "{cell}: block {block}");
        }
        // A leaf that keeps a pointer stays; then all are freed at once, over the boundaries of the
        // trees.
        put(DOUBLE);
        put(DOUBLE + 1);
        punch(DOUBLE, 1);
        assert_eq!(blocks(), 4 + 3, "{cell}");
        for block in [
            11,
            SINGLE,
            SINGLE + 100,
            DOUBLE + POINTERS,
            TRIPLE - 1,
            TRIPLE,
        ] {
            put(block);
        }
        punch(0, TRIPLE + 4 * POINTERS * POINTERS);
        assert_eq!(blocks(), 0, "{cell}");
        volume.release(handle).expect("close");
        volume.close().expect("close");
        assert_fsck_clean(&image, &format!("{cell}"));
    }
}
