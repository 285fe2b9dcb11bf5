//! The personalities that cycle through operations on one set of files.

/// One.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Personality {
    /// Files, their mean size, and threads.
    pub(super) defaults: (u32, u64, u32),
    /// Files in a directory.
    pub(super) directory_width: u32,
    /// Percent of the files that are there at the start.
    pub(super) there: u32,
    /// What a thread does, again and again.
    pub(super) cycle: &'static [Group],
}

/// Operations on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) pick: Pick,
    pub(super) operations: &'static [Operation],
}

/// Which file a group works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// One that is not there: it is made.
    Absent,
    /// One that is there, for reading.
    Shared,
    /// One that is there and that nobody has open.
    Alone,
    /// The log.
    Log,
}

/// An operation.
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
