//! Bonnie++: one large file by bytes, by chunks and by random seeks, then thousands of files in
//! directories.
//!
//! # Origin
//!
//! R. Coker's bonnie++, after T. Bray's Bonnie; both the semantics of 2.00 and those of 1.03, with
//! which the published runs of 2001 to 2007 were made ([`Version`]).
//!
//! | phase | 2.00 | 1.03 |
//! |---|---|---|
//! | per-byte write, read | `write` and `read` of one byte, the first 3 MiB | `putc` and `getc` over the whole file |
//! | block write, rewrite, block read | by chunks; fsync and close within the time | by chunks; close only |
//! | seeks | 8192 by 5 threads | 8000 by 3 tasks |
//! | names of files | ten hexadecimal digits | seven decimal digits |
//!
//! A seek reads a random chunk, and every tenth writes it back. A *rewrite* reads a chunk, goes
//! back and writes it. The six phases of files create, look at (in the directory's order, reading
//! what has bytes) and delete `files` times 1024 of them, once with names in order and once with
//! random names; the sync of everything is within creating and deleting.
//!
//! # Reports
//!
//! `csv-2.00` is a row of 50 fields (format 1.98), `csv-1.03` one of 27. The header that 2.00's
//! `-x` prints names only 48 of its fields: the two before the first rate, seeks and seekers, are
//! missing there.
//!
//! # Where ours differs
//!
//! - Phases under half a second are printed like all others, where the original prints `+++++`;
//!   `short_phases` counts them. The columns of CPU are `+++`: a task cannot tell its share of a
//!   machine that others use.
//! - Bytes are those of this laboratory, so that every read is compared with what was written; a
//!   rewrite writes other bytes, and a seek that writes puts back what is there.
//! - Direct requests are direct in every phase but those of single bytes; the original opens so
//!   only once.
//! - Names are spread evenly over directories; the original puts one too many into each.
//! - A file smaller than twice the memory is not refused: sweep the size against the host's memory
//!   instead of believing one size. Nothing sleeps for three seconds before the seeks. `-c` and
//!   `-p` (several at once) are not there.

mod csv;
mod file;
mod names;
mod phase;

use std::sync::Arc;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::{Document, Outcome};
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

use phase::{KINDS, Results};

/// The workload by its name.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "Bonnie++: a large file by bytes, chunks and seeks; thousands of files",
    parameters: &[
        Parameter::word("bonnie.version", &["2.00", "1.03"], "whose semantics"),
        Parameter::bytes(
            "bonnie.size",
            300 << 20,
            "bytes of the file (-s); 0 leaves it out",
        ),
        Parameter::bytes("bonnie.chunk", 8 << 10, "bytes of a chunk"),
        Parameter::number(
            "bonnie.seeks",
            (0, 10_000_000),
            0,
            "how many seeks; 0 is as many as the version does",
        ),
        Parameter::number(
            "bonnie.seekers",
            (0, 1024),
            0,
            "how many tasks seek; 0 is as many as the version has",
        ),
        Parameter::switch(
            "bonnie.bytes",
            true,
            "whether bytes are written and read singly (-f)",
        ),
        Parameter::number(
            "bonnie.files",
            (0, 100_000),
            16,
            "files in multiples of 1024 (-n); 0 leaves them out",
        ),
        Parameter::bytes("bonnie.file_min", 0, "the smallest of them"),
        Parameter::bytes("bonnie.file_max", 0, "the largest of them"),
        Parameter::word(
            "bonnie.file_kind",
            &["files", "hard-links", "symlinks"],
            "what they are",
        ),
        Parameter::number(
            "bonnie.directories",
            (1, 100_000),
            1,
            "directories for them",
        ),
        Parameter::switch(
            "bonnie.sync_each",
            false,
            "whether each is synced when it is made (-b)",
        ),
        Parameter::switch(
            "bonnie.direct",
            false,
            "whether the file is read and written directly (-D)",
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
    footprint: |values| Some(values.bytes("bonnie.size")),
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "bonnie";
/// Files come in multiples of this.
const FILES_UNIT: u32 = 1024;
/// What version 2.00 writes and reads singly.
const BYTES_MAX: u64 = 3 << 20;

/// Whose semantics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 1.03, with stdio and without syncs.
    V1_03,
    /// 2.00.
    V2_00,
}

/// What the many files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Files.
    Files,
    /// Hard links to the first.
    HardLinks,
    /// Symbolic links to the first.
    Symlinks,
}

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Whose semantics.
    pub version: Version,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of a chunk.
    pub chunk: usize,
    /// How many seeks.
    pub seeks: u32,
    /// How many tasks seek.
    pub seekers: u32,
    /// Whether bytes are written and read singly.
    pub bytes: bool,
    /// How many files, in multiples of 1024.
    pub files: u32,
    /// The smallest of them in bytes.
    pub file_min: u64,
    /// The largest of them in bytes.
    pub file_max: u64,
    /// What they are.
    pub file_kind: FileKind,
    /// Directories for them.
    pub directories: u32,
    /// Whether each is synced when it is made.
    pub sync_each: bool,
    /// Whether the file is read and written directly.
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

    /// Bytes that are written and read singly.
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
