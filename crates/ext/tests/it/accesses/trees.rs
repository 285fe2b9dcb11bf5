//! Trees, as far as the operations change them.

use std::collections::BTreeMap;

use ext::Volume;
use ext::volume::{FileKind, InodeFlags, OpenFlags};
use layout::InodeNr;

use super::operations::TRIPLE;

/// The shape of a path: kind, size, links, and its marks.
pub(super) type Shape = (FileKind, u64, u32, Marks);
/// True if its data is journaled; its permissions; its extended attributes.
pub(super) type Marks = (bool, u16, BTreeMap<Vec<u8>, Vec<u8>>);
/// A tree: shapes, and the compared parts of contents.
pub(super) type Tree = BTreeMap<String, (Shape, Vec<u8>)>;

pub(super) fn tree(volume: &Volume) -> Tree {
    let mut found = Tree::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        for entry in volume.list(&format!("{directory}/")).expect("readdir") {
            let path = format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
            let attributes = volume.metadata(&path, false).expect("attributes");
            let is_journaled = attributes.flags.contains(InodeFlags::JOURNAL_DATA);
            let shape = (
                attributes.kind,
                attributes.size,
                attributes.links,
                (
                    is_journaled,
                    attributes.permissions,
                    extended(volume, attributes.inode),
                ),
            );
            let contents = match attributes.kind {
                FileKind::Regular => parts_of(volume, attributes.inode),
                FileKind::Symlink => volume.read_link(attributes.inode).expect("readlink"),
                _ => Vec::new(),
            };
            if attributes.kind == FileKind::Directory {
                open.push(path.clone());
            }
            found.insert(path, (shape, contents));
        }
    }
    found
}

fn extended(volume: &Volume, nr: InodeNr) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let names = volume.list_attributes(nr).expect("list").into_iter();
    names
        .map(|name| {
            let value = volume.get_attribute(nr, &name).expect("it was listed");
            (name, value)
        })
        .collect()
}

/// Returns the parts of a file that operations write.
fn parts_of(volume: &Volume, nr: InodeNr) -> Vec<u8> {
    let file = volume.open_inode(nr, OpenFlags::READ).expect("open");
    let mut bytes = Vec::new();
    for offset in [0, 100_000, 400_000, TRIPLE / 2, TRIPLE, TRIPLE + 300_000] {
        let mut part = vec![0; 50_000];
        let count = volume.read(file, offset, &mut part).expect("read");
        bytes.extend_from_slice(&part[..count]);
    }
    volume.release(file).expect("close");
    bytes
}

/// Returns true if names and shapes are those of one tree, except for a file that has grown in part
/// towards the next.
pub(super) fn has_shape(found: &Tree, tree: &Tree, next: Option<&Tree>) -> bool {
    let is_same = |(path, (shape, _)): (&String, &(Shape, Vec<u8>))| {
        let Some(((kind, size, links, marks), _)) = tree.get(path) else {
            return false;
        };
        let next = next.and_then(|next| next.get(path));
        let grown = next.map_or(*size, |((_, size, ..), _)| *size);
        (*size..=grown.max(*size)).contains(&shape.1)
            && (shape.0, shape.2, &shape.3) == (*kind, *links, marks)
    };
    found.len() == tree.len() && found.iter().all(is_same)
}
