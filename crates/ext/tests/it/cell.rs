//! The 21 cells: 3 block sizes, and for each no journal, or one of three data modes with an
//! internal or external journal.

use std::fmt;

use ext::MountOptions;
use ext::options::DataMode;

/// The place of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    None,
    Internal(DataMode),
    External(DataMode),
}

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub block_bytes: u32,
    pub journal: Journal,
}

/// Returns all cells.
pub fn all() -> Vec<Cell> {
    let modes = [DataMode::Ordered, DataMode::Writeback, DataMode::Journal];
    let mut cells = Vec::new();
    for block_bytes in [1024, 2048, 4096] {
        let mut journals = vec![Journal::None];
        journals.extend(modes.map(Journal::Internal));
        journals.extend(modes.map(Journal::External));
        cells.extend(journals.into_iter().map(|journal| Cell {
            block_bytes,
            journal,
        }));
    }
    cells
}

impl Cell {
    /// Returns the mount options of the cell.
    pub fn options(&self) -> MountOptions {
        let data = match self.journal {
            Journal::None => DataMode::Ordered,
            Journal::Internal(mode) | Journal::External(mode) => mode,
        };
        MountOptions {
            data,
            ..MountOptions::default()
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} byte blocks, journal {:?}",
            self.block_bytes, self.journal
        )
    }
}
