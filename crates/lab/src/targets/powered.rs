//! [`Powered`]: a target that keeps a ledger until its power is cut.

use std::sync::Arc;

use rt::{Mutex, Nanos, WallTime};
use workload::{
    DirectoryEntry, ErrorKind, Extent, InodeFlags, OpenFile, OpenFlags, Operation, Space, Stat,
    Target, TargetError,
};

use crate::ledger::{FileNumber, Ledger, Write};

/// A target whose calls are kept in a ledger, and which may limit the rate of writes. After the cut
/// every call fails, and calls that were under way then fail, too: what they did is not in the
/// ledger.
pub(crate) struct Powered {
    target: Arc<dyn Target>,
    /// Number of bytes per second that may be written; zero for no limit.
    write_rate: u64,
    // [leaf]
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    cut: Option<Nanos>,
    calls: u64,
    /// Time at which the next write may start.
    next_write: Nanos,
}

/// An open file of this target.
struct PoweredFile {
    inner: OpenFile,
    path: String,
    number: FileNumber,
    position: u64,
    is_append: bool,
    is_synchronous: bool,
}

impl Powered {
    pub(crate) fn new(target: Arc<dyn Target>, write_rate: u64) -> Self {
        Self {
            target,
            write_rate,
            state: Mutex::default(),
        }
    }

    /// Cuts the power: no later call succeeds.
    pub(crate) fn cut(&self) {
        let now = rt::monotonic();
        self.state.lock().cut = Some(now);
    }

    /// Returns the instant of the cut.
    pub(crate) fn cut_at(&self) -> Option<Nanos> {
        self.state.lock().cut
    }

    /// Returns the number of calls that have returned before the cut.
    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Returns the ledger, and starts a new one.
    pub(crate) fn take_ledger(&self) -> Ledger {
        core::mem::take(&mut self.state.lock().ledger)
    }

    /// Runs a call. `before` and `after` see the ledger, unless the power is cut by then; the
    /// result of the first is passed to the second.
    fn call<B, T>(
        &self,
        (operation, path): (Operation, &str),
        before: impl FnOnce(&mut Ledger) -> B,
        call: impl FnOnce() -> Result<T, TargetError>,
        after: impl FnOnce(&mut Ledger, B, Option<&T>),
    ) -> Result<T, TargetError> {
        let gone = || TargetError::new(operation, path, ErrorKind::Gone, "the power is cut");
        let mut state = self.state.lock();
        if state.cut.is_some() {
            return Err(gone());
        }
        let known = before(&mut state.ledger);
        drop(state);
        let result = call();
        let mut state = self.state.lock();
        if state.cut.is_some() {
            return Err(gone());
        }
        state.calls += 1;
        after(&mut state.ledger, known, result.as_ref().ok());
        result
    }

    /// Runs a call that changes nothing.
    fn question<T>(
        &self,
        operation: Operation,
        path: &str,
        call: impl FnOnce() -> Result<T, TargetError>,
    ) -> Result<T, TargetError> {
        self.call((operation, path), |_| {}, call, |_, (), _| {})
    }

    /// Runs a call that changes the files with these names; `after` is for one that succeeds.
    fn change(
        &self,
        operation: Operation,
        paths: [&str; 2],
        call: impl FnOnce() -> Result<(), TargetError>,
        after: impl FnOnce(&mut Ledger),
    ) -> Result<(), TargetError> {
        let before = |ledger: &mut Ledger| {
            let files = paths.map(|path| ledger.file(path));
            files.iter().for_each(|file| ledger.doubt(*file));
            files
        };
        self.call(
            (operation, paths[0]),
            before,
            call,
            |ledger, files, done| {
                files.iter().for_each(|file| ledger.settle(*file));
                if done.is_some() {
                    after(ledger);
                }
            },
        )
    }

    /// Waits until a write of some bytes may start: writes take turns, each as long as its bytes
    /// take at the rate.
    fn wait_for_turn(&self, bytes: usize) {
        if self.write_rate == 0 {
            return;
        }
        let now = rt::monotonic();
        let time = bytes as u128 * 1_000_000_000 / u128::from(self.write_rate);
        let mut state = self.state.lock();
        let start = state.next_write.max(now);
        state.next_write = start + Nanos::new(u64::try_from(time).unwrap_or(u64::MAX));
        drop(state);
        if start > now {
            rt::sleep_until(start);
        }
    }

    /// Runs a write at an offset, or at the end. Returns the number of bytes and their end.
    fn writes(
        &self,
        file: &PoweredFile,
        operation: Operation,
        offset: Option<u64>,
        data: &[u8],
        call: impl FnOnce() -> Result<usize, TargetError>,
    ) -> Result<(usize, u64), TargetError> {
        self.wait_for_turn(data.len());
        let number = file.number;
        let mut end = 0;
        let before = |ledger: &mut Ledger| ledger.doubt(Some(number));
        let after = |ledger: &mut Ledger, (), done: Option<&usize>| {
            ledger.settle(Some(number));
            let count = done.copied().unwrap_or(0);
            let at = offset.unwrap_or_else(|| ledger.size(number));
            end = at + count as u64;
            let write = Write {
                offset: at,
                data: &data[..count],
                at: rt::glance(),
                is_synchronous: file.is_synchronous,
            };
            ledger.wrote(number, &write);
        };
        let count = self.call((operation, &file.path), before, call, after)?;
        Ok((count, end))
    }

    /// Runs a call that syncs a file.
    fn syncs(
        &self,
        file: &PoweredFile,
        operation: Operation,
        call: impl FnOnce() -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        let before = |_: &mut Ledger| rt::glance();
        self.call(
            (operation, &file.path),
            before,
            call,
            |ledger, began, done| {
                if done.is_some() {
                    ledger.synced(file.number, began);
                }
            },
        )
    }
}

impl PoweredFile {
    fn of(file: &OpenFile, operation: Operation) -> Result<&Self, TargetError> {
        file.get()
            .ok_or_else(|| TargetError::foreign_file(operation))
    }

    fn of_mut(file: &mut OpenFile, operation: Operation) -> Result<&mut Self, TargetError> {
        file.get_mut()
            .ok_or_else(|| TargetError::foreign_file(operation))
    }
}

impl Target for Powered {
    fn name(&self) -> String {
        self.target.name()
    }

    fn keeps_contents(&self) -> bool {
        self.target.keeps_contents()
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        let before = |ledger: &mut Ledger| {
            if flags.create {
                ledger.may_appear(path);
            }
            let truncated = ledger.file(path).filter(|_| flags.truncate);
            ledger.doubt(truncated);
            truncated
        };
        let mut number = None;
        let after = |ledger: &mut Ledger, truncated, done: Option<&OpenFile>| {
            ledger.settle(truncated);
            if done.is_some() {
                let file = ledger.opened(path);
                if flags.truncate {
                    ledger.resized(file, 0);
                }
                number = Some(file);
            }
        };
        let call = || self.target.open(path, flags);
        let inner = self.call((Operation::Open, path), before, call, after)?;
        let Some(number) = number else {
            return Ok(inner);
        };
        Ok(OpenFile::new(PoweredFile {
            inner,
            path: path.to_owned(),
            number,
            position: 0,
            is_append: flags.append,
            is_synchronous: flags.sync || flags.data_sync,
        }))
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        let file = file.into_inner::<PoweredFile>();
        let file = file.ok_or_else(|| TargetError::foreign_file(Operation::Close))?;
        // Also after the cut: the target's own state must not leak.
        let closed = self.target.close(file.inner);
        self.question(Operation::Close, &file.path, || closed)
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        let file = PoweredFile::of_mut(file, Operation::Read)?;
        let call = || self.target.read(&mut file.inner, buffer);
        let count = self.question(Operation::Read, &file.path, call)?;
        file.position += count as u64;
        Ok(count)
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        let operation = Operation::Write;
        let file = PoweredFile::of_mut(file, operation)?;
        let mut inner = core::mem::replace(&mut file.inner, OpenFile::new(()));
        let offset = (!file.is_append).then_some(file.position);
        let call = || self.target.write(&mut inner, data);
        let written = self.writes(file, operation, offset, data, call);
        file.inner = inner;
        let (count, end) = written?;
        file.position = end;
        Ok(count)
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        let file = PoweredFile::of_mut(file, Operation::Seek)?;
        self.target.seek(&mut file.inner, offset)?;
        file.position = offset;
        Ok(())
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        let file = PoweredFile::of(file, Operation::Pread)?;
        let call = || self.target.pread(&file.inner, buffer, offset);
        self.question(Operation::Pread, &file.path, call)
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        let operation = Operation::Pwrite;
        let file = PoweredFile::of(file, operation)?;
        let call = || self.target.pwrite(&file.inner, data, offset);
        let written = self.writes(file, operation, Some(offset), data, call);
        written.map(|(count, _)| count)
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        let file = PoweredFile::of(file, Operation::Fsync)?;
        self.syncs(file, Operation::Fsync, || self.target.fsync(&file.inner))
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        let operation = Operation::Fdatasync;
        let file = PoweredFile::of(file, operation)?;
        self.syncs(file, operation, || self.target.fdatasync(&file.inner))
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        let call = || self.target.fsync_directory(path);
        self.question(Operation::FsyncDirectory, path, call)
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        let call = || self.target.truncate(path, size);
        self.change(Operation::Truncate, [path, ""], call, |ledger| {
            if let Some(file) = ledger.file(path) {
                ledger.resized(file, size);
            }
        })
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        let call = || self.target.unlink(path);
        let after = |ledger: &mut Ledger| ledger.unlinked(path);
        self.change(Operation::Unlink, [path, ""], call, after)
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        let call = || self.target.mkdir(path);
        let before = |ledger: &mut Ledger| ledger.may_appear(path);
        self.call((Operation::Mkdir, path), before, call, |_, (), _| {})
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        self.question(Operation::Rmdir, path, || self.target.rmdir(path))
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        let operation = Operation::Rename;
        let before = |ledger: &mut Ledger| ledger.may_be_renamed(old, new);
        let call = || self.target.rename(old, new);
        self.call((operation, old), before, call, |ledger, files, done| {
            files.iter().for_each(|file| ledger.settle(Some(*file)));
            if done.is_some() {
                ledger.renamed(old, new);
            }
        })
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        let before = |ledger: &mut Ledger| ledger.may_appear(new);
        let call = || self.target.link(existing, new);
        self.call((Operation::Link, new), before, call, |ledger, (), done| {
            if done.is_some() {
                ledger.linked(existing, new);
            }
        })
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        let call = || self.target.symlink(contents, path);
        let before = |ledger: &mut Ledger| ledger.may_appear(path);
        self.call((Operation::Symlink, path), before, call, |_, (), _| {})
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        let call = || self.target.read_link(path);
        self.question(Operation::ReadLink, path, call)
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        self.question(Operation::Stat, path, || self.target.stat(path))
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        let file = PoweredFile::of(file, Operation::StatOpen)?;
        let call = || self.target.stat_open(&file.inner);
        self.question(Operation::StatOpen, &file.path, call)
    }

    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError> {
        let call = || self.target.set_times(path, accessed, modified);
        self.question(Operation::SetTimes, path, call)
    }

    fn space(&self) -> Result<Space, TargetError> {
        self.question(Operation::Space, "", || self.target.space())
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        self.question(Operation::Readdir, path, || self.target.readdir(path))
    }

    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError> {
        let call = || self.target.set_flags(path, flags);
        self.question(Operation::SetFlags, path, call)
    }

    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        self.target.extents(path)
    }

    fn sync(&self) -> Result<(), TargetError> {
        let before = |_: &mut Ledger| rt::glance();
        let call = || self.target.sync();
        self.call(
            (Operation::Sync, ""),
            before,
            call,
            |ledger, began, done| {
                if done.is_some() {
                    ledger.synced_all(began);
                }
            },
        )
    }
}
