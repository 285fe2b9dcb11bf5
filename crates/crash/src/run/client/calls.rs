//! The calls on a volume for each operation.

use std::collections::BTreeSet;

use ext::volume::{
    FileId, FileKind, NewInode, OpenFlags, RangeChange, RenameMode, SetAttributes, SetMode,
    SetTime, WhiteoutOwner,
};
use ext::{Error, Volume};
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;

use super::Client;
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::marks;
use crate::op::{How, Op};
use crate::recording::Outcome;
use crate::tag::{Tag, number_of};

impl Client<'_> {
    pub(super) fn carry_out(&mut self, op: &Op, number: usize) -> Result<Outcome, Error> {
        let volume = self.volume;
        let new = NewInode::default();
        match op {
            Op::Create(path) => {
                let (parent, name) = volume.resolve_parent(path.as_bytes())?;
                volume.create(parent, name, &new)?;
            }
            Op::Mkdir(path) => drop(volume.create_directory(path.as_bytes())?),
            Op::Write(path, from, count) => {
                return self.write(path, None, Some(*from), (*count, number));
            }
            Op::WriteAs(how, path, from, count) => {
                return self.write(path, Some(*how), Some(*from), (*count, number));
            }
            Op::Append(path, count) => return self.write(path, None, None, (*count, number)),
            Op::Truncate(..)
            | Op::Chmod(..)
            | Op::Chown(..)
            | Op::Utimes(..)
            | Op::Journaled(..)
            | Op::Dirsync(..) => {
                set(volume, op)?;
            }
            Op::Allocate(path, from, count) => {
                return change_range(volume, path, (*from, *count), RangeChange::Allocate);
            }
            Op::Punch(path, from, count) => {
                return change_range(volume, path, (*from, *count), RangeChange::PunchHole);
            }
            Op::Zero(path, from, count) => {
                return change_range(volume, path, (*from, *count), RangeChange::Zero);
            }
            Op::Collapse(path, from, count) => {
                return self.move_blocks(path, (*from, *count), RangeChange::Collapse);
            }
            Op::Insert(path, from, count) => {
                return self.move_blocks(path, (*from, *count), RangeChange::Insert);
            }
            Op::Setxattr(path, name, length) => {
                let (name, value) = (marks::whole_name(name), marks::value(*length));
                mark(volume, path, &name, &value)?;
            }
            Op::Removexattr(path, name) => {
                let nr = volume.resolve(path.as_bytes(), false)?;
                volume.remove_attribute(nr, &marks::whole_name(name))?;
            }
            Op::Setfacl(path, mode) => {
                mark(volume, path, marks::list_name(), &marks::list(*mode))?;
            }
            Op::SetDefaultFacl(path, mode) => {
                mark(
                    volume,
                    path,
                    marks::default_list_name(),
                    &marks::list(*mode),
                )?;
            }
            Op::Link(from, to) => {
                let nr = volume.resolve(from.as_bytes(), false)?;
                let (parent, name) = volume.resolve_parent(to.as_bytes())?;
                volume.link(nr, parent, name)?;
            }
            Op::Mknod(special, path) => {
                let (parent, name) = volume.resolve_parent(path.as_bytes())?;
                let (kind, device) = special.parts();
                volume.make_node(parent, name, kind, device, &new)?;
            }
            Op::Symlink(target, path) => {
                let (parent, name) = volume.resolve_parent(path.as_bytes())?;
                volume.symlink(parent, name, target.as_bytes(), &new)?;
            }
            Op::Unlink(path) => volume.remove_file(path.as_bytes())?,
            Op::Rmdir(path) => volume.remove_directory_at(path.as_bytes())?,
            Op::Rename(from, to) => volume.rename_path(from.as_bytes(), to.as_bytes())?,
            Op::Exchange(one, other) => {
                let (parent, name) = volume.resolve_parent(one.as_bytes())?;
                let (new_parent, new_name) = volume.resolve_parent(other.as_bytes())?;
                volume.rename(parent, name, new_parent, new_name, RenameMode::Exchange)?;
            }
            Op::Whiteout(from, to) => {
                let (parent, name) = volume.resolve_parent(from.as_bytes())?;
                let (new_parent, new_name) = volume.resolve_parent(to.as_bytes())?;
                let mode = RenameMode::Whiteout(WhiteoutOwner::default());
                volume.rename(parent, name, new_parent, new_name, mode)?;
            }
            Op::Fsync(path) => self.sync_file(path, false)?,
            Op::Fdatasync(path) => self.sync_file(path, true)?,
            Op::SyncDirectory(path) => {
                let nr = volume.resolve(path.as_bytes(), false)?;
                // If a directory could not be created or moved, a file may have its name.
                if volume.attributes(nr)?.kind != FileKind::Directory {
                    return Err(Error::NotDirectory);
                }
                volume.sync_directory(nr)?;
            }
            Op::Sync => volume.sync()?,
        }
        Ok(Outcome::Done)
    }

    /// Moves blocks within a file, unless an attempt that failed has done so: the size then
    /// differs.
    fn move_blocks(
        &mut self,
        path: &str,
        range: (u32, u32),
        what: RangeChange,
    ) -> Result<Outcome, Error> {
        let nr = self.volume.resolve(path.as_bytes(), false)?;
        let size = self.volume.attributes(nr)?.size;
        if *self.moved_from.get_or_insert(size) != size {
            return Ok(Outcome::Unsynced);
        }
        change_range(self.volume, path, range, what)
    }

    fn sync_file(&mut self, path: &str, data_only: bool) -> Result<(), Error> {
        let volume = self.volume;
        let nr = volume.resolve(path.as_bytes(), false)?;
        if let Some(holds) = &mut self.holds {
            return holds.sync(volume, nr, data_only);
        }
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE)?;
        let synced = volume.sync_file(file, data_only);
        let released = volume.release(file);
        synced.and(released)
    }

    /// Writes tagged sectors, from a sector on or after the last one.
    fn write(
        &mut self,
        path: &str,
        how: Option<How>,
        from: Option<u32>,
        (count, number): (u32, usize),
    ) -> Result<Outcome, Error> {
        let volume = self.volume;
        let nr = volume.resolve(path.as_bytes(), false)?;
        let size = volume.attributes(nr)?.size;
        let from = match (from, self.append_from) {
            (Some(from), _) => u64::from(from),
            (None, Some(from)) => from,
            (None, None) => size.div_ceil(SECTOR_BYTES as u64),
        };
        self.append_from = Some(from);
        let mut bytes = vec![0; count as usize * SECTOR_BYTES];
        for (sector, piece) in (from as u32..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
            let tag = Tag {
                file: nr.get(),
                write: number_of(self.lane as usize, number),
                sector,
            };
            tag.fill(piece);
        }
        if let Some(holds) = &mut self.holds {
            let file = holds.open(volume, nr)?;
            if how.is_none() {
                return write_all(volume, file, from, &bytes);
            }
        }
        let file = volume.open_inode(nr, flags_of(how))?;
        let written = write_all(volume, file, from, &bytes);
        volume.release(file)?;
        written
    }
}

/// Sets an extended attribute.
fn mark(volume: &Volume, path: &str, name: &[u8], value: &[u8]) -> Result<(), Error> {
    let nr = volume.resolve(path.as_bytes(), false)?;
    volume.set_attribute(nr, name, value, SetMode::Any)
}

/// Changes a range of sectors. If space runs out, the part that has blocks was done; nothing was if
/// the engine noticed before that there are too few blocks.
fn change_range(
    volume: &Volume,
    path: &str,
    (from, count): (u32, u32),
    what: RangeChange,
) -> Result<Outcome, Error> {
    let nr = volume.resolve(path.as_bytes(), false)?;
    let bytes = |sectors: u32| u64::from(sectors) * SECTOR_BYTES as u64;
    let keeps_size = what == RangeChange::PunchHole;
    let began = rt::wall().seconds;
    match volume.change_range(nr, bytes(from), bytes(count), what, keeps_size) {
        Ok(()) => Ok(Outcome::Done),
        // No block has moved then.
        Err(Error::NoSpace) if what.moves_blocks() => Err(Error::NoSpace),
        // Operations start a second apart.
        Err(Error::NoSpace) if volume.attributes(nr)?.ctime.seconds < began => Err(Error::NoSpace),
        Err(Error::NoSpace) => {
            let extents = volume.blocks_of(nr)?.into_iter();
            let mapped: BTreeSet<u64> = extents
                .filter_map(|extent| Some((extent.file_block?.get(), u64::from(extent.count))))
                .flat_map(|(first, count)| first..first + count)
                .collect();
            let is_mapped =
                |sector: &u32| mapped.contains(&(u64::from(*sector) / BLOCK_SECTORS as u64));
            let done = (from..from + count).take_while(is_mapped).count();
            match done {
                0 => Err(Error::NoSpace),
                done => Ok(Outcome::Short(done as u32)),
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns the flags with which a file is opened for writing.
fn flags_of(how: Option<How>) -> OpenFlags {
    OpenFlags {
        sync: how == Some(How::Sync),
        data_sync: how == Some(How::DataSync),
        direct: how == Some(How::Direct),
        ..OpenFlags::READ_WRITE
    }
}

/// Changes attributes of a file.
fn set(volume: &Volume, op: &Op) -> Result<(), Error> {
    let none = SetAttributes::default();
    let (path, change) = match op {
        Op::Truncate(path, size) => {
            let size = Some(*size);
            (path, SetAttributes { size, ..none })
        }
        Op::Chmod(path, mode) => {
            let permissions = Some(*mode);
            (
                path,
                SetAttributes {
                    permissions,
                    ..none
                },
            )
        }
        Op::Chown(path, user, group) => {
            let (uid, gid) = (Some(*user), Some(*group));
            (path, SetAttributes { uid, gid, ..none })
        }
        Op::Utimes(path, seconds) => {
            let time = InodeTime {
                seconds: i64::from(*seconds),
                nanos: 0,
            };
            let mtime = Some(SetTime::At(time));
            (path, SetAttributes { mtime, ..none })
        }
        Op::Journaled(path, is_on) => {
            let flags = if_on(InodeFlags::JOURNAL_DATA, *is_on);
            (path, SetAttributes { flags, ..none })
        }
        Op::Dirsync(path, is_on) => {
            let flags = if_on(InodeFlags::DIRSYNC, *is_on);
            (path, SetAttributes { flags, ..none })
        }
        _ => return Ok(()),
    };
    volume.set_attributes(volume.resolve(path.as_bytes(), false)?, &change)
}

/// Returns the flags to set: those given, or none.
fn if_on(flags: InodeFlags, is_on: bool) -> Option<InodeFlags> {
    Some(if is_on { flags } else { InodeFlags::empty() })
}

/// Writes bytes from a sector on, as far as possible.
fn write_all(volume: &Volume, file: FileId, from: u64, bytes: &[u8]) -> Result<Outcome, Error> {
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
    match result {
        Ok(()) => Ok(Outcome::Done),
        // The written part stays; only the next call would return the reason.
        Err(_) if done > 0 => Ok(Outcome::Short((done / SECTOR_BYTES) as u32)),
        Err(error) => Err(error),
    }
}
