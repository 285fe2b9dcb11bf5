//! A tree as everybody can describe it: path by path.

use std::collections::BTreeMap;

/// What one path is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: char,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    /// Names of the inode; none where the reader cannot tell.
    pub links: Option<u32>,
    /// Seconds of the last change of contents; none where the describer does not know.
    pub mtime: Option<i64>,
    /// Contents of a file, or target of a link; none where the reader cannot read them.
    pub contents: Option<Vec<u8>>,
    /// Of a device node.
    pub device: Option<(u32, u32)>,
}

/// A tree by path, the root as the empty path.
pub type Tree = BTreeMap<Vec<u8>, Node>;

/// Compares what one sees with what is expected; what either cannot tell is not compared.
pub fn assert_same(expected: &Tree, seen: &Tree, who: &str) {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    for (path, node) in expected {
        let other = seen
            .get(path)
            .unwrap_or_else(|| panic!("{who} does not see {}", text(path)));
        let differs = describe_difference(node, other);
        assert!(
            differs.is_none(),
            "{who} sees {} with another {differs:?}",
            text(path)
        );
    }
    for path in seen.keys() {
        assert!(
            expected.contains_key(path),
            "{who} sees {}, which should not be",
            text(path)
        );
    }
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
