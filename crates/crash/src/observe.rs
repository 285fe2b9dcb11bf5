//! The visible state of a volume: the whole tree with all contents, by one walk.

use std::collections::BTreeMap;
use std::fmt;

use layout::InodeNr;

use crate::op::Special;

/// A directory entry: name and inode.
pub type Entry = (Vec<u8>, InodeNr);

/// A mounted file system that can be read in full.
pub trait Subject {
    /// The error of a call that fails.
    type Error: fmt::Display;

    /// Returns the root directory.
    fn root(&self) -> InodeNr;

    /// Reads an inode: attributes, and contents except for the entries of a directory. With
    /// `has_blocks`, also the blocks of a file.
    ///
    /// # Errors
    /// Fails if the inode cannot be read.
    fn look(&self, inode: InodeNr, has_blocks: bool) -> Result<Seen, Self::Error>;

    /// Lists a directory, without `.` and `..`.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    fn list(&self, directory: InodeNr) -> Result<Vec<Entry>, Self::Error>;
}

/// The visible tree of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// All inodes with names; the root is the first.
    pub nodes: Vec<Seen>,
}

/// The visible state of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Inode number.
    pub inode: InodeNr,
    /// Link count of the inode.
    pub links: u32,
    /// Permission bits.
    pub permissions: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Extended attributes, access control lists included.
    pub marks: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Time of the last change of contents, in seconds since 1970.
    pub modified: i64,
    /// Time of the last change of the inode.
    pub changed: i64,
    /// Blocks of a file on the volume by their number in the file, if requested.
    pub blocks: BTreeMap<u64, u64>,
    /// Contents of the inode.
    pub contents: Contents,
}

/// The contents of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// All bytes of a file.
    File(Vec<u8>),
    /// Names, and indices in [`Observation::nodes`].
    Directory(BTreeMap<Vec<u8>, usize>),
    /// The target of a symbolic link.
    Symlink(Vec<u8>),
    /// A fifo, socket or device.
    Special(Special),
}

/// The directory of a crowd, in the root.
pub const CROWD: &[u8] = b"crowd";
/// A directory of every volume that is not changed.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Reads everything; with `has_blocks`, also the blocks of files.
///
/// # Errors
/// Fails with the first call that fails: a recovered volume must be readable.
pub fn observe<S: Subject>(subject: &S, has_blocks: bool) -> Result<Observation, S::Error> {
    observe_from(subject, subject.root(), has_blocks)
}

/// Reads everything below a directory like [`observe`].
///
/// # Errors
/// Fails with the first call that fails.
pub(crate) fn observe_from<S: Subject>(
    subject: &S,
    directory: InodeNr,
    has_blocks: bool,
) -> Result<Observation, S::Error> {
    let mut walk = Walk {
        subject,
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

struct Walk<'s, S> {
    subject: &'s S,
    has_blocks: bool,
    nodes: Vec<Seen>,
    places: BTreeMap<InodeNr, usize>,
}

impl<S: Subject> Walk<'_, S> {
    fn place_of(&mut self, inode: InodeNr) -> Result<usize, S::Error> {
        if let Some(place) = self.places.get(&inode) {
            return Ok(*place);
        }
        let seen = self.subject.look(inode, self.has_blocks)?;
        let place = self.nodes.len();
        self.places.insert(inode, place);
        self.nodes.push(seen);
        Ok(place)
    }

    fn list(&mut self, place: usize) -> Result<(), S::Error> {
        let entries = self.subject.list(self.nodes[place].inode)?;
        let mut names = BTreeMap::new();
        for (name, inode) in entries {
            if place != 0 || name != LOST_AND_FOUND {
                let target = self.place_of(inode)?;
                // The directory of a crowd is read, but belongs to no lane.
                if place != 0 || name != CROWD {
                    names.insert(name, target);
                }
            }
        }
        self.nodes[place].contents = Contents::Directory(names);
        Ok(())
    }
}
