//! One short workload in the cells of ext3 and ext4, and in one of each other structure, explored
//! in full.

use std::rc::Rc;

use crash::disks::Disks;
use crash::explore::{Limits, explore};
use crash::findings::Tally;
use crash::mode::{DataMode, OrderedScope};
use crash::op::Op;
use crash::run::{prepare, record};
use crash::setting::{
    CELLS, CELLS_ASYNC_FAST, CELLS_CLUSTERED, CELLS_EXT4, CELLS_FAST, CELLS_INLINE,
    CELLS_MULTI_MOUNT, CELLS_QUOTA, Cell, JournalPlace, Setting, journaled_cells,
};
use crash::workload::Workload;

fn ops(text: &str) -> Vec<Op> {
    text.split(';')
        .map(|op| op.trim().parse().unwrap())
        .collect()
}

/// Explores a workload of one client, of which the first operations are the preparation.
fn explored(cell: Cell, prepared: usize, text: &str) -> Tally {
    explored_in(Setting::new(cell), prepared, text)
}

fn explored_in(setting: Setting, prepared: usize, text: &str) -> Tally {
    let workload = Workload {
        setting,
        prepared: vec![prepared],
        lanes: vec![ops(text)],
    };
    let empty = Disks::make(&setting).unwrap();
    let prepared = prepare(&workload, &empty).unwrap();
    let recording = Rc::new(record(&workload, &prepared).unwrap());
    let (tally, found) = explore(recording, Limits::new(1));
    if let Some(found) = found {
        panic!("{setting}: {}: {:?}", found.broken, found.cuts);
    }
    tally
}

fn writeback_cells() -> [Cell; 2] {
    let places = [JournalPlace::Internal, JournalPlace::External];
    places.map(|place| Cell::new(DataMode::Writeback, place))
}

#[test]
fn a_short_workload_in_every_structure() {
    let others = [
        &CELLS_INLINE[1..],
        &CELLS_CLUSTERED[1..],
        &CELLS_QUOTA[1..],
        &CELLS_MULTI_MOUNT[1..],
    ];
    let others = others.concat();
    let cells = journaled_cells().into_iter();
    for cell in cells.filter(|cell| !others.contains(cell)) {
        let tally = explored(
            cell,
            4,
            "mkdir(d0); mkdir(d1); create(d0/f0); append(d0/f0,4); create(d0/f1); append(d0/f1,3); fsync(d0/f1); \
             rename(d0/f1,d1/f0); write(d0/f0,0,2); truncate(d0/f0,700); fdatasync(d0/f0); unlink(d0/f0); sync; \
             create(d1/f1); append(d1/f1,6)",
        );
        assert!(tally.recovered > 300, "{cell}: {} images", tally.recovered);
    }
}

/// Names that other files get, ranges that go, and steps that tags do not describe, each between
/// two fast commits.
#[test]
fn fast_commits_between_steps_of_all_kinds() {
    for cell in [&CELLS_FAST[..], &CELLS_ASYNC_FAST].concat() {
        let tally = explored(
            cell,
            3,
            "mkdir(d0); mkdir(d1); create(d0/f0); append(d0/f0,8); fsync(d0/f0); append(d0/f0,3); fsync(d0/f0); \
             unlink(d0/f0); create(d0/f0); append(d0/f0,2); fsync(d0/f0); truncate(d0/f0,100); fsync(d0/f0); \
             create(d0/f1); append(d0/f1,9); rename(d0/f1,d0/f0); fsync(d0/f0); create(d1/f1); fsync(d1/f1); \
             sync; append(d0/f0,4); fdatasync(d0/f0); unlink(d1/f1); syncdir(d1); mkdir(d1/d2); syncdir(d1); \
             create(d0/f2); fsync(d0/f2)",
        );
        assert!(tally.recovered > 200, "{cell}: {} images", tally.recovered);
    }
}

/// data=writeback promises nothing of a new block until it was synced: where a map of another file
/// lay, the map can show. The blocks of the new files are so many that one of them is the old
/// file's indirect block.
#[test]
fn a_former_map_shows_in_a_new_block() {
    for cell in writeback_cells() {
        explored(
            cell,
            3,
            "mkdir(d0); create(d0/f0); append(d0/f0,40); unlink(d0/f0); sync; create(d0/f1); append(d0/f1,12); \
             create(d0/f2); append(d0/f2,24); syncdir(d0)",
        );
    }
}

/// Zeroing is refused before it changes the blocks that the file has.
#[test]
fn what_has_too_few_blocks_is_not_begun() {
    for cell in [CELLS_EXT4[0], CELLS_EXT4[4], CELLS[0]] {
        let setting = Setting {
            free_blocks: 30,
            ..Setting::new(cell)
        };
        explored_in(
            setting,
            1,
            "mkdir(d0); create(d0/f0); append(d0/f0,13); zero(d0/f0,7,100); fsync(d0/f0)",
        );
    }
}

/// In data=writeback, too: blocks that were allocated, and synced, read as zeroes until they are
/// written.
#[test]
fn promised_zeroes_are_never_what_the_device_had_before() {
    for cell in writeback_cells().map(Cell::ext4) {
        explored(
            cell,
            4,
            "mkdir(d0); create(d0/f0); allocate(d0/f0,0,8); sync; write(d0/f0,2,4); create(d0/f1); syncdir(d0)",
        );
    }
}

/// With `ordered=allocated`, an overwrite of blocks that are there waits for a sync call of the
/// file, also if the file then replaces another.
#[test]
fn overwrites_of_a_file_that_replaces_another() {
    let cells = [&CELLS_EXT4[..], &CELLS_CLUSTERED].concat();
    for cell in cells.into_iter().filter(|it| it.data == DataMode::Ordered) {
        let setting = Setting {
            ordered: OrderedScope::Allocated,
            ..Setting::new(cell)
        };
        let tally = explored_in(
            setting,
            1,
            "mkdir(d0); create(d0/f0); append(d0/f0,12); create(d0/f1); append(d0/f1,2); sync; write(d0/f0,8,2); \
             append(d0/f0,3); rename(d0/f0,d0/f1); create(d0/f2); fsync(d0/f2)",
        );
        assert!(tally.recovered > 100, "{cell}: {} images", tally.recovered);
    }
}
