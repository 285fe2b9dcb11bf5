//! One client of dbench: replays the load in its own directories until the time is over.

use std::collections::BTreeMap;
use std::sync::Arc;

use rt::{Nanos, WallTime};

use super::load::{Disposition, Load, Request, Transfer};
use super::{FOLDER, Parameters};
use crate::client::{Client as Hands, Opened};
use crate::contents;
use crate::error::ErrorKind;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::{OpenFlags, Stat};
use crate::tree;

/// Name of the client in a recorded load.
const RECORDED_NAME: &str = "client1";
/// Age in seconds of the times that are set on a file: access, and modification.
const ACCESSED_AGO: i64 = 10;
const MODIFIED_AGO: i64 = 12;

/// A client.
pub(super) struct Client {
    pub(super) hands: Hands,
    /// Payload bytes within the measured time.
    pub(super) bytes: u64,
    /// Requests within the measured time.
    pub(super) requests: u64,
    /// Completion time of its last request.
    pub(super) ended: Nanos,
    parameters: Parameters,
    load: Arc<Load>,
    index: u32,
    // Replacement for RECORDED_NAME.
    name: String,
    counted_from: Nanos,
    end: Nanos,
    // Keyed by handle.
    open: BTreeMap<u64, File>,
    // Keyed by path.
    names: BTreeMap<String, Known>,
    made: u64,
}

/// An open file.
struct File {
    opened: Opened,
    path: String,
}

/// Result of looking up a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The name was not looked up.
    Unknown,
    /// The name exists.
    Here,
    /// The name does not exist.
    Nowhere,
}

/// Known contents of a file that this client created.
#[derive(Clone, Copy)]
struct Known {
    key: u64,
    // Length of the written prefix without holes, in bytes.
    bytes: u64,
}

impl Client {
    pub(super) fn new(
        parameters: &Parameters,
        load: &Arc<Load>,
        index: u32,
        hands: Hands,
        (counted_from, end): (Nanos, Nanos),
    ) -> Self {
        Self {
            hands,
            bytes: 0,
            requests: 0,
            ended: end,
            parameters: parameters.clone(),
            load: Arc::clone(load),
            index,
            name: format!("client{}", index + 1),
            counted_from,
            end,
            open: BTreeMap::new(),
            names: BTreeMap::new(),
            made: 0,
        }
    }

    /// Replays the load until the time is over.
    pub(super) fn work(&mut self) -> Result<(), RunError> {
        let mut result = Ok(true);
        while matches!(result, Ok(true)) {
            result = self.pass();
            for (_, file) in std::mem::take(&mut self.open) {
                let closed = self.hands.close(file.opened);
                result = result.and_then(|goes_on| closed.map(|()| goes_on));
            }
        }
        self.hands.advance(1);
        result.map(drop)
    }

    /// Replays the load once. Returns true if there is time for another pass.
    fn pass(&mut self) -> Result<bool, RunError> {
        let load = Arc::clone(&self.load);
        let began = rt::monotonic();
        for step in load.steps() {
            if step.not_before > Nanos::ZERO {
                self.wait_until(began + step.not_before);
            }
            if rt::monotonic() >= self.end || !self.hands.goes_on()? {
                return Ok(false);
            }
            let bytes = self.request(&step.request)?;
            let now = rt::monotonic();
            if now >= self.counted_from {
                self.bytes += bytes;
                self.requests += 1;
                self.ended = now;
            }
        }
        Ok(true)
    }

    /// Executes a request and returns the bytes of its payload.
    fn request(&mut self, request: &Request) -> Result<u64, RunError> {
        match request {
            Request::Create {
                path,
                is_directory: true,
                ..
            }
            | Request::MakeDirectory(path) => {
                let (path, _) = self.find(path)?;
                self.make_directory(&path)?;
            }
            Request::Create {
                path,
                disposition,
                handle,
                ..
            } => {
                let (path, _) = self.find(path)?;
                self.create(path, *disposition, *handle)?;
            }
            Request::Close(handle) => {
                // A load opens directories too, but they have no handle here.
                if let Some(file) = self.open.remove(handle) {
                    self.hands.close(file.opened)?;
                }
            }
            Request::Flush(handle) => {
                if let Some(file) = self.open.get(handle) {
                    self.hands.fsync(&file.opened)?;
                }
            }
            Request::Read(transfer) => return self.read(*transfer),
            Request::Write(transfer) => return self.write(*transfer),
            Request::Rename(old, new) => {
                let ((old, _), (new, _)) = (self.find(old)?, self.find(new)?);
                self.rename(&old, &new)?;
            }
            Request::Unlink(path) => {
                let (path, _) = self.find(path)?;
                self.hands.delete(&path)?;
                self.names.remove(&path);
                self.sync_parent(&path)?;
            }
            Request::RemoveTree(path) => self.remove_tree(&self.own(path))?,
            Request::RemoveDirectory(path) => {
                let (path, _) = self.find(path)?;
                self.hands.remove_directory(&path)?;
                self.sync_parent(&path)?;
            }
            Request::Stat(path) => self.look(path)?,
            Request::StatMissing(path) => self.look_for_missing(path)?,
            Request::OpenMissing(path) => self.open_missing(path)?,
            Request::StatOpen(handle) => {
                if let Some(file) = self.open.get(handle) {
                    self.hands.stat_open(&file.opened)?;
                }
            }
            Request::SetTimes(handle) => self.set_times(*handle)?,
            Request::List(pattern) => self.list(pattern)?,
            Request::Space => drop(self.hands.call(Call::Stat, |target| target.space())?),
            Request::Sleep(span) => self.wait_until(rt::monotonic() + *span),
            Request::Nothing => {}
        }
        Ok(0)
    }

    /// Waits until `moment`, at most until the end.
    fn wait_until(&self, moment: Nanos) {
        rt::sleep_until(moment.min(self.end));
    }

    /// Returns the path of a name, and whether it exists. The clients of the recorded server were
    /// case-insensitive, so a missing name is searched for in its directory.
    fn find(&mut self, name: &str) -> Result<(String, Found), RunError> {
        let path = self.own(name);
        if !self.parameters.resolve {
            return Ok((path, Found::Unknown));
        }
        if is_there(self.hands.stat(&path))? {
            return Ok((path, Found::Here));
        }
        let Some((parent, last)) = path.rsplit_once('/') else {
            return Ok((path, Found::Nowhere));
        };
        let entries = match self.hands.list(parent) {
            Err(RunError::Target(error)) if error.kind == ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let like = |name: &str| name.eq_ignore_ascii_case(last);
        let other = entries.into_iter().find(|entry| like(&entry.name));
        Ok(match other {
            Some(entry) => (format!("{parent}/{}", entry.name), Found::Here),
            None => (path, Found::Nowhere),
        })
    }

    /// Stats a name that must exist.
    fn look(&mut self, name: &str) -> Result<(), RunError> {
        match self.find(name)? {
            (_, Found::Here) => Ok(()),
            // The file system must report the missing name.
            (path, Found::Unknown | Found::Nowhere) => self.hands.stat(&path).map(drop),
        }
    }

    /// Stats a name that must not exist.
    fn look_for_missing(&mut self, name: &str) -> Result<(), RunError> {
        let (path, found) = self.find(name)?;
        let is_there = match found {
            Found::Unknown => is_there(self.hands.stat(&path))?,
            Found::Here => true,
            Found::Nowhere => false,
        };
        if is_there {
            Err(unexpected(path))
        } else {
            Ok(())
        }
    }

    /// Opens a file that must not exist.
    fn open_missing(&mut self, name: &str) -> Result<(), RunError> {
        let (path, _) = self.find(name)?;
        match self.hands.open(path.as_str(), OpenFlags::READ_WRITE, 0) {
            Err(RunError::Target(error)) if error.kind == ErrorKind::NotFound => Ok(()),
            Err(RunError::Target(error)) if error.kind == ErrorKind::IsDirectory => {
                Err(unexpected(path))
            }
            Err(error) => Err(error),
            Ok(opened) => {
                self.hands.close(opened)?;
                Err(unexpected(path))
            }
        }
    }

    /// Lists the directory of a pattern. The pattern itself is looked up first, like any name.
    fn list(&mut self, pattern: &str) -> Result<(), RunError> {
        let (pattern, _) = self.find(pattern)?;
        let directory = pattern.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.hands.list(directory).map(drop)
    }

    /// Sets the times of an open file to shortly before now.
    fn set_times(&mut self, handle: u64) -> Result<(), RunError> {
        let Some(file) = self.open.get(&handle) else {
            return Ok(());
        };
        self.hands.stat_open(&file.opened)?;
        let now = rt::wall();
        let before = |seconds| WallTime {
            seconds: now.seconds - seconds,
            nanos: 0,
        };
        self.hands.call(Call::SetTimes, |target| {
            target.set_times(&file.path, before(ACCESSED_AGO), before(MODIFIED_AGO))
        })
    }

    /// Returns the path of a load's name for this client.
    fn own(&self, path: &str) -> String {
        let mut own = FOLDER.to_owned();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            own.push('/');
            match part {
                RECORDED_NAME => own.push_str(&self.name),
                other => own.push_str(other),
            }
        }
        own
    }

    /// Creates a directory unless it exists.
    fn make_directory(&mut self, path: &str) -> Result<(), RunError> {
        match self.hands.make_directory(path) {
            Err(RunError::Target(error)) if error.kind == ErrorKind::Exists => Ok(()),
            other => other,
        }
    }

    fn create(
        &mut self,
        path: String,
        disposition: Disposition,
        handle: u64,
    ) -> Result<(), RunError> {
        let plain = match disposition {
            Disposition::Open => OpenFlags::READ_WRITE,
            Disposition::OpenOrCreate => OpenFlags::READ_WRITE.create(),
            Disposition::CreateOrTruncate => OpenFlags::READ_WRITE.create().truncate(),
        };
        let flags = OpenFlags {
            sync: self.parameters.sync,
            ..plain
        };
        let (made, index) = (self.made, u64::from(self.index));
        let known = self.names.entry(path.clone()).or_insert_with(|| Known {
            key: contents::key(index << 32 | made),
            bytes: 0,
        });
        if flags.truncate {
            known.bytes = 0;
        }
        self.made += 1;
        let key = known.key;
        match self.hands.open(path.as_str(), flags, key) {
            // The name is a directory; its handle is only used to close it.
            Err(RunError::Target(error)) if error.kind == ErrorKind::IsDirectory => Ok(()),
            Err(error) => Err(error),
            Ok(opened) => {
                let looked = self.hands.stat_open(&opened);
                if let Some(old) = self.open.insert(handle, File { opened, path }) {
                    self.hands.close(old.opened)?;
                }
                looked.map(drop)
            }
        }
    }

    fn read(&mut self, transfer: Transfer) -> Result<u64, RunError> {
        let Transfer {
            handle,
            offset,
            length,
        } = transfer;
        let file = self.open.get(&handle).ok_or_else(|| not_open(handle))?;
        let known = self.names.get(&file.path);
        let end = offset + length as u64;
        if known.is_some_and(|known| known.key == file.opened.key && end <= known.bytes) {
            self.hands.pread(&file.opened, offset, length)?;
            return Ok(length as u64);
        }
        let mut buffer = vec![0; length];
        let opened = file.opened.file();
        let read = self.hands.call(Call::Read, |target| {
            target.pread(opened, &mut buffer, offset)
        });
        read.map(|count| count as u64)
    }

    fn write(&mut self, transfer: Transfer) -> Result<u64, RunError> {
        let Transfer {
            handle,
            offset,
            length,
        } = transfer;
        let file = self.open.get(&handle).ok_or_else(|| not_open(handle))?;
        self.hands.pwrite(&file.opened, offset, length)?;
        if self.parameters.fsync {
            self.hands.fsync(&file.opened)?;
        }
        if let Some(known) = self.names.get_mut(&file.path)
            && offset <= known.bytes
        {
            known.bytes = known.bytes.max(offset + length as u64);
        }
        Ok(length as u64)
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), RunError> {
        self.hands.rename(old, new)?;
        self.names.remove(new);
        if let Some(known) = self.names.remove(old) {
            self.names.insert(new.to_owned(), known);
        }
        self.sync_parent(new)
    }

    /// Removes a tree. It is not measured, because it only starts and ends a load.
    fn remove_tree(&mut self, path: &str) -> Result<(), RunError> {
        let below = format!("{path}/");
        self.names.retain(|name, _| !name.starts_with(&below));
        let target = Arc::clone(self.hands.meter.target());
        match tree::remove(&*target, path) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => Ok(other?),
        }
    }

    fn sync_parent(&mut self, path: &str) -> Result<(), RunError> {
        match path.rsplit_once('/') {
            Some((parent, _)) if self.parameters.sync_directories => {
                self.hands.fsync_directory(parent)
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if a name exists, given the result of its stat.
fn is_there(looked: Result<Stat, RunError>) -> Result<bool, RunError> {
    match looked {
        Ok(_) => Ok(true),
        Err(RunError::Target(error)) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the error for a name that the recorded server did not have.
fn unexpected(path: String) -> RunError {
    RunError::WrongTree {
        path,
        fact: "exists, but did not when the load was recorded".to_owned(),
    }
}

/// Returns the error for a request on a file that the load has not opened.
fn not_open(handle: u64) -> RunError {
    RunError::WrongTree {
        path: FOLDER.to_owned(),
        fact: format!("the load uses handle {handle}, which is not open"),
    }
}
