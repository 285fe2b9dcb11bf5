//! A scanned tree: records of its nodes in the order of their discovery, read in the order of their
//! names. Lists of a few bytes for each directory, and for each file with several names, are in
//! memory as far as they have room there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use ext::volume::FileKind;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::record;
use super::store::Store;
use crate::Node;
use crate::paged::{Index, Paged};

/// Memory of each list, in bytes.
const LIST_MEMORY: usize = 4 << 20;
/// Absence of a listing or a segment.
pub(super) const NONE: u32 = u32::MAX;

/// Consecutive records of a listing, which may have several segments.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Segment {
    at: u64,
    length: u32,
    /// Index of the next one.
    next: u32,
}

/// The entries of directories, as records.
#[derive(Debug)]
pub(super) struct Listings {
    store: Store,
    segments: Paged<Segment>,
    /// First segment of each listing plus one; 0 for one that is empty or unknown.
    heads: Paged<u32>,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self {
            store: Store::default(),
            segments: Paged::new(LIST_MEMORY),
            heads: Paged::new(LIST_MEMORY),
        }
    }

    /// Adds records to a listing; `last` is its last segment. Returns the new last segment.
    pub(super) fn append(&mut self, listing: u32, last: u32, bytes: &[u8]) -> Result<u32> {
        let at = self.store.append(bytes)?;
        let index = self.segments.len() as u32;
        self.segments.push(Segment {
            at,
            length: bytes.len() as u32,
            next: NONE,
        })?;
        match last {
            NONE => {
                self.heads.lengthen(listing as usize + 1);
                *self.heads.get_mut(listing as usize)? = index + 1;
            }
            last => self.segments.get_mut(last as usize)?.next = index,
        }
        Ok(index)
    }

    /// Returns the first segment of a listing.
    fn head(&mut self, listing: u32) -> Result<u32> {
        match (listing as usize) < self.heads.len() {
            true => Ok(self.heads.get(listing as usize)?.wrapping_sub(1)),
            false => Ok(NONE),
        }
    }

    /// Reads a segment; returns the next one.
    fn read(&mut self, segment: u32, into: &mut Vec<u8>) -> Result<u32> {
        let segment = self.segments.get(segment as usize)?;
        into.resize(segment.length as usize, 0);
        self.store.read(segment.at, into)?;
        Ok(segment.next)
    }
}

/// A name of a file that has an earlier one.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Link {
    /// Index among all nodes.
    index: u64,
    /// Offset and length of the path of the first name.
    at: u64,
    length: u64,
}

/// The first name of a file that has several.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct First {
    device: u64,
    inode: u64,
    /// Offset and length of the path.
    at: u64,
    length: u64,
}

/// Later names of files, in ascending order.
#[derive(Debug)]
struct Links {
    links: Paged<Link>,
    targets: Store,
}

impl Links {
    fn new() -> Self {
        Self {
            links: Paged::new(LIST_MEMORY),
            targets: Store::default(),
        }
    }

    fn get(&mut self, number: usize) -> Result<Option<Link>> {
        match number < self.links.len() {
            true => self.links.get(number).map(Some),
            false => Ok(None),
        }
    }

    fn target(&self, link: &Link) -> Result<Vec<u8>> {
        let mut path = vec![0; link.length as usize];
        self.targets.read(link.at, &mut path)?;
        Ok(path)
    }
}

/// A directory of the host and everything below it, or a file.
#[derive(Debug)]
pub(crate) struct Scanned {
    root: Node,
    listings: Mutex<Listings>,
    links: Mutex<Links>,
}

impl Scanned {
    /// Returns a file.
    pub(super) fn file(root: Node) -> Self {
        Self {
            root,
            listings: Mutex::new(Listings::new()),
            links: Mutex::new(Links::new()),
        }
    }

    /// Returns a tree. If `has_links`, later names of files become links to the first.
    pub(super) fn tree(root: Node, listings: Listings, has_links: bool) -> Result<Self> {
        let mut scanned = Self {
            listings: Mutex::new(listings),
            ..Self::file(root)
        };
        if has_links {
            scanned.links = Mutex::new(scanned.find_links()?);
        }
        Ok(scanned)
    }

    fn find_links(&self) -> Result<Links> {
        let mut found = Links::new();
        let (mut firsts, mut index) = (Paged::<First>::new(LIST_MEMORY), Index::new(LIST_MEMORY));
        for (number, node) in (0..).zip(self.nodes()) {
            let node = node?;
            let has_names = node.kind != FileKind::Directory && node.links > 1;
            let Some((device, inode)) = node.identity.filter(|_| has_names) else {
                continue;
            };
            let hash = index.hash((device, inode));
            let known = index.find(hash, |at| {
                let first = firsts.get(at as usize)?;
                Ok((first.device, first.inode) == (device, inode))
            })?;
            if let Some(known) = known {
                let First { at, length, .. } = firsts.get(known as usize)?;
                found.links.push(Link {
                    index: number,
                    at,
                    length,
                })?;
                continue;
            }
            index.add(hash, u32::try_from(firsts.len())?)?;
            firsts.push(First {
                device,
                inode,
                at: found.targets.append(&node.path)?,
                length: node.path.len() as u64,
            })?;
        }
        Ok(found)
    }

    /// Returns the nodes, each directory before its entries, names in byte order.
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        Nodes {
            scanned: self,
            open: Vec::new(),
            index: 0,
            link: None,
            link_count: 0,
        }
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory whose entries are being read.
struct Reader {
    path: Vec<u8>,
    /// Index of the next segment.
    next: u32,
    bytes: Vec<u8>,
    /// Number of bytes of the segment that were read.
    done: usize,
}

/// The nodes of a scanned tree.
pub(crate) struct Nodes<'s> {
    scanned: &'s Scanned,
    open: Vec<Reader>,
    index: u64,
    /// The next link, and the number of those up to it.
    link: Option<Link>,
    link_count: usize,
}

impl Nodes<'_> {
    fn open(&mut self, path: &[u8], listing: u32) -> Result<()> {
        let head = self.scanned.listings().head(listing)?;
        if head != NONE {
            self.open.push(Reader {
                path: path.to_vec(),
                next: head,
                bytes: Vec::new(),
                done: 0,
            });
        }
        Ok(())
    }

    fn start(&mut self) -> Result<Node> {
        self.open(&[], 0)?;
        self.next_link()?;
        Ok(self.scanned.root.clone())
    }

    fn next_link(&mut self) -> Result<()> {
        self.link = self.scanned.links().get(self.link_count)?;
        self.link_count += 1;
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Node>> {
        while let Some(reader) = self.open.last_mut() {
            if reader.done < reader.bytes.len() {
                let mut rest = &reader.bytes[reader.done..];
                let (node, listing) = record::decode(&mut rest, &reader.path)?;
                reader.done = reader.bytes.len() - rest.len();
                if node.kind == FileKind::Directory {
                    self.open(&node.path, listing)?;
                }
                return Ok(Some(node));
            }
            if reader.next == NONE {
                self.open.pop();
                continue;
            }
            let mut listings = self.scanned.listings();
            reader.next = listings.read(reader.next, &mut reader.bytes)?;
            reader.done = 0;
        }
        Ok(None)
    }

    fn read_linked(&mut self) -> Result<Option<Node>> {
        let Some(mut node) = self.read()? else {
            return Ok(None);
        };
        if let Some(link) = self.link
            && link.index == self.index
        {
            node.link_to = Some(self.scanned.links().target(&link)?);
            self.next_link()?;
        }
        Ok(Some(node))
    }
}

impl Iterator for Nodes<'_> {
    type Item = Result<Node>;

    fn next(&mut self) -> Option<Result<Node>> {
        if self.index == 0 {
            self.index = 1;
            return Some(self.start());
        }
        let read = self.read_linked();
        self.index += 1;
        if read.is_err() {
            self.open.clear();
        }
        read.transpose()
    }
}
