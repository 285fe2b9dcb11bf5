//! A directory of the host as a source. Names come in the order of their bytes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ext::volume::FileKind;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::host::{self, AttributeReader};
use super::{CHUNK_BYTES, Item, Source};

/// A directory of the host.
pub(crate) struct DirectorySource {
    root: PathBuf,
}

struct Walk<'s> {
    root: &'s Path,
    with_data: bool,
    send: &'s mut dyn FnMut(Item) -> Result<()>,
    attributes: AttributeReader,
    /// Files with several names that have come already, by device and inode.
    seen: BTreeMap<(u64, u64), Vec<u8>>,
}

impl DirectorySource {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }
}

impl Source for DirectorySource {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        let mut walk = Walk {
            root: &self.root,
            with_data,
            send,
            attributes: AttributeReader::new(),
            seen: BTreeMap::new(),
        };
        walk.visit(Vec::new())
    }
}

impl Walk<'_> {
    /// A file and, if it is a directory, all below it.
    fn visit(&mut self, path: Vec<u8>) -> Result<()> {
        let at = self.root.join(OsStr::from_bytes(&path));
        let context = || at.display().to_string();
        // The root may be named by a link.
        let metadata = if path.is_empty() {
            fs::metadata(&at)
        } else {
            fs::symlink_metadata(&at)
        };
        let metadata = metadata.with_context(context)?;
        let mut node = host::node(path.clone(), &metadata);
        let is_directory = node.kind == FileKind::Directory;
        if !is_directory && metadata.nlink() > 1 {
            let key = (metadata.dev(), metadata.ino());
            if let Some(first) = self.seen.get(&key) {
                node.link_to = Some(first.clone());
                return (self.send)(Item::Node(Box::new(node)));
            }
            self.seen.insert(key, path.clone());
        }
        node.attributes = self.attributes.read(&at).with_context(context)?;
        if node.kind == FileKind::Symlink {
            let target = fs::read_link(&at).with_context(context)?;
            node.target = target.into_os_string().into_vec();
        }
        let (kind, size, has_holes) = (node.kind, node.size, node.held < node.size);
        (self.send)(Item::Node(Box::new(node)))?;
        if kind == FileKind::Regular && self.with_data && size > 0 {
            return self.send_data(&at, size, has_holes).with_context(context);
        }
        if !is_directory {
            return Ok(());
        }
        let mut names = fs::read_dir(&at)
            .with_context(context)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<Vec<_>>>()?;
        names.sort_unstable();
        for name in names {
            let mut child = path.clone();
            if !child.is_empty() {
                child.push(b'/');
            }
            child.extend_from_slice(name.as_bytes());
            self.visit(child)?;
        }
        Ok(())
    }

    fn send_data(&mut self, at: &Path, size: u64, has_holes: bool) -> Result<()> {
        let file = File::open(at)?;
        let mut offset = 0;
        while offset < size {
            let end = if has_holes {
                let Some((start, end)) = next_data(&file, offset, size)? else {
                    break;
                };
                offset = start;
                end
            } else {
                size
            };
            while offset < end {
                let length = (end - offset).min(CHUNK_BYTES as u64) as usize;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset)
                    .context("it is shorter now than it was")?;
                (self.send)(Item::Data { offset, bytes })?;
                offset += length as u64;
            }
        }
        Ok(())
    }
}

/// Where data begins and ends from an offset on; none if a hole reaches to the end.
fn next_data(file: &File, offset: u64, size: u64) -> Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, size))),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok((start < size).then_some((start, end.min(size))))
}
