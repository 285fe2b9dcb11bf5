//! A range of a file, read without moving the file's own position, so that several readers may use
//! one open file; and the temporary files that hold what cannot be read twice.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::{Stop, scratch};

/// Path that stands for standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// A range of a file.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) file: Arc<File>,
    /// Start of the range in bytes.
    pub(crate) offset: u64,
    /// Maximum length in bytes; the end of the file may come sooner.
    pub(crate) length: u64,
    /// Ends reads, which fail then.
    stop: Stop,
}

impl Section {
    /// Opens a file that can be read any number of times. What comes through a pipe, as standard
    /// input, is copied to a temporary file first.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new(STANDARD_INPUT) {
            let spooled = spool(&mut io::stdin().lock());
            return spooled.map(Self::of).context("standard input");
        }
        let context = || path.display().to_string();
        let mut file = File::open(path).with_context(context)?;
        let kind = file.metadata().with_context(context)?.file_type();
        if std::os::unix::fs::FileTypeExt::is_fifo(&kind) {
            file = spool(&mut file).with_context(context)?;
        }
        Ok(Self::of(file))
    }

    /// Returns all of a file.
    pub(crate) fn of(file: File) -> Self {
        Self {
            file: Arc::new(file),
            offset: 0,
            length: u64::MAX,
            stop: Stop::default(),
        }
    }

    /// Returns the same range, whose reads fail after `stop`.
    pub(crate) fn until(self, stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// Returns a part of this range.
    pub(crate) fn part(&self, offset: u64, length: u64) -> Self {
        Self {
            file: Arc::clone(&self.file),
            offset: self.offset + offset,
            length: length.min(self.length.saturating_sub(offset)),
            stop: self.stop.clone(),
        }
    }

    /// Returns a reader from the start of the range.
    pub(crate) fn reader(&self) -> SectionReader {
        SectionReader {
            section: self.clone(),
            position: 0,
        }
    }
}

/// A reader of a range of a file.
pub(crate) struct SectionReader {
    section: Section,
    /// Offset of the next byte within the range.
    pub(crate) position: u64,
}

impl Read for SectionReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let section = &self.section;
        section.stop.check().map_err(io::Error::other)?;
        let left = section.length.saturating_sub(self.position);
        let wanted = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        let at = section.offset.checked_add(self.position);
        let at = at.ok_or(io::ErrorKind::UnexpectedEof)?;
        let count = section.file.read_at(&mut into[..wanted], at)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// Copies a stream to a temporary file without a name, which is deleted when it is closed.
pub(crate) fn spool(from: &mut dyn Read) -> Result<File> {
    let mut file = scratch::file()?;
    io::copy(from, &mut file).with_context(scratch::folder)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_stopped() {
        let mut from: &[u8] = b"text";
        let stop = Stop::default();
        let section = Section::of(spool(&mut from).expect("there is room")).until(&stop);
        let mut reader = section.part(1, 3).reader();
        reader.read_exact(&mut [0]).expect("it is there");
        stop.request();
        let error = reader.read(&mut [0]).expect_err("it is stopped");
        assert_eq!(error.to_string(), "the call was interrupted");
    }
}
