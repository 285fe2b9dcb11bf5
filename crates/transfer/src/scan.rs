//! Scans the tree below a directory of the host on several threads: all nodes, without file data.
//!
//! A thread takes a directory from the queue, lists it, stats its entries and queues its
//! subdirectories. The order in which directories are scanned does not affect the result. Nodes are
//! kept as records, most of them in a temporary file: a tree may have many millions of files.

mod names;
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
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::path::Arg;

use super::host::{self, AttributeReader, Tree};
use super::paged::Paged;
use super::{Node, Scope, Stop, worker_count};
use names::Names;
pub(crate) use scanned::Scanned;
use scanned::{Listings, NONE};

/// Buffer size for the names that one system call returns, in bytes.
const NAMES_BYTES: usize = 32 << 10;
/// Number of bytes of records, and of paths to list, that a thread gathers.
const RECORDS_BYTES: usize = 64 << 10;
/// Memory of the paths that wait to be listed, in bytes.
const WAITING_MEMORY: usize = 2 << 20;

/// Queue of directories to list, and the listings found so far.
struct Board {
    waiting: Waiting,
    listings: Listings,
    /// Number of threads that are listing a directory.
    busy: usize,
    /// True if a file has several names.
    has_links: bool,
    failed: Option<Error>,
}

/// Directories to list: the path, the number of the listing and the length of the path, the last
/// first. A directory may have millions of subdirectories, so most of them are in a temporary file.
struct Waiting(Paged<u8>);

impl Waiting {
    fn pop(&mut self) -> Result<Option<(u32, Vec<u8>)>> {
        if self.0.len() == 0 {
            return Ok(None);
        }
        let listing = self.pop_number()?;
        let length = self.pop_number()? as usize;
        let path = self.0.split_off(self.0.len() - length)?;
        Ok(Some((listing, path)))
    }

    fn pop_number(&mut self) -> Result<u32> {
        let bytes = self.0.split_off(self.0.len() - size_of::<u32>())?;
        let bytes = bytes.as_slice().try_into()?;
        Ok(u32::from_le_bytes(bytes))
    }
}

/// Appends a directory in the form of [`Waiting`].
fn push(waiting: &mut Vec<u8>, listing: u32, path: &[u8]) {
    waiting.extend_from_slice(path);
    waiting.extend_from_slice(&(path.len() as u32).to_le_bytes());
    waiting.extend_from_slice(&listing.to_le_bytes());
}

struct Scan<'r> {
    root: &'r Path,
    tree: Tree,
    scope: Scope,
    stop: &'r Stop,
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
    /// Directories that do not wait yet to be listed.
    directories: Vec<u8>,
    /// True if a file has several names.
    has_links: bool,
}

/// Scans all nodes below a directory. A later name of a file is a link to the first. A root that is
/// not a directory is the only node. Fails after `stop`.
pub(crate) fn scan(root: &Path, scope: Scope, stop: &Stop) -> Result<Scanned> {
    let first = look_at_root(root, scope).with_context(|| root.display().to_string())?;
    if first.kind != FileKind::Directory {
        return Ok(Scanned::file(first));
    }
    let scan = Scan::new(root, scope, stop)?;
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
    fn new(root: &'r Path, scope: Scope, stop: &'r Stop) -> Result<Self> {
        let (mut waiting, mut first) = (Paged::new(WAITING_MEMORY), Vec::new());
        push(&mut first, 0, &[]);
        waiting.extend(&first)?;
        let board = Board {
            waiting: Waiting(waiting),
            listings: Listings::new(),
            busy: 0,
            has_links: false,
            failed: None,
        };
        Ok(Self {
            root,
            tree: Tree::open(root).with_context(|| root.display().to_string())?,
            scope,
            stop,
            listing_count: AtomicU32::new(1),
            board: Mutex::new(board),
            changed: Condvar::new(),
        })
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
            match board.waiting.pop() {
                Ok(None) => {}
                Ok(next) => {
                    board.busy += 1;
                    return next;
                }
                Err(error) => {
                    board.failed = Some(error);
                    self.changed.notify_all();
                    return None;
                }
            }
            if board.busy == 0 {
                return None;
            }
            let woken = self.changed.wait(board);
            board = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, listed: Result<()>) {
        let mut board = self.lock();
        board.busy -= 1;
        if let Err(error) = listed {
            board.failed.get_or_insert(error);
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
            directories: Vec::new(),
            has_links: false,
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

    fn list(&mut self, number: u32, path: &[u8]) -> Result<()> {
        let at = self.at(path);
        let context = || at.display().to_string();
        let directory = self.scan.tree.listing(path).with_context(context)?;
        let mut names = std::mem::take(&mut self.names);
        names
            .read(&directory, &mut self.buffer)
            .with_context(context)?;
        let mut last = NONE;
        let listed = names.each(&mut |name| {
            self.take(path, (&directory, name))?;
            if self.records.len() + self.directories.len() >= RECORDS_BYTES {
                last = self.hand_on(number, last)?;
            }
            Ok(())
        });
        self.names = names;
        listed?;
        self.hand_on(number, last).map(drop)
    }

    /// Adds the record of an entry of the directory `path`.
    fn take(&mut self, path: &[u8], (directory, name): (&OwnedFd, &CStr)) -> Result<()> {
        self.scan.stop.check()?;
        let mut child = Vec::with_capacity(path.len() + 1 + name.count_bytes());
        child.extend_from_slice(path);
        if !path.is_empty() {
            child.push(b'/');
        }
        child.extend_from_slice(name.to_bytes());
        let node = self.look(child, directory, name).with_context(|| {
            let at = self.at(path).join(OsStr::from_bytes(name.to_bytes()));
            at.display().to_string()
        })?;
        let mut listing = NONE;
        if node.kind == FileKind::Directory {
            listing = self.scan.listing_count.fetch_add(1, Ordering::Relaxed);
            push(&mut self.directories, listing, &node.path);
        } else {
            self.has_links |= node.links > 1;
        }
        record::encode(&mut self.records, name.to_bytes(), &node, listing);
        Ok(())
    }

    /// Returns the node of an entry of a directory.
    fn look(&mut self, path: Vec<u8>, directory: &OwnedFd, name: &CStr) -> Result<Node> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mut node = host::node(path, &stat);
        if let Some(reader) = &mut self.attributes {
            let path = || self.scan.root.join(OsStr::from_bytes(&node.path));
            node.attributes = reader.read_entry(directory, name, path)?;
        }
        if node.kind == FileKind::Symlink {
            node.target = target(directory.as_fd(), name)?;
        }
        Ok(node)
    }

    /// Adds the gathered records to a listing, whose last segment is `last`, and lets the gathered
    /// directories wait.
    fn hand_on(&mut self, number: u32, last: u32) -> Result<u32> {
        if self.records.is_empty() {
            return Ok(last);
        }
        let mut board = self.scan.lock();
        let appended = board.listings.append(number, last, &self.records)?;
        board.waiting.0.extend(&self.directories)?;
        board.has_links |= self.has_links;
        drop(board);
        if !self.directories.is_empty() {
            self.scan.changed.notify_all();
        }
        self.records.clear();
        self.directories.clear();
        Ok(appended)
    }
}

/// Returns the node of the root.
fn look_at_root(root: &Path, scope: Scope) -> Result<Node> {
    let stat = match scope.follows_root {
        true => rustix::fs::stat(root),
        false => rustix::fs::lstat(root),
    };
    let mut node = host::node(Vec::new(), &stat?);
    if scope.attributes {
        // Attributes are read without following a link.
        let at = match scope.follows_root {
            true => root.canonicalize()?,
            false => root.to_owned(),
        };
        node.attributes = AttributeReader::new().read(&at)?;
    }
    if node.kind == FileKind::Symlink {
        node.target = target(CWD, root)?;
    }
    Ok(node)
}

/// Returns the target of a symbolic link in a directory.
fn target(directory: BorrowedFd<'_>, name: impl Arg) -> Result<Vec<u8>, Errno> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    Ok(target.into_bytes())
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
        let scanned = scan(folder.path(), Scope::WHOLE, &Stop::default()).expect("all is there");
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
        let stop = Stop::default();
        let scan = Scan::new(&root, Scope::WHOLE, &stop).expect("there is room");
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
        let scanned = scan(folder.path(), Scope::WHOLE, &Stop::default()).expect("all is there");
        for _ in 0..2 {
            let found = scanned.nodes().skip(1).map(|node| {
                let path = node.expect("it was scanned").path;
                String::from_utf8(path).expect("it is ASCII")
            });
            assert!(found.eq(names.iter().cloned()));
        }
    }

    /// A file in another directory may have the right to more.
    #[test]
    fn attributes_come_from_the_directory_that_was_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for directory in ["tree/d", "secret"] {
            fs::create_dir_all(at(directory)).expect("there is room");
            let file = at(directory).join("file");
            fs::write(&file, b"x").expect("there is room");
            let value = directory.as_bytes();
            rustix::fs::lsetxattr(file, "user.a", value, rustix::fs::XattrFlags::empty())
                .expect("the folder for temporary files has attributes");
        }
        let (root, stop) = (at("tree"), Stop::default());
        let scan = Scan::new(&root, Scope::WHOLE, &stop).expect("there is room");
        let directory = scan.tree.listing(b"d").expect("it is there");
        fs::rename(at("tree/d"), at("tree/moved")).expect("it is there");
        std::os::unix::fs::symlink(at("secret"), at("tree/d")).expect("there is room");
        let mut scanner = Scanner::new(&scan);
        let taken = scanner.take(b"d", (&directory, c"file"));
        taken.expect("it is there");
        let (node, _) = record::decode(&mut &scanner.records[..], b"d").expect("a record");
        assert_eq!(node.attributes, [(b"user.a".to_vec(), b"tree/d".to_vec())]);
    }

    #[test]
    fn a_root_behind_a_link_has_its_attributes() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("tree")).expect("there is room");
        std::os::unix::fs::symlink("tree", at("link")).expect("there is room");
        rustix::fs::lsetxattr(at("tree"), "user.a", b"1", rustix::fs::XattrFlags::empty())
            .expect("the folder for temporary files has attributes");
        let scanned = scan(&at("link"), Scope::WHOLE, &Stop::default()).expect("all is there");
        let root = scanned
            .nodes()
            .next()
            .expect("a root")
            .expect("it was scanned");
        assert_eq!(root.attributes.len(), 1);
    }

    #[test]
    fn a_scan_is_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), b"x").expect("there is room");
        let stop = Stop::default();
        scan(folder.path(), Scope::WHOLE, &stop).expect("all is there");
        stop.request();
        let stopped = scan(folder.path(), Scope::WHOLE, &stop).map(drop);
        let error = stopped.expect_err("it is stopped");
        assert!(format!("{error:#}").ends_with("the call was interrupted"));
    }

    #[test]
    fn what_is_not_there_is_told() {
        let Err(error) = scan(Path::new("/nowhere/at/all"), Scope::WHOLE, &Stop::default()) else {
            panic!("it is there");
        };
        assert!(format!("{error:#}").starts_with("/nowhere/at/all: No such file"));
    }
}
