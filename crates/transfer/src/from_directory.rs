//! Reads a directory of the host, or a file. Names are in byte order.
//!
//! The tree is scanned once, when it is opened, so the tree that is counted is the tree that is
//! built. It is kept in a temporary file. While one thread makes nodes, others copy the data of
//! files whose blocks are already allocated; the layout does not depend on them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use ext::Volume;
use ext::volume::FileKind;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::file_data::{self, Jobs};
use super::scan::{self, Scanned};
use super::{
    CHUNK_BYTES, Filling, ImageSink, Item, Node, Parts, Scope, Sink, Source, Stop, Visitor, host,
};

/// A directory of the host and everything below it, or a file, as of the time it was opened.
pub struct DirectorySource {
    root: PathBuf,
    scanned: Scanned,
    follows_root: bool,
    is_exact: bool,
}

impl DirectorySource {
    /// Scans a directory, or looks at a file.
    ///
    /// # Errors
    /// Fails with the host's error if the tree cannot be read.
    pub fn open(root: &Path, scope: Scope) -> Result<Self> {
        Self::open_until(root, scope, &Stop::default())
    }

    /// As [`Self::open`], until `stop`.
    pub(crate) fn open_until(root: &Path, scope: Scope, stop: &Stop) -> Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            scanned: scan::scan(root, scope, stop)?,
            follows_root: scope.follows_root,
            is_exact: scope.exact,
        })
    }

    /// Returns the nodes, each directory before its entries.
    pub fn nodes(&self) -> impl Iterator<Item = Result<Node>> {
        self.scanned.nodes()
    }

    /// Returns the path of the tree.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Calls `see` with each node and its data.
    pub(crate) fn read(&self, see: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        for node in self.nodes() {
            let node = node?;
            let (at, size) = (self.at(&node), node.size);
            let context = || at.display().to_string();
            let has_data = node.is_regular_with_data() || !self.is_exact && node.is_regular();
            // Opened before the node is sent: a sink that overwrites a file truncates it then.
            let file = has_data.then(|| self.open_data(&node)).transpose();
            let file = file.with_context(context)?;
            see(Item::Node(Box::new(node)))?;
            if let Some(file) = file {
                let read = match self.is_exact {
                    true => send_parts(&file, size, see),
                    false => send_to_end(&file, see),
                };
                read.with_context(context)?;
            }
        }
        Ok(())
    }

    /// Shows each node with the parts of files that have holes, and the data that is wanted.
    pub(crate) fn visit(&self, visitor: &mut dyn Visitor) -> Result<()> {
        for node in self.nodes_with_parts() {
            let node = node?;
            let context = || self.at(&node).display().to_string();
            let is_wanted = visitor.node(node.clone()).with_context(context)?;
            if !is_wanted || !node.is_regular_with_data() {
                continue;
            }
            let file = self.open_data(&node).with_context(context)?;
            let sent = send_parts(&file, node.size, &mut |item| match item {
                Item::Data { offset, bytes } => visitor.data(offset, bytes),
                Item::Node(_) => Ok(()),
            });
            sent.with_context(context)?;
        }
        Ok(())
    }

    /// Copies the tree into a volume that is being made on a device, and closes the volume.
    ///
    /// # Errors
    /// Fails with the first error of the host or the volume.
    pub fn fill(
        &self,
        device: &Arc<dyn BlockDevice>,
        volume: Volume,
        filling: &Filling<'_>,
    ) -> Result<()> {
        let block_bytes = volume.superblock().geometry.block_bytes;
        let counted = Some(filling.count);
        file_data::with_writers(&self.root, device, block_bytes, counted, |jobs| {
            let made = self.make(&mut ImageSink::new(&volume, filling), jobs);
            let closed = volume.close();
            made?;
            Ok(closed?)
        })
    }

    /// Sends the nodes to a sink that only counts, with the parts of files that have holes.
    ///
    /// # Errors
    /// Fails with the first error of the host or the sink.
    pub(crate) fn count(&self, sink: &mut dyn Sink) -> Result<()> {
        for node in self.nodes_with_parts() {
            sink.take(Item::Node(Box::new(node?)))?;
        }
        sink.end()
    }

    fn nodes_with_parts(&self) -> impl Iterator<Item = Result<Node>> {
        self.nodes().map(|node| {
            let mut node = node?;
            if node.is_regular_with_data() && node.held < node.size {
                let file = self.open_data(&node);
                let parts = file.and_then(|file| parts(&file, node.size));
                let parts = parts.with_context(|| self.at(&node).display().to_string())?;
                node.parts = Some(parts);
            }
            Ok(node)
        })
    }

    fn make(&self, sink: &mut ImageSink<'_>, jobs: &mut Jobs<'_>) -> Result<()> {
        for node in self.nodes() {
            let node = node?;
            if node.is_regular_with_data() {
                let sent = self.make_file(&node, sink, jobs);
                sent.with_context(|| self.at(&node).display().to_string())?;
            } else {
                sink.node(&node).with_context(|| node.text())?;
            }
        }
        sink.end()
    }

    fn at(&self, node: &Node) -> PathBuf {
        match &node.path[..] {
            [] => self.root.clone(),
            path => self.root.join(OsStr::from_bytes(path)),
        }
    }

    fn open_data(&self, node: &Node) -> Result<File> {
        let file = match node.path.is_empty() {
            true => host::open_root(&self.root, self.follows_root, node.identity),
            false => host::open_data(&self.root, &node.into()),
        };
        file.map(File::from)
    }

    /// Makes a file with data. The data becomes a job unless the file has holes, or may lie within
    /// its inode.
    fn make_file(&self, node: &Node, sink: &mut ImageSink<'_>, jobs: &mut Jobs<'_>) -> Result<()> {
        let size = node.size;
        if sink.may_fit_inode(size) {
            let file = self.open_data(node)?;
            sink.node(node)?;
            return send_parts(&file, size, &mut |item| sink.take(item));
        }
        // Fewer blocks than bytes need not mean holes: the host may have compressed the file.
        if node.held < size {
            let file = self.open_data(node)?;
            if next_data(&file, 0, size)? != Some((0, size)) {
                sink.node(node)?;
                return send_parts(&file, size, &mut |item| sink.take(item));
            }
        }
        jobs.send(&node.into(), size, &sink.laid_out(node)?)
    }
}

impl Node {
    fn is_regular(&self) -> bool {
        self.kind == FileKind::Regular && self.link_to.is_none()
    }

    fn is_regular_with_data(&self) -> bool {
        self.is_regular() && self.size > 0
    }
}

impl Source for DirectorySource {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        if with_data {
            return self.read(send);
        }
        self.nodes()
            .try_for_each(|node| send(Item::Node(Box::new(node?))))
    }
}

/// Sends the data of a file to its end, and then its length.
fn send_to_end(file: &File, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
    let size = file.metadata()?.len();
    let mut offset = 0;
    // A generated file without a length may report no data.
    let parts = |offset| match size {
        0 => Ok(Some((offset, u64::MAX))),
        _ => next_data(file, offset, u64::MAX),
    };
    while let Some((start, end)) = parts(offset)? {
        offset = start;
        while offset < end {
            let mut bytes = vec![0; (end - offset).min(CHUNK_BYTES as u64) as usize];
            let count = file.read_at(&mut bytes, offset)?;
            if count == 0 {
                return send(end_of_file(offset));
            }
            bytes.truncate(count);
            send(Item::Data { offset, bytes })?;
            offset += count as u64;
        }
    }
    let size = file.metadata()?.len();
    send(end_of_file(size.max(offset)))
}

fn end_of_file(offset: u64) -> Item {
    let bytes = Vec::new();
    Item::Data { offset, bytes }
}

fn send_parts(file: &File, size: u64, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
    let mut offset = 0;
    while let Some((start, end)) = next_data(file, offset, size)? {
        offset = start;
        while offset < end {
            let length = (end - offset).min(CHUNK_BYTES as u64) as usize;
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset)
                .context(file_data::TOO_SHORT)?;
            send(Item::Data { offset, bytes })?;
            offset += length as u64;
        }
    }
    // What was cut off looks like a hole.
    if file.metadata()?.len() < size {
        bail!(file_data::TOO_SHORT);
    }
    Ok(())
}

/// Returns the parts of a file that are data.
fn parts(file: &File, size: u64) -> Result<Parts> {
    let (parts, mut offset) = (Parts::default(), 0);
    while let Some((start, end)) = next_data(file, offset, size)? {
        parts.push((start, end - start))?;
        offset = end;
    }
    Ok(parts)
}

/// Returns start and end of the first data at or after an offset, or none if only a hole follows.
fn next_data(file: &File, offset: u64, size: u64) -> Result<Option<(u64, u64)>> {
    if offset >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, size))),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok((start < size).then_some((start, end.min(size))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Replaces parts of a tree while it is read.
    #[test]
    fn a_tree_that_is_exchanged_leads_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for directory in ["tree/d", "secret"] {
            fs::create_dir_all(at(directory)).expect("there is room");
            fs::write(at(directory).join("file"), b"contents").expect("there is room");
        }
        let read = |source: &DirectorySource| {
            let mut found = Vec::new();
            let read = source.read(&mut |item| {
                if let Item::Data { bytes, .. } = item {
                    found.extend(bytes);
                }
                Ok(())
            });
            read.map(|()| found)
        };
        let source = DirectorySource::open(&at("tree"), Scope::WHOLE).expect("it is there");
        assert_eq!(read(&source).expect("it is as it was"), b"contents");
        let file = at("tree/d/file");
        fs::rename(&file, at("moved")).expect("it is there");
        fs::write(&file, b"replaced").expect("there is room");
        read(&source).expect_err("another file in the place of the file");
        fs::remove_file(&file).expect("it is there");
        symlink(at("secret/file"), &file).expect("there is room");
        read(&source).expect_err("a link in the place of the file");
        fs::remove_file(&file).expect("it is there");
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).expect("a fifo");
        read(&source).expect_err("a fifo, which nobody writes");
        fs::remove_dir_all(at("tree/d")).expect("it is there");
        symlink(at("secret"), at("tree/d")).expect("there is room");
        read(&source).expect_err("a link in the place of the directory");
    }

    #[test]
    fn a_file_that_is_exchanged_is_refused_as_in_a_tree() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for name in ["file", "secret"] {
            fs::write(at(name), name).expect("there is room");
        }
        for follows_root in [false, true] {
            let scope = Scope {
                follows_root,
                ..Scope::WHOLE
            };
            let source = DirectorySource::open(&at("file"), scope).expect("it is there");
            source.read(&mut |_| Ok(())).expect("it is as it was");
            fs::rename(at("file"), at("moved")).expect("it is there");
            symlink(at("secret"), at("file")).expect("there is room");
            source
                .read(&mut |_| Ok(()))
                .expect_err("a link in the place of the file");
            fs::rename(at("moved"), at("file")).expect("it is there");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_has_no_hole_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for left in [0, 1, 4096] {
            fs::write(&path, vec![7; 100_000]).expect("there is room");
            let source = DirectorySource::open(folder.path(), Scope::WHOLE).expect("it is there");
            let file = File::options().write(true).open(&path);
            file.and_then(|file| file.set_len(left)).expect("its own");
            let read = source.read(&mut |_| Ok(()));
            let error = read.expect_err("it is too short");
            assert!(
                format!("{error:#}").contains(file_data::TOO_SHORT),
                "{left}"
            );
        }
    }
}
