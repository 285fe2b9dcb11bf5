//! Reading a file of JSON lines on all processors.
//!
//! Each thread takes the lines that begin in its share of the file, so that no thread waits for another and the file is
//! never in memory as a whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::DeserializeOwned;

use super::StoreError;

/// What a thread reads at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Smaller files are not worth a second thread.
const SHARE_BYTES_MIN: u64 = 4 << 20;

/// Every line of a file as a `T`, in order; none if there is no file. A last line without its end may be anything.
pub(super) fn read<T: DeserializeOwned + Send>(path: &Path) -> Result<Vec<T>, StoreError> {
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
    let parts: Vec<Result<Vec<T>, Wrong>> = std::thread::scope(|scope| {
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
    let mut all = Vec::new();
    for part in parts {
        all.append(&mut part.map_err(|wrong| wrong.locate(path))?);
    }
    Ok(all)
}

/// Why a share could not be read.
enum Wrong {
    Io(io::Error),
    Line {
        offset: u64,
        cause: serde_json::Error,
    },
}

/// The lines that begin from `start` on and before `end`.
fn read_share<T: DeserializeOwned>(path: &Path, start: u64, end: u64) -> Result<Vec<T>, Wrong> {
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
        // Whatever holds the byte before the share begins in an earlier one.
        offset += next(&mut line)?;
    }
    let mut all = Vec::new();
    while offset < end {
        let count = next(&mut line)?;
        if count == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        if !line.trim_ascii().is_empty() {
            match serde_json::from_slice(&line) {
                Ok(value) => all.push(value),
                Err(cause) if is_whole => return Err(Wrong::Line { offset, cause }),
                Err(_) => {}
            }
        }
        offset += count;
    }
    Ok(all)
}

impl Wrong {
    /// The error with the number of its line, which only a second look at the file tells.
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

    #[test]
    fn shares_meet_without_losing_or_doubling_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        let texts: Vec<String> = (0..40).map(|number| "x".repeat(number % 7)).collect();
        let lines: Vec<String> = texts.iter().map(|text| format!("{text:?}\n")).collect();
        let text = lines.concat();
        std::fs::write(&path, &text).expect("it is written");
        for cut in 0..=text.len() as u64 {
            let part = |start, end| match read_share::<String>(&path, start, end) {
                Ok(lines) => lines,
                Err(_) => panic!("the lines are right"),
            };
            let both = [part(0, cut), part(cut, u64::MAX)].concat();
            assert_eq!(both, texts, "cut at {cut}");
        }
    }
}
