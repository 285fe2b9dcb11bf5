//! The result of a check.

use crate::kind::{ProblemKind, Severity};
use crate::problem::{Location, Problem};

/// Maximum number of problems that are kept; the others are only counted.
pub const PROBLEMS_MAX: usize = 10_000;

/// Statistics of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of used blocks.
    pub used_blocks: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Number of used inodes, the reserved ones included.
    pub used_inodes: u32,
    /// Number of regular files.
    pub regular_files: u32,
    /// Number of directories.
    pub directories: u32,
    /// Number of character and block devices.
    pub devices: u32,
    /// Number of fifos and sockets.
    pub pipes: u32,
    /// Number of symbolic links.
    pub symlinks: u32,
    /// Number of symbolic links with their target in the inode.
    pub fast_symlinks: u32,
    /// Number of directories with a hash tree.
    pub indexed_directories: u32,
    /// Number of indirect blocks.
    pub map_blocks: u64,
    /// Number of inodes on the orphan list.
    pub orphans: u32,
    /// True if the journal needs recovery: the checked blocks may be older than the log.
    pub needs_recovery: bool,
    /// Number of transactions in the log that the superblock does not mark for recovery.
    pub unmarked_transactions: u32,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Problems in the order in which they were found; at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// Number of further problems.
    pub omitted: u64,
    /// True if there is a problem that is not a note.
    has_errors: bool,
    /// Statistics of the check.
    pub statistics: Statistics,
}

impl Report {
    /// True if there is no problem except notes.
    pub fn is_clean(&self) -> bool {
        !self.has_errors
    }

    /// Returns the kinds of the problems, each once, by ascending number.
    pub fn kinds(&self) -> Vec<ProblemKind> {
        let mut kinds: Vec<ProblemKind> = self.problems.iter().map(|p| p.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    pub(crate) fn add(&mut self, kind: ProblemKind, place: Location) {
        self.push(kind, place, None, None);
    }

    pub(crate) fn add_found(&mut self, kind: ProblemKind, place: Location, found: u64) {
        self.push(kind, place, Some(found), None);
    }

    pub(crate) fn add_differing(
        &mut self,
        kind: ProblemKind,
        place: Location,
        found: u64,
        expected: u64,
    ) {
        self.push(kind, place, Some(found), Some(expected));
    }

    #[cold]
    fn push(
        &mut self,
        kind: ProblemKind,
        place: Location,
        found: Option<u64>,
        expected: Option<u64>,
    ) {
        self.has_errors |= kind.severity() == Severity::Error;
        if self.problems.len() >= PROBLEMS_MAX {
            self.omitted += 1;
            return;
        }
        self.problems.push(Problem {
            kind,
            place,
            found,
            expected,
        });
    }
}
