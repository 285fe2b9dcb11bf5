//! Long random workloads in difficult worlds: a log that wraps, numbers that wrap, a nearly full
//! volume, commits and writeback in the background, several clients under hostile schedules.
//!
//! Each lane works in separate directories, whose names end with its number; the lanes compete for
//! space and share transactions. The model chooses the operations, so that all of them can be done.

use layout::device::DeviceNumber;
use rt::split_mix::SplitMix;

use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::mode::Structures;
use crate::model::{Change, Kind, Tree};
use crate::op::{How, Op, Path, Special};
use crate::setting::{CLUSTER_BLOCKS, Cell, LANES_MAX, Schedule, Setting};
use crate::timetable::MADE_AT;
use crate::workload::Workload;

/// A number from which transaction numbers soon wrap.
pub(super) const NEARLY_WRAPPED: u32 = 0xFFFF_FFF0;
/// Length in blocks of the shortest log that the engine accepts, without the journal's superblock:
/// the largest step of an operation takes a quarter of it.
pub const LOG_BLOCKS_MIN: u32 = 131;
/// Number of free blocks of a nearly full volume.
pub(super) const FEW_BLOCKS: u64 = 24;
const SECOND_MS: u64 = 1000;
const LANES: u64 = 3;
const OPS_MIN: u64 = 12;
const OPS_MAX: u64 = 40;
/// Numbers of directories and files of a lane.
pub(crate) const DIRECTORIES: u64 = 2;
pub(super) const FILES: u64 = 4;
/// Maximum size of a write in sectors.
const WRITE_SECTORS_MAX: u64 = 12;
/// Maximum size in sectors of a file that is written to: beyond the direct blocks.
const FILE_SECTORS_MAX: u64 = 40;
/// Lengths of values that do not fit beside their entries.
const LARGE_VALUES: [u32; 3] = [1000, 2500, 4000];
/// Difference of the seed of moves of blocks from that of a workload.
const MOVES_SEED: u64 = 0x6D6F_7665;
/// Number of further operations to try if one cannot be done.
const TRIES: usize = 20;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let setting = setting(cell, &mut random);
    let count = OPS_MIN + random.below(OPS_MAX - OPS_MIN) / u64::from(setting.lanes);
    let lanes =
        (0..setting.lanes as usize).map(|lane| ops(lane, count as usize, &mut random, choose));
    let mut lanes: Vec<Vec<Op>> = lanes.collect();
    enlarge_values(cell, seed, &mut lanes);
    move_blocks(cell, seed, &mut lanes);
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// Makes some of the values of attributes so large that they need inodes of their own, which only
/// the volumes of ext4 have. Their blocks fit the root of an extent tree.
pub(super) fn enlarge_values(cell: Cell, seed: u64, lanes: &mut [Vec<Op>]) {
    if !cell.structures.is_ext4() {
        return;
    }
    let mut random = SplitMix::new(!seed);
    for op in lanes.iter_mut().flatten() {
        if let Op::Setxattr(_, _, length) = op
            && *length > 0
            && random.below(2) == 0
        {
            *length = LARGE_VALUES[random.below(LARGE_VALUES.len() as u64) as usize];
        }
    }
}

/// Makes collapsed and inserted ranges of some of the other ranges, where files have extents.
/// Operations that cannot be done after them are left out.
pub(super) fn move_blocks(cell: Cell, seed: u64, lanes: &mut [Vec<Op>]) {
    if !cell.structures.is_ext4() {
        return;
    }
    // Blocks keep their places within clusters.
    let unit = BLOCK_SECTORS as u32
        * match cell.structures {
            Structures::Clustered => CLUSTER_BLOCKS,
            _ => 1,
        };
    let mut random = SplitMix::new(seed ^ MOVES_SEED);
    for (lane, ops) in lanes.iter_mut().enumerate() {
        let mut tree = Tree::new(MADE_AT);
        let mut kept = Vec::with_capacity(ops.len());
        for op in ops.drain(..) {
            let change = Change::of(lane, kept.len());
            let moved = moved(&op, unit, &mut random);
            let moved = moved.and_then(|moved| Some((tree.after(&moved, change)?, moved)));
            let done = moved.or_else(|| Some((tree.after(&op, change)?, op)));
            let Some((next, op)) = done else { continue };
            tree = next;
            let over = written_over(&op, &mut random);
            kept.push(op);
            for op in over {
                if let Some(next) = tree.after(&op, Change::of(lane, kept.len())) {
                    tree = next;
                    kept.push(op);
                }
            }
        }
        *ops = kept;
    }
}

/// Returns what writes to the blocks behind a move in place, often before it is committed.
fn written_over(op: &Op, random: &mut SplitMix) -> Vec<Op> {
    let (Op::Collapse(path, from, count) | Op::Insert(path, from, count)) = op else {
        return Vec::new();
    };
    if random.below(2) == 0 {
        return Vec::new();
    }
    let at = from + random.below(2 * u64::from(*count)) as u32;
    let write = Op::Write(path.clone(), at, 1 + random.below(4) as u32);
    match random.below(2) {
        0 => vec![write],
        _ => vec![write, Op::Fsync(path.clone())],
    }
}

/// Returns a move of blocks in the place of another change of a range: of whole units of sectors.
fn moved(op: &Op, unit: u32, random: &mut SplitMix) -> Option<Op> {
    let (Op::Allocate(path, from, count)
    | Op::Punch(path, from, count)
    | Op::Zero(path, from, count)) = op
    else {
        return None;
    };
    let count_max = unit.max(4 * BLOCK_SECTORS as u32);
    let (from, count) = (
        from - from % unit,
        count.next_multiple_of(unit).min(count_max),
    );
    match random.below(4) {
        0 => Some(Op::Collapse(path.clone(), from, count)),
        1 => Some(Op::Insert(path.clone(), from, count)),
        _ => None,
    }
}

fn setting(cell: Cell, random: &mut SplitMix) -> Setting {
    let mut chance = |one_in| random.below(one_in) == 0;
    let (wraps, is_short, is_full, is_alone) = (chance(3), chance(2), chance(4), chance(2));
    let (commits, writes, is_forced, is_fair) = (chance(2), chance(3), !chance(6), chance(3));
    let lanes = if is_alone {
        1
    } else {
        2 + random.below(LANES - 1) as u32
    };
    let seed = random.next_u64();
    let interval = 500 + random.below(4000);
    // Operations start once a second: commits that are due then race with them.
    let is_sharp = random.below(2) == 0;
    let usual = Setting::new(cell);
    Setting {
        can_force: is_forced,
        log_blocks: if is_short {
            LOG_BLOCKS_MIN
        } else {
            usual.log_blocks
        },
        tid: if wraps { NEARLY_WRAPPED } else { usual.tid },
        commit_ms: match (commits, is_sharp) {
            (false, _) => 0,
            (true, false) => interval,
            (true, true) => interval.next_multiple_of(SECOND_MS),
        },
        writer_ms: if writes { 500 + random.below(4000) } else { 0 },
        free_blocks: if is_full {
            (FEW_BLOCKS + random.below(FEW_BLOCKS)) as u32
        } else {
            0
        },
        lanes,
        schedule: match (is_fair, seed % 2) {
            (true, _) => Schedule::Fair,
            (false, 0) => Schedule::Random(seed),
            (false, _) => Schedule::Pct(seed),
        },
        ..usual
    }
}

/// Returns the operations of a lane. Its directories come first.
pub(super) fn ops(
    lane: usize,
    count: usize,
    random: &mut SplitMix,
    choose: impl Fn(usize, &Tree, &mut SplitMix) -> Op,
) -> Vec<Op> {
    ops_after(lane, directories(lane), count, random, choose)
}

/// Returns the operations that make the directories of a lane.
pub(super) fn directories(lane: usize) -> Vec<Op> {
    let paths = (0..DIRECTORIES).map(|directory| directory_path(lane, directory));
    paths.map(Op::Mkdir).collect()
}

/// Returns the operations of a lane that begin with these, and `count` more.
pub(super) fn ops_after(
    lane: usize,
    beginning: Vec<Op>,
    count: usize,
    random: &mut SplitMix,
    choose: impl Fn(usize, &Tree, &mut SplitMix) -> Op,
) -> Vec<Op> {
    let count = beginning.len() + count;
    let mut ops: Vec<Op> = Vec::new();
    let mut tree = Tree::new(MADE_AT);
    let mut add = |op: Op, ops: &mut Vec<Op>| {
        let change = Change::of(lane, ops.len());
        if let Some(next) = tree.after(&op, change) {
            tree = next;
            ops.push(op);
            return Some(tree.clone());
        }
        None
    };
    let mut known = None;
    for op in beginning {
        known = add(op, &mut ops);
    }
    let mut known = known.expect("the beginning can be done in an empty volume");
    while ops.len() < count {
        for _ in 0..TRIES {
            let op = choose(lane, &known, random);
            if let Some(next) = add(op, &mut ops) {
                known = next;
                break;
            }
        }
    }
    ops
}

/// Returns the path of a lane's directory; the lane's digit ends its name.
pub(crate) fn directory_path(lane: usize, directory: u64) -> Path {
    let digit = char::from_digit(lane as u32, LANES_MAX).expect("a lane has a digit");
    format!("d{directory}{digit}").into()
}

/// Returns an operation to try in a state.
pub(crate) fn choose(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let any = |random: &mut SplitMix| -> Path {
        let directory = directory_path(lane, random.below(DIRECTORIES));
        format!("{directory}/f{}", random.below(FILES)).into()
    };
    let (path, other) = (any(random), any(random));
    let size = tree.find(&path).map_or(0, |id| match &tree.node(id).kind {
        Kind::File { size, .. } => *size,
        _ => 0,
    });
    let sectors = size.div_ceil(SECTOR_BYTES as u64);
    let count = 1 + random.below(WRITE_SECTORS_MAX);
    match random.below(31) {
        0..=3 => Op::Create(path),
        4..=8 if sectors + count < FILE_SECTORS_MAX => Op::Append(path, count as u32),
        9..=11 if sectors < FILE_SECTORS_MAX => {
            Op::Write(path, random.below(sectors + 4) as u32, count as u32)
        }
        12 | 13 => Op::Truncate(path, random.below(size + 3000)),
        14 | 15 => Op::Unlink(path),
        16 => Op::Rename(path, other),
        17 => Op::Link(path, other),
        18 => match random.below(5) {
            0 => Op::Mkdir(path),
            1 => Op::Rmdir(path),
            2 => Op::Symlink(other, path),
            3 => Op::Whiteout(path, other),
            _ => Op::Exchange(path, other),
        },
        19 | 20 => Op::Fsync(path),
        21 | 22 => Op::Fdatasync(path),
        23 => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        24 => Op::Sync,
        25 if sectors < FILE_SECTORS_MAX => {
            let how = [How::Sync, How::DataSync, How::Direct][random.below(3) as usize];
            // Direct writes consist of whole blocks.
            let from = random.below(sectors + 4) as u32 & !1;
            Op::WriteAs(how, path, from, 2 * (1 + random.below(3)) as u32)
        }
        26 => match random.below(4) {
            0 => Op::Chmod(path, 0o600 + random.below(0o100) as u16),
            1 => Op::Chown(path, any_id(random), any_id(random)),
            2 => Op::Mknod(any_special(random), path),
            _ => Op::Utimes(path, random.below(1 << 30) as u32),
        },
        27 => any_mark(lane, path, random),
        28 | 29 => any_range(path, sectors, random),
        _ => Op::Rename(path, other),
    }
}

/// Returns an operation that allocates, punches or zeroes a range.
fn any_range(path: Path, sectors: u64, random: &mut SplitMix) -> Op {
    let from = random.below(sectors.min(FILE_SECTORS_MAX) + 4) as u32;
    let count = 1 + random.below(WRITE_SECTORS_MAX) as u32;
    match random.below(4) {
        0 => Op::Allocate(path, from, count),
        1 => Op::Zero(path, from, count),
        _ => Op::Punch(path, random.below(sectors + 1) as u32, count),
    }
}

/// Returns a change of extended attributes or of the access control list; values have few lengths,
/// so that blocks are shared.
fn any_mark(lane: usize, path: Path, random: &mut SplitMix) -> Op {
    let name: Path = ["a", "b", "a-longer-name"][random.below(3) as usize].into();
    match random.below(6) {
        0..=2 => Op::Setxattr(path, name, [0, 5, 60, 200][random.below(4) as usize]),
        3 => Op::Removexattr(path, name),
        4 => {
            let directory = directory_path(lane, random.below(DIRECTORIES));
            Op::SetDefaultFacl(directory, random.below(0o1000) as u16)
        }
        _ => Op::Setfacl(path, random.below(0o1000) as u16),
    }
}

/// Returns a user or group; one in two takes more than the 16 bits of the original inode format.
fn any_id(random: &mut SplitMix) -> u32 {
    let bits = 15 * (1 + random.below(2));
    random.below(1 << bits) as u32
}

/// Returns a fifo, socket or device; one device in two has a number in the longer form.
fn any_special(random: &mut SplitMix) -> Special {
    let number = |random: &mut SplitMix| DeviceNumber {
        major: 1 + random.below(255) as u32,
        minor: random.below(2 * 256) as u32,
    };
    match random.below(4) {
        0 => Special::Fifo,
        1 => Special::Socket,
        2 => Special::Character(number(random)),
        _ => Special::Block(number(random)),
    }
}
