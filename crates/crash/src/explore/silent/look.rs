//! The visible state of a volume that may be damaged: every inode is read separately, so that an
//! error hides nothing else.

use std::collections::{BTreeMap, VecDeque};

use ext::volume::{Attributes, Entry, FileKind, OpenFlags};
use ext::{Error, Volume};
use layout::InodeNr;

/// Number of bytes read at the start and at the end of a larger file; only a damaged inode makes
/// one.
const PIECE_BYTES: usize = 4 << 20;

/// A visible part, or the error of reading it.
pub(super) type Seen<T> = Result<T, Error>;

/// Names, with the inodes found by listing and by look-up.
type Names = BTreeMap<Vec<u8>, (InodeNr, Option<InodeNr>)>;

/// An inode.
#[derive(Debug, Clone)]
pub(super) struct Object {
    /// Its attributes.
    pub(super) attributes: Seen<Attributes>,
    /// Its contents.
    pub(super) contents: Seen<Contents>,
    /// Its extended attributes.
    pub(super) marks: Seen<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// The contents of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    /// All bytes of a file.
    File(Vec<u8>),
    /// The names of a directory.
    Directory(Names),
    /// The target of a symbolic link.
    Symlink(Vec<u8>),
    /// Nothing.
    Special,
}

/// The visible state of a volume.
#[derive(Debug, Clone, Default)]
pub(super) struct Sight {
    pub(super) objects: BTreeMap<InodeNr, Object>,
}

impl Sight {
    /// Reads these inodes, and all that names refer to from there.
    pub(super) fn of(volume: &Volume, from: impl IntoIterator<Item = InodeNr>) -> Self {
        let mut objects = BTreeMap::new();
        let mut waiting: VecDeque<InodeNr> = from.into_iter().collect();
        while let Some(nr) = waiting.pop_front() {
            if objects.contains_key(&nr) {
                continue;
            }
            let object = look(volume, nr);
            if let Ok(Contents::Directory(names)) = &object.contents {
                waiting.extend(names.values().map(|(listed, _)| listed));
            }
            objects.insert(nr, object);
        }
        Self { objects }
    }

    /// Returns the errors met.
    pub(super) fn errors(&self) -> impl Iterator<Item = &Error> {
        self.objects.values().flat_map(Object::errors)
    }
}

impl Object {
    fn errors(&self) -> impl Iterator<Item = &Error> {
        let of = [
            self.attributes.as_ref().err(),
            self.contents.as_ref().err(),
            self.marks.as_ref().err(),
        ];
        of.into_iter().flatten()
    }
}

fn look(volume: &Volume, nr: InodeNr) -> Object {
    let attributes = volume.attributes(nr);
    let contents = attributes
        .clone()
        .and_then(|attributes| match attributes.kind {
            FileKind::Regular => read(volume, nr, attributes.size).map(Contents::File),
            FileKind::Directory => list(volume, nr).map(Contents::Directory),
            FileKind::Symlink => volume.read_link(nr).map(Contents::Symlink),
            _ => Ok(Contents::Special),
        });
    let marks = volume.list_attributes(nr).and_then(|names| {
        let value = |name: Vec<u8>| Ok((name.clone(), volume.get_attribute(nr, &name)?));
        names.into_iter().map(value).collect()
    });
    Object {
        attributes,
        contents,
        marks,
    }
}

fn read(volume: &Volume, nr: InodeNr, size: u64) -> Seen<Vec<u8>> {
    let piece = size.min(PIECE_BYTES as u64);
    let mut bytes = read_piece(volume, nr, 0, piece)?;
    if size > piece {
        bytes.extend(read_piece(volume, nr, size - piece, piece)?);
    }
    Ok(bytes)
}

fn read_piece(volume: &Volume, nr: InodeNr, offset: u64, length: u64) -> Seen<Vec<u8>> {
    let mut bytes = vec![0xEE; length as usize];
    let file = volume.open_inode(nr, OpenFlags::READ)?;
    let read = volume.read(file, offset, &mut bytes);
    volume.release(file)?;
    bytes.truncate(read?);
    Ok(bytes)
}

fn list(volume: &Volume, nr: InodeNr) -> Seen<Names> {
    let mut entries: Vec<Entry> = Vec::new();
    volume.read_directory(nr, 0, &mut |_, entry| {
        entries.push(entry);
        true
    })?;
    let found = |entry: Entry| {
        let found = match volume.lookup(nr, &entry.name) {
            Ok(found) => Some(found),
            Err(Error::NotFound | Error::Invalid(_)) => None,
            Err(error) => return Err(error),
        };
        Ok((entry.name, (entry.inode, found)))
    };
    entries.into_iter().map(found).collect()
}
