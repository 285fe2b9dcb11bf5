//! The target of a copy as a sink: creates the items of a source there, on the host or in an image.

use anyhow::{Context, Result, bail};
use ext::volume::{FileKind, NewInode};
use indicatif::ProgressBar;
use transfer::{Item, Node, Sink};

use super::copier::Copier;
use super::end::{End, Stream, Written};
use crate::{interrupt, output, progress};

/// Size of the pieces that are checked for zeroes when holes are left.
const PIECE_BYTES: usize = 4096;
/// Size from which a file is copied with a progress bar.
const BAR_BYTES_MIN: u64 = 16 << 20;
/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 1000;

/// The copy of one source.
pub(super) struct CopySink<'c, 'v> {
    copier: &'c mut Copier<'v>,
    source: &'c End,
    target: &'c End,
    open: Option<Open<'v>>,
    /// Directories that get their owners, modes and times when they are filled.
    directories: Vec<(End, Box<Node>)>,
    /// True if the last file is a link to an earlier copy: its data is not needed.
    is_linked: bool,
}

/// A file that is being written.
struct Open<'v> {
    stream: Stream<'v>,
    target: End,
    node: Box<Node>,
    /// True if its name was free before.
    is_new: bool,
    /// End of the data so far.
    reached: u64,
    /// Length of the file, if the source sends it after the data.
    size: Option<u64>,
    bar: Option<ProgressBar>,
}

impl<'c, 'v> CopySink<'c, 'v> {
    pub(super) fn new(copier: &'c mut Copier<'v>, source: &'c End, target: &'c End) -> Self {
        Self {
            copier,
            source,
            target,
            open: None,
            directories: Vec::new(),
            is_linked: false,
        }
    }

    /// Removes an incomplete file; the error is reported.
    pub(super) fn abandon(self) {
        if let Some(open) = self.open {
            if let Some(bar) = open.bar {
                bar.finish_and_clear();
            }
            let _ = open.stream.close();
            if open.is_new {
                let _ = open.target.remove(self.copier.images);
            }
        }
    }

    fn make(&mut self, node: Box<Node>) -> Result<()> {
        let (source, target) = (self.source.below(&node.path), self.target.below(&node.path));
        interrupt::check().with_context(|| source.text())?;
        let (images, how) = (self.copier.images, self.copier.how);
        if self.copier.is_same(&source, &node, &target)? {
            bail!("{}: cannot be copied onto itself", source.text());
        }
        if how.verbose {
            output::print(&format!("'{}' -> '{}'\n", source.text(), target.text()))?;
        }
        self.is_linked = false;
        let mut is_protected = node.kind == FileKind::Symlink;
        if let Some(identity) = source.identity(&node)
            && how.archive
            && node.links > 1
            && node.kind != FileKind::Directory
        {
            if let Some(first) = self.copier.first_names.get(&identity) {
                self.is_linked = true;
                if first.identity_of(images, false)? == target.identity_of(images, false)? {
                    return Ok(());
                }
                self.copier.check_free(&target)?;
                self.make_room(&target)?;
                return target.make_hard_link(images, first);
            }
            self.copier.first_names.insert(identity, target.clone());
            is_protected = true;
        }
        self.copier.check_free(&target)?;
        match node.kind {
            FileKind::Regular => return self.create(target, node, is_protected),
            FileKind::Directory => return self.make_directory(&source, target, node),
            FileKind::Symlink => {
                self.make_room(&target)?;
                target.make_link(images, &node.target)?;
            }
            _ => {
                self.make_room(&target)?;
                target.make_node(images, &node)?;
            }
        }
        if is_protected {
            self.copier.protect(&target)?;
        }
        self.copier.adopt(&target, None, &node)
    }

    /// Removes the file with the new name, unless it is a directory.
    fn make_room(&self, target: &End) -> Result<()> {
        let images = self.copier.images;
        match target.facts(images, false)? {
            None => Ok(()),
            Some(found) if found.kind == FileKind::Directory => {
                bail!("{}: is a directory", target.text())
            }
            Some(_) => target.remove(images),
        }
    }

    fn make_directory(&mut self, source: &End, target: End, node: Box<Node>) -> Result<()> {
        let names = node.path.split(|byte| *byte == b'/');
        if names.filter(|name| !name.is_empty()).count() >= DEPTH_MAX {
            bail!(
                "{}: more than {DEPTH_MAX} directories within each other; jext export copies any number",
                source.text()
            );
        }
        let images = self.copier.images;
        match target.facts(images, true)? {
            None => target.make_directory(images)?,
            Some(found) if found.kind == FileKind::Directory => {}
            Some(_) => bail!("{}: is not a directory", target.text()),
        }
        self.directories.push((target, node));
        Ok(())
    }

    fn create(&mut self, target: End, node: Box<Node>, is_protected: bool) -> Result<()> {
        let images = self.copier.images;
        let bar = (node.size >= BAR_BYTES_MIN).then(|| {
            let bar = progress::bytes(node.size);
            bar.set_message(target.text());
            bar
        });
        let new = NewInode {
            permissions: node.permissions,
            ..NewInode::default()
        };
        let is_new = target.facts(images, false)?.is_none();
        let stream = target.create(images, &new)?;
        if is_protected {
            self.copier.protect(&target)?;
        }
        self.open = Some(Open {
            stream,
            target,
            node,
            is_new,
            reached: 0,
            size: None,
            bar,
        });
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let is_sparse = self.copier.how.sparse;
        let Some(open) = &mut self.open else {
            return match self.is_linked {
                true => Ok(()),
                false => bail!("data without a file"),
            };
        };
        if bytes.is_empty() {
            open.size = Some(offset);
            return Ok(());
        }
        let written = interrupt::check().and_then(|()| match is_sparse {
            true => write_sparse(&mut open.stream, bytes, offset),
            false => open.stream.write_all_at(bytes, offset),
        });
        written.with_context(|| open.target.text())?;
        open.reached = offset + bytes.len() as u64;
        if let Some(bar) = &open.bar {
            bar.set_position(open.reached);
        }
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let (target, is_new) = (open.target.clone(), open.is_new);
        match open.finish(self.copier.how.sparse) {
            // A device or a pipe is no copy, and keeps what it has.
            Ok((_, Written::Special)) => Ok(()),
            Ok((node, Written::Host(file))) => self.copier.adopt(&target, Some(&file), &node),
            Ok((node, Written::Image)) => self.copier.adopt(&target, None, &node),
            Err(error) => {
                if is_new {
                    // An incomplete copy is useless. The original error is reported.
                    let _ = target.remove(self.copier.images);
                }
                Err(error)
            }
        }
    }
}

impl Open<'_> {
    /// Closes the file, after setting its length if a hole at its end needs that.
    fn finish(mut self, needs_size: bool) -> Result<(Box<Node>, Written)> {
        let size = self.size.unwrap_or(self.node.size.max(self.reached));
        let sized = match needs_size || self.reached < size {
            true => self.stream.set_size(size),
            false => Ok(()),
        };
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        // Files of an image must be closed also after an error.
        let closed = self.stream.close();
        let written = sized.and(closed).with_context(|| self.target.text())?;
        Ok((self.node, written))
    }
}

impl Sink for CopySink<'_, '_> {
    fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Node(node) => {
                self.finish_file()?;
                self.make(node)
            }
            Item::Data { offset, bytes } => self.write(offset, &bytes),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.finish_file()?;
        while let Some((target, node)) = self.directories.pop() {
            self.copier.adopt(&target, None, &node)?;
        }
        Ok(())
    }
}

/// Writes those pieces that are not zero, at their offsets.
fn write_sparse(to: &mut Stream<'_>, bytes: &[u8], offset: u64) -> Result<()> {
    let mut at = offset;
    for piece in bytes.chunks(PIECE_BYTES) {
        if piece.iter().any(|byte| *byte != 0) {
            to.write_all_at(piece, at)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}
