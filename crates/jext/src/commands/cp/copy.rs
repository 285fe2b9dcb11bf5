//! Copying one file, or a tree from the top to the bottom.

use anyhow::{Context, Result, bail};
use ext::volume::{FileKind, NewInode};
use indicatif::ProgressBar;

use super::end::{End, Facts, Images, Stream, without_slashes};
use crate::entered::Entered;
use crate::progress;

/// How many bytes are read and written at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// What is looked at for zeroes when holes are left.
const PIECE_BYTES: usize = 4096;
/// Below this a file is copied without a bar.
const BAR_BYTES_MIN: u64 = 16 << 20;

/// How deep directories may be within each other.
const DEPTH_MAX: usize = 1000;

/// Copies; see the module.
pub(super) struct Copier<'v> {
    images: &'v Images,
    recursive: bool,
    preserve: bool,
    sparse: bool,
    buffer: Vec<u8>,
    bar: Option<ProgressBar>,
    /// Directories that are being copied now, each within the one before.
    depth: usize,
    /// Directories of an image that the copy of one source has come to: a damaged image may lead in a circle.
    entered: Entered,
}

impl<'v> Copier<'v> {
    pub(super) fn new(images: &'v Images, recursive: bool, preserve: bool, sparse: bool) -> Self {
        Self {
            images,
            recursive,
            preserve,
            sparse,
            buffer: vec![0; CHUNK_BYTES],
            bar: None,
            depth: 0,
            entered: Entered::default(),
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
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

    fn copy(&mut self, source: &End, target: &End) -> Result<()> {
        let Some(facts) = source.facts(self.images, !self.recursive)? else {
            bail!("{}: no such file or directory", source.text());
        };
        if source == target {
            bail!("{}: cannot be copied onto itself", source.text());
        }
        match facts.kind {
            FileKind::Regular => self.file(source, target, &facts)?,
            FileKind::Directory => return self.directory(source, target, &facts),
            FileKind::Symlink => {
                self.make_room(target)?;
                target.make_link(self.images, &source.link_target(self.images)?)?;
            }
            _ if self.recursive => {
                self.make_room(target)?;
                target.make_node(self.images, &facts)?;
            }
            _ => bail!(
                "{}: not a regular file; -r copies it as it is",
                source.text()
            ),
        }
        target.adopt(self.images, &facts, self.preserve)
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
        if !self.recursive {
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
        match target.facts(self.images, true)? {
            None => target.make_directory(self.images)?,
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
        target.adopt(self.images, facts, self.preserve)
    }

    fn file(&mut self, source: &End, target: &End, facts: &Facts) -> Result<()> {
        if facts.size >= BAR_BYTES_MIN {
            let bar = progress::bytes(facts.size);
            bar.set_message(target.text());
            self.bar = Some(bar);
        }
        let images = self.images;
        let mut from = source.open(images)?;
        let new = NewInode {
            permissions: facts.permissions,
            ..NewInode::default()
        };
        let mut to = target.create(images, &new)?;
        let copied = self.bytes(source, target, &mut from, &mut to);
        // An image's files must be closed whatever happened.
        let closed = from.close().and(to.close().with_context(|| target.text()));
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        copied.and(closed)
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
            let count = from.read(&mut self.buffer).with_context(|| source.text())?;
            if count == 0 {
                break;
            }
            let written = if self.sparse {
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
        if self.sparse {
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

/// Whether a target lies below its source.
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
