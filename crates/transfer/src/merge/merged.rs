//! The tree that is left of all layers.

use anyhow::{Result, bail};

use super::records::{Inode, Name, ROOT};
use crate::entered::PATH_BYTES_MAX;
use crate::paged::Paged;

/// A tree that is complete.
pub(super) struct Merged {
    pub(super) names: Paged<Name>,
    pub(super) inodes: Paged<Inode>,
    pub(super) text: Paged<u8>,
    /// Number of the first inode of each layer, and the end.
    pub(super) layer_starts: Vec<u32>,
}

impl Merged {
    /// Returns the numbers of the inodes that the entries of a layer made, in their order.
    pub(super) fn of_layer(&self, layer: usize) -> std::ops::Range<u32> {
        self.layer_starts[layer]..self.layer_starts[layer + 1]
    }

    /// Returns the path of a name.
    ///
    /// # Errors
    /// Fails if it is too long.
    pub(super) fn path(&mut self, number: u32) -> Result<Vec<u8>> {
        let (mut length, mut texts) = (0, Vec::new());
        let mut at = number;
        while at != ROOT {
            let name = self.names.get(at as usize)?;
            length += usize::from(name.length) + 1;
            if length > PATH_BYTES_MAX {
                bail!("a path of more than {PATH_BYTES_MAX} bytes");
            }
            texts.push(name.text(&mut self.text)?);
            at = name.parent;
        }
        texts.reverse();
        Ok(texts.join(&b'/'))
    }
}
