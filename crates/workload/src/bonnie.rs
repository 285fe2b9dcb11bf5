//! Bonnie++: one large file by bytes, by chunks and by random seeks, then thousands of files in
//! directories.
//!
//! # Origin
//!
//! R. Coker's bonnie++, after T. Bray's Bonnie. Implements the semantics of 2.00 and those of 1.03,
//! with which the published runs of 2001 to 2007 were made ([`Version`]).
//!
//! | phase | 2.00 | 1.03 |
//! |---|---|---|
//! | per-byte write, read | `write`, `read`; the first 3 MiB | `putc`, `getc`; the whole file |
//! | block write, rewrite, block read | chunks; fsync, close are timed | chunks; close is timed |
//! | seeks | 8192 by 5 threads | 8000 by 3 tasks |
//! | file names | ten hexadecimal digits | seven decimal digits |
//!
//! A seek reads a random chunk, and every tenth writes it back. A *rewrite* reads a chunk, seeks
//! back and writes it. The six phases on files create `files` times 1024 of them, stat them (in
//! directory order, reading those with data) and delete them, once with sequential and once with
//! random names. The time of creating and deleting includes a sync of everything.
//!
//! # Reports
//!
//! `csv-2.00` is a row of 50 fields (format 1.98), `csv-1.03` one of 27. The header that 2.00
//! prints for `-x` names only 48 of its fields: seeks and seekers, the two before the first rate,
//! are missing.
//!
//! # Differences from the original
//!
//! - Phases under half a second are printed like all others, where the original prints `+++++`;
//!   `short_phases` counts them. The columns of CPU are `+++`, because a task cannot measure its
//!   share of a machine that others use.
//! - File contents are those of this crate, so that every read is compared with the written data. A
//!   rewrite writes other bytes, and a seek that writes puts back the same bytes.
//! - Direct I/O applies to every phase except the single-byte ones; the original uses it only once.
//! - Names are spread evenly over directories; the original puts one too many into each.
//! - A file smaller than twice the memory is accepted: sweep the size against the host's memory
//!   instead. There is no three-second sleep before the seeks. `-c` and `-p` (several instances at
//!   once) are not supported.

mod csv;
mod file;
mod names;
mod phase;

use std::sync::Arc;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::{Document, Outcome};
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

use phase::{KINDS, Results};

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "Bonnie++: a large file by bytes, chunks and seeks; thousands of files",
    parameters: &[
        Parameter::word("bonnie.version", &["2.00", "1.03"], "whose semantics"),
        Parameter::bytes(
            "bonnie.size",
            300 << 20,
            "size of the large file in bytes (-s); 0 to skip its phases",
        ),
        Parameter::bytes("bonnie.chunk", 8 << 10, "chunk size in bytes"),
        Parameter::number(
            "bonnie.seeks",
            (0, 10_000_000),
            0,
            "number of seeks; 0 for the default of the version",
        ),
        Parameter::number(
            "bonnie.seekers",
            (0, 1024),
            0,
            "number of seeking tasks; 0 for the default of the version",
        ),
        Parameter::switch(
            "bonnie.bytes",
            true,
            "whether single bytes are written and read (-f)",
        ),
        Parameter::number(
            "bonnie.files",
            (0, 100_000),
            16,
            "number of files in multiples of 1024 (-n); 0 to skip their phases",
        ),
        Parameter::bytes("bonnie.file_min", 0, "minimum file size in bytes"),
        Parameter::bytes("bonnie.file_max", 0, "maximum file size in bytes"),
        Parameter::word(
            "bonnie.file_kind",
            &["files", "hard-links", "symlinks"],
            "kind of the files",
        ),
        Parameter::number(
            "bonnie.directories",
            (1, 100_000),
            1,
            "number of directories for the files",
        ),
        Parameter::switch(
            "bonnie.sync_each",
            false,
            "whether each file is synced when it is created (-b)",
        ),
        Parameter::switch(
            "bonnie.direct",
            false,
            "whether the large file uses direct I/O (-D)",
        ),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &[
            "write_rate",
            "rewrite_rate",
            "read_rate",
            "seek_rate",
            "create_rate",
            "delete_rate",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |values| Footprint::of_contents(Some(values.bytes("bonnie.size")), 1),
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "bonnie";
/// The number of files is a multiple of this.
const FILES_UNIT: u32 = 1024;
/// Bytes that version 2.00 writes and reads singly.
const BYTES_MAX: u64 = 3 << 20;

/// The version whose semantics a run follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 1.03, with stdio and without syncs.
    V1_03,
    /// 2.00.
    V2_00,
}

/// Kind of the many files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Regular files.
    Files,
    /// Hard links to the first file.
    HardLinks,
    /// Symbolic links to the first file.
    Symlinks,
}

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Version whose semantics apply.
    pub version: Version,
    /// Size of the large file in bytes.
    pub size: u64,
    /// Size of a chunk in bytes.
    pub chunk: usize,
    /// Number of seeks.
    pub seeks: u32,
    /// Number of tasks that seek.
    pub seekers: u32,
    /// True to write and read single bytes.
    pub bytes: bool,
    /// Number of files, in multiples of 1024.
    pub files: u32,
    /// Smallest size of a file in bytes.
    pub file_min: u64,
    /// Largest size of a file in bytes.
    pub file_max: u64,
    /// Kind of the files.
    pub file_kind: FileKind,
    /// Number of directories for the files.
    pub directories: u32,
    /// True to sync each file when it is created.
    pub sync_each: bool,
    /// True to use direct I/O for the large file.
    pub direct: bool,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let version = match values.text("bonnie.version") {
            "1.03" => Version::V1_03,
            _ => Version::V2_00,
        };
        let own = |number, default| if number == 0 { default } else { number };
        let (seeks, seekers) = match version {
            Version::V1_03 => (8000, 3),
            Version::V2_00 => (8192, 5),
        };
        let read = Self {
            version,
            size: values.bytes("bonnie.size"),
            chunk: values.buffer("bonnie.chunk", PIECE_BYTES_MAX as u64)?,
            seeks: own(values.number("bonnie.seeks"), seeks),
            seekers: own(values.number("bonnie.seekers"), seekers),
            bytes: values.switch("bonnie.bytes"),
            files: values.number("bonnie.files"),
            file_min: values.bytes("bonnie.file_min"),
            file_max: values.bytes("bonnie.file_max"),
            file_kind: match values.text("bonnie.file_kind") {
                "hard-links" => FileKind::HardLinks,
                "symlinks" => FileKind::Symlinks,
                _ => FileKind::Files,
            },
            directories: values.number("bonnie.directories"),
            sync_each: values.switch("bonnie.sync_each"),
            direct: values.switch("bonnie.direct"),
        };
        let wrong = |name, message: &str| Err(ParameterError::new(name, message));
        if !read.size.is_multiple_of(read.chunk as u64) {
            return wrong("bonnie.size", "must be whole chunks");
        }
        if read.file_min > read.file_max || read.file_max > PIECE_BYTES_MAX as u64 {
            return wrong(
                "bonnie.file_max",
                "must lie between the smallest size and 16 MiB",
            );
        }
        Ok(read)
    }

    fn file_count(&self) -> u32 {
        self.files * FILES_UNIT
    }

    /// Returns the number of bytes that are written and read singly.
    fn single_bytes(&self) -> u64 {
        match self.version {
            Version::V1_03 => self.size,
            Version::V2_00 => self.size.min(BYTES_MAX),
        }
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let piece_max = self.chunk.max(self.file_max as usize);
        let mut run = stage.run(piece_max, KINDS.len() as u64);
        let mut results = Results::new(self);
        if self.size > 0 {
            file::phases(self, &mut run, &mut results)?;
        }
        if self.files > 0 {
            names::phases(self, &mut run, &mut results)?;
        }
        let mut outcome = run.finish();
        outcome.totals();
        results.figures(&mut outcome);
        outcome.documents = vec![
            Document {
                name: "csv-2.00",
                text: csv::row_2_00(self, stage.seed(), &results),
            },
            Document {
                name: "csv-1.03",
                text: csv::row_1_03(self, &results),
            },
        ];
        Ok(outcome)
    }
}
