//! Copying one file, or a tree from the top to the bottom.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use ext::volume::{FileKind, NewInode};
use indicatif::ProgressBar;
use transfer::entered::Entered;

use super::end::{End, Facts, Identity, Images, Stream, without_slashes};
use super::keep::Keeper;
use crate::interrupt;
use crate::output;
use crate::progress;

/// Number of bytes that are read and written at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Size of the pieces that are checked for zeroes when holes are left.
const PIECE_BYTES: usize = 4096;
/// Below this a file is copied without a bar.
const BAR_BYTES_MIN: u64 = 16 << 20;

/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 1000;

/// Settings of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) recursive: bool,
    /// Owner, mode and times are kept.
    pub(super) preserve: bool,
    /// Hard links, attributes and holes are kept.
    pub(super) archive: bool,
    /// Holes are left where there are only zeroes.
    pub(super) sparse: bool,
    /// Each copy is printed.
    pub(super) verbose: bool,
}

/// Copies; see the module.
pub(super) struct Copier<'v> {
    images: &'v Images,
    how: How,
    keeper: Keeper<'v>,
    buffer: Vec<u8>,
    bar: Option<ProgressBar>,
    /// Directories that are being copied now, each within the one before.
    depth: usize,
    /// Directories of an image that the copy of one source has come to: a damaged image may lead in
    /// a circle.
    entered: Entered,
    /// The first copy of each file that has several names.
    first_names: BTreeMap<Identity, End>,
    /// Directories that were made for copies.
    made: BTreeSet<Identity>,
}

impl<'v> Copier<'v> {
    pub(super) fn new(images: &'v Images, how: How) -> Self {
        Self {
            images,
            how,
            keeper: Keeper::new(images),
            buffer: vec![0; CHUNK_BYTES],
            bar: None,
            depth: 0,
            entered: Entered::default(),
            first_names: BTreeMap::new(),
            made: BTreeSet::new(),
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.keeper.end();
    }

    pub(super) fn copy_all(&mut self, sources: &[End], target: &End) -> Result<()> {
        let into = target
            .facts(self.images, true)?
            .is_some_and(|f| f.kind == FileKind::Directory);
        if sources.len() > 1 && !into {
            bail!(
                "{}: not a directory to copy several files into",
                target.text()
            );
        }
        for source in sources {
            self.facts(source)?;
            let target = if into {
                target.join(&source.name()?)
            } else {
                target.clone()
            };
            self.entered = Entered::default();
            self.copy(source, &target)?;
        }
        Ok(())
    }

    /// Returns the facts of a source.
    fn facts(&self, source: &End) -> Result<Facts> {
        match source.facts(self.images, !self.how.recursive)? {
            Some(facts) => Ok(facts),
            None => bail!("{}: no such file or directory", source.text()),
        }
    }

    fn copy(&mut self, source: &End, target: &End) -> Result<()> {
        interrupt::check().with_context(|| source.text())?;
        let facts = self.facts(source)?;
        if self.is_same(source, &facts, target)? {
            bail!("{}: cannot be copied onto itself", source.text());
        }
        if self.how.verbose {
            output::print(&format!("'{}' -> '{}'\n", source.text(), target.text()))?;
        }
        if self.how.archive && facts.links > 1 && facts.kind != FileKind::Directory {
            let identity = source.identity(&facts);
            if let Some(first) = self.first_names.get(&identity) {
                if first.identity_of(self.images, false)?
                    == target.identity_of(self.images, false)?
                {
                    return Ok(());
                }
                self.make_room(target)?;
                return target.make_hard_link(self.images, first);
            }
            self.first_names.insert(identity, target.clone());
        }
        match facts.kind {
            FileKind::Regular => self.file(source, target, &facts)?,
            FileKind::Directory => return self.directory(source, target, &facts),
            FileKind::Symlink => {
                self.make_room(target)?;
                target.make_link(self.images, &source.link_target(self.images)?)?;
            }
            _ if self.how.recursive => {
                self.make_room(target)?;
                target.make_node(self.images, &facts)?;
            }
            _ => bail!(
                "{}: not a regular file; -r copies it as it is",
                source.text()
            ),
        }
        self.adopt(source, target, &facts)
    }

    /// Gives a copy what is to be kept of its source.
    fn adopt(&mut self, source: &End, target: &End, facts: &Facts) -> Result<()> {
        let attributes = match self.how.archive {
            true => Some(self.keeper.attributes(source)?),
            false => None,
        };
        self.keeper
            .adopt(target, facts, self.how.preserve, attributes.as_deref())
    }

    /// True if a copy would overwrite or remove its source, whatever the two are called.
    fn is_same(&self, source: &End, facts: &Facts, target: &End) -> Result<bool> {
        let Some(there) = target.facts(self.images, false)? else {
            return Ok(false);
        };
        let (own, other) = (source.identity(facts), target.identity(&there));
        let behind = |end: &End| end.identity_of(self.images, true).ok().flatten();
        Ok(match (facts.kind, there.kind) {
            _ if own == other => true,
            (FileKind::Symlink, FileKind::Symlink) => false,
            // The link would replace what it leads to.
            (FileKind::Symlink, _) => behind(source) == Some(other),
            (_, FileKind::Symlink) => behind(target) == Some(own),
            _ => false,
        })
    }

    /// Removes what has the new name, unless it is a directory.
    fn make_room(&self, target: &End) -> Result<()> {
        match target.facts(self.images, false)? {
            None => Ok(()),
            Some(found) if found.kind == FileKind::Directory => {
                bail!("{}: is a directory", target.text())
            }
            Some(_) => target.remove(self.images),
        }
    }

    fn directory(&mut self, source: &End, target: &End, facts: &Facts) -> Result<()> {
        if !self.how.recursive {
            bail!(
                "{}: is a directory; -r copies it with all that is in it",
                source.text()
            );
        }
        if is_within(source, target) {
            bail!("{}: cannot be copied into itself", source.text());
        }
        if let Some(nr) = facts.inode {
            self.entered.enter(nr).with_context(|| source.text())?;
        }
        if self.made.contains(&source.identity(facts)) {
            bail!("{}: cannot be copied into itself", source.text());
        }
        match target.facts(self.images, true)? {
            None => {
                target.make_directory(self.images)?;
                self.made.extend(target.identity_of(self.images, false)?);
            }
            Some(found) if found.kind == FileKind::Directory => {}
            Some(_) => bail!("{}: is not a directory", target.text()),
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            bail!(
                "{}: more than {DEPTH_MAX} directories within each other; jext export copies any number",
                source.text()
            );
        }
        for name in source.names(self.images)? {
            self.copy(&source.join(&name), &target.join(&name))?;
        }
        self.depth -= 1;
        self.adopt(source, target, facts)
    }

    fn file(&mut self, source: &End, target: &End, facts: &Facts) -> Result<()> {
        if facts.size >= BAR_BYTES_MIN {
            let bar = progress::bytes(facts.size);
            bar.set_message(target.text());
            self.bar = Some(bar);
        }
        let images = self.images;
        let is_new = target.facts(images, false)?.is_none();
        let mut from = source.open(images)?;
        let new = NewInode {
            permissions: facts.permissions,
            ..NewInode::default()
        };
        let mut to = target.create(images, &new)?;
        let copied = if self.how.archive {
            self.parts(source, target, facts, (&mut from, &mut to))
        } else {
            self.bytes(source, target, &mut from, &mut to)
        };
        // An image's files must be closed whatever happened.
        let closed = from.close().and(to.close().with_context(|| target.text()));
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let copied = copied.and(closed);
        if copied.is_err() && is_new {
            // Half a copy is of no use; the error is told.
            let _ = target.remove(images);
        }
        copied
    }

    /// Copies the data of a file, and leaves its holes.
    fn parts(
        &mut self,
        source: &End,
        target: &End,
        facts: &Facts,
        (from, to): (&mut Stream<'_>, &mut Stream<'_>),
    ) -> Result<()> {
        let parts = source.data_parts(self.images, from, facts.size)?;
        for (start, length) in parts {
            let (mut offset, end) = (start, start + length);
            from.seek(offset).with_context(|| source.text())?;
            to.seek(offset).with_context(|| target.text())?;
            while offset < end {
                interrupt::check().with_context(|| target.text())?;
                let wanted = (end - offset).min(CHUNK_BYTES as u64) as usize;
                let read = from.read(&mut self.buffer[..wanted]);
                let count = read.with_context(|| source.text())?;
                if count == 0 {
                    bail!("{}: has become shorter while it was copied", source.text());
                }
                let written = to.write_all(&self.buffer[..count]);
                written.with_context(|| target.text())?;
                offset += count as u64;
                if let Some(bar) = &self.bar {
                    bar.set_position(offset);
                }
            }
        }
        to.set_size(facts.size).with_context(|| target.text())
    }

    fn bytes(
        &mut self,
        source: &End,
        target: &End,
        from: &mut Stream<'_>,
        to: &mut Stream<'_>,
    ) -> Result<()> {
        let mut size = 0;
        loop {
            interrupt::check().with_context(|| target.text())?;
            let count = from.read(&mut self.buffer).with_context(|| source.text())?;
            if count == 0 {
                break;
            }
            let written = if self.how.sparse {
                write_sparse(to, &self.buffer[..count], size)
            } else {
                to.write_all(&self.buffer[..count])
            };
            written.with_context(|| target.text())?;
            size += count as u64;
            if let Some(bar) = &self.bar {
                bar.set_position(size);
            }
        }
        if self.how.sparse {
            to.set_size(size).with_context(|| target.text())
        } else {
            Ok(())
        }
    }
}

/// Writes what is not zero, at its place.
fn write_sparse(to: &mut Stream<'_>, bytes: &[u8], offset: u64) -> Result<()> {
    let mut at = offset;
    for piece in bytes.chunks(PIECE_BYTES) {
        if piece.iter().any(|byte| *byte != 0) {
            to.seek(at)?;
            to.write_all(piece)?;
        }
        at += piece.len() as u64;
    }
    to.seek(at)
}

/// Returns true if a target lies below its source.
fn is_within(source: &End, target: &End) -> bool {
    match (source, target) {
        (End::Host(source), End::Host(target)) => {
            let parent = target
                .parent()
                .and_then(|parent| parent.canonicalize().ok());
            match (source.canonicalize(), parent) {
                (Ok(source), Some(parent)) => parent.starts_with(source),
                _ => false,
            }
        }
        (
            End::Image {
                image: a,
                path: source,
            },
            End::Image {
                image: b,
                path: target,
            },
        ) => {
            let below = target.strip_prefix(without_slashes(source));
            a == b && below.is_some_and(|rest| rest.first() == Some(&b'/'))
        }
        _ => false,
    }
}
