//! A scanned tree: records of its nodes in the order of their discovery, read in the order of their
//! names. Memory holds a few bytes for each directory, and none for files.

use std::collections::BTreeMap;

use anyhow::Result;
use ext::volume::FileKind;

use super::record;
use super::store::Store;
use crate::Node;

/// Absence of a listing or a segment.
pub(super) const NONE: u32 = u32::MAX;

/// Consecutive records of a listing, which may have several segments.
#[derive(Debug)]
struct Segment {
    at: u64,
    length: u32,
    /// Index of the next one.
    next: u32,
}

/// The entries of directories, as records.
#[derive(Debug, Default)]
pub(super) struct Listings {
    store: Store,
    segments: Vec<Segment>,
    /// First segment of each listing, and [`NONE`] of one that is empty or unknown.
    heads: Vec<u32>,
}

impl Listings {
    /// Adds records to a listing; `last` is its last segment. Returns the new last segment.
    pub(super) fn append(&mut self, listing: u32, last: u32, bytes: &[u8]) -> Result<u32> {
        let at = self.store.append(bytes)?;
        let index = self.segments.len() as u32;
        self.segments.push(Segment {
            at,
            length: bytes.len() as u32,
            next: NONE,
        });
        match last {
            NONE => {
                let known = self.heads.len().max(listing as usize + 1);
                self.heads.resize(known, NONE);
                self.heads[listing as usize] = index;
            }
            last => self.segments[last as usize].next = index,
        }
        Ok(index)
    }
}

/// A name of a file that has an earlier one.
#[derive(Debug)]
struct Link {
    /// Index among all nodes.
    index: u64,
    /// Offset and length of the path of the first name.
    at: u64,
    length: u32,
}

/// A directory of the host and everything below it, or a file.
#[derive(Debug)]
pub(crate) struct Scanned {
    root: Node,
    listings: Listings,
    /// Later names of files, in ascending order.
    links: Vec<Link>,
    link_targets: Store,
}

impl Scanned {
    /// Returns a file.
    pub(super) fn file(root: Node) -> Self {
        Self {
            root,
            listings: Listings::default(),
            links: Vec::new(),
            link_targets: Store::default(),
        }
    }

    /// Returns a tree. If `has_links`, later names of files become links to the first.
    pub(super) fn tree(root: Node, listings: Listings, has_links: bool) -> Result<Self> {
        let mut scanned = Self {
            listings,
            ..Self::file(root)
        };
        if has_links {
            scanned.find_links()?;
        }
        Ok(scanned)
    }

    fn find_links(&mut self) -> Result<()> {
        let (mut links, mut targets) = (Vec::new(), Store::default());
        let mut firsts = BTreeMap::<(u64, u64), (u64, u32)>::new();
        for (index, node) in (0..).zip(self.nodes()) {
            let node = node?;
            let has_names = node.kind != FileKind::Directory && node.links > 1;
            let Some(inode) = node.identity.filter(|_| has_names) else {
                continue;
            };
            match firsts.get(&inode) {
                Some((at, length)) => links.push(Link {
                    index,
                    at: *at,
                    length: *length,
                }),
                None => {
                    let at = targets.append(&node.path)?;
                    firsts.insert(inode, (at, node.path.len() as u32));
                }
            }
        }
        (self.links, self.link_targets) = (links, targets);
        Ok(())
    }

    /// Returns the nodes, each directory before its entries, names in byte order.
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        Nodes {
            scanned: self,
            open: Vec::new(),
            index: 0,
            links: self.links.iter(),
        }
    }

    fn link_target(&self, link: &Link) -> Result<Vec<u8>> {
        let mut path = vec![0; link.length as usize];
        self.link_targets.read(link.at, &mut path)?;
        Ok(path)
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
    links: std::slice::Iter<'s, Link>,
}

impl Nodes<'_> {
    fn open(&mut self, path: &[u8], listing: u32) {
        let heads = &self.scanned.listings.heads;
        if let Some(head) = heads.get(listing as usize)
            && *head != NONE
        {
            self.open.push(Reader {
                path: path.to_vec(),
                next: *head,
                bytes: Vec::new(),
                done: 0,
            });
        }
    }

    fn read(&mut self) -> Result<Option<Node>> {
        while let Some(reader) = self.open.last_mut() {
            if reader.done < reader.bytes.len() {
                let mut rest = &reader.bytes[reader.done..];
                let (node, listing) = record::decode(&mut rest, &reader.path)?;
                reader.done = reader.bytes.len() - rest.len();
                if node.kind == FileKind::Directory {
                    self.open(&node.path, listing);
                }
                return Ok(Some(node));
            }
            let listings = &self.scanned.listings;
            match listings.segments.get(reader.next as usize) {
                None => drop(self.open.pop()),
                Some(segment) => {
                    reader.bytes.resize(segment.length as usize, 0);
                    listings.store.read(segment.at, &mut reader.bytes)?;
                    (reader.next, reader.done) = (segment.next, 0);
                }
            }
        }
        Ok(None)
    }

    fn read_linked(&mut self) -> Result<Option<Node>> {
        let Some(mut node) = self.read()? else {
            return Ok(None);
        };
        if let Some(link) = self.links.as_slice().first()
            && link.index == self.index
        {
            self.links.next();
            node.link_to = Some(self.scanned.link_target(link)?);
        }
        Ok(Some(node))
    }
}

impl Iterator for Nodes<'_> {
    type Item = Result<Node>;

    fn next(&mut self) -> Option<Result<Node>> {
        if self.index == 0 {
            self.open(&[], 0);
            self.index = 1;
            return Some(Ok(self.scanned.root.clone()));
        }
        let read = self.read_linked();
        self.index += 1;
        if read.is_err() {
            self.open.clear();
        }
        read.transpose()
    }
}
