//! Scans the tree below a directory of the host on several threads: all nodes, without file data.
//!
//! A thread takes a directory from the queue, lists it, stats its entries and queues its
//! subdirectories. The order in which directories are scanned does not affect the result. Nodes are
//! kept as records, most of them in a temporary file: a tree may have many millions of files.

mod record;
mod scanned;
mod store;

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Error, Result};
use ext::volume::FileKind;
use rustix::fs::{AtFlags, CWD, RawDir, Stat};
use rustix::path::Arg;

use super::host::{self, AttributeReader};
use super::{Node, Scope, worker_count};
pub(crate) use scanned::Scanned;
use scanned::{Listings, NONE};

/// Buffer size for the names that one system call returns, in bytes.
const NAMES_BYTES: usize = 32 << 10;
/// Number of bytes of records that a thread gathers.
const RECORDS_BYTES: usize = 64 << 10;

/// Queue of directories to list, and the listings found so far.
#[derive(Default)]
struct Board {
    waiting: Waiting,
    listings: Listings,
    /// Number of threads that are listing a directory.
    busy: usize,
    /// True if a file has several names.
    has_links: bool,
    failed: Option<Error>,
}

/// Directories to list: the number of the listing and the path, the last first. One string holds
/// all of them, because a directory may have millions of subdirectories.
#[derive(Default)]
struct Waiting(Vec<u8>);

impl Waiting {
    fn push(&mut self, listing: u32, path: &[u8]) {
        self.0.extend_from_slice(path);
        self.0.extend_from_slice(&listing.to_le_bytes());
        self.0.extend_from_slice(&(path.len() as u32).to_le_bytes());
    }

    fn pop(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut take_number = || {
            let (rest, number) = self.0.split_last_chunk::<4>()?;
            let (number, left) = (u32::from_le_bytes(*number), rest.len());
            self.0.truncate(left);
            Some(number)
        };
        let (length, listing) = (take_number()?, take_number()?);
        let path = self.0.split_off(self.0.len() - length as usize);
        Some((listing, path))
    }
}

struct Scan<'r> {
    root: &'r Path,
    scope: Scope,
    /// Number of listings, known and wanted; the root's is 0.
    listing_count: AtomicU32,
    board: Mutex<Board>,
    changed: Condvar,
}

/// State of one thread.
struct Scanner<'s> {
    scan: &'s Scan<'s>,
    attributes: Option<AttributeReader>,
    buffer: Vec<u8>,
    names: Names,
    /// Records that no listing has yet.
    records: Vec<u8>,
}

/// A finished listing.
#[derive(Default)]
struct Listed {
    /// Subdirectories, to be listed.
    directories: Waiting,
    has_links: bool,
}

/// Names in a directory, in one string, each with its zero byte.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

/// Scans all nodes below a directory. A later name of a file is a link to the first. A root that is
/// not a directory is the only node.
pub(crate) fn scan(root: &Path, scope: Scope) -> Result<Scanned> {
    let context = || root.display().to_string();
    let stat = match scope.follows_root {
        true => rustix::fs::stat(root),
        false => rustix::fs::lstat(root),
    };
    let stat = stat.with_context(context)?;
    let mut attributes = scope.attributes.then(AttributeReader::new);
    let first = look(Vec::new(), root, (CWD, root), &stat, attributes.as_mut());
    let first = first.with_context(context)?;
    if first.kind != FileKind::Directory {
        return Ok(Scanned::file(first));
    }
    let scan = Scan::new(root, scope);
    std::thread::scope(|scope| {
        for _ in 0..worker_count() {
            scope.spawn(|| Scanner::new(&scan).run());
        }
    });
    let board = scan.board.into_inner();
    let board = board.unwrap_or_else(PoisonError::into_inner);
    match board.failed {
        Some(error) => Err(error),
        None => Scanned::tree(first, board.listings, scope.links && board.has_links),
    }
}

impl<'r> Scan<'r> {
    fn new(root: &'r Path, scope: Scope) -> Self {
        let mut board = Board::default();
        board.waiting.push(0, &[]);
        Self {
            root,
            scope,
            listing_count: AtomicU32::new(1),
            board: Mutex::new(board),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a directory to list, or none if no more will be queued.
    fn next(&self) -> Option<(u32, Vec<u8>)> {
        let mut board = self.lock();
        loop {
            if board.failed.is_some() {
                return None;
            }
            if let Some(next) = board.waiting.pop() {
                board.busy += 1;
                return Some(next);
            }
            if board.busy == 0 {
                return None;
            }
            let woken = self.changed.wait(board);
            board = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, listed: Result<Listed>) {
        let mut board = self.lock();
        board.busy -= 1;
        match listed {
            Ok(Listed {
                directories,
                has_links,
            }) => {
                board.waiting.0.extend(directories.0);
                board.has_links |= has_links;
            }
            Err(error) => board.failed = board.failed.take().or(Some(error)),
        }
        drop(board);
        self.changed.notify_all();
    }
}

impl<'s> Scanner<'s> {
    fn new(scan: &'s Scan<'s>) -> Self {
        Self {
            scan,
            attributes: scan.scope.attributes.then(AttributeReader::new),
            buffer: Vec::with_capacity(NAMES_BYTES),
            names: Names::default(),
            records: Vec::new(),
        }
    }

    fn run(mut self) {
        while let Some((number, path)) = self.scan.next() {
            let listed = self.list(number, &path);
            self.scan.done(listed);
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.scan.root.join(OsStr::from_bytes(path))
    }

    fn list(&mut self, number: u32, path: &[u8]) -> Result<Listed> {
        let at = self.at(path);
        let context = || at.display().to_string();
        let directory = host::open_directory(self.scan.root, path).with_context(context)?;
        let mut names = std::mem::take(&mut self.names);
        names
            .read(&directory, &mut self.buffer)
            .with_context(context)?;
        let (mut listed, mut last) = (Listed::default(), NONE);
        for name in names.iter() {
            self.take(path, (&directory, name), &mut listed)?;
            if self.records.len() >= RECORDS_BYTES {
                last = self.hand_on(number, last)?;
            }
        }
        self.hand_on(number, last)?;
        self.names = names;
        Ok(listed)
    }

    /// Adds the record of an entry of the directory `path`.
    fn take(
        &mut self,
        path: &[u8],
        (directory, name): (&OwnedFd, &CStr),
        listed: &mut Listed,
    ) -> Result<()> {
        let mut child = Vec::with_capacity(path.len() + 1 + name.count_bytes());
        child.extend_from_slice(path);
        if !path.is_empty() {
            child.push(b'/');
        }
        child.extend_from_slice(name.to_bytes());
        let at = self.at(&child);
        let node = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Error::from)
            .and_then(|stat| {
                let found = (directory.as_fd(), name);
                look(child, &at, found, &stat, self.attributes.as_mut())
            })
            .with_context(|| at.display().to_string())?;
        let mut listing = NONE;
        if node.kind == FileKind::Directory {
            listing = self.scan.listing_count.fetch_add(1, Ordering::Relaxed);
            listed.directories.push(listing, &node.path);
        } else {
            listed.has_links |= node.links > 1;
        }
        record::encode(&mut self.records, name.to_bytes(), &node, listing);
        Ok(())
    }

    /// Adds the gathered records to a listing, whose last segment is `last`.
    fn hand_on(&mut self, number: u32, last: u32) -> Result<u32> {
        if self.records.is_empty() {
            return Ok(last);
        }
        let appended = self
            .scan
            .lock()
            .listings
            .append(number, last, &self.records);
        self.records.clear();
        appended
    }
}

impl Names {
    /// Reads the names in a directory and sorts them.
    fn read(&mut self, directory: &OwnedFd, buffer: &mut Vec<u8>) -> Result<()> {
        self.bytes.clear();
        self.starts.clear();
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                self.starts.push(self.bytes.len());
                self.bytes.extend_from_slice(name.to_bytes_with_nul());
            }
        }
        let bytes = &self.bytes;
        self.starts
            .sort_unstable_by_key(|start| name_at(bytes, *start));
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.starts.iter().map(|start| name_at(&self.bytes, *start))
    }
}

fn name_at(bytes: &[u8], start: usize) -> &CStr {
    CStr::from_bytes_until_nul(&bytes[start..]).unwrap_or_default()
}

/// Returns the node of a file with its target, and its attributes if they are wanted. `found` is
/// the directory in which it was found, and its name there.
fn look(
    path: Vec<u8>,
    at: &Path,
    found: (BorrowedFd<'_>, impl Arg),
    stat: &Stat,
    attributes: Option<&mut AttributeReader>,
) -> Result<Node> {
    let mut node = host::node(path, stat);
    if let Some(reader) = attributes {
        node.attributes = reader.read(at)?;
    }
    if node.kind == FileKind::Symlink {
        node.target = rustix::fs::readlinkat(found.0, found.1, Vec::new())?.into_bytes();
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nodes_come_in_the_order_of_their_names_whoever_finds_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for number in 0..40 {
            let inner = at(&format!("d{number:02}/inner"));
            fs::create_dir_all(&inner).expect("there is room");
            fs::write(inner.join("file"), b"x").expect("there is room");
        }
        fs::hard_link(at("d07/inner/file"), at("a-link")).expect("one file system");
        let scanned = scan(folder.path(), Scope::WHOLE).expect("all is there");
        let nodes: Result<Vec<Node>> = scanned.nodes().collect();
        let nodes = nodes.expect("all is there");
        let paths: Vec<_> = nodes.iter().map(Node::text).collect();
        assert_eq!(paths.len(), 1 + 1 + 40 * 3);
        assert_eq!(
            paths[..5],
            ["/", "/a-link", "/d00", "/d00/inner", "/d00/inner/file"]
        );
        assert!(paths.is_sorted());
        let links: Vec<_> = nodes.iter().filter(|node| node.link_to.is_some()).collect();
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].text(), "/d07/inner/file");
        assert_eq!(links[0].link_to.as_deref(), Some(&b"a-link"[..]));
    }

    /// Between its discovery and its listing a directory may be exchanged.
    #[test]
    fn a_directory_that_became_a_link_is_not_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("tree")).expect("there is room");
        fs::create_dir_all(at("secret/inner")).expect("there is room");
        std::os::unix::fs::symlink(at("secret"), at("tree/d")).expect("there is room");
        let root = at("tree");
        let scan = Scan::new(&root, Scope::WHOLE);
        for path in [&b"d"[..], b"d/inner"] {
            assert!(Scanner::new(&scan).list(1, path).is_err());
        }
        assert!(Scanner::new(&scan).list(0, b"").is_ok());
    }

    /// Its records take several segments, and its names come in another order than their own.
    #[test]
    fn a_large_directory_keeps_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let names: Vec<String> = (0..3000)
            .map(|number| format!("file-{number:04}"))
            .collect();
        for name in &names {
            fs::write(folder.path().join(name), b"").expect("there is room");
        }
        let scanned = scan(folder.path(), Scope::WHOLE).expect("all is there");
        for _ in 0..2 {
            let found = scanned.nodes().skip(1).map(|node| {
                let path = node.expect("it was scanned").path;
                String::from_utf8(path).expect("it is ASCII")
            });
            assert!(found.eq(names.iter().cloned()));
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        let Err(error) = scan(Path::new("/nowhere/at/all"), Scope::WHOLE) else {
            panic!("it is there");
        };
        assert!(format!("{error:#}").starts_with("/nowhere/at/all: No such file"));
    }
}
