//! Changes of a tree on its way into an image: owners, labels of SELinux, and the extended
//! attributes that are kept.

mod attributes;
mod contexts;
mod owners;

use std::borrow::Cow;

use anyhow::Result;

use super::Node;

pub use attributes::AttributeFilter;
pub use contexts::FileContexts;
pub use owners::{IdRange, Owners};

/// The changes; by default there are none.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    /// Owners of files.
    pub owners: Owners,
    /// Extended attributes of the sources that are kept.
    pub attributes: AttributeFilter,
    /// Labels of SELinux, which replace those of the sources.
    pub contexts: Option<FileContexts>,
}

impl Edits {
    /// Returns true if the edits change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners == Owners::Kept && self.attributes.keeps_all() && self.contexts.is_none()
    }

    /// Returns a node as it is in the image. A further name of an inode has no attributes, and
    /// stays as it is. A directory that no source describes keeps its owner if that has no place in
    /// the image.
    ///
    /// # Errors
    /// Fails if the owner of any other file has no place in the image.
    pub(crate) fn edited<'n>(&self, node: &'n Node) -> Result<Cow<'n, Node>> {
        if self.is_empty() || node.link_to.is_some() {
            return Ok(Cow::Borrowed(node));
        }
        let mut edited = node.clone();
        let applied = self.owners.apply(&mut edited);
        if node.is_described {
            applied?;
        } else if applied.is_err() {
            (edited.uid, edited.gid) = (node.uid, node.gid);
        }
        self.edit_attributes(&mut edited);
        Ok(Cow::Owned(edited))
    }

    /// Removes and adds extended attributes.
    pub(crate) fn edit_attributes(&self, node: &mut Node) {
        let attributes = &mut node.attributes;
        attributes.retain(|(name, _)| self.attributes.keeps(name));
        if let Some(contexts) = &self.contexts {
            contexts.label(node);
        }
    }
}
