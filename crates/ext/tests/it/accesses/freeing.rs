//! Operations that free blocks, on files with all complications: two groups, indirect blocks,
//! journaled data, unshared and shared attribute blocks.

use ext::volume::{FileExtent, InodeFlags, RangeChange, RenameMode, SetMode};
use ext::{Error, Volume};

use super::operations::{
    BLOCK_BYTES, LONG, MARK, Operation, operation, rename, set_flags, set_size, write,
};
use crate::rig::Place;

/// Number of blocks in the first group.
const GROUP_BLOCKS: u64 = 8 * BLOCK_BYTES as u64;
/// Least number of blocks left in the first group for `/wide`.
const LEFT_BLOCKS: u64 = 9;
/// Size of the pieces that fill the first group.
const PIECE_BYTES: u64 = 256 << 10;
/// Attributes of one file each: equal ones would share a block.
const OWN: &[u8] = b"user.own";
const WIDE: &[u8] = b"user.wide";

pub(super) const FREEING: &[Operation] = &[
    operation(
        "unlink of journaled data",
        &[|volume| volume.remove_file("/journal/own")],
    ),
    operation(
        "truncate and unlink of journaled data",
        &[
            |volume| set_size(volume, "/journal/own", 50_000),
            |volume| volume.remove_file("/journal/own"),
        ],
    ),
    operation(
        "unlink of journaled data with shared attributes",
        &[|volume| volume.remove_file("/journal/shared")],
    ),
    operation(
        "truncate journaled data",
        &[
            |volume| set_size(volume, "/journal/own", 30_100),
            |volume| set_size(volume, "/journal/own", 700),
            |volume| set_size(volume, "/journal/own", 0),
        ],
    ),
    operation(
        "punch journaled data",
        &[
            |volume| punch(volume, "/journal/own", 13_000, 20_000),
            |volume| punch(volume, "/journal/own", 500, 60_000),
        ],
    ),
    operation(
        "rename over journaled data",
        &[|volume| rename(volume, "/e/file", "/journal/own", RenameMode::Replace)],
    ),
    operation(
        "unlink of a file in two groups",
        &[|volume| volume.remove_file("/wide")],
    ),
    operation(
        "truncate a file in two groups",
        &[|volume| set_size(volume, "/wide", 1500)],
    ),
    operation(
        "punch a file in two groups",
        &[|volume| punch(volume, "/wide", 2000, 100_000)],
    ),
];

fn punch(volume: &Volume, path: &str, offset: u64, bytes: u64) -> Result<(), Error> {
    let nr = volume.resolve(path, true)?;
    volume.change_range(nr, offset, bytes, RangeChange::PunchHole, true)
}

/// Creates the files for the operations.
pub(super) fn prepare(volume: &Volume, place: Place) {
    volume.create_directory("/journal").expect("mkdir");
    for (path, name, count) in [("/journal/own", OWN, 60), ("/journal/shared", MARK, 59)] {
        let bytes = vec![5; count * BLOCK_BYTES as usize];
        volume.write_file(path, &bytes).expect("write");
        let nr = volume.resolve(path, true).expect("it is there");
        volume
            .set_attribute(nr, name, LONG, SetMode::Any)
            .expect("setxattr");
        if place != Place::None {
            set_flags(volume, path, InodeFlags::JOURNAL_DATA).expect("chattr");
        }
    }
    volume.write_file("/wide", &[6; 6000]).expect("create");
    volume.sync().expect("sync");
    let wide = volume.resolve("/wide", true).expect("it is there");
    volume
        .set_attribute(wide, WIDE, LONG, SetMode::Any)
        .expect("setxattr");
    fill_first_group(volume);
    write(volume, "/wide", 6000, &[6; 114_000]).expect("write");
    volume.sync().expect("sync");
    let groups = blocks(volume, "/wide").map(|block| (block - 1) / GROUP_BLOCKS);
    let groups: std::collections::BTreeSet<u64> = groups.collect();
    assert!(groups.len() > 1, "the file lies in {groups:?}");
}

/// Returns the blocks of a file, including its indirect blocks.
fn blocks(volume: &Volume, path: &str) -> impl Iterator<Item = u64> {
    let nr = volume.resolve(path, true).expect("it is there");
    let runs = volume.blocks_of(nr).expect("blocks").into_iter();
    runs.flat_map(FileExtent::blocks)
}

/// Fills the first group with a file, except for a few blocks.
fn fill_first_group(volume: &Volume) {
    let mut size = 0;
    let is_over = |volume: &Volume| blocks(volume, "/filler").any(|block| block > GROUP_BLOCKS);
    volume.write_file("/filler", b"").expect("create");
    while !is_over(volume) {
        size += PIECE_BYTES;
        set_size(volume, "/filler", size).expect("grow");
        let nr = volume.resolve("/filler", true).expect("it is there");
        let from = size - PIECE_BYTES;
        let allocated = volume.change_range(nr, from, PIECE_BYTES, RangeChange::Allocate, true);
        allocated.expect("there is room");
    }
    while is_over(volume) {
        size -= u64::from(BLOCK_BYTES);
        set_size(volume, "/filler", size).expect("shrink");
    }
    let left = size - LEFT_BLOCKS * u64::from(BLOCK_BYTES);
    set_size(volume, "/filler", left).expect("shrink");
    volume.sync().expect("what was freed can be used");
}
