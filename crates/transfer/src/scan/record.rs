//! A node of the host as bytes: approximately 50 of them, and its name.
//!
//! Numbers have 7 bits in a byte, the lowest first; the eighth says that more follow. Byte strings
//! follow their lengths.

use anyhow::{Context, Result};
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

use crate::Node;

const DAMAGED: &str = "the list of files has changed in its temporary file";
const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

/// Appends a node with its last name. `listing` is the number of a directory's listing.
pub(super) fn encode(out: &mut Vec<u8>, name: &[u8], node: &Node, listing: u32) {
    let (device, inode) = node.identity.unwrap_or_default();
    let kind = KINDS.iter().position(|kind| *kind == node.kind);
    put_bytes(out, name);
    for number in [
        kind.unwrap_or_default() as u64,
        node.permissions.into(),
        node.uid.into(),
        node.gid.into(),
        zigzag(node.atime.seconds),
        node.atime.nanos.into(),
        zigzag(node.mtime.seconds),
        node.mtime.nanos.into(),
        device,
        inode,
        node.links,
        node.size,
        node.held,
        node.device.major.into(),
        node.device.minor.into(),
        listing.into(),
        node.attributes.len() as u64,
    ] {
        put(out, number);
    }
    put_bytes(out, &node.target);
    for (name, value) in &node.attributes {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

/// Takes a node in the directory `parent` from the start of the bytes, with the number of its
/// listing.
pub(super) fn decode(bytes: &mut &[u8], parent: &[u8]) -> Result<(Node, u32)> {
    decoded(bytes, parent).context(DAMAGED)
}

fn decoded(bytes: &mut &[u8], parent: &[u8]) -> Option<(Node, u32)> {
    let name = take_bytes(bytes)?;
    let mut path = Vec::with_capacity(parent.len() + 1 + name.len());
    path.extend_from_slice(parent);
    if !parent.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    let mut numbers = [0; 17];
    for number in &mut numbers {
        *number = take(bytes)?;
    }
    let [
        kind,
        permissions,
        uid,
        gid,
        accessed,
        accessed_nanos,
        modified,
        modified_nanos,
        device,
        inode,
        links,
        size,
        held,
        major,
        minor,
        listing,
        attribute_count,
    ] = numbers;
    let narrow = |number: u64| u32::try_from(number).ok();
    let target = take_bytes(bytes)?.to_vec();
    let mut attributes = Vec::new();
    for _ in 0..attribute_count {
        let name = take_bytes(bytes)?.to_vec();
        attributes.push((name, take_bytes(bytes)?.to_vec()));
    }
    let node = Node {
        path,
        is_described: true,
        kind: *KINDS.get(kind as usize)?,
        permissions: u16::try_from(permissions).ok()?,
        uid: narrow(uid)?,
        gid: narrow(gid)?,
        atime: InodeTime::new(unzigzag(accessed), narrow(accessed_nanos)?),
        mtime: InodeTime::new(unzigzag(modified), narrow(modified_nanos)?),
        identity: Some((device, inode)),
        links,
        size,
        held,
        parts: None,
        device: DeviceNumber {
            major: narrow(major)?,
            minor: narrow(minor)?,
        },
        target,
        link_to: None,
        attributes,
    };
    Some((node, narrow(listing)?))
}

/// Maps numbers near 0 of either sign to small ones.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7F) << shift;
        if *first < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_comes_back_as_it_was() {
        let mut node = Node::plain_directory(b"in/name".to_vec());
        node.kind = FileKind::BlockDevice;
        node.permissions = 0o7777;
        (node.uid, node.gid) = (u32::MAX, 0);
        node.atime = InodeTime::new(i64::MIN, 999_999_999);
        node.mtime = InodeTime::new(-1, 0);
        node.identity = Some((u64::MAX, 1 << 63));
        (node.size, node.held, node.links) = (1 << 62, 127, 128);
        (node.device.major, node.device.minor) = (u32::MAX, 7);
        node.target = b"target".to_vec();
        node.attributes = vec![(b"user.a".to_vec(), vec![0; 300]), (Vec::new(), Vec::new())];
        let mut bytes = Vec::new();
        encode(&mut bytes, b"name", &node, u32::MAX);
        let mut rest = &bytes[..];
        let (found, listing) = decode(&mut rest, b"in").expect("it is whole");
        assert_eq!(format!("{found:?}"), format!("{node:?}"));
        assert_eq!((listing, rest.len()), (u32::MAX, 0));
        for length in 0..bytes.len() {
            decode(&mut &bytes[..length], b"in").expect_err("its end is missing");
        }
    }
}
