//! The directories that a walk through an image has entered. In a sound image one entry leads to each, so that a second one is
//! damage, and a walk that went on might never end.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use layout::InodeNr;

/// The longest path within an image that is walked, in bytes.
pub(crate) const PATH_BYTES_MAX: usize = 1 << 16;

/// Directories that were entered.
#[derive(Debug, Default)]
pub(crate) struct Entered(BTreeSet<InodeNr>);

impl Entered {
    /// Enters one, which nobody has entered before.
    pub(crate) fn enter(&mut self, nr: InodeNr) -> Result<()> {
        if !self.0.insert(nr) {
            bail!("directory {nr} has two entries that lead to it: e2fsck -f repairs that");
        }
        Ok(())
    }
}
