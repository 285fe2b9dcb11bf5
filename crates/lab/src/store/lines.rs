//! Reads a file of JSON lines on all processors.
//!
//! Each thread reads the lines that start in its share of the file, so that threads do not wait for
//! each other and the file is never in memory as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::StoreError;
use super::line::{self, Entry, Said};
use crate::record::Context;

/// Number of bytes that a thread reads at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Minimum bytes per thread; smaller files are not worth another thread.
const SHARE_BYTES_MIN: u64 = 4 << 20;

/// A value made from a trial's line and its context.
pub(super) trait Row: From<(Arc<Context>, Entry<Self::Measured>)> {
    /// The part of its figures that is read.
    type Measured: DeserializeOwned + Send;
}

/// The contents of a share of the file.
struct Share<M> {
    // Context names of its trials, with their indices; `contexts` has `None` for a context of an
    // earlier share.
    names: BTreeMap<String, u32>,
    contexts: Vec<Option<Arc<Context>>>,
    // Each entry has the index of its context.
    entries: Vec<(u32, Entry<M>)>,
}

/// Reads every trial of a file as a `T`, in order; none if there is no file. An incomplete last
/// line is ignored.
pub(super) fn read<T: Row>(path: &Path) -> Result<Vec<T>, StoreError> {
    let length = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(path, cause)),
    };
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let count = processors.min(length / SHARE_BYTES_MIN).max(1);
    let bounds: Vec<u64> = (0..=count).map(|part| length / count * part).collect();
    let ends = |part: usize| {
        let end = if part + 1 == count as usize {
            u64::MAX
        } else {
            bounds[part + 1]
        };
        (bounds[part], end)
    };
    let shares: Vec<Result<Share<T::Measured>, Wrong>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count as usize)
            .map(|part| {
                let (start, end) = ends(part);
                scope.spawn(move || read_share(path, start, end))
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let mut known: BTreeMap<String, Arc<Context>> = BTreeMap::new();
    let mut all = Vec::new();
    for share in shares {
        let mut share = share.map_err(|wrong| wrong.locate(path))?;
        share.resolve(&mut known).map_err(|name| {
            let path = path.to_owned();
            StoreError::NoContext { path, name }
        })?;
        let contexts: Vec<Arc<Context>> = share.contexts.into_iter().flatten().collect();
        let context = |index: u32| Arc::clone(&contexts[index as usize]);
        let entries = share.entries.into_iter();
        all.extend(entries.map(|(index, entry)| T::from((context(index), entry))));
    }
    Ok(all)
}

impl<M> Share<M> {
    fn new() -> Self {
        Self {
            names: BTreeMap::new(),
            contexts: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Returns the index of a name, adding it if it is new.
    fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.names.get(name) {
            return *index;
        }
        let index = self.contexts.len() as u32;
        self.contexts.push(None);
        self.names.insert(name.to_owned(), index);
        index
    }

    fn add(&mut self, said: Said<'_, M>) {
        match said {
            Said::Context(name, context) => {
                let index = self.index(name) as usize;
                self.contexts[index] = Some(Arc::new(context));
            }
            Said::Trial(name, entry) => {
                let index = self.index(name);
                self.entries.push((index, entry));
            }
            Said::Whole(context, entry) => {
                // Contexts of the older format have no names. The previous line often has another
                // context, because combinations run in parallel.
                let same = |own: &Option<Arc<Context>>| own.as_deref() == Some(&context);
                let index = match self.contexts.iter().rposition(same) {
                    Some(index) => index,
                    None => {
                        self.contexts.push(Some(Arc::new(context)));
                        self.contexts.len() - 1
                    }
                };
                self.entries.push((index as u32, entry));
            }
        }
    }

    /// Fills in contexts of earlier shares, and adds its own to the known ones.
    ///
    /// # Errors
    /// Fails with the name of a context that no share has.
    fn resolve(&mut self, known: &mut BTreeMap<String, Arc<Context>>) -> Result<(), String> {
        for (name, index) in &self.names {
            let own = &mut self.contexts[*index as usize];
            match own {
                Some(context) => {
                    known.insert(name.clone(), Arc::clone(context));
                }
                None => *own = Some(known.get(name).ok_or(name)?.clone()),
            }
        }
        Ok(())
    }
}

/// An error in reading a share.
enum Wrong {
    Io(io::Error),
    Line {
        offset: u64,
        cause: serde_json::Error,
    },
}

/// Reads the lines that start at or after `start` and before `end`.
fn read_share<M: DeserializeOwned>(path: &Path, start: u64, end: u64) -> Result<Share<M>, Wrong> {
    let mut file = File::open(path).map_err(Wrong::Io)?;
    let before = start.saturating_sub(1);
    file.seek(SeekFrom::Start(before)).map_err(Wrong::Io)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut offset = before;
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| -> Result<u64, Wrong> {
        line.clear();
        let count = reader.read_until(b'\n', line).map_err(Wrong::Io)?;
        Ok(count as u64)
    };
    if start > 0 {
        // The line with the byte before the share starts in an earlier share.
        offset += next(&mut line)?;
    }
    let mut share = Share::new();
    while offset < end {
        let count = next(&mut line)?;
        if count == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        if !line.trim_ascii().is_empty() {
            match line::parse(line.trim_ascii_end()) {
                Ok(said) => share.add(said),
                Err(cause) if is_whole => return Err(Wrong::Line { offset, cause }),
                Err(_) => {}
            }
        }
        offset += count;
    }
    Ok(share)
}

impl Wrong {
    /// Adds the line number to the error, which requires another pass over the file.
    fn locate(self, path: &Path) -> StoreError {
        let (offset, cause) = match self {
            Self::Io(cause) => return failed(path, cause),
            Self::Line { offset, cause } => (offset, cause),
        };
        let count = File::open(path).and_then(|file| {
            let mut newlines = 0;
            for byte in BufReader::with_capacity(BUFFER_BYTES, file.take(offset)).bytes() {
                newlines += usize::from(byte? == b'\n');
            }
            Ok(newlines)
        });
        match count {
            Ok(before) => StoreError::Line {
                path: path.to_owned(),
                line: before + 1,
                cause,
            },
            Err(cause) => failed(path, cause),
        }
    }
}

fn failed(path: &Path, cause: io::Error) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::record::{Measured, Record};
    use crate::store::Lines;

    #[test]
    fn shares_meet_without_losing_or_doubling_a_line() {
        let text = "[plan]\nname = \"p\"\nquestion = \"?\"\nrepetitions = 3\n[fixed]\n\
                    device = \"sim:atlas-v-18\"\n[factors]\nfs.commit = [1, 5]\n";
        let plan = Plan::parse("p.toml", text).expect("the plan is right");
        let mut lines = Lines::default();
        let mut text = String::new();
        for (started, trial) in (0..).zip(plan.trials()) {
            let record = Record::new(&plan, &trial, started, 0.0, Measured::default());
            text.push_str(&lines.of(&record).expect("it is JSON"));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        std::fs::write(&path, &text).expect("it is written");
        for cut in 0..=text.len() as u64 {
            let part = |start, end| match read_share::<Measured>(&path, start, end) {
                Ok(share) => share,
                Err(_) => panic!("the lines are right"),
            };
            let (mut known, mut started) = (BTreeMap::new(), Vec::new());
            for mut share in [part(0, cut), part(cut, u64::MAX)] {
                assert_eq!(share.resolve(&mut known), Ok(()), "cut at {cut}");
                started.extend(share.entries.iter().map(|(_, entry)| entry.started));
            }
            assert_eq!(started, [0, 1, 2, 3, 4, 5], "cut at {cut}");
        }
    }
}
