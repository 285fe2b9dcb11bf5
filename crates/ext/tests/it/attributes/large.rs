//! Values in inodes of their own (`ea_inode`), in turn with the kernel.

use super::*;

const LARGE_IMAGE_BYTES: u64 = 64 << 20;
const LARGE_SIZES: &[usize] = &[
    1, 17, 90, 300, 972, 1000, 2048, 3900, 4000, 4096, 5000, 20_000, 65_535, 65_536,
];

/// Without the symbolic link: e2fsck 1.47.0 takes the target of a short one for a block map if the
/// link has a value in an inode of its own and no attribute block.
const LARGE_PATHS: &[&str] = &[
    "/a", "/b", "/c", "/d", "/d/e", "/d/f", "/g", "/g/h", "/node",
];

/// Runs the same operations on both sides, with values of up to 64 KiB. The log has room for the
/// largest value, which Linux writes in one transaction.
fn agree_on_large(block_bytes: u32, features: &str, data: DataMode, seed: u64) {
    let journal = if features.contains("^has_journal") {
        Journal::None
    } else {
        Journal::Internal(data)
    };
    let cell = Cell {
        block_bytes,
        journal,
    };
    let features = format!("ea_inode,{features}");
    let mut more = vec!["-O", &features, "-N", "2048"];
    if journal != Journal::None {
        more.extend(["-J", "size=16"]);
    }
    let made = Image::with_arguments("ext4", block_bytes, LARGE_IMAGE_BYTES, false, &more);
    let when = format!("{block_bytes}, {features}, {data:?}, seed {seed}");
    agree_from(&cell, made, (&when, seed), (LARGE_PATHS, LARGE_SIZES));
}

#[test]
fn the_kernel_agrees_on_large_values() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree_on_large(4096, "orphan_file", DataMode::Ordered, seed);
            agree_on_large(1024, "^metadata_csum,uninit_bg", DataMode::Writeback, seed);
        }
    }
}

#[test]
fn the_kernel_agrees_on_large_values_of_other_volumes() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree_on_large(2048, "^extent,^64bit", DataMode::Journal, seed);
            agree_on_large(
                1024,
                "metadata_csum_seed,^has_journal",
                DataMode::Ordered,
                seed,
            );
        }
    }
}
