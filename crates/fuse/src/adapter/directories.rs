//! Directory listings, as many entries as fit in an answer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ext::volume::{Attributes, Entry};
use fuser::{FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::answers::{generation, unknown};
use super::guard::Failure;
use super::{Adapter, FOREVER, inode};
use crate::attributes::type_of;

impl Adapter {
    /// Lists names and inode numbers.
    pub(super) fn list(
        &self,
        node: INodeNo,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<(), Failure> {
        let mut is_empty = true;
        let mut visit = |next, entry: &Entry| {
            is_empty = false;
            let number = INodeNo(u64::from(entry.inode.get()));
            // If the entries of an image have no file types, programs that need one read the
            // attributes.
            let kind = entry.kind.map_or(FileType::RegularFile, type_of);
            !reply.add(number, next, kind, OsStr::from_bytes(&entry.name))
        };
        let listed = self.fs.read_directory(inode(node)?, offset, &mut visit);
        Ok(behind_entries(is_empty, listed)?)
    }

    /// Lists names with their nodes, as if each had been looked up.
    pub(super) fn list_nodes(
        &self,
        node: INodeNo,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<(), Failure> {
        let mut is_empty = true;
        let mut visit = |next, entry: &Entry, attributes: Option<&Attributes>| {
            is_empty = false;
            let name = OsStr::from_bytes(&entry.name);
            let (attr, generation) = match attributes {
                Some(found) => (self.entry(found), generation(found)),
                None => (unknown(entry), Generation(0)),
            };
            !reply.add(attr.ino, next, name, &FOREVER, &attr, generation)
        };
        let listed = self
            .fs
            .read_directory_nodes(inode(node)?, offset, &mut visit);
        Ok(behind_entries(is_empty, listed)?)
    }
}

/// Defers an error after the first entries: the answer has the entries, and the next read, which
/// starts after the last of them, fails.
fn behind_entries(is_empty: bool, listed: ext::Result<()>) -> ext::Result<()> {
    if is_empty { listed } else { Ok(()) }
}
