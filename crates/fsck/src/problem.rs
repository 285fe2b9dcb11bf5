//! A problem: its kind, its location, the value found and the value expected.

use core::fmt;

use crate::kind::ProblemKind;

/// The location of a problem. A part that does not apply is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Location {
    /// Block group.
    pub group: Option<u32>,
    /// Inode; of the directory, if the problem is one of its entries.
    pub inode: Option<u32>,
    /// Block on the device (within the log, if the kind says so).
    pub block: Option<u64>,
    /// Block within the file.
    pub file_block: Option<u64>,
    /// Byte offset of a directory entry in the block.
    pub entry: Option<u32>,
    /// Name of the entry.
    pub name: Option<Box<[u8]>>,
}

/// A fault of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Kind of problem.
    pub kind: ProblemKind,
    /// Location.
    pub place: Location,
    /// Value found: a count, a block, an inode or a field, depending on the kind.
    pub found: Option<u64>,
    /// Value expected.
    pub expected: Option<u64>,
}

impl Location {
    /// Returns the location of the file system as a whole.
    pub const fn whole() -> Self {
        Self {
            group: None,
            inode: None,
            block: None,
            file_block: None,
            entry: None,
            name: None,
        }
    }

    /// Returns the location of a group.
    pub const fn group(group: u32) -> Self {
        let mut place = Self::whole();
        place.group = Some(group);
        place
    }

    /// Returns the location of an inode.
    pub const fn inode(inode: u32) -> Self {
        let mut place = Self::whole();
        place.inode = Some(inode);
        place
    }

    /// Returns the location of a block.
    pub const fn block(block: u64) -> Self {
        let mut place = Self::whole();
        place.block = Some(block);
        place
    }

    /// Adds a block to the location.
    #[must_use]
    pub const fn at_block(mut self, block: u64) -> Self {
        self.block = Some(block);
        self
    }

    /// Adds a file block to the location.
    #[must_use]
    pub const fn at_file_block(mut self, block: u64) -> Self {
        self.file_block = Some(block);
        self
    }

    /// Adds a directory entry to the location.
    #[must_use]
    pub fn at_entry(mut self, offset: usize, name: &[u8]) -> Self {
        self.entry = Some(offset as u32);
        self.name = Some(name.into());
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let numbers = [
            ("group", self.group.map(u64::from)),
            ("inode", self.inode.map(u64::from)),
            ("block", self.block),
            ("file block", self.file_block),
            ("entry at byte", self.entry.map(u64::from)),
        ];
        for (what, number) in numbers {
            if let Some(number) = number {
                write!(f, "{separator}{what} {number}")?;
                separator = ", ";
            }
        }
        if let Some(name) = &self.name {
            write!(f, "{separator}\"{}\"", name.escape_ascii())?;
            separator = ", ";
        }
        if separator.is_empty() {
            f.write_str("file system")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.kind.number(),
            self.place,
            self.kind.sentence()
        )?;
        match (self.found, self.expected) {
            (Some(found), Some(expected)) => write!(f, " ({found}, should be {expected})"),
            (Some(found), None) => write!(f, " ({found})"),
            (None, Some(expected)) => write!(f, " (should be {expected})"),
            (None, None) => Ok(()),
        }
    }
}
