//! A reader's view of every inode.

use std::collections::BTreeMap;

use ext::Volume;
use ext::volume::{Attributes, FileKind, InodeFlags};
use layout::InodeNr;
use layout::time::InodeTime;

/// Largest number of inodes visited: damaged trees may contain cycles.
const INODES_MAX: usize = 200;
/// Number of bytes read from the start of a file.
const BYTES_MAX: usize = 400_000;
/// Number of sectors from which a file counts as ballast, and the number of bytes read from it.
const SECTORS_OF_BALLAST: u64 = 1000;
const BYTES_OF_BALLAST: usize = 10_000;

/// A view of an inode. Errors are part of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub attributes: Result<Attributes, String>,
    pub contents: Result<Vec<u8>, String>,
    pub extended: Result<BTreeMap<Vec<u8>, Vec<u8>>, String>,
    /// Entries of a directory.
    pub entries: BTreeMap<Vec<u8>, u32>,
    pub listed: Result<(), String>,
}

impl Seen {
    /// Returns a description of the first difference; ignores times and sizes of a directory that
    /// was changed on purpose.
    pub fn difference(&self, after: &Self, is_parent: bool) -> Option<String> {
        let known = |attributes: &Result<Attributes, String>| {
            let mut attributes = attributes.clone();
            if let (true, Ok(attributes)) = (is_parent, &mut attributes) {
                attributes.size = 0;
                attributes.sectors = 0;
                attributes.links = 0;
                attributes.flags.remove(InodeFlags::INDEX);
                attributes.mtime = attributes.atime;
                attributes.ctime = attributes.atime;
            }
            attributes
        };
        let (old, new) = (known(&self.attributes), known(&after.attributes));
        if old != new {
            let differs = |(old, new): &(String, String)| old != new;
            let words = |seen| format!("{seen:?}");
            let (old, new) = (words(old), words(new));
            let pairs = old.split(", ").zip(new.split(", "));
            let pairs = pairs.map(|(old, new)| (old.to_owned(), new.to_owned()));
            let first = pairs.into_iter().find(differs);
            return Some(format!("attributes: {first:?}"));
        }
        if self.contents != after.contents {
            let shown = |seen: &Result<Vec<u8>, String>| match seen {
                Ok(bytes) => format!("{} bytes", bytes.len()),
                Err(error) => error.clone(),
            };
            let (old, new) = (shown(&self.contents), shown(&after.contents));
            return Some(format!("contents: {old} became {new}"));
        }
        if self.extended != after.extended {
            let (old, new) = (&self.extended, &after.extended);
            return Some(format!("extended attributes: {old:?} became {new:?}"));
        }
        if self.listed != after.listed {
            let (old, new) = (&self.listed, &after.listed);
            return Some(format!("listing: {old:?} became {new:?}"));
        }
        if !is_parent && self.entries != after.entries {
            return Some("entries".to_owned());
        }
        None
    }
}

/// Returns the view of one inode.
pub fn see(volume: &Volume, nr: InodeNr) -> Seen {
    let said = |error: ext::Error| error.to_string();
    let attributes = volume.attributes(nr).map_err(said);
    let kind = attributes.as_ref().map(|attributes| attributes.kind).ok();
    let contents = match kind {
        Some(FileKind::Regular) => {
            let sectors = attributes
                .as_ref()
                .map_or(0, |attributes| attributes.sectors);
            let is_ballast = sectors > SECTORS_OF_BALLAST;
            let mut bytes = vec![
                0;
                if is_ballast {
                    BYTES_OF_BALLAST
                } else {
                    BYTES_MAX
                }
            ];
            let read = volume.read_node(nr, 0, &mut bytes, false);
            read.map(|count| bytes[..count].to_vec()).map_err(said)
        }
        Some(FileKind::Symlink) => volume.read_link(nr).map_err(said),
        _ => Ok(Vec::new()),
    };
    let mut entries = BTreeMap::new();
    let listed = match kind {
        Some(FileKind::Directory) => volume.read_directory(nr, 0, &mut |_, entry| {
            entries.insert(entry.name, entry.inode.get());
            entries.len() < INODES_MAX
        }),
        _ => Ok(()),
    };
    let extended = volume.list_attributes(nr).and_then(|names| {
        let value = |name: Vec<u8>| Ok((name.clone(), volume.get_attribute(nr, &name)?));
        names.into_iter().map(value).collect()
    });
    let mut seen = Seen {
        attributes,
        contents,
        extended: extended.map_err(said),
        entries,
        listed: listed.map_err(said),
    };
    if let Ok(attributes) = &mut seen.attributes {
        attributes.atime = InodeTime::new(0, 0);
    }
    seen
}

/// Returns the views of all inodes that are reachable from the root.
pub fn see_all(volume: &Volume) -> BTreeMap<u32, Seen> {
    let mut all = BTreeMap::new();
    let mut open = vec![InodeNr::ROOT.get()];
    while let Some(nr) = open.pop()
        && all.len() < INODES_MAX
    {
        if all.contains_key(&nr) {
            continue;
        }
        let seen = see(volume, InodeNr::new(nr));
        open.extend(seen.entries.values());
        all.insert(nr, seen);
    }
    all
}
