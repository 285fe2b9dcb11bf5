//! The clients of a workload: each does its operations one after another.

use std::sync::Arc;

use block::trace::Trace;
use ext::volume::{NewInode, OpenFlags, RenameMode, SetAttributes, SetTime, Transactions};
use ext::{Error, Volume};
use layout::Tid;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use rt::Nanos;

use super::{RunError, Workload, seconds_of, sleep_until, volume_error};
use crate::fault::Fault;
use crate::image::SECTOR_BYTES;
use crate::op::{How, Op};
use crate::tag::Tag;

/// Node numbers of a lane begin at its number times this.
const LANE_NODES: u32 = 1 << 16;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done.
    Done,
    /// So many sectors of a write were written before space ran out.
    Short(u32),
    /// Nothing was done: there was no space, or had been none for what it needs.
    NoSpace,
    /// A device failed. A sync call promises nothing then; anything else was done or not, and is the lane's last.
    Failed,
}

/// An operation that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// How.
    pub outcome: Outcome,
    /// The earliest transaction that it can belong to.
    pub first: Tid,
    /// The latest.
    pub last: Tid,
}

impl Done {
    /// Whether it belongs to no transaction at all: nothing ran before and after it, and nothing was begun between.
    pub fn has_changed_nothing(&self) -> bool {
        self.first.is_after(self.last)
    }

    /// Of an operation before which and after which the numbers of transactions stood so.
    pub(crate) fn between(outcome: Outcome, before: Transactions, after: Transactions) -> Self {
        Self {
            outcome,
            first: before.running.unwrap_or(before.next),
            last: after
                .running
                .unwrap_or(Tid::new(after.next.get().wrapping_sub(1))),
        }
    }
}

/// A mark in the trace: an operation of a lane begins or has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The lane.
    pub lane: usize,
    /// The operation's number in the lane.
    pub number: usize,
    /// Whether it has returned.
    pub is_end: bool,
}

impl Mark {
    /// As a number.
    pub fn encode(self) -> u64 {
        (self.lane as u64) << 32 | (self.number as u64) << 1 | u64::from(self.is_end)
    }

    /// From its number.
    pub fn decode(raw: u64) -> Self {
        Self {
            lane: (raw >> 32) as usize,
            number: (raw as u32 >> 1) as usize,
            is_end: raw & 1 == 1,
        }
    }
}

/// What the node that an operation makes, or the write that it is, is known by among all lanes.
pub fn number_of(lane: usize, number: usize) -> u32 {
    lane as u32 * LANE_NODES + number as u32 + 1
}

/// Lane and number of an operation, from what its node or write is known by.
pub fn place_of(number: u32) -> Option<(usize, usize)> {
    let index = number.checked_sub(1)?;
    Some(((index / LANE_NODES) as usize, (index % LANE_NODES) as usize))
}

/// Waits until operation `number` is due, in a world that began at a time.
pub(super) fn wait_for(number: usize, epoch: i64) {
    let seconds = (seconds_of(number) - epoch).max(0);
    sleep_until(Nanos::from_secs(seconds.cast_unsigned()));
}

/// Runs all lanes and closes the volume.
pub(super) fn run_lanes(
    volume: Volume,
    workload: &Workload,
    trace: &Arc<Trace>,
    epoch: i64,
) -> Result<Vec<Vec<Done>>, RunError> {
    let volume = Arc::new(volume);
    let lanes: Vec<_> = workload.lanes.iter().enumerate().collect();
    let run = |lane: usize, ops: Vec<Op>| {
        let (volume, trace) = (Arc::clone(&volume), Arc::clone(trace));
        let (prepared, fault) = (workload.prepared[lane], workload.setting.fault);
        move || run_lane(&volume, &trace, lane, &ops, prepared, (epoch, fault))
    };
    let done: Result<Vec<_>, RunError> = if let [(lane, ops)] = lanes[..] {
        run(lane, ops.clone())().map(|done| vec![done])
    } else {
        let spawn = |(lane, ops): (usize, &Vec<Op>)| {
            rt::spawn(&format!("lane{lane}"), run(lane, ops.clone()))
        };
        let handles: Vec<_> = lanes.into_iter().map(spawn).collect();
        let join = |handle: rt::JoinHandle<_>| {
            handle
                .join()
                .map_err(|panic| RunError::World(panic.message))?
        };
        handles.into_iter().map(join).collect()
    };
    let volume = Arc::into_inner(volume).expect("the lanes have ended");
    let closed = volume.close().map_err(volume_error);
    let done = done?;
    if workload.setting.fault.is_some() {
        return Ok(done);
    }
    closed.map(|()| done)
}

fn run_lane(
    volume: &Volume,
    trace: &Trace,
    lane: usize,
    ops: &[Op],
    prepared: usize,
    (epoch, fault): (i64, Option<Fault>),
) -> Result<Vec<Done>, RunError> {
    let can_fail = fault.is_some();
    // What could not be made for want of space is missing later on.
    let mut has_run_out = false;
    let mut all = Vec::new();
    for (number, op) in ops.iter().enumerate().skip(prepared) {
        wait_for(number, epoch);
        let mark = |is_end| {
            trace.mark(
                Mark {
                    lane,
                    number,
                    is_end,
                }
                .encode(),
            );
        };
        mark(false);
        let before = transactions(volume);
        let outcome = match run(volume, op, lane as u32, number) {
            Err(RunError::Operation { .. }) if can_fail => Outcome::Failed,
            Err(RunError::Operation { .. }) if has_run_out => Outcome::NoSpace,
            outcome => outcome?,
        };
        has_run_out |= matches!(outcome, Outcome::NoSpace | Outcome::Short(_));
        all.push(Done::between(outcome, before, transactions(volume)));
        mark(true);
        if outcome == Outcome::Failed && !op.is_sync() {
            break;
        }
    }
    Ok(all)
}

/// Where the numbers of transactions stand.
pub(crate) fn transactions(volume: &Volume) -> Transactions {
    volume
        .transactions()
        .expect("all volumes here have a journal")
}

/// Does an operation.
pub(crate) fn run(volume: &Volume, op: &Op, lane: u32, number: usize) -> Result<Outcome, RunError> {
    match carry_out(volume, op, lane, number) {
        Ok(outcome) => Ok(outcome),
        Err(Error::NoSpace) => Ok(Outcome::NoSpace),
        Err(error) => Err(RunError::Operation {
            op: op.to_string(),
            error: error.to_string(),
        }),
    }
}

fn carry_out(volume: &Volume, op: &Op, lane: u32, number: usize) -> Result<Outcome, Error> {
    let new = NewInode::default();
    match op {
        Op::Create(path) => {
            let (parent, name) = volume.resolve_parent(path)?;
            volume.create(parent, name, &new)?;
        }
        Op::Mkdir(path) => drop(volume.create_directory(path)?),
        Op::Write(path, from, count) => {
            let flags = OpenFlags::READ_WRITE;
            return write(volume, (path, flags), Some(*from), *count, (lane, number));
        }
        Op::WriteAs(how, path, from, count) => {
            let flags = OpenFlags {
                sync: *how == How::Sync,
                data_sync: *how == How::DataSync,
                direct: *how == How::Direct,
                ..OpenFlags::READ_WRITE
            };
            return write(volume, (path, flags), Some(*from), *count, (lane, number));
        }
        Op::Append(path, count) => {
            let flags = OpenFlags::READ_WRITE;
            return write(volume, (path, flags), None, *count, (lane, number));
        }
        Op::Chmod(path, mode) => set(
            volume,
            path,
            &SetAttributes {
                permissions: Some(*mode),
                ..SetAttributes::default()
            },
        )?,
        Op::Utimes(path, seconds) => set(
            volume,
            path,
            &SetAttributes {
                mtime: Some(SetTime::At(InodeTime {
                    seconds: i64::from(*seconds),
                    nanos: 0,
                })),
                ..SetAttributes::default()
            },
        )?,
        Op::Truncate(path, size) => {
            let change = SetAttributes {
                size: Some(*size),
                ..SetAttributes::default()
            };
            set(volume, path, &change)?;
        }
        Op::Link(from, to) => {
            let nr = volume.resolve(from, false)?;
            let (parent, name) = volume.resolve_parent(to)?;
            volume.link(nr, parent, name)?;
        }
        Op::Symlink(target, path) => {
            let (parent, name) = volume.resolve_parent(path)?;
            volume.symlink(parent, name, target.as_bytes(), &new)?;
        }
        Op::Unlink(path) => volume.remove_file(path)?,
        Op::Rmdir(path) => volume.remove_directory_at(path)?,
        Op::Rename(from, to) => volume.rename_path(from, to)?,
        Op::Exchange(one, other) => {
            let (parent, name) = volume.resolve_parent(one)?;
            let (new_parent, new_name) = volume.resolve_parent(other)?;
            volume.rename(parent, name, new_parent, new_name, RenameMode::Exchange)?;
        }
        Op::Fsync(path) => sync_file(volume, path, false)?,
        Op::Fdatasync(path) => sync_file(volume, path, true)?,
        Op::SyncDirectory(path) => volume.sync_directory(volume.resolve(path, false)?)?,
        Op::Sync => volume.sync()?,
        Op::Journaled(path, is_on) => {
            let flags = InodeFlags::JOURNAL_DATA;
            let change = SetAttributes {
                flags: Some(if *is_on { flags } else { InodeFlags::empty() }),
                ..SetAttributes::default()
            };
            set(volume, path, &change)?;
        }
    }
    Ok(Outcome::Done)
}

fn set(volume: &Volume, path: &str, change: &SetAttributes) -> Result<(), Error> {
    volume.set_attributes(volume.resolve(path, false)?, change)
}

fn sync_file(volume: &Volume, path: &str, data_only: bool) -> Result<(), Error> {
    let file = volume.open_inode(volume.resolve(path, false)?, OpenFlags::READ_WRITE)?;
    let synced = volume.sync_file(file, data_only);
    let released = volume.release(file);
    synced.and(released)
}

/// Writes tagged sectors, from a sector on or behind the last one.
fn write(
    volume: &Volume,
    (path, flags): (&str, OpenFlags),
    from: Option<u32>,
    count: u32,
    (lane, number): (u32, usize),
) -> Result<Outcome, Error> {
    let nr = volume.resolve(path, false)?;
    let size = volume.attributes(nr)?.size;
    let from = from.map_or(size.div_ceil(SECTOR_BYTES as u64), u64::from);
    let mut bytes = vec![0; count as usize * SECTOR_BYTES];
    for (sector, piece) in (from as u32..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
        let tag = Tag {
            file: nr.get(),
            write: number_of(lane as usize, number),
            sector,
        };
        tag.fill(piece);
    }
    let file = volume.open_inode(nr, flags)?;
    let mut done = 0;
    let result = loop {
        if done == bytes.len() {
            break Ok(());
        }
        match volume.write(
            file,
            from * SECTOR_BYTES as u64 + done as u64,
            &bytes[done..],
        ) {
            Ok(0) => break Err(Error::NoSpace),
            Ok(written) => done += written,
            Err(error) => break Err(error),
        }
    };
    volume.release(file)?;
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::NoSpace) if done > 0 => Ok(Outcome::Short((done / SECTOR_BYTES) as u32)),
        Err(error) => Err(error),
    }
}
