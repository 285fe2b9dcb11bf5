//! [`Ledger`]: the files as the calls of a workload left them, to be compared with what a power cut
//! left.
//!
//! The ledger follows names, sizes and data. Of the data it keeps *pieces*: a write is divided at
//! multiples of 4096 bytes, and each piece has the time of its write and a digest. A piece that is
//! overwritten exactly replaces the older one and remembers its digest; one that is overwritten in
//! part is not judged any more.
//!
//! | fact | when |
//! |---|---|
//! | a call counts | when it returns; a call that the cut interrupts has promised nothing |
//! | a file is *in doubt* | while a call changes it; a file in doubt at the cut is not judged |
//! | a file is found under an earlier name | if a rename is undone: its data are not lost |
//! | a piece is *synced* | when a later `fsync` of its file or `sync` has returned |
//!
//! The lab may not use the model of the crash explorer, which knows every state that a crash may
//! leave. The ledger knows only what a program was told, which is what a user asks for.

mod loss;

use std::collections::{BTreeMap, BTreeSet};

use rt::Nanos;
use rt::split_mix::{GAMMA, mix};

pub use loss::Loss;

/// Pieces end at multiples of this number of bytes: no page is in two pieces of one write.
const PIECE_BYTES: u64 = 4096;
/// Maximum number of older contents that a piece remembers.
const OLDER_MAX: usize = 4;

/// Number of a file, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(u64);

/// The files as the calls of a workload left them.
#[derive(Debug, Default)]
pub struct Ledger {
    names: BTreeMap<String, FileNumber>,
    files: BTreeMap<FileNumber, File>,
    /// Names that were removed and not given again.
    removed: BTreeSet<String>,
    /// Start of the last `sync` that has returned.
    synced: Option<Nanos>,
    next: u64,
    bytes_written: u64,
}

/// A file.
#[derive(Debug, Default)]
struct File {
    size: u64,
    /// Number of its names.
    links: u32,
    /// Names before renames, the last first: a cut may undo a rename.
    former: Vec<String>,
    /// Pieces by offset.
    pieces: BTreeMap<u64, Piece>,
    /// Start of the last `fsync` that has returned.
    synced: Option<Nanos>,
    /// Number of calls that are changing it.
    doubts: u32,
}

/// A write that has returned.
#[derive(Debug)]
pub struct Write<'d> {
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes that were written.
    pub data: &'d [u8],
    /// The time at which it returned.
    pub at: Nanos,
    /// True if it was durable then, as with `O_SYNC`.
    pub is_synchronous: bool,
}

/// The data of one write within a page.
#[derive(Debug, Clone)]
struct Piece {
    length: u64,
    digest: u64,
    written: Nanos,
    /// True if the write itself was synchronous.
    is_synchronous: bool,
    /// Digests of earlier data of the same extent.
    older: Vec<u64>,
}

impl Ledger {
    /// Returns the file with a name.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<FileNumber> {
        self.names.get(key(path)).copied()
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Notes that a call is about to change a file.
    pub fn doubt(&mut self, file: Option<FileNumber>) {
        if let Some(file) = file.and_then(|number| self.files.get_mut(&number)) {
            file.doubts += 1;
        }
    }

    /// Notes that such a call has returned.
    pub fn settle(&mut self, file: Option<FileNumber>) {
        if let Some(file) = file.and_then(|number| self.files.get_mut(&number)) {
            file.doubts -= 1;
        }
    }

    /// Notes that a name may come back: a call is about to create it.
    pub fn may_appear(&mut self, path: &str) {
        self.removed.remove(key(path));
    }

    /// Notes that a call is about to rename a file, or a directory with all that is in it, and that
    /// the new names may appear. Returns the files in doubt.
    pub fn may_be_renamed(&mut self, old: &str, new: &str) -> Vec<FileNumber> {
        let replaced = self.file(new);
        self.removed.remove(key(new));
        let moved = self.at_or_below(key(old));
        let moved = moved.iter().filter_map(|name| self.file(name));
        let files: Vec<FileNumber> = moved.chain(replaced).collect();
        files.iter().for_each(|file| self.doubt(Some(*file)));
        files
    }

    /// Returns the file of a name that was opened, a new one if it was created.
    pub fn opened(&mut self, path: &str) -> FileNumber {
        let path = key(path);
        if let Some(number) = self.names.get(path) {
            return *number;
        }
        let number = FileNumber(self.next);
        self.next += 1;
        let file = File {
            links: 1,
            ..File::default()
        };
        self.files.insert(number, file);
        self.names.insert(path.to_owned(), number);
        number
    }

    /// Sets the size of a file.
    pub fn resized(&mut self, file: FileNumber, size: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.clear(size, u64::MAX);
            file.size = size;
        }
    }

    /// Returns the size of a file.
    #[must_use]
    pub fn size(&self, file: FileNumber) -> u64 {
        self.files.get(&file).map_or(0, |file| file.size)
    }

    /// Adds a write that has returned.
    pub fn wrote(&mut self, file: FileNumber, write: &Write<'_>) {
        let Write { offset, data, .. } = *write;
        self.bytes_written += data.len() as u64;
        let Some(file) = self.files.get_mut(&file) else {
            return;
        };
        let end = offset + data.len() as u64;
        let mut at = offset;
        while at < end {
            let next = end.min((at / PIECE_BYTES + 1) * PIECE_BYTES);
            let part = &data[(at - offset) as usize..(next - offset) as usize];
            file.put(at, part, write);
            at = next;
        }
        file.size = file.size.max(end);
    }

    /// Notes that an `fsync` of a file has returned, which began at an instant.
    pub fn synced(&mut self, file: FileNumber, began: Nanos) {
        if let Some(file) = self.files.get_mut(&file) {
            file.synced = file.synced.max(Some(began));
        }
    }

    /// Notes that a `sync` has returned, which began at an instant.
    pub fn synced_all(&mut self, began: Nanos) {
        self.synced = self.synced.max(Some(began));
    }

    /// Removes a name.
    pub fn unlinked(&mut self, path: &str) {
        let path = key(path);
        if let Some(number) = self.names.remove(path) {
            self.removed.insert(path.to_owned());
            self.drop_name(number);
        }
    }

    /// Adds a name of a file.
    pub fn linked(&mut self, existing: &str, new: &str) {
        let Some(number) = self.file(existing) else {
            return;
        };
        if let Some(file) = self.files.get_mut(&number) {
            file.links += 1;
            self.names.insert(key(new).to_owned(), number);
        }
    }

    /// Renames a file, or a directory with all that is in it.
    pub fn renamed(&mut self, old: &str, new: &str) {
        let (old, new) = (key(old), key(new));
        if old == new {
            return;
        }
        for name in self.at_or_below(old) {
            let Some(number) = self.names.remove(&name) else {
                continue;
            };
            let target = format!("{new}{}", &name[old.len()..]);
            self.removed.remove(&target);
            if let Some(file) = self.files.get_mut(&number) {
                file.former.insert(0, name);
            }
            if let Some(replaced) = self.names.insert(target, number) {
                self.drop_name(replaced);
            }
        }
    }

    /// Returns the names of a file, or of all files in a directory.
    fn at_or_below(&self, path: &str) -> Vec<String> {
        let names = self.names.range(path.to_owned()..);
        let names = names.take_while(|(name, _)| name.starts_with(path));
        let is_below = |name: &str| {
            let rest = &name[path.len()..];
            rest.is_empty() || rest.starts_with('/')
        };
        let names = names.filter(|(name, _)| is_below(name));
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Forgets a file that has lost its last name.
    fn drop_name(&mut self, number: FileNumber) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        file.links -= 1;
        if file.links == 0 {
            self.files.remove(&number);
        }
    }
}

impl File {
    fn put(&mut self, at: u64, data: &[u8], write: &Write<'_>) {
        let length = data.len() as u64;
        let mut older = Vec::new();
        if let Some(same) = self.pieces.get(&at).filter(|old| old.length == length) {
            older.clone_from(&same.older);
            older.push(same.digest);
            if older.len() > OLDER_MAX {
                older.remove(0);
            }
        } else {
            self.clear(at, at + length);
        }
        let piece = Piece {
            length,
            digest: digest(data),
            written: write.at,
            is_synchronous: write.is_synchronous,
            older,
        };
        self.pieces.insert(at, piece);
    }

    /// Removes all pieces that overlap a range.
    fn clear(&mut self, start: u64, end: u64) {
        let before = self.pieces.range(..start).next_back();
        let before = before.filter(|(at, piece)| **at + piece.length > start);
        let within = self.pieces.range(start..end);
        let gone: Vec<u64> = before
            .into_iter()
            .chain(within)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.pieces.remove(&at);
        }
    }
}

/// Returns the form of a path that all names have.
fn key(path: &str) -> &str {
    path.trim_matches('/')
}

/// Returns a digest of some bytes: not one that resists attacks.
fn digest(bytes: &[u8]) -> u64 {
    let mut sum = bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        sum = (sum ^ word).wrapping_mul(GAMMA).rotate_left(29);
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(sum ^ u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests;
