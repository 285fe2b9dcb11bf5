//! The properties of its source that a copy keeps: owner, mode, times, extended attributes and
//! access control lists, in the order in which none undoes another: a new owner takes capabilities
//! and set-id bits away, and a list changes the mode.

use anyhow::{Context, Result};
use ext::volume::{FileKind, SetAttributes, SetMode, SetTime};
use rustix::io::Errno;
use transfer::host::{AttributeReader, LeftOut, SET_ID, remove_attribute, set_attribute};

use super::end::{End, Facts, Images};
use super::host;
use crate::output;

/// Access control lists, as attributes. A copy has none that its source does not have.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// Extended attributes: names and values.
type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Keeps, and notes what could not be kept.
pub(super) struct Keeper<'v> {
    images: &'v Images,
    reader: AttributeReader,
    /// Properties that could not be kept on the host for want of root.
    left_out: LeftOut,
}

impl<'v> Keeper<'v> {
    pub(super) fn new(images: &'v Images) -> Self {
        Self {
            images,
            reader: AttributeReader::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Warns of what could not be kept.
    pub(super) fn end(self) {
        if let Some(text) = self.left_out.text() {
            output::warn(&text);
        }
    }

    /// The extended attributes of a file, access control lists among them.
    pub(super) fn attributes(&mut self, of: &End) -> Result<Attributes> {
        match of {
            End::Host(path) => self.reader.read(path).with_context(|| of.text()),
            End::Image { image, path } => {
                let volume = self.images.volume(image);
                let read = volume.resolve(path, false).and_then(|nr| {
                    let names = volume.list_attributes(nr)?.into_iter();
                    let values = names.map(|name| {
                        let value = volume.get_attribute(nr, &name)?;
                        Ok((name, value))
                    });
                    values.collect()
                });
                read.with_context(|| of.text())
            }
        }
    }

    /// Sets the mode; with `all` owner and times, and attributes where they are given.
    pub(super) fn adopt(
        &mut self,
        target: &End,
        facts: &Facts,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let adopted = match target {
            End::Host(_) => self.adopt_on_host(target, facts, all, attributes),
            End::Image { .. } => self.adopt_in_image(target, facts, all, attributes),
        };
        adopted.with_context(|| target.text())
    }

    fn adopt_on_host(
        &mut self,
        target: &End,
        facts: &Facts,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let End::Host(path) = target else {
            return Ok(());
        };
        let permissions = if all {
            let owner = host::set_owner(path, facts);
            self.left_out.note_owner(owner, facts.permissions)?
        } else {
            host::unpreserved(facts.permissions)
        };
        if let Some(attributes) = attributes {
            for (name, value) in attributes {
                let set = set_attribute(path, name, value);
                self.left_out.note("some extended attributes", set)?;
            }
            for name in absent_lists(attributes, facts.kind) {
                match remove_attribute(path, name) {
                    Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        host::set_mode(path, facts.kind, permissions)?;
        match all {
            true => host::set_times(path, facts),
            false => Ok(()),
        }
    }

    fn adopt_in_image(
        &self,
        target: &End,
        facts: &Facts,
        all: bool,
        attributes: Option<&[(Vec<u8>, Vec<u8>)]>,
    ) -> Result<()> {
        let End::Image { image, path } = target else {
            return Ok(());
        };
        let volume = self.images.volume(image);
        let nr = volume.resolve(path, false)?;
        if all {
            let owner = SetAttributes {
                uid: Some(facts.uid),
                gid: Some(facts.gid),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &owner)?;
        }
        if let Some(attributes) = attributes {
            for (name, value) in attributes {
                let set = volume.set_attribute(nr, name, value, SetMode::Any);
                set.with_context(|| output::name_text(name))?;
            }
            for name in absent_lists(attributes, facts.kind) {
                match volume.remove_attribute(nr, name) {
                    Ok(()) | Err(ext::Error::NoAttribute) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let is_link = facts.kind == FileKind::Symlink;
        // The copy then has another owner.
        let permissions = match all {
            true => facts.permissions,
            false => facts.permissions & !SET_ID,
        };
        let rest = SetAttributes {
            permissions: (!is_link).then_some(permissions),
            atime: all.then_some(SetTime::At(facts.atime)),
            mtime: all.then_some(SetTime::At(facts.mtime)),
            ..SetAttributes::default()
        };
        Ok(volume.set_attributes(nr, &rest)?)
    }
}

/// Lists that a copy may have inherited, and its source does not have.
fn absent_lists(
    attributes: &[(Vec<u8>, Vec<u8>)],
    kind: FileKind,
) -> impl Iterator<Item = &'static [u8]> {
    let has = |list: &[u8]| attributes.iter().any(|(name, _)| name == list);
    let absent = LISTS.map(|list| (!has(list) && kind != FileKind::Symlink).then_some(list));
    absent.into_iter().flatten()
}
