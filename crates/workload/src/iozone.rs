//! IOzone: bandwidths of one file, by file size, record size and access pattern.
//!
//! # Origin
//!
//! IOzone 3.x by W. Norcott and D. Capps. A *cell* is a file size and a record size. Its tests, by
//! the numbers of `-i`: 0 write and rewrite, 1 read and re-read, 2 random read and random write, 3
//! backward read, 4 record rewrite, 5 stride read, 6 fwrite and re-fwrite, 7 fread and re-fread, 8
//! a mix of random reads and writes (with several threads), 9 pwrite, 10 pread, 11 pwritev, 12
//! preadv, each twice. The automatic mode (`-a`) runs the matrix of all cells.
//!
//! A figure is bytes over the time of the transfers. As in the original, that time excludes open,
//! and it excludes close and fsync unless [`Parameters::with_close`] (`-c`) and
//! [`Parameters::with_fsync`] (`-e`) are set. Without them, and with a file that fits in memory, a
//! figure is the cache's bandwidth, which explains a published run of 2.5 GB/s on a disk of 58
//! MB/s.
//!
//! With several threads (`-t`) each has its own file. All start together, and the first to finish
//! stops the test for all (`stonewall`; the first write continues, uncounted, because the other
//! tests need the whole file). The rate is the parent's: all bytes from the first start to the last
//! end.
//!
//! # Reports
//!
//! `excel` is the text of `-R`: for each test a row of record sizes and a row for each file size,
//! in KiB/s, 0 for a missing cell. `csv` has one row per figure.
//!
//! # Differences from the original
//!
//! - The random order is an unbiased shuffle of all records; the original's favours some orders.
//! - A target has no vectored requests: tests 11 and 12 submit 16 records in one request.
//! - Every test of a cell shares one file, as in the original, but every pass over a whole file
//!   writes other bytes, and all reads are compared. Switch `bench.verify` off to measure cached
//!   reads.
//! - Remounting between tests (`-U`) and purging processor caches (`-p`) are not supported.

mod matrix;
mod report;
mod test;
mod worker;

use std::sync::Arc;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run::Run;
use crate::run_error::RunError;
use crate::stage::Stage;

use matrix::{Bounds, Cell};
use report::CellResult;
use test::{TESTS, Test};
use worker::{Wall, Worker};

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "IOzone: bandwidths by file size, record size and access pattern",
    parameters: &[
        Parameter::word(
            "iozone.mode",
            &["cell", "auto"],
            "one file size and record size, or the whole matrix (-a)",
        ),
        Parameter::bytes("iozone.size", 512 << 10, "file size of a cell (-s)"),
        Parameter::bytes("iozone.record", 4 << 10, "record size of a cell (-r)"),
        Parameter::bytes(
            "iozone.size_min",
            64 << 10,
            "minimum file size of the matrix (-n)",
        ),
        Parameter::bytes(
            "iozone.size_max",
            512 << 20,
            "maximum file size of the matrix (-g)",
        ),
        Parameter::bytes(
            "iozone.record_min",
            4 << 10,
            "minimum record size of the matrix (-y)",
        ),
        Parameter::bytes(
            "iozone.record_max",
            16 << 20,
            "maximum record size of the matrix (-q)",
        ),
        Parameter::switch(
            "iozone.crossover",
            true,
            "whether files above 16 MiB skip records below 64 KiB",
        ),
        Parameter::text(
            "iozone.tests",
            "0 1 2 3 4 5 6 7 9 10 11 12",
            "numbers of the tests (-i), including 0",
        ),
        Parameter::number(
            "iozone.threads",
            (1, 256),
            1,
            "number of threads, one file each (-t)",
        ),
        Parameter::switch(
            "iozone.stonewall",
            true,
            "whether the first thread to finish ends a test (-x)",
        ),
        Parameter::number(
            "iozone.stride",
            (1, 1_000_000),
            17,
            "records per stride (-j)",
        ),
        Parameter::switch(
            "iozone.with_close",
            false,
            "whether the time includes close (-c)",
        ),
        Parameter::switch(
            "iozone.with_fsync",
            false,
            "whether the time includes fsync (-e)",
        ),
        Parameter::switch(
            "iozone.direct",
            false,
            "whether requests bypass the cache (-I)",
        ),
        Parameter::switch(
            "iozone.sync",
            false,
            "whether files are opened with O_SYNC (-o)",
        ),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &[
            "write_rate",
            "rewrite_rate",
            "read_rate",
            "reread_rate",
            "random_read_rate",
            "random_write_rate",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "iozone";

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Cells, in order of execution.
    cells: Vec<Cell>,
    /// Numbers of the selected tests.
    tests: Vec<u32>,
    /// Number of threads, each with its own file.
    pub threads: u32,
    /// True if the first thread to finish stops a test.
    pub stonewall: bool,
    /// Number of records of a stride.
    pub stride: u32,
    /// True if the time includes close.
    pub with_close: bool,
    /// True if the time includes fsync.
    pub with_fsync: bool,
    /// True to use direct I/O.
    pub direct: bool,
    /// True to open files with `O_SYNC`.
    pub sync: bool,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let most = PIECE_BYTES_MAX as u64;
        let cells = if values.text("iozone.mode") == "auto" {
            matrix::cells(&Bounds {
                size_min: values.bytes("iozone.size_min"),
                size_max: values.bytes("iozone.size_max"),
                record_min: values.buffer("iozone.record_min", most)? as u64,
                record_max: values.buffer("iozone.record_max", most)? as u64,
                crossover: values.switch("iozone.crossover"),
            })
        } else {
            vec![Cell {
                size: values.bytes("iozone.size"),
                record: values.buffer("iozone.record", most)?,
            }]
        };
        let is_whole = |cell: &Cell| cell.size > 0 && cell.size.is_multiple_of(cell.record as u64);
        if cells.is_empty() || !cells.iter().all(is_whole) {
            let message = "a file must hold whole records, at least one";
            return Err(ParameterError::new("iozone.size", message));
        }
        let read = Self {
            cells,
            tests: test::numbers(values.text("iozone.tests"))?,
            threads: values.number("iozone.threads"),
            stonewall: values.switch("iozone.stonewall"),
            stride: values.number("iozone.stride"),
            with_close: values.switch("iozone.with_close"),
            with_fsync: values.switch("iozone.with_fsync"),
            direct: values.switch("iozone.direct"),
            sync: values.switch("iozone.sync"),
        };
        if read.tests.contains(&test::MIX) && read.threads < 2 {
            let message = "test 8, the mix, needs several threads";
            return Err(ParameterError::new("iozone.tests", message));
        }
        Ok(read)
    }

    fn chosen(&self) -> impl Iterator<Item = &'static Test> + '_ {
        TESTS
            .iter()
            .filter(|test| self.tests.contains(&test.number))
    }

    /// Runs all tests of a cell on a new file.
    fn cell(
        &self,
        run: &mut Run,
        cell: Cell,
        results: &mut Vec<CellResult>,
    ) -> Result<(), RunError> {
        let mut workers: Vec<_> = (0..self.threads)
            .map(|index| Worker::new(self, cell, index, run.client(u64::from(index))))
            .collect();
        for test in self.chosen() {
            let wall = Wall::default();
            for worker in &mut workers {
                worker.prepare(test, &wall);
            }
            workers = run.crew(test.phase, workers, move |worker| worker.work(test))?;
            let began = workers.iter().filter_map(|worker| worker.began).min();
            let ended = workers.iter().filter_map(|worker| worker.ended).max();
            let span = ended.unwrap_or_default() - began.unwrap_or_default();
            results.push(CellResult {
                test,
                cell,
                bytes: workers.iter().map(|worker| worker.bytes).sum(),
                span,
            });
        }
        for worker in workers {
            worker.remove()?;
            run.absorb(worker.client);
        }
        Ok(())
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let piece_max = self.cells.iter().map(|cell| cell.request_max()).max();
        let steps = self.cells.len() * self.chosen().count() * self.threads as usize;
        let mut run = stage.run(piece_max.unwrap_or(1), steps as u64);
        let mut results = Vec::new();
        for cell in &self.cells {
            self.cell(&mut run, *cell, &mut results)?;
        }
        let mut outcome = run.finish();
        outcome.totals();
        if self.cells.len() == 1 {
            for result in &results {
                outcome.rate(result.test.figure, result.bytes, result.span);
            }
        }
        outcome.documents = report::documents(&results);
        Ok(outcome)
    }
}
