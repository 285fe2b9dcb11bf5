//! Ranges that are collapsed and inserted: a power cut at every event leaves the file before or
//! after, or, if the change takes several transactions, one of the declared files between them. The
//! volume is clean for `e2fsck` after each.

use std::sync::Arc;

use block::BlockDevice;
use block::memory::MemoryDevice;
use block::trace::{Event, Replay, Trace};

use super::testing::{Bench, assert_notices, check, debugfs, image};
use crate::cache::inode::Inode;
use crate::error::Error;
use crate::file::{self, ByteRange, Exchange, RangeChange};
use crate::map::FileMap;
use crate::options::{DataMode, MountOptions};

const BLOCK: usize = 1024;
/// Number of blocks of the file: every other one has a hole or another file behind it, so that its
/// tree has leaves.
const BLOCKS: usize = 500;

fn options(data: DataMode, restart_every: u32) -> MountOptions {
    let mut options = MountOptions {
        data,
        delayed_allocation: false,
        ..MountOptions::default()
    };
    options.tuning.log_policy.restart_every = restart_every;
    options
}

/// Returns the contents of a block, which no other block has.
fn block_of(number: usize) -> Vec<u8> {
    let mut bytes = vec![(number % 251) as u8 + 1; BLOCK];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    bytes
}

/// Makes a file with an extent for each block, holes among them.
fn fragmented() -> (Arc<MemoryDevice>, Vec<u8>) {
    let device = image(16 << 20, &["-t", "ext4", "-b", "1024", "-J", "size=4"]);
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let (inode, other) = (bench.create("file"), bench.create("other"));
    let mut bytes = vec![0; BLOCKS * BLOCK];
    for number in 0..BLOCKS {
        if number % 7 != 3 {
            let at = number * BLOCK;
            bytes[at..at + BLOCK].copy_from_slice(&block_of(number));
            bench.write(&inode, at as u64, &bytes[at..at + BLOCK]);
        }
        bench.write(&other, (number * BLOCK) as u64, &[7; BLOCK]);
    }
    // The last block is there in part.
    let size = BLOCKS * BLOCK - 100;
    file::truncate(&bench.core, &inode, size as u64).unwrap();
    bytes.truncate(size);
    bench.close();
    (device, bytes)
}

/// A change of the file.
#[derive(Clone, Copy)]
struct Move {
    what: RangeChange,
    first: usize,
    count: usize,
}

impl Move {
    fn run(self, bench: &Bench, inode: &Arc<Inode>) -> Result<(), Error> {
        let range = ByteRange {
            start: (self.first * BLOCK) as u64,
            end: ((self.first + self.count) * BLOCK) as u64,
        };
        file::change_range(&bench.core, inode, range, self.what, false)
    }

    /// Returns the file after the change.
    fn after(self, before: &[u8]) -> Vec<u8> {
        let (start, length) = (self.first * BLOCK, self.count * BLOCK);
        let mut bytes = before.to_vec();
        match self.what {
            RangeChange::Collapse => drop(bytes.drain(start..start + length)),
            _ => drop(bytes.splice(start..start, vec![0; length])),
        }
        bytes
    }

    /// Returns true if a crash in the middle may leave the file so.
    fn may_leave(self, before: &[u8], found: &[u8]) -> bool {
        let (start, length) = (self.first * BLOCK, self.count * BLOCK);
        if found[..start] != before[..start] {
            return false;
        }
        match self.what {
            RangeChange::Collapse => {
                if found.len() != before.len() {
                    return false;
                }
                // The start of the range is freed.
                let freed = found[start..].iter().take_while(|byte| **byte == 0).count();
                let freed = freed.min(length) / BLOCK * BLOCK;
                if found[start + freed..] == before[start + freed..] {
                    return true;
                }
                let moved = &before[start + length..];
                (0..=moved.len()).step_by(BLOCK).any(|done| {
                    let hole = start + done..(start + done + length).min(found.len());
                    found[start..start + done] == moved[..done]
                        && found[hole.clone()].iter().all(|byte| *byte == 0)
                        && found[hole.end..] == before[hole.end..]
                })
            }
            _ => {
                if found.len() != before.len() + length {
                    return false;
                }
                let (kept, rest) = found.split_at(before.len());
                if kept == before && rest.iter().all(|byte| *byte == 0) {
                    return true;
                }
                (start..=before.len()).step_by(BLOCK).any(|kept| {
                    found[start..kept] == before[start..kept]
                        && found[kept..kept + length].iter().all(|byte| *byte == 0)
                        && found[kept + length..] == before[kept..]
                })
            }
        }
    }
}

const MOVES: &[Move] = &[
    Move {
        what: RangeChange::Collapse,
        first: 100,
        count: 40,
    },
    Move {
        what: RangeChange::Insert,
        first: 100,
        count: 3,
    },
];

/// Makes a change, and cuts the power at every event. Returns the number of files between those
/// before and after.
fn cut_everywhere(change: Move, data: DataMode, restart_every: u32) -> usize {
    cut_everywhere_of(fragmented(), change, data, restart_every)
}

/// Does the same with a volume and the contents of its file.
fn cut_everywhere_of(
    (initial, before): (Arc<MemoryDevice>, Vec<u8>),
    change: Move,
    data: DataMode,
    restart_every: u32,
) -> usize {
    let options = options(data, restart_every);
    let trace = Trace::new();
    let device = trace.attach(Arc::new(initial.snapshot()));
    let bench = Bench::open(Arc::new(device.with_volatile_cache(true)), options.clone());
    let geometry = bench.core.device.geometry();
    let inode = bench.find("file");
    let start = trace.len();
    change.run(&bench, &inode).unwrap();
    file::sync(&bench.core, &inode, false).unwrap();
    let after = change.after(&before);
    assert!(bench.read(&inode, 0, after.len() + 1) == after);
    bench.close();
    let mut replay = Replay::new(0, geometry, &initial);
    let mut between = 0;
    for (at, event) in trace.events().iter().enumerate() {
        replay.apply(event);
        // Other events leave the images as they are.
        if at < start || !matches!(event, Event::Completed { .. }) {
            continue;
        }
        for image in [replay.image_all_lost(), replay.image_all_kept()] {
            let device = Arc::new(image);
            let bench = Bench::open(device.clone(), options.clone());
            let inode = bench.find("file");
            let size = inode.state.read().size as usize;
            let found = bench.read(&inode, 0, size + 1);
            bench.close();
            check(&device);
            if found == before || found == after {
                continue;
            }
            assert!(restart_every > 0, "event {at}: the change is cut in two");
            assert!(
                change.may_leave(&before, &found),
                "event {at}: {size} bytes"
            );
            between += 1;
        }
    }
    between
}

#[test]
fn a_move_that_fits_one_transaction_is_whole() {
    for change in MOVES {
        for data in [DataMode::Ordered, DataMode::Journal] {
            cut_everywhere(*change, data, 0);
        }
    }
}

#[test]
fn a_move_of_several_transactions_leaves_a_sound_file_at_each_step() {
    for change in MOVES {
        let between = cut_everywhere(*change, DataMode::Ordered, 1);
        assert!(between > 4, "{between} states were seen");
    }
    cut_everywhere(MOVES[0], DataMode::Journal, 1);
}

fn whole_moves() {
    MOVES.iter().for_each(|change| {
        cut_everywhere(*change, DataMode::Ordered, 0);
    });
}

#[test]
fn a_move_in_two_transactions_is_noticed() {
    assert_notices("ranges/moved-in-two-steps", whole_moves);
}

/// Pages that stay in memory would be written to the blocks that another part of the file has.
fn dirty_pages_move() {
    let (device, mut bytes) = fragmented();
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let inode = bench.find("file");
    bench.write(&inode, 200 * BLOCK as u64, &[9; 3 * BLOCK]);
    bytes[200 * BLOCK..203 * BLOCK].fill(9);
    for change in MOVES {
        change.run(&bench, &inode).unwrap();
        bytes = change.after(&bytes);
        assert!(bench.read(&inode, 0, bytes.len() + 1) == bytes);
    }
    bench.close();
    check(&device);
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let inode = bench.find("file");
    assert!(bench.read(&inode, 0, bytes.len() + 1) == bytes);
    bench.close();
}

#[test]
fn pages_that_stay_in_memory_are_noticed() {
    assert_notices("ranges/pages-not-dropped-before-move", dirty_pages_move);
}

#[test]
fn wrong_ranges_are_refused() {
    let (device, bytes) = fragmented();
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let inode = bench.find("file");
    let size = bytes.len() as u64;
    let block = BLOCK as u64;
    let run = |what, start, end| {
        let range = ByteRange { start, end };
        file::change_range(&bench.core, &inode, range, what, false)
    };
    let last = size.next_multiple_of(block);
    for (what, start, end) in [
        (RangeChange::Collapse, 1, 1 + block),
        (RangeChange::Collapse, 0, block + 1),
        (RangeChange::Collapse, 0, last),
        (RangeChange::Collapse, last - block, last),
        (RangeChange::Collapse, 5 * block, 5 * block),
        (RangeChange::Insert, 1, 1 + block),
        (RangeChange::Insert, last, last + block),
        (RangeChange::Insert, last + block, last + 2 * block),
    ] {
        let refused = run(what, start, end);
        assert!(
            matches!(refused, Err(Error::Invalid(_))),
            "{what:?} {start}..{end}: {refused:?}"
        );
    }
    let size_max = FileMap::of(&inode.state.read()).size_max(&bench.core);
    let limit = size_max / block * block;
    let refused = run(RangeChange::Insert, 0, limit - size / block * block);
    assert!(matches!(refused, Err(Error::FileTooLarge)), "{refused:?}");
    assert!(bench.read(&inode, 0, bytes.len() + 1) == bytes);
    bench.close();
    check(&device);
}

#[test]
fn block_maps_are_refused() {
    let device = image(8 << 20, &["-t", "ext3", "-b", "1024"]);
    let bench = Bench::open(device, options(DataMode::Ordered, 0));
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 8 * BLOCK]);
    for change in MOVES {
        let refused = Move {
            first: 1,
            count: 1,
            ..*change
        }
        .run(&bench, &inode);
        assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    }
    bench.close();
}

/// A range of each file changes places with one of the other, over holes and the ends of extents.
#[test]
fn files_exchange_blocks() {
    let (device, mut bytes) = fragmented();
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let (inode, second) = (bench.find("file"), bench.create("second"));
    let mut other = vec![0; 300 * BLOCK];
    for number in (20..300).filter(|number| number % 50 > 9) {
        let at = number * BLOCK;
        other[at..at + BLOCK].fill((number % 200) as u8 + 40);
        bench.write(&second, at as u64, &other[at..at + BLOCK]);
    }
    let range = ByteRange {
        start: 100 * BLOCK as u64,
        end: 110 * BLOCK as u64,
    };
    file::change_range(&bench.core, &second, range, RangeChange::Allocate, true).unwrap();
    for (starts, count) in [([50, 10], 200), ([0, 299], 1), ([300, 0], 199)] {
        let what = Exchange {
            starts: starts.map(|start| (start * BLOCK) as u64),
            length: (count * BLOCK) as u64,
        };
        file::exchange(&bench.core, &inode, &second, what).unwrap();
        let [one, two] = starts.map(|start| start * BLOCK..(start + count) * BLOCK);
        let kept = bytes[one.clone()].to_vec();
        bytes[one].copy_from_slice(&other[two.clone()]);
        other[two].copy_from_slice(&kept);
        assert!(bench.read(&inode, 0, bytes.len() + 1) == bytes);
        assert!(bench.read(&second, 0, other.len() + 1) == other);
    }
    bench.close();
    check(&device);
}

#[test]
fn an_exchange_is_refused_where_it_cannot_be() {
    let (device, _) = fragmented();
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let (inode, other) = (bench.find("file"), bench.find("other"));
    let block = BLOCK as u64;
    let run = |second: &Arc<Inode>, starts, length| {
        file::exchange(&bench.core, &inode, second, Exchange { starts, length })
    };
    for refused in [
        run(&inode, [0, 2 * block], block),
        run(&other, [0, 1], block),
        run(&other, [0, 0], 0),
        run(&other, [0, 0], block + 1),
        run(&other, [0, block * BLOCKS as u64], block),
        run(&other, [block * BLOCKS as u64, 0], block),
    ] {
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    bench.close();
    let bench = Bench::open(device.clone(), options(DataMode::Journal, 0));
    let (inode, other) = (bench.find("file"), bench.find("other"));
    let starts = [0, 0];
    let what = Exchange {
        starts,
        length: block,
    };
    let refused = file::exchange(&bench.core, &inode, &other, what);
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    bench.close();
    check(&device);
}

/// An extent that is cut in the middle needs an entry, and a full leaf a node.
#[test]
fn an_insert_without_space_for_a_node_changes_nothing() {
    let device = image(
        8 << 20,
        &["-t", "ext4", "-b", "1024", "-J", "size=1", "-m", "0"],
    );
    let bench = Bench::open(device.clone(), options(DataMode::Ordered, 0));
    let inode = bench.create("file");
    // Four extents fill the root.
    for number in 0..4_u64 {
        bench.write(&inode, number * 16 * BLOCK as u64, &[3; 8 * BLOCK]);
    }
    let filler = bench.create("filler");
    let mut size = 0;
    while let Ok(count) = file::write(
        &bench.core,
        &filler,
        size,
        &[1; BLOCK],
        file::WriteOptions::default(),
    ) {
        size += count as u64;
    }
    file::sync_all(&bench.core).unwrap();
    let before = bench.read(&inode, 0, 100 * BLOCK);
    let insert = Move {
        what: RangeChange::Insert,
        first: 3,
        count: 1,
    };
    assert!(matches!(insert.run(&bench, &inode), Err(Error::NoSpace)));
    assert!(bench.read(&inode, 0, 100 * BLOCK) == before);
    bench.unlink("filler");
    insert.run(&bench, &inode).unwrap();
    assert!(bench.read(&inode, 0, 100 * BLOCK) == insert.after(&before));
    bench.close();
    check(&device);
    assert!(debugfs(&device, "dump_extents /file").contains("1/ 1"));
}

/// Bytes behind the end of the file are not seen while its last block lies within it.
#[test]
fn what_lies_beyond_the_end_is_not_seen_between_the_steps() {
    let (device, bytes) = fragmented();
    let last = debugfs(&device, &format!("bmap /file {}", BLOCKS - 1));
    let at = last.trim().parse::<u64>().unwrap() * BLOCK as u64;
    let memory: &dyn BlockDevice = &*device;
    let mut image = memory.read_block(at, BLOCK as u32).unwrap();
    Arc::make_mut(&mut image)[BLOCK - 100..].fill(9);
    memory.write_blocks(at, vec![image]).unwrap();
    let insert = MOVES[1];
    let between = cut_everywhere_of((device, bytes), insert, DataMode::Ordered, 1);
    assert!(between > 4, "{between} states were seen");
}
