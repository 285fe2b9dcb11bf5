//! What can be seen of a volume: the whole tree with all contents, by one walk.

use std::collections::BTreeMap;

use ext::volume::{FileKind, OpenFlags};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::crowd;
use crate::op::Special;

/// A tree as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// All inodes that have names; the root is the first.
    pub nodes: Vec<Seen>,
}

/// An inode as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub inode: InodeNr,
    /// Number of names that it says it has.
    pub links: u32,
    /// Permission bits.
    pub permissions: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Extended attributes, access control lists among them.
    pub marks: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Last change of contents, in seconds since 1970.
    pub modified: i64,
    /// Last change of the inode.
    pub changed: i64,
    /// Of a file, if that was asked for: which block of the volume holds which of its blocks.
    pub blocks: BTreeMap<u64, u64>,
    /// The rest.
    pub contents: Contents,
}

/// What is in an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// All bytes of a file.
    File(Vec<u8>),
    /// Names, and places in [`Observation::nodes`].
    Directory(BTreeMap<Vec<u8>, usize>),
    /// What a symbolic link says.
    Symlink(Vec<u8>),
    /// A fifo, socket or device.
    Special(Special),
}

/// A directory of every volume that nobody changes.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Looks at everything; also at where the contents of files are, if that is asked for.
///
/// # Errors
/// Whatever the volume says: a volume that was recovered can be read.
pub fn observe(volume: &Volume, has_blocks: bool) -> Result<Observation, Error> {
    observe_from(volume, InodeNr::ROOT, has_blocks)
}

/// The same from a directory on.
///
/// # Errors
/// The same.
pub(crate) fn observe_from(
    volume: &Volume,
    directory: InodeNr,
    has_blocks: bool,
) -> Result<Observation, Error> {
    let mut walk = Walk {
        volume,
        has_blocks,
        nodes: Vec::new(),
        places: BTreeMap::new(),
    };
    walk.place_of(directory)?;
    let mut next = 0;
    while next < walk.nodes.len() {
        if matches!(walk.nodes[next].contents, Contents::Directory(_)) {
            walk.list(next)?;
        }
        next += 1;
    }
    Ok(Observation { nodes: walk.nodes })
}

struct Walk<'v> {
    volume: &'v Volume,
    has_blocks: bool,
    nodes: Vec<Seen>,
    places: BTreeMap<InodeNr, usize>,
}

impl Walk<'_> {
    fn place_of(&mut self, inode: InodeNr) -> Result<usize, Error> {
        if let Some(place) = self.places.get(&inode) {
            return Ok(*place);
        }
        let attributes = self.volume.attributes(inode)?;
        let contents = match attributes.kind {
            FileKind::Regular => Contents::File(self.read(inode, attributes.size)?),
            FileKind::Directory => Contents::Directory(BTreeMap::new()),
            FileKind::Symlink => Contents::Symlink(self.volume.read_link(inode)?),
            kind => {
                let special = Special::of(kind, attributes.device);
                Contents::Special(special.expect("whatever else there is is a device"))
            }
        };
        let blocks = match contents {
            Contents::File(_) if self.has_blocks => self.blocks_of(inode)?,
            _ => BTreeMap::new(),
        };
        let marks = self.marks_of(inode)?;
        let place = self.nodes.len();
        self.places.insert(inode, place);
        self.nodes.push(Seen {
            inode,
            links: attributes.links,
            permissions: attributes.permissions,
            owner: (attributes.uid, attributes.gid),
            marks,
            modified: attributes.mtime.seconds,
            changed: attributes.ctime.seconds,
            blocks,
            contents,
        });
        Ok(place)
    }

    fn marks_of(&self, inode: InodeNr) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        let names = self.volume.list_attributes(inode)?.into_iter();
        names
            .map(|name| {
                let value = self.volume.get_attribute(inode, &name)?;
                Ok((name, value))
            })
            .collect()
    }

    fn read(&self, inode: InodeNr, size: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0xEE; size as usize];
        if size > 0 {
            let file = self.volume.open_inode(inode, OpenFlags::READ)?;
            let read = self.volume.read(file, 0, &mut bytes);
            self.volume.release(file)?;
            bytes.truncate(read?);
        }
        Ok(bytes)
    }

    fn blocks_of(&self, inode: InodeNr) -> Result<BTreeMap<u64, u64>, Error> {
        let mut blocks = BTreeMap::new();
        for (file_block, first, count) in self.volume.blocks_of(inode)? {
            if let Some(file_block) = file_block {
                blocks.extend((file_block..).zip(first..first + u64::from(count)));
            }
        }
        Ok(blocks)
    }

    fn list(&mut self, place: usize) -> Result<(), Error> {
        let mut entries = Vec::new();
        let visit = &mut |_, entry: ext::volume::Entry| {
            entries.push((entry.name, entry.inode));
            true
        };
        self.volume
            .read_directory(self.nodes[place].inode, 0, visit)?;
        let mut names = BTreeMap::new();
        for (name, inode) in entries {
            if name != b"." && name != b".." && (place != 0 || name != LOST_AND_FOUND) {
                let target = self.place_of(inode)?;
                // What a crowd does is read, and belongs to no lane.
                if place != 0 || name != crowd::DIRECTORY {
                    names.insert(name, target);
                }
            }
        }
        self.nodes[place].contents = Contents::Directory(names);
        Ok(())
    }
}
