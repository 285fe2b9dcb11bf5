//! [`Loss`]: the difference between a ledger and the files that are there after a power cut.

use std::collections::BTreeMap;

use rt::Nanos;
use workload::{ErrorKind, OpenFlags, Target, TargetError};

use super::{File, FileNumber, Ledger, Piece, digest};

/// Files and bytes that are not as the calls of a workload left them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loss {
    /// Number of files that were judged.
    pub files: u64,
    /// Number of files that are gone, or of which at least one byte is.
    pub lost_files: u64,
    /// Number of those that are there, but not whole.
    pub torn_files: u64,
    /// Bytes that are not there: neither are those that are [`wrong`](Self::wrong_bytes).
    pub lost_bytes: u64,
    /// Bytes within the size of a file that are not what was written there.
    pub wrong_bytes: u64,
    /// Of those, bytes in pieces of zeroes.
    pub zero_bytes: u64,
    /// Of those, bytes in pieces that were overwritten: an earlier state of the file.
    pub old_bytes: u64,
    /// Lost bytes that a sync call had promised.
    pub synced_lost_bytes: u64,
    /// Age of the oldest lost byte at the cut.
    pub age_max: Nanos,
    /// Number of removed names that are there again.
    pub returned_files: u64,
    /// Bytes written in the last seconds before the cut, and lost bytes of those: for each of
    /// [`Self::AGES`].
    pub recent: [Recent; Loss::AGES.len()],
}

/// Bytes written within some time before the cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recent {
    /// Bytes written and not overwritten or removed since.
    pub written: u64,
    /// Of those, bytes that are not there.
    pub lost: u64,
}

/// The state of a piece after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole,
    Missing,
    Zero,
    Old,
    Other,
}

impl Loss {
    /// Times before the cut over which writes are counted: a second, the interval of commits, and
    /// the age at which dirty data are written back.
    pub const AGES: [Nanos; 3] = [
        Nanos::from_secs(1),
        Nanos::from_secs(5),
        Nanos::from_secs(30),
    ];

    /// Returns the wrong bytes that are neither zeroes nor an earlier state of the file: what
    /// something else has left there.
    #[must_use]
    pub fn foreign_bytes(&self) -> u64 {
        self.wrong_bytes - self.zero_bytes - self.old_bytes
    }

    fn add(&mut self, piece: &Piece, found: Found, cut: Nanos, synced: Option<Nanos>) {
        let age = cut.saturating_sub(piece.written);
        let is_lost = found != Found::Whole;
        for (recent, limit) in self.recent.iter_mut().zip(Self::AGES) {
            if age <= limit {
                recent.written += piece.length;
                recent.lost += if is_lost { piece.length } else { 0 };
            }
        }
        if !is_lost {
            return;
        }
        self.lost_bytes += piece.length;
        self.age_max = self.age_max.max(age);
        let is_synced = synced.is_some_and(|began| piece.written <= began);
        if is_synced || piece.is_synchronous {
            self.synced_lost_bytes += piece.length;
        }
        if found != Found::Missing {
            self.wrong_bytes += piece.length;
        }
        match found {
            Found::Zero => self.zero_bytes += piece.length,
            Found::Old => self.old_bytes += piece.length,
            Found::Whole | Found::Missing | Found::Other => {}
        }
    }
}

impl Ledger {
    /// Compares the ledger with the files of a target, after a cut at an instant.
    ///
    /// # Errors
    /// Fails if the target fails, except with an error about a file: that file is lost.
    pub fn judge(&self, target: &dyn Target, cut: Nanos) -> Result<Loss, TargetError> {
        let mut loss = Loss::default();
        for (number, names) in self.by_file() {
            let Some(file) = self.files.get(&number).filter(|file| file.doubts == 0) else {
                continue;
            };
            self.judge_file(target, &names, file, cut, &mut loss)?;
        }
        for name in &self.removed {
            loss.returned_files += u64::from(exists(target, name)?);
        }
        Ok(loss)
    }

    fn by_file(&self) -> BTreeMap<FileNumber, Vec<&str>> {
        let mut all: BTreeMap<FileNumber, Vec<&str>> = BTreeMap::new();
        for (name, number) in &self.names {
            all.entry(*number).or_default().push(name);
        }
        all
    }

    fn judge_file(
        &self,
        target: &dyn Target,
        names: &[&str],
        file: &File,
        cut: Nanos,
        loss: &mut Loss,
    ) -> Result<(), TargetError> {
        loss.files += 1;
        let former = file.former.iter().map(String::as_str);
        let former = former.filter(|name| !self.names.contains_key(*name));
        let mut opened = None;
        for name in names.iter().copied().chain(former) {
            match target.open(name, OpenFlags::READ) {
                Ok(open) => opened = Some(open),
                Err(error) if is_of_file(&error) => continue,
                Err(error) => return Err(error),
            }
            break;
        }
        let before = loss.lost_bytes;
        let synced = self.synced.max(file.synced);
        let mut buffer = Vec::new();
        for (offset, piece) in &file.pieces {
            let found = match &opened {
                None => Found::Missing,
                Some(open) => {
                    buffer.resize(piece.length as usize, 0);
                    match target.pread(open, &mut buffer, *offset) {
                        Ok(count) => piece.found(&buffer[..count]),
                        Err(error) if is_of_file(&error) => Found::Missing,
                        Err(error) => return Err(error),
                    }
                }
            };
            loss.add(piece, found, cut, synced);
        }
        let is_there = opened.is_some();
        if let Some(open) = opened {
            target.close(open)?;
        }
        let is_torn = loss.lost_bytes > before;
        loss.lost_files += u64::from(is_torn || !is_there);
        loss.torn_files += u64::from(is_torn && is_there);
        Ok(())
    }
}

impl Piece {
    fn found(&self, bytes: &[u8]) -> Found {
        if (bytes.len() as u64) < self.length {
            return Found::Missing;
        }
        let sum = digest(bytes);
        if sum == self.digest {
            Found::Whole
        } else if bytes.iter().all(|byte| *byte == 0) {
            Found::Zero
        } else if self.older.contains(&sum) {
            Found::Old
        } else {
            Found::Other
        }
    }
}

/// Returns true if a name exists.
fn exists(target: &dyn Target, name: &str) -> Result<bool, TargetError> {
    match target.stat(name) {
        Ok(_) => Ok(true),
        Err(error) if is_of_file(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true for an error that says that a file is not there, or cannot be read.
fn is_of_file(error: &TargetError) -> bool {
    use ErrorKind::{Corrupt, Io, IsDirectory, NotDirectory, NotFound};
    matches!(
        error.kind,
        NotFound | NotDirectory | IsDirectory | Corrupt | Io
    )
}
