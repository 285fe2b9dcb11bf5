//! Copying sources to a target: a source of `transfer` sends each tree, and `sink` creates it.

use anyhow::{Context, Result, bail};
use ext::Volume;
use ext::volume::FileKind;
use layout::InodeNr;
use transfer::entered::Entered;
use transfer::{DirectorySource, ImageSource, Node, Scope};

use super::copier::Copier;
use super::end::{End, Images, without_slashes};
use super::sink::CopySink;

impl Copier<'_> {
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
            let found = self.facts(source)?;
            let target = if into {
                target.join(&source.name()?)
            } else {
                target.clone()
            };
            self.check(source, &target, found.kind)?;
            self.copy(source, &target)?;
        }
        Ok(())
    }

    /// Returns the facts of a source.
    fn facts(&self, source: &End) -> Result<Node> {
        match source.facts(self.images, !self.how.recursive)? {
            Some(found) => Ok(found),
            None => bail!("{}: no such file or directory", source.text()),
        }
    }

    /// Fails if a source does not exist or must not be copied.
    fn check(&self, source: &End, target: &End, kind: FileKind) -> Result<()> {
        let text = source.text();
        match kind {
            FileKind::Directory if !self.how.recursive => {
                bail!("{text}: is a directory; -r copies it with all that is in it")
            }
            FileKind::Directory if is_within(self.images, source, target) => {
                bail!("{text}: cannot be copied into itself")
            }
            FileKind::Regular | FileKind::Directory | FileKind::Symlink => Ok(()),
            _ if self.how.recursive => Ok(()),
            _ => bail!("{text}: not a regular file; -r copies it as it is"),
        }
    }

    fn copy(&mut self, source: &End, target: &End) -> Result<()> {
        let images = self.images;
        let scope = Scope {
            links: self.how.archive,
            attributes: self.how.archive,
            follows_root: !self.how.recursive,
            lost_and_found: true,
            exact: false,
        };
        let count = |_bytes: u64| ();
        let mut sink = CopySink::new(self, source, target);
        let copied = match source {
            End::Host(path) => DirectorySource::open(path, scope)
                .and_then(|source| transfer::run(&source, &mut sink)),
            End::Image { image, path } => {
                let volume = images.volume(image);
                let nr = volume
                    .resolve(path, scope.follows_root)
                    .with_context(|| source.text())?;
                let name = End::Image {
                    image: image.clone(),
                    path: without_slashes(path).to_vec(),
                };
                let source = ImageSource::below(volume, nr, name.text(), scope, &count);
                transfer::run(&source, &mut sink)
            }
        };
        if copied.is_err() {
            sink.abandon();
        }
        copied
    }
}

/// Returns true if a target lies below its source, under any of its names.
fn is_within(images: &Images, source: &End, target: &End) -> bool {
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
        ) => a == b && is_below(images.volume(a), source, target).unwrap_or(false),
        _ => false,
    }
}

/// Returns true if one of the directories above `target` is `source`.
fn is_below(volume: &Volume, source: &[u8], target: &[u8]) -> ext::Result<bool> {
    let source = volume.resolve(source, false)?;
    let (mut above, _) = volume.resolve_parent(target)?;
    let mut entered = Entered::default();
    while above != source {
        // A damaged image may have a cycle of parents.
        if above == InodeNr::ROOT || entered.enter(above).is_err() {
            return Ok(false);
        }
        above = volume.lookup(above, b"..")?;
    }
    Ok(true)
}
