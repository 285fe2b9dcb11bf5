//! A description of a tree, path by path, that any reader can produce.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Type, as `ls -l` shows it.
    pub kind: char,
    /// Permission bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Link count; `None` if the reader cannot determine it.
    pub links: Option<u32>,
    /// Time of the last change of the contents in seconds; `None` if the reader cannot determine
    /// it.
    pub mtime: Option<i64>,
    /// Contents of a file, or target of a link; `None` if the reader cannot read them.
    pub contents: Option<Vec<u8>>,
    /// Device number of a device node.
    pub device: Option<(u32, u32)>,
}

/// A tree by path; the root is the empty path.
pub type Tree = BTreeMap<Vec<u8>, Node>;

/// Returns the tree below a directory as the kernel shows it.
///
/// # Panics
/// Panics if an entry cannot be read.
pub fn of_folder(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(folder, &[], &mut tree);
    tree
}

fn walk(at: &Path, path: &[u8], tree: &mut Tree) {
    let metadata = std::fs::symlink_metadata(at).expect("stat through the kernel");
    let kind = metadata.file_type();
    let (letter, contents) = if kind.is_dir() {
        ('d', Vec::new())
    } else if kind.is_symlink() {
        (
            'l',
            std::fs::read_link(at)
                .expect("readlink")
                .into_os_string()
                .into_vec(),
        )
    } else if kind.is_file() {
        ('-', std::fs::read(at).expect("read through the kernel"))
    } else if kind.is_block_device() {
        ('b', Vec::new())
    } else if kind.is_char_device() {
        ('c', Vec::new())
    } else if kind.is_fifo() {
        ('p', Vec::new())
    } else {
        ('s', Vec::new())
    };
    let raw = metadata.rdev();
    let major = ((raw >> 8) & 0xFFF) as u32;
    let minor = ((raw & 0xFF) | ((raw >> 12) & 0xF_FF00)) as u32;
    let node = Node {
        kind: letter,
        permissions: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        links: Some(metadata.nlink() as u32),
        mtime: Some(metadata.mtime()),
        contents: Some(contents),
        device: matches!(letter, 'b' | 'c').then_some((major, minor)),
    };
    tree.insert(path.to_vec(), node);
    if kind.is_dir() {
        for entry in std::fs::read_dir(at).expect("readdir through the kernel") {
            let entry = entry.expect("an entry");
            let mut child = path.to_vec();
            child.push(b'/');
            child.extend_from_slice(entry.file_name().as_bytes());
            walk(&entry.path(), &child, tree);
        }
    }
}

/// Returns the first difference between two trees, if any. Values that either side cannot determine
/// are not compared.
pub fn difference(expected: &Tree, seen: &Tree) -> Option<String> {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    for (path, node) in expected {
        let Some(other) = seen.get(path) else {
            return Some(format!("{} is not there", text(path)));
        };
        if let Some(differs) = describe_difference(node, other) {
            return Some(format!("{} has another {differs}", text(path)));
        }
    }
    let more = seen.keys().find(|path| !expected.contains_key(*path));
    more.map(|path| format!("{} should not be there", text(path)))
}

fn describe_difference(a: &Node, b: &Node) -> Option<String> {
    let both = |x: Option<i64>, y: Option<i64>| matches!((x, y), (Some(x), Some(y)) if x != y);
    let links = |node: &Node| node.links.map(i64::from);
    if a.kind != b.kind {
        return Some(format!("kind: {} {}", a.kind, b.kind));
    }
    let is_link = a.kind == 'l';
    if a.permissions != b.permissions && !is_link {
        return Some(format!("mode: {:o} {:o}", a.permissions, b.permissions));
    }
    if (a.uid, a.gid) != (b.uid, b.gid) {
        return Some(format!("owner: {:?} {:?}", (a.uid, a.gid), (b.uid, b.gid)));
    }
    if both(links(a), links(b)) {
        return Some(format!("link count: {:?} {:?}", a.links, b.links));
    }
    if both(a.mtime, b.mtime) {
        return Some(format!("time: {:?} {:?}", a.mtime, b.mtime));
    }
    if matches!((a.device, b.device), (Some(x), Some(y)) if x != y) {
        return Some(format!("device: {:?} {:?}", a.device, b.device));
    }
    if let (Some(x), Some(y)) = (&a.contents, &b.contents)
        && x != y
    {
        let at = x.iter().zip(y).position(|(x, y)| x != y);
        let (x, y) = (x.len(), y.len());
        return Some(format!(
            "contents: {x} and {y} bytes, first difference at {at:?}"
        ));
    }
    None
}
