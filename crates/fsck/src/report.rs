//! What a check found.

use crate::kind::{ProblemKind, Severity};
use crate::problem::{Place, Problem};

/// The most problems that are kept; the others are only counted.
pub const PROBLEMS_MAX: usize = 10_000;

/// What was counted on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Inodes of the file system.
    pub inodes: u32,
    /// Inodes in use, the reserved ones included.
    pub used_inodes: u32,
    /// Regular files.
    pub regular_files: u32,
    /// Directories.
    pub directories: u32,
    /// Character and block devices.
    pub devices: u32,
    /// Fifos and sockets.
    pub pipes: u32,
    /// Symbolic links.
    pub symlinks: u32,
    /// Symbolic links whose target lies in the inode.
    pub fast_symlinks: u32,
    /// Directories with a hash tree.
    pub indexed_directories: u32,
    /// Blocks that map other blocks.
    pub map_blocks: u64,
    /// Inodes on the orphan list.
    pub orphans: u32,
    /// Whether the journal has to be replayed: what is on the disk may be older than what is in the log.
    pub needs_recovery: bool,
    /// Transactions in the log that the superblock does not call for.
    pub unmarked_transactions: u32,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The problems, in the order in which they were found; at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many problems there are beyond those.
    pub omitted: u64,
    /// Whether something is wrong, notes not counted.
    has_errors: bool,
    /// What was counted.
    pub statistics: Statistics,
}

impl Report {
    /// Whether nothing is wrong. Notes do not count.
    pub fn is_clean(&self) -> bool {
        !self.has_errors
    }

    /// The kinds of the problems, each once, in the order of their numbers.
    pub fn kinds(&self) -> Vec<ProblemKind> {
        let mut kinds: Vec<ProblemKind> = self.problems.iter().map(|p| p.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    pub(crate) fn add(&mut self, kind: ProblemKind, place: Place) {
        self.push(kind, place, None, None);
    }

    pub(crate) fn add_found(&mut self, kind: ProblemKind, place: Place, found: u64) {
        self.push(kind, place, Some(found), None);
    }

    pub(crate) fn add_differing(
        &mut self,
        kind: ProblemKind,
        place: Place,
        found: u64,
        expected: u64,
    ) {
        self.push(kind, place, Some(found), Some(expected));
    }

    #[cold]
    fn push(&mut self, kind: ProblemKind, place: Place, found: Option<u64>, expected: Option<u64>) {
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
