//! Personalities that cycle through operations on one set of files.

/// A personality.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Personality {
    /// Defaults: number of files, their mean size in bytes, and number of threads.
    pub(super) defaults: (u32, u64, u32),
    /// Number of files per directory.
    pub(super) directory_width: u32,
    /// Percentage of the files that exist at the start.
    pub(super) there: u32,
    /// Groups of operations that a thread repeats.
    pub(super) cycle: &'static [Group],
}

/// Operations on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) pick: Pick,
    pub(super) operations: &'static [Operation],
}

/// Selection of the file for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// A file that does not exist; it is created.
    Absent,
    /// A file that exists, for reading.
    Shared,
    /// A file that exists and that no thread has open.
    Alone,
    /// The log.
    Log,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Open,
    Create,
    ReadWhole,
    WriteWhole,
    Append,
    Fsync,
    Close,
    Delete,
    Stat,
}

use Operation::{Append, Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};

const fn group(pick: Pick, operations: &'static [Operation]) -> Group {
    Group { pick, operations }
}

const READ: Group = group(Pick::Shared, &[Open, ReadWhole, Close]);

pub(super) const VARMAIL: Personality = Personality {
    defaults: (1000, 16 << 10, 16),
    directory_width: 1_000_000,
    there: 80,
    cycle: &[
        group(Pick::Alone, &[Delete]),
        group(Pick::Absent, &[Create, Append, Fsync, Close]),
        group(Pick::Alone, &[Open, ReadWhole, Append, Fsync, Close]),
        READ,
    ],
};

pub(super) const FILESERVER: Personality = Personality {
    defaults: (10_000, 128 << 10, 50),
    directory_width: 20,
    there: 80,
    cycle: &[
        group(Pick::Absent, &[Create, WriteWhole, Close]),
        group(Pick::Alone, &[Open, Append, Close]),
        READ,
        group(Pick::Alone, &[Delete]),
        group(Pick::Shared, &[Stat]),
    ],
};

pub(super) const WEBSERVER: Personality = Personality {
    defaults: (1000, 16 << 10, 100),
    directory_width: 20,
    there: 100,
    cycle: &[
        READ,
        READ,
        READ,
        READ,
        READ,
        READ,
        READ,
        READ,
        READ,
        READ,
        group(Pick::Log, &[Open, Append, Close]),
    ],
};
