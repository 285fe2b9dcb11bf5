//! A copy in progress: its settings and state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use anyhow::{Result, bail};
use ext::volume::FileKind;
use transfer::Node;

use super::end::{End, Identity, Images};
use super::keep::Keeper;

/// Settings of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) recursive: bool,
    /// True to keep owner, mode and times.
    pub(super) preserve: bool,
    /// True to keep hard links and attributes.
    pub(super) archive: bool,
    /// True to leave holes for zeroes, not only for holes of the source.
    pub(super) sparse: bool,
    /// True to print each copy.
    pub(super) verbose: bool,
}

/// A copy of any number of sources.
pub(super) struct Copier<'v> {
    pub(super) images: &'v Images,
    pub(super) how: How,
    keeper: Keeper<'v>,
    /// The first copy of each file that has several names.
    pub(super) first_names: BTreeMap<Identity, End>,
    /// Copies that nothing may be copied onto: symbolic links, through which it would go anywhere,
    /// and the files in `first_names`.
    made: BTreeSet<Identity>,
}

impl<'v> Copier<'v> {
    pub(super) fn new(images: &'v Images, how: How) -> Self {
        Self {
            images,
            how,
            keeper: Keeper::new(images),
            first_names: BTreeMap::new(),
            made: BTreeSet::new(),
        }
    }

    pub(super) fn end(self) {
        self.keeper.end();
    }

    /// Returns true if a copy would overwrite or remove its source, under any of its names.
    pub(super) fn is_same(&self, source: &End, node: &Node, target: &End) -> Result<bool> {
        let Some(there) = target.facts(self.images, false)? else {
            return Ok(false);
        };
        let (own, other) = (source.identity(node), target.identity(&there));
        let behind = |end: &End| end.identity_of(self.images, true).ok().flatten();
        Ok(match (node.kind, there.kind) {
            _ if own == other => true,
            (FileKind::Symlink, FileKind::Symlink) => false,
            // The link would replace its target.
            (FileKind::Symlink, _) => behind(source) == other,
            (_, FileKind::Symlink) => behind(target) == own,
            _ => false,
        })
    }

    /// Notes a copy that nothing may be copied onto.
    pub(super) fn protect(&mut self, target: &End) -> Result<()> {
        self.made.extend(target.identity_of(self.images, false)?);
        Ok(())
    }

    /// Fails if a target is a protected copy, or a link to one.
    pub(super) fn check_free(&self, target: &End) -> Result<()> {
        let is_made = |follow| {
            let there = target.identity_of(self.images, follow).ok().flatten();
            there.is_some_and(|there| self.made.contains(&there))
        };
        if !self.made.is_empty() && (is_made(false) || is_made(true)) {
            bail!("{}: was copied by this command before", target.text());
        }
        Ok(())
    }

    /// Sets the kept properties of the source on a copy; `file` is the copy if it is a regular file
    /// of the host.
    pub(super) fn adopt(&mut self, target: &End, file: Option<&File>, node: &Node) -> Result<()> {
        let attributes = self.how.archive.then_some(&node.attributes[..]);
        let target = (target, file);
        self.keeper
            .adopt(target, node, self.how.preserve, attributes)
    }
}
