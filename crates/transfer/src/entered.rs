//! The directories that a walk through an image has entered. In a sound image one entry leads to each, so that a second one is
//! damage, and a walk that went on might never end.

use std::collections::BTreeSet;

use layout::InodeNr;

use super::Error;

/// The longest path within an image that is walked, in bytes.
pub const PATH_BYTES_MAX: usize = 1 << 16;

/// Directories that were entered.
#[derive(Debug, Default)]
pub struct Entered(BTreeSet<InodeNr>);

impl Entered {
    /// Enters a directory.
    ///
    /// # Errors
    /// [`Error::EnteredTwice`] if it was entered before.
    pub fn enter(&mut self, nr: InodeNr) -> Result<(), Error> {
        match self.0.insert(nr) {
            true => Ok(()),
            false => Err(Error::EnteredTwice(nr)),
        }
    }
}
