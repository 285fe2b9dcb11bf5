//! A problem: its kind, where it is, what was found and what was expected.

use core::fmt;

use crate::kind::ProblemKind;

/// Where a problem is. What does not apply is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The block group.
    pub group: Option<u32>,
    /// The inode; of a directory, if the problem is one of its entries.
    pub inode: Option<u32>,
    /// The block on the device (within the log, if the kind says so).
    pub block: Option<u64>,
    /// The block within the file.
    pub file_block: Option<u64>,
    /// The byte in the block at which a directory entry begins.
    pub entry: Option<u32>,
    /// The entry's name.
    pub name: Option<Box<[u8]>>,
}

/// Something that is wrong with a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// Where.
    pub place: Place,
    /// What stands there: a count, a block, an inode or a field, as the kind says.
    pub found: Option<u64>,
    /// What should stand there.
    pub expected: Option<u64>,
}

impl Place {
    /// The file system as a whole.
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

    /// A group.
    pub const fn group(group: u32) -> Self {
        let mut place = Self::whole();
        place.group = Some(group);
        place
    }

    /// An inode.
    pub const fn inode(inode: u32) -> Self {
        let mut place = Self::whole();
        place.inode = Some(inode);
        place
    }

    /// A block.
    pub const fn block(block: u64) -> Self {
        let mut place = Self::whole();
        place.block = Some(block);
        place
    }

    /// The same place in a block.
    #[must_use]
    pub const fn at_block(mut self, block: u64) -> Self {
        self.block = Some(block);
        self
    }

    /// The same place in a block of the file.
    #[must_use]
    pub const fn at_file_block(mut self, block: u64) -> Self {
        self.file_block = Some(block);
        self
    }

    /// The same place at a directory entry.
    #[must_use]
    pub fn at_entry(mut self, offset: usize, name: &[u8]) -> Self {
        self.entry = Some(offset as u32);
        self.name = Some(name.into());
        self
    }
}

impl fmt::Display for Place {
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
