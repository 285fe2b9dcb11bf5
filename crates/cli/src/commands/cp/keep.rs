//! The properties of a source that its copy keeps: owner, mode, times, extended attributes and
//! access control lists. They are set in an order in which no step undoes another: a new owner
//! clears capabilities and set-id bits, and a list changes the mode.

use std::fs::File;

use anyhow::{Context, Result};
use ext::volume::{FileKind, SetAttributes, SetMode, SetTime};
use transfer::Node;
use transfer::host::{self, LeftOut, SET_ID, Target, absent_lists};

use super::end::{End, Images};
use crate::output;

/// Sets the kept properties, and collects those that could not be set.
pub(super) struct Keeper<'v> {
    images: &'v Images,
    /// Properties that could not be set on the host without root privileges.
    left_out: LeftOut,
}

impl<'v> Keeper<'v> {
    pub(super) fn new(images: &'v Images) -> Self {
        Self {
            images,
            left_out: LeftOut::default(),
        }
    }

    /// Warns of properties that could not be kept.
    pub(super) fn end(self) {
        if let Some(text) = self.left_out.text() {
            output::warn(&text);
        }
    }

    /// Sets the mode; with `all` also owner and times; and attributes, if given. `file` is the
    /// target if it is a regular file of the host: its name may be that of a symbolic link.
    pub(super) fn adopt(
        &mut self,
        (target, file): (&End, Option<&File>),
        node: &Node,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let adopted = match target {
            End::Host(path) => {
                let at = file.map_or(Target::Path(path), Target::File);
                self.adopt_on_host(at, node, all, attributes)
            }
            End::Image { .. } => self.adopt_in_image(target, node, all, attributes),
        };
        adopted.with_context(|| target.text())
    }

    fn adopt_on_host(
        &mut self,
        at: Target<'_>,
        node: &Node,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let permissions = if all {
            let owner = host::set_owner(at, node);
            self.left_out.note_owner(owner, node.permissions)?
        } else {
            host::unpreserved(node.permissions)
        };
        if let Some(attributes) = attributes {
            for (name, value) in attributes {
                let set = host::set_attribute(at, name, value);
                self.left_out.note("some extended attributes", set)?;
            }
            host::remove_inherited(at, node)?;
        }
        host::set_mode(at, node.kind, permissions)?;
        match all {
            true => host::set_times(at, node.atime, node.mtime),
            false => Ok(()),
        }
    }

    fn adopt_in_image(
        &self,
        target: &End,
        node: &Node,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let End::Image { image, path } = target else {
            return Ok(());
        };
        let volume = self.images.volume(image);
        // A regular file was written through a link of that name.
        let nr = volume.resolve(path, node.kind == FileKind::Regular)?;
        if all {
            let owner = SetAttributes {
                uid: Some(node.uid),
                gid: Some(node.gid),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &owner)?;
        }
        if let Some(attributes) = attributes {
            for (name, value) in attributes {
                let set = volume.set_attribute(nr, name, value, SetMode::Any);
                set.with_context(|| output::name_text(name))?;
            }
            for name in absent_lists(attributes, node.kind) {
                match volume.remove_attribute(nr, name) {
                    Ok(()) | Err(ext::Error::NoAttribute) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let is_link = node.kind == FileKind::Symlink;
        // Without `all` the copy has another owner.
        let permissions = match all {
            true => node.permissions,
            false => node.permissions & !SET_ID,
        };
        let rest = SetAttributes {
            permissions: (!is_link).then_some(permissions),
            atime: all.then_some(SetTime::At(node.atime)),
            mtime: all.then_some(SetTime::At(node.mtime)),
            ..SetAttributes::default()
        };
        Ok(volume.set_attributes(nr, &rest)?)
    }
}
