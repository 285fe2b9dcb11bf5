//! The files of an archive that holds a container image, by name. The archive is indexed once, and
//! its files are read where they lie.
//!
//! An archive is recognised by the names of its files, all of which must be names that such
//! archives have: the first file of an archive of a tree has another name, so that only its header
//! is read.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use tar::EntryType;

use super::json::is_hex;
use super::{INDEX_NAME, LAYOUT_NAME, MANIFEST_NAME};
use crate::decompressed::{self, Decompressed};
use crate::from_archive::inner_path;
use crate::section::{Section, spool};
use crate::tar_entries::{Entries, Entry};

/// Maximum number of links on the way to a file.
const LINKS_MAX: usize = 8;
/// Maximum number of files.
const FILES_MAX: usize = 1 << 16;
/// Names of files besides those that are made of digests.
const NAMES: [&str; 4] = [LAYOUT_NAME, INDEX_NAME, MANIFEST_NAME, "repositories"];

/// The files of an archive.
#[derive(Debug)]
pub(super) struct Members {
    /// Path of the archive, for messages.
    name: String,
    contents: Section,
    files: BTreeMap<String, Member>,
}

#[derive(Debug)]
enum Member {
    /// Offset and length in bytes.
    File(u64, u64),
    /// Another name.
    Link(String),
}

impl Members {
    /// Indexes an archive, if it holds a container image.
    pub(super) fn of(name: &str, contents: &Section) -> Result<Option<Self>> {
        if !decompressed::is_packed(&contents.file) {
            return Self::of_plain(name, contents);
        }
        // Its files can only be read where they lie if the archive is not compressed.
        let unpack = || Decompressed::of(contents.reader());
        let Ok(unpacked) = unpack() else {
            return Ok(None);
        };
        let mut entries = Entries::new(unpacked.reader);
        let is_candidate = loop {
            match entries.next_entry() {
                Ok(Some(entry)) if entry.header.entry_type() == EntryType::Directory => {
                    if !is_known_entry(&entry) {
                        break false;
                    }
                }
                Ok(Some(entry)) => break is_known_entry(&entry),
                // The reader of plain archives has the words for what is wrong.
                Ok(None) | Err(_) => break false,
            }
        };
        if !is_candidate {
            return Ok(None);
        }
        let spooled = spool(&mut unpack()?.reader).with_context(|| name.to_owned())?;
        Self::of_plain(name, &Section::of(spooled))
    }

    fn of_plain(name: &str, contents: &Section) -> Result<Option<Self>> {
        let mut files = BTreeMap::new();
        let mut entries = Entries::new(contents.reader());
        loop {
            let entry = match entries.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                // Damage in an archive of images is an error; all else may be a tree.
                Err(error) if files.len() > 1 => return Err(error).context(name.to_owned()),
                Err(_) => return Ok(None),
            };
            let path = inner_path(&entry.path).unwrap_or_default();
            let path = String::from_utf8_lossy(&path).into_owned();
            if !is_known_entry(&entry) {
                // Whatever else lies beside an image layout, it is one.
                if files.contains_key(LAYOUT_NAME) && files.contains_key(INDEX_NAME) {
                    entries.skip();
                    continue;
                }
                return Ok(None);
            }
            let member = match entry.header.entry_type() {
                EntryType::Directory => None,
                EntryType::Symlink => Some(Member::Link(beside(&path, &entry.target))),
                EntryType::Link => Some(Member::Link(beside("", &entry.target))),
                _ => Some(Member::File(entries.position(), entry.stored)),
            };
            files.extend(member.map(|member| (path, member)));
            if files.len() > FILES_MAX {
                bail!("{name}: more than {FILES_MAX} files");
            }
            entries.skip();
        }
        let members = Self {
            name: name.to_owned(),
            contents: contents.clone(),
            files,
        };
        let is_image = members.has(MANIFEST_NAME) || members.has(LAYOUT_NAME);
        Ok(is_image.then_some(members))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if there is a file of this name.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the bytes of a file.
    pub(super) fn open(&self, path: &str) -> Result<Section> {
        let mut at = path;
        for _ in 0..LINKS_MAX {
            match self.files.get(at) {
                None => bail!("is not in the archive"),
                Some(Member::Link(target)) => at = target,
                Some(Member::File(offset, length)) => {
                    return Ok(self.contents.part(*offset, *length));
                }
            }
        }
        bail!("is a link that leads to another, and so on");
    }
}

/// Returns true if an archive that holds an image may have this entry.
fn is_known_entry(entry: &Entry) -> bool {
    let path = inner_path(&entry.path).ok();
    let path = path.and_then(|path| String::from_utf8(path).ok());
    path.is_some_and(|path| is_known(&path))
}

fn is_known(path: &str) -> bool {
    let words: Vec<&str> = path.split('/').collect();
    let is_digest = |word: &str| is_hex(word.strip_prefix("sha256:").unwrap_or(word));
    match words[..] {
        [""] | ["blobs"] | ["blobs", "sha256" | "sha512"] => true,
        ["blobs", "sha256" | "sha512", digest] => is_hex(digest),
        [layer, "VERSION" | "json" | "layer.tar"] => is_digest(layer),
        [name] => {
            let endings = [".json", ".tar", ".tar.gz"].iter();
            let mut plain = endings.filter_map(|ending| name.strip_suffix(ending));
            NAMES.contains(&name) || is_digest(name) || plain.any(is_digest)
        }
        _ => false,
    }
}

/// Returns the path of the target of a link.
fn beside(path: &str, target: &[u8]) -> String {
    let target = String::from_utf8_lossy(target);
    let mut names: Vec<&str> = path.split('/').collect();
    names.pop();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_images_have_names_of_their_own() {
        let digest = "0123456789abcdef".repeat(4);
        for (path, known) in [
            ("", true),
            ("blobs/sha256/D", true),
            ("D/layer.tar", true),
            ("D.json", true),
            ("sha256:D", true),
            ("D.tar.gz", true),
            ("manifest.json", true),
            ("D", true),
            ("etc", false),
            ("blobs/sha256/etc", false),
            ("manifest.json/D", false),
            ("D/etc", false),
        ] {
            assert_eq!(is_known(&path.replace('D', &digest)), known, "{path}");
        }
        assert_eq!(beside("a/layer.tar", b"../b/layer.tar"), "b/layer.tar");
    }
}
