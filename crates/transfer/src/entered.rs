//! The set of directories that a walk through an image has entered. In a sound image each directory
//! has one entry, so a second one is corruption and could make the walk endless.

use std::collections::BTreeSet;

use layout::InodeNr;

use super::Error;

/// Maximum length in bytes of a path within an image.
pub const PATH_BYTES_MAX: usize = 1 << 16;

/// Set of the directories entered so far.
#[derive(Debug, Default)]
pub struct Entered(BTreeSet<InodeNr>);

impl Entered {
    /// Enters a directory.
    ///
    /// # Errors
    /// Fails with [`Error::EnteredTwice`] if the directory was entered before.
    pub fn enter(&mut self, nr: InodeNr) -> Result<(), Error> {
        match self.0.insert(nr) {
            true => Ok(()),
            false => Err(Error::EnteredTwice(nr)),
        }
    }
}
