//! Scans the tree below a directory of the host on several threads: all nodes, without file data.
//!
//! A thread takes a directory from the queue, lists it, stats its entries and queues its
//! subdirectories. The order in which directories are scanned does not affect the result.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::{Context, Error, Result};
use ext::volume::FileKind;
use rustix::fs::{AtFlags, CWD, RawDir, Stat};
use rustix::path::Arg;

use super::host::{self, AttributeReader};
use super::{Node, Scope, worker_count};

/// Buffer size for the names that one system call returns, in bytes.
const NAMES_BYTES: usize = 32 << 10;

/// Entries of a directory, sorted by name.
type Listing = Vec<Found>;

/// A node, and the data that is needed to sort all nodes.
struct Found {
    node: Node,
    /// Index of a directory's own listing.
    listing: Option<usize>,
}

/// Queue of directories to list, and the listings found so far.
#[derive(Default)]
struct Board {
    waiting: Vec<(usize, Vec<u8>)>,
    listings: Vec<Listing>,
    /// Number of threads that are listing a directory.
    busy: usize,
    failed: Option<Error>,
}

struct Scan<'r> {
    root: &'r Path,
    scope: Scope,
    board: Mutex<Board>,
    changed: Condvar,
}

/// State of one thread.
struct Scanner<'s> {
    scan: &'s Scan<'s>,
    attributes: Option<AttributeReader>,
    names: Vec<u8>,
}

/// Returns all nodes below a directory, each directory before its entries, names in byte order. A
/// later name of a file is a link to the first. A root that is not a directory is the only node.
pub(crate) fn scan(root: &Path, scope: Scope) -> Result<Vec<Node>> {
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
        return Ok(vec![first]);
    }
    let scan = Scan {
        root,
        scope,
        board: Mutex::new(Board {
            waiting: vec![(0, Vec::new())],
            listings: vec![Listing::new()],
            ..Board::default()
        }),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..worker_count() {
            scope.spawn(|| Scanner::new(&scan).run());
        }
    });
    let board = scan.board.into_inner();
    let board = board.unwrap_or_else(PoisonError::into_inner);
    match board.failed {
        Some(error) => Err(error),
        None => Ok(in_order(first, board.listings, scope.links)),
    }
}

fn in_order(root: Node, mut listings: Vec<Listing>, has_links: bool) -> Vec<Node> {
    let count: usize = listings.iter().map(Vec::len).sum();
    let mut nodes = Vec::with_capacity(count + 1);
    nodes.push(root);
    let mut first_names = BTreeMap::<(u64, u64), Vec<u8>>::new();
    let mut open = vec![std::mem::take(&mut listings[0]).into_iter()];
    while let Some(listing) = open.last_mut() {
        let Some(mut found) = listing.next() else {
            open.pop();
            continue;
        };
        let node = &found.node;
        let has_names = has_links && node.kind != FileKind::Directory && node.links > 1;
        if let Some(inode) = node.identity.filter(|_| has_names) {
            match first_names.get(&inode) {
                Some(name) => found.node.link_to = Some(name.clone()),
                None => drop(first_names.insert(inode, found.node.path.clone())),
            }
        }
        nodes.push(found.node);
        if let Some(number) = found.listing {
            open.push(std::mem::take(&mut listings[number]).into_iter());
        }
    }
    nodes
}

impl Scan<'_> {
    /// Returns a directory to list, or none if no more will be queued.
    fn next(&self) -> Option<(usize, Vec<u8>)> {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn done(&self, number: usize, listed: Result<Listing>) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.busy -= 1;
        match listed {
            Ok(mut listing) => {
                for found in &mut listing {
                    if found.node.kind == FileKind::Directory {
                        let number = board.listings.len();
                        found.listing = Some(number);
                        board.waiting.push((number, found.node.path.clone()));
                        board.listings.push(Listing::new());
                    }
                }
                board.listings[number] = listing;
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
            names: Vec::with_capacity(NAMES_BYTES),
        }
    }

    fn run(mut self) {
        while let Some((number, path)) = self.scan.next() {
            let listed = self.list(&path);
            self.scan.done(number, listed);
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.scan.root.join(OsStr::from_bytes(path))
    }

    fn list(&mut self, path: &[u8]) -> Result<Listing> {
        let at = self.at(path);
        let context = || at.display().to_string();
        let directory = host::open_directory(self.scan.root, path).with_context(context)?;
        let names = self.names(&directory).with_context(context)?;
        let mut listing = Listing::with_capacity(names.len());
        for name in names {
            let mut child = Vec::with_capacity(path.len() + 1 + name.as_bytes().len());
            child.extend_from_slice(path);
            if !path.is_empty() {
                child.push(b'/');
            }
            child.extend_from_slice(name.as_bytes());
            let at = self.at(&child);
            let found = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Error::from)
                .and_then(|stat| {
                    let found = (directory.as_fd(), name.as_c_str());
                    look(child, &at, found, &stat, self.attributes.as_mut())
                });
            listing.push(Found {
                node: found.with_context(|| at.display().to_string())?,
                listing: None,
            });
        }
        Ok(listing)
    }

    /// Returns the names in a directory, sorted.
    fn names(&mut self, directory: &OwnedFd) -> Result<Vec<CString>> {
        let mut names = Vec::new();
        let mut entries = RawDir::new(directory, self.names.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
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
        let nodes = scan(folder.path(), Scope::WHOLE).expect("all is there");
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
        let scan = Scan {
            root: &at("tree"),
            scope: Scope::WHOLE,
            board: Mutex::default(),
            changed: Condvar::new(),
        };
        for path in [&b"d"[..], b"d/inner"] {
            assert!(Scanner::new(&scan).list(path).is_err());
        }
        assert!(Scanner::new(&scan).list(b"").is_ok());
    }

    #[test]
    fn what_is_not_there_is_told() {
        let Err(error) = scan(Path::new("/nowhere/at/all"), Scope::WHOLE) else {
            panic!("it is there");
        };
        assert!(format!("{error:#}").starts_with("/nowhere/at/all: No such file"));
    }
}
