//! [`Client`]: the file operations of one task of a workload.
//!
//! Every call is timed and every result is checked. If the run verifies, data that is read is
//! compared with the data that was written.

use std::sync::Arc;

use crate::aligned::AlignedBuffer;
use crate::contents::Contents;
use crate::error::TargetError;
use crate::meter::{Call, Meter};
use crate::random::Random;
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::{DirectoryEntry, OpenFile, OpenFlags, Stat, Target};

/// File operations of one task; see the module.
pub struct Client {
    /// The target, with a timer for each call.
    pub meter: Meter,
    /// Random numbers of this task.
    pub random: Random,
    contents: Arc<Contents>,
    stage: Stage,
    buffer: AlignedBuffer,
}

/// A file that a client has open.
#[must_use = "an open file must be closed"]
pub struct Opened {
    file: OpenFile,
    /// Path of the file, for messages.
    pub path: String,
    /// Key of the file's contents.
    pub key: u64,
    // Position of the next read or write.
    at: u64,
    // True if the file uses direct I/O, which needs aligned memory.
    is_direct: bool,
}

impl Opened {
    /// Returns the open file, for calls that the client has no method for.
    pub fn file(&self) -> &OpenFile {
        &self.file
    }
}

impl Client {
    pub(crate) fn new(meter: Meter, random: Random, contents: Arc<Contents>, stage: Stage) -> Self {
        Self {
            meter,
            random,
            contents,
            stage,
            buffer: AlignedBuffer::default(),
        }
    }

    /// Returns the result of [`Stage::goes_on`].
    ///
    /// # Errors
    /// Fails with [`RunError::Cancelled`] if the run was cancelled.
    pub fn goes_on(&self) -> Result<bool, RunError> {
        self.stage.goes_on()
    }

    /// Counts steps as done, for progress reports.
    pub fn advance(&self, steps: u64) {
        self.stage.advance(steps);
    }

    /// Creates or opens a file whose contents have this key.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn open(
        &mut self,
        path: impl Into<String>,
        flags: OpenFlags,
        key: u64,
    ) -> Result<Opened, RunError> {
        let path = path.into();
        let call = if flags.create {
            Call::Create
        } else {
            Call::Open
        };
        let file = self.meter.time(call, |target| target.open(&path, flags))?;
        Ok(Opened {
            file,
            path,
            key,
            at: 0,
            is_direct: flags.direct,
        })
    }

    /// Closes a file.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn close(&mut self, opened: Opened) -> Result<(), RunError> {
        let file = opened.file;
        Ok(self.meter.time(Call::Close, |target| target.close(file))?)
    }

    /// Opens a file, runs `work` and always closes the file. Returns the first error.
    ///
    /// # Errors
    /// Fails if `work` fails, or a call that opens or closes the file.
    pub fn with_file<T>(
        &mut self,
        path: impl Into<String>,
        flags: OpenFlags,
        key: u64,
        work: impl FnOnce(&mut Self, &mut Opened) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let mut opened = self.open(path, flags, key)?;
        let worked = work(self, &mut opened);
        let closed = self.close(opened);
        let result = worked?;
        closed.map(|()| result)
    }

    /// Sets the position. Calls the target only if the position changes.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn seek(&mut self, opened: &mut Opened, offset: u64) -> Result<(), RunError> {
        if opened.at != offset {
            self.meter
                .target()
                .seek(&mut opened.file, offset)
                .map_err(RunError::from)?;
            opened.at = offset;
        }
        Ok(())
    }

    /// Sets the client's position to the end of the file, as after opening for append.
    pub fn at_end(&mut self, opened: &mut Opened, size: u64) {
        opened.at = size;
    }

    /// Writes `length` bytes at the position, in one call if the target accepts all of them.
    ///
    /// # Errors
    /// Fails if a call fails or writes nothing.
    pub fn write(
        &mut self,
        call: Call,
        opened: &mut Opened,
        length: usize,
    ) -> Result<(), RunError> {
        let (key, at) = self.source(opened.key, opened.at);
        let (file, path) = (&mut opened.file, &opened.path);
        let piece = self.contents.piece(key, at, length);
        let data = outgoing(&mut self.buffer, piece, opened.is_direct);
        self.meter
            .write_all::<RunError>(call, file, path, data, |_, _| Ok(()))?;
        opened.at += length as u64;
        Ok(())
    }

    /// Returns key and offset of the contents to write. Without verification they are constant, so
    /// that the data stays in the processor's cache, as the single buffer of the original
    /// benchmarks does.
    fn source(&self, key: u64, offset: u64) -> (u64, u64) {
        if self.stage.verifies() {
            (key, offset)
        } else {
            (0, 0)
        }
    }

    /// Writes `size` bytes at the position in blocks; the last block may be smaller.
    ///
    /// # Errors
    /// Fails if a call fails or writes nothing.
    pub fn write_blocks(
        &mut self,
        call: Call,
        opened: &mut Opened,
        size: u64,
        block: usize,
    ) -> Result<(), RunError> {
        pieces(size, block).try_for_each(|length| self.write(call, opened, length))
    }

    /// Reads `length` bytes at the position and checks them. Fails if the file is shorter.
    ///
    /// # Errors
    /// Fails if a call fails, if the file ends too early, or if its contents are wrong.
    pub fn read(&mut self, opened: &mut Opened, length: usize) -> Result<(), RunError> {
        self.with_buffer(length, |client, buffer| client.read_into(opened, buffer))
    }

    /// Runs `work` with the client's buffer.
    fn with_buffer<T>(&mut self, length: usize, work: impl FnOnce(&mut Self, &mut [u8]) -> T) -> T {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = work(self, buffer.get(length));
        self.buffer = buffer;
        result
    }

    fn read_into(&mut self, opened: &mut Opened, buffer: &mut [u8]) -> Result<(), RunError> {
        let got = self.meter.read_full(&mut opened.file, buffer)?;
        if got < buffer.len() {
            return Err(RunError::ShortFile {
                path: opened.path.clone(),
                expected: opened.at + buffer.len() as u64,
                got: opened.at + got as u64,
            });
        }
        self.check(opened, opened.at, buffer)?;
        opened.at += got as u64;
        Ok(())
    }

    /// Compares data that was read at `offset` with the written data, if the run verifies.
    ///
    /// # Errors
    /// Fails if the contents differ.
    pub fn check(&self, opened: &Opened, offset: u64, found: &[u8]) -> Result<(), RunError> {
        if !self.stage.verifies() {
            return Ok(());
        }
        match self.contents.first_difference(opened.key, offset, found) {
            None => Ok(()),
            Some(offset) => Err(RunError::WrongContents {
                path: opened.path.clone(),
                offset,
            }),
        }
    }

    /// Reads `size` bytes at the position in blocks; the last block may be smaller.
    ///
    /// # Errors
    /// Fails if a call fails, if the file ends too early, or if its contents are wrong.
    pub fn read_blocks(
        &mut self,
        opened: &mut Opened,
        size: u64,
        block: usize,
    ) -> Result<(), RunError> {
        pieces(size, block).try_for_each(|length| self.read(opened, length))
    }

    /// Creates, writes and closes a file of `size` bytes. Fails if the file exists.
    ///
    /// # Errors
    /// Fails if a call fails or writes nothing.
    pub fn make_file(
        &mut self,
        path: impl Into<String>,
        key: u64,
        size: u64,
        block: usize,
    ) -> Result<(), RunError> {
        self.with_file(
            path,
            OpenFlags::WRITE.create_new(),
            key,
            |client, opened| client.write_blocks(Call::Write, opened, size, block),
        )
    }

    /// Opens, reads and closes a file of `size` bytes.
    ///
    /// # Errors
    /// Fails if a call fails, if the file ends too early, or if its contents are wrong.
    pub fn read_file(
        &mut self,
        path: &str,
        key: u64,
        size: u64,
        block: usize,
    ) -> Result<(), RunError> {
        self.with_file(path, OpenFlags::READ, key, |client, opened| {
            client.read_blocks(opened, size, block)
        })
    }

    /// Reads from the position to the end of the file in blocks, and returns the number of bytes.
    ///
    /// # Errors
    /// Fails if a call fails, or if the contents are wrong.
    pub fn read_to_end(&mut self, opened: &mut Opened, block: usize) -> Result<u64, RunError> {
        let began = opened.at;
        self.with_buffer(block, |client, buffer| {
            loop {
                let file = &mut opened.file;
                let count = client
                    .meter
                    .time(Call::Read, |target| target.read(file, buffer))?;
                if count == 0 {
                    return Ok(opened.at - began);
                }
                client.check(opened, opened.at, &buffer[..count])?;
                opened.at += count as u64;
            }
        })
    }

    /// Makes a file durable.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn fsync(&mut self, opened: &Opened) -> Result<(), RunError> {
        Ok(self
            .meter
            .time(Call::Fsync, |target| target.fsync(&opened.file))?)
    }

    /// Makes the data of a file durable.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn fdatasync(&mut self, opened: &Opened) -> Result<(), RunError> {
        Ok(self
            .meter
            .time(Call::Fdatasync, |target| target.fdatasync(&opened.file))?)
    }

    /// Reads at an offset without changing the position, and checks the data.
    ///
    /// # Errors
    /// Fails if a call fails, if the file ends too early, or if its contents are wrong.
    pub fn pread(&mut self, opened: &Opened, offset: u64, length: usize) -> Result<(), RunError> {
        self.with_buffer(length, |client, buffer| {
            client.pread_into(opened, offset, buffer)
        })
    }

    fn pread_into(
        &mut self,
        opened: &Opened,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RunError> {
        let mut done = 0;
        while done < buffer.len() {
            let (rest, at) = (&mut buffer[done..], offset + done as u64);
            let count = self
                .meter
                .time(Call::Read, |target| target.pread(&opened.file, rest, at))?;
            if count == 0 {
                return Err(RunError::ShortFile {
                    path: opened.path.clone(),
                    expected: offset + buffer.len() as u64,
                    got: at,
                });
            }
            done += count;
        }
        self.check(opened, offset, buffer)
    }

    /// Writes at an offset without changing the position.
    ///
    /// # Errors
    /// Fails if a call fails or writes nothing.
    pub fn pwrite(&mut self, opened: &Opened, offset: u64, length: usize) -> Result<(), RunError> {
        let (key, at) = self.source(opened.key, offset);
        let piece = self.contents.piece(key, at, length);
        let data = outgoing(&mut self.buffer, piece, opened.is_direct);
        let mut done = 0;
        while done < length {
            let (rest, at) = (&data[done..], offset + done as u64);
            let count = self
                .meter
                .time(Call::Write, |target| target.pwrite(&opened.file, rest, at))?;
            if count == 0 {
                let path = opened.path.clone();
                return Err(RunError::WroteNothing { path });
            }
            done += count;
        }
        Ok(())
    }

    /// Makes and times a call on a path.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn call<T>(
        &mut self,
        call: Call,
        work: impl FnOnce(&dyn Target) -> Result<T, TargetError>,
    ) -> Result<T, RunError> {
        Ok(self.meter.time(call, work)?)
    }

    /// Removes a directory entry.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn delete(&mut self, path: &str) -> Result<(), RunError> {
        self.call(Call::Delete, |target| target.unlink(path))
    }

    /// Renames a file.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), RunError> {
        self.call(Call::Rename, |target| target.rename(old, new))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn make_directory(&mut self, path: &str) -> Result<(), RunError> {
        self.call(Call::MakeDirectory, |target| target.mkdir(path))
    }

    /// Removes a directory.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn remove_directory(&mut self, path: &str) -> Result<(), RunError> {
        self.call(Call::RemoveDirectory, |target| target.rmdir(path))
    }

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn fsync_directory(&mut self, path: &str) -> Result<(), RunError> {
        self.call(Call::DirectoryFsync, |target| target.fsync_directory(path))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn sync(&mut self) -> Result<(), RunError> {
        self.call(Call::Sync, |target| target.sync())
    }

    /// Returns the attributes of a path.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn stat(&mut self, path: &str) -> Result<Stat, RunError> {
        self.call(Call::Stat, |target| target.stat(path))
    }

    /// Returns the attributes of an open file.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn stat_open(&mut self, opened: &Opened) -> Result<Stat, RunError> {
        self.call(Call::Stat, |target| target.stat_open(&opened.file))
    }

    /// Returns the entries of a directory in the file system's order.
    ///
    /// # Errors
    /// Fails if the call fails.
    pub fn list(&mut self, path: &str) -> Result<Vec<DirectoryEntry>, RunError> {
        self.call(Call::List, |target| target.readdir(path))
    }
}

/// Returns the data to write: the contents in place, or an aligned copy for direct I/O.
fn outgoing<'d>(buffer: &'d mut AlignedBuffer, piece: &'d [u8], is_direct: bool) -> &'d [u8] {
    if !is_direct {
        return piece;
    }
    let copy = buffer.get(piece.len());
    copy.copy_from_slice(piece);
    copy
}

/// Returns the lengths of the blocks for `size` bytes; the last one may be smaller.
fn pieces(size: u64, block: usize) -> impl Iterator<Item = usize> {
    let starts = (0..size).step_by(block);
    starts.map(move |at| (size - at).min(block as u64) as usize)
}
