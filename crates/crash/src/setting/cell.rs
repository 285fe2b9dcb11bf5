//! Cells: the rows of the matrix, each with its structures, data mode and place of the journal.

use core::fmt;
use core::str::FromStr;

use crate::mode::{DataMode, Structures};

/// The location of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JournalPlace {
    /// Inside the volume.
    Internal,
    /// On an external device, whose cache is lost independently.
    External,
    /// No journal: the volume is an ext2.
    None,
}

/// The structures, the data mode and the location of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The structures of the volume.
    pub structures: Structures,
    /// Data mode (`data=`).
    pub data: DataMode,
    /// Location of the journal.
    pub place: JournalPlace,
    /// True if sync calls are served by fast commits.
    pub is_fast: bool,
    /// True if commit blocks are to be written together with their transactions: the mount option
    /// `journal_async_commit`.
    pub is_async: bool,
}

/// All cells of ext3.
pub const CELLS: [Cell; 6] = [
    Cell::new(DataMode::Ordered, JournalPlace::Internal),
    Cell::new(DataMode::Ordered, JournalPlace::External),
    Cell::new(DataMode::Writeback, JournalPlace::Internal),
    Cell::new(DataMode::Writeback, JournalPlace::External),
    Cell::new(DataMode::Journal, JournalPlace::Internal),
    Cell::new(DataMode::Journal, JournalPlace::External),
];

/// All cells of ext4 with a journal.
pub const CELLS_EXT4: [Cell; 6] = [
    CELLS[0].ext4(),
    CELLS[1].ext4(),
    CELLS[2].ext4(),
    CELLS[3].ext4(),
    CELLS[4].ext4(),
    CELLS[5].ext4(),
];

/// All cells with fast commits.
pub const CELLS_FAST: [Cell; 2] = [CELLS_EXT4[0].fast(), CELLS_EXT4[2].fast()];

/// All cells of ext3 with asynchronous commits.
pub const CELLS_ASYNC: [Cell; 4] = [
    CELLS[2].asynchronous(),
    CELLS[3].asynchronous(),
    CELLS[4].asynchronous(),
    CELLS[5].asynchronous(),
];

/// All cells of ext4 with asynchronous commits, which need a volume without checksums of metadata.
pub const CELLS_ASYNC_EXT4: [Cell; 4] = [
    CELLS_ASYNC[0].group_checksums(),
    CELLS_ASYNC[1].group_checksums(),
    CELLS_ASYNC[2].group_checksums(),
    CELLS_ASYNC[3].group_checksums(),
];

/// All cells with asynchronous and fast commits.
pub const CELLS_ASYNC_FAST: [Cell; 1] = [CELLS_ASYNC_EXT4[0].fast()];

/// Cells of ext4 on whose commits the mount option has no effect, since metadata has checksums.
pub const CELLS_ASYNC_IGNORED: [Cell; 2] =
    [CELLS_EXT4[3].asynchronous(), CELLS_EXT4[4].asynchronous()];

/// Cells of ext4 with checksums of group descriptors only.
pub const CELLS_GROUP_CHECKSUMS: [Cell; 2] =
    [CELLS[0].group_checksums(), CELLS[5].group_checksums()];

/// All cells of ext4 with a journal and with files and directories within their inodes.
pub const CELLS_INLINE: [Cell; 6] = [
    CELLS[0].inline(),
    CELLS[1].inline(),
    CELLS[2].inline(),
    CELLS[3].inline(),
    CELLS[4].inline(),
    CELLS[5].inline(),
];

/// Cells of ext4 with quotas.
pub const CELLS_QUOTA: [Cell; 3] = [CELLS[0].quota(), CELLS[3].quota(), CELLS[4].quota()];

/// Cells of ext4 with multiple mount protection.
pub const CELLS_MULTI_MOUNT: [Cell; 2] = [CELLS[0].multi_mount(), CELLS[3].multi_mount()];
/// All cells of ext4 with a journal and clusters of several blocks.
pub const CELLS_CLUSTERED: [Cell; 6] = [
    CELLS[0].clustered(),
    CELLS[1].clustered(),
    CELLS[2].clustered(),
    CELLS[3].clustered(),
    CELLS[4].clustered(),
    CELLS[5].clustered(),
];

/// A volume without a journal, on which only sync calls order writes.
pub const NO_JOURNAL: Cell = Cell::new(DataMode::Writeback, JournalPlace::None);

/// Returns all cells with a journal in which every commit is a whole one.
pub fn journaled_cells() -> Vec<Cell> {
    let more = [&CELLS_QUOTA[..], &CELLS_MULTI_MOUNT].concat();
    [
        &CELLS[..],
        &CELLS_EXT4,
        &CELLS_INLINE,
        &CELLS_CLUSTERED,
        &CELLS_ASYNC,
        &CELLS_ASYNC_EXT4,
        &CELLS_ASYNC_IGNORED,
        &CELLS_GROUP_CHECKSUMS,
        &more,
    ]
    .concat()
}

/// Returns all cells.
pub fn all_cells() -> Vec<Cell> {
    let mut cells = journaled_cells();
    cells.extend(CELLS_FAST);
    cells.extend(CELLS_ASYNC_FAST);
    cells.extend([NO_JOURNAL, NO_JOURNAL.ext4(), NO_JOURNAL.clustered()]);
    cells
}

impl Cell {
    /// Creates a cell of ext3.
    pub const fn new(data: DataMode, place: JournalPlace) -> Self {
        Self {
            structures: Structures::Ext3,
            data,
            place,
            is_fast: false,
            is_async: false,
        }
    }

    /// Returns the same cell with fast commits.
    #[must_use]
    pub const fn fast(self) -> Self {
        Self {
            is_fast: true,
            ..self
        }
    }

    /// Returns the same cell with asynchronous commits.
    #[must_use]
    pub const fn asynchronous(self) -> Self {
        Self {
            is_async: true,
            ..self
        }
    }

    /// Returns the same cell of ext4.
    #[must_use]
    pub const fn ext4(self) -> Self {
        Self {
            structures: Structures::Ext4,
            ..self
        }
    }

    /// Returns the same cell of ext4 with files and directories within their inodes.
    #[must_use]
    pub const fn inline(self) -> Self {
        Self {
            structures: Structures::Inline,
            ..self
        }
    }

    /// Returns the same cell of ext4 with quotas.
    #[must_use]
    pub const fn quota(self) -> Self {
        Self {
            structures: Structures::Quota,
            ..self
        }
    }

    /// Returns the same cell of ext4 with multiple mount protection.
    #[must_use]
    pub const fn multi_mount(self) -> Self {
        Self {
            structures: Structures::MultiMount,
            ..self
        }
    }

    /// Returns the same cell of ext4 with clusters of several blocks.
    #[must_use]
    pub const fn clustered(self) -> Self {
        Self {
            structures: Structures::Clustered,
            ..self
        }
    }

    /// Returns the same cell of ext4 with checksums of group descriptors only.
    #[must_use]
    pub const fn group_checksums(self) -> Self {
        Self {
            structures: Structures::GroupChecksums,
            ..self
        }
    }

    /// Returns true if commits are asynchronous: the mount option has no effect where all metadata
    /// has checksums.
    pub const fn commits_at_once(self) -> bool {
        self.is_async && !self.structures.has_checksums()
    }

    /// Returns true if the blocks of files may be allocated when their data is written back.
    pub const fn may_delay(self) -> bool {
        self.structures.is_ext4() && !matches!(self.data, DataMode::Journal)
    }

    /// Returns true if there is a journal.
    pub fn has_journal(self) -> bool {
        self.place != JournalPlace::None
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = match self.data {
            DataMode::Ordered => "ordered",
            DataMode::Writeback => "writeback",
            DataMode::Journal => "journal",
        };
        let place = match self.place {
            JournalPlace::Internal => "internal",
            JournalPlace::External => "external",
            JournalPlace::None => "none",
        };
        let structures = match self.structures {
            Structures::Ext3 => "",
            Structures::Ext4 => "ext4,",
            Structures::Inline => "inline,",
            Structures::Quota => "quota,",
            Structures::MultiMount => "mmp,",
            Structures::Clustered => "bigalloc,",
            Structures::GroupChecksums => "uninit_bg,",
        };
        let fast = if self.is_fast { ",fast" } else { "" };
        let asynchronous = if self.is_async { ",async" } else { "" };
        write!(out, "{structures}{data},{place}{fast}{asynchronous}")
    }
}

/// The error of a text that is not a cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cell; the cells are {all}", all = list(&all_cells()))]
pub struct CellError(pub String);

fn list(cells: &[Cell]) -> String {
    let names: Vec<String> = cells.iter().map(Cell::to_string).collect();
    names.join(" ")
}

fn parse_cell(text: &str) -> Option<Cell> {
    let mut cells = all_cells().into_iter();
    cells.find(|cell| cell.to_string() == text)
}

impl FromStr for Cell {
    type Err = CellError;

    fn from_str(text: &str) -> Result<Self, CellError> {
        parse_cell(text).ok_or_else(|| CellError(text.to_owned()))
    }
}
