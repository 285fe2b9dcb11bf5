//! The outcome of a failed operation, as far as clients can read it.
//!
//! A failing device stops an operation before its first change, or after its last: all of it is
//! done, or nothing (E5). Since every operation of a lane runs in a separate second, the times of
//! the inodes show it. A partial write has no valid outcome.

use ext::volume::{Attributes, OpenFlags};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::image::SECTOR_BYTES;
use crate::op::{How, Op};
use crate::recording::Outcome;
use crate::tag::Tag;
use crate::timetable::seconds_of;

/// A failed operation, on a volume that continues.
pub(super) struct Probe<'v> {
    pub(super) volume: &'v Volume,
    pub(super) op: &'v Op,
    /// Its number in the lane.
    pub(super) number: usize,
    /// The id of its write.
    pub(super) write: u32,
    /// The start of an append.
    pub(super) append_from: Option<u64>,
}

impl Probe<'_> {
    /// Returns the outcome: done, though without a promise, or nothing; `None` if neither.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let is_done = match self.op {
            Op::Unlink(path) | Op::Rmdir(path) => self.find(path).ok()?.is_none(),
            // Another file may have had the name before.
            Op::Create(path)
            | Op::Mkdir(path)
            | Op::Mknod(_, path)
            | Op::Symlink(_, path)
            | Op::Link(_, path)
            | Op::Rename(_, path)
            | Op::Exchange(_, path)
            | Op::Whiteout(_, path)
            | Op::Truncate(path, _)
            | Op::Chmod(path, _)
            | Op::Chown(path, ..)
            | Op::Setxattr(path, ..)
            | Op::Removexattr(path, _)
            | Op::Setfacl(path, _)
            | Op::SetDefaultFacl(path, _)
            | Op::Utimes(path, _)
            | Op::Journaled(path, _)
            | Op::Dirsync(path, _) => self.is_touched(path).ok()?,
            // A part of a range cannot be distinguished from none of it, or all.
            Op::Allocate(..) | Op::Punch(..) | Op::Zero(..) | Op::Collapse(..) | Op::Insert(..) => {
                return None;
            }
            // A direct write may have reached the device, regardless of the data that can be read
            // now.
            Op::WriteAs(How::Direct, ..) => return None,
            Op::Write(path, from, count) | Op::WriteAs(_, path, from, count) => {
                self.is_written(path, u64::from(*from), *count)?
            }
            Op::Append(path, count) => match self.append_from {
                Some(from) => self.is_written(path, from, *count)?,
                None => false,
            },
            Op::Fsync(_) | Op::Fdatasync(_) | Op::SyncDirectory(_) | Op::Sync => return None,
        };
        Some(if is_done {
            Outcome::Unsynced
        } else {
            Outcome::Refused
        })
    }

    /// Returns the inode at a path, if there is one.
    fn find(&self, path: &str) -> Result<Option<(InodeNr, Attributes)>, Error> {
        match self.volume.resolve(path, false) {
            Ok(nr) => Ok(Some((nr, self.volume.attributes(nr)?))),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the inode was changed when the operation was due.
    fn is_touched(&self, path: &str) -> Result<bool, Error> {
        let found = self.find(path)?;
        Ok(found.is_some_and(|(_, attributes)| self.is_now(&attributes)))
    }

    fn is_now(&self, attributes: &Attributes) -> bool {
        attributes.ctime.seconds == seconds_of(self.number)
    }

    /// Returns true if a write is done in full, false if not at all.
    fn is_written(&self, path: &str, from: u64, count: u32) -> Option<bool> {
        let Some((nr, attributes)) = self.find(path).ok()? else {
            return Some(false);
        };
        let mut bytes = vec![0; count as usize * SECTOR_BYTES];
        let file = self.volume.open_inode(nr, OpenFlags::READ).ok()?;
        let read = self
            .volume
            .read(file, from * SECTOR_BYTES as u64, &mut bytes);
        let released = self.volume.release(file);
        bytes.truncate(read.ok()?);
        released.ok()?;
        let is_own = |piece: &&[u8]| Tag::read(piece).is_some_and(|tag| tag.write == self.write);
        let own = bytes.chunks(SECTOR_BYTES).filter(is_own).count();
        match (own, self.is_now(&attributes)) {
            (0, false) => Some(false),
            (own, true) if own == count as usize => Some(true),
            _ => None,
        }
    }
}
