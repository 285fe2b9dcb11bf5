//! OBLdisk: sequential writes and reads of one file with growing requests, by one or several
//! threads.
//!
//! # Origin
//!
//! OpenBench Labs' `OBLdisk` (about 2000), without public source: sequential reads and writes of
//! one file with requests that grow; one thread, or several threads at different offsets of the
//! same file. Published were the shapes of curves for files of 256 and 512 MB on a host with 512 MB
//! of memory.
//!
//! # Choices
//!
//! - Requests double from 2 KiB to 1 MiB. Each size transfers the whole file once; thread `i` of
//!   `n` starts at `i/n` of it and stays within its part.
//! - Write phases come first, smallest request first, so that reads see the file that was written
//!   last. Each write phase includes a final fsync, without which it would measure memory.
//! - `bundling` is the read rate with 4 KiB over the best read rate: it shows the ability of the
//!   file system to merge small requests.
//! - Direct I/O ([`Parameters::direct`]) bypasses the cache if the target supports it.

use std::sync::Arc;

use crate::client::{Client, Opened};
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run::Run;
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::OpenFlags;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "OBLdisk: one file, sequential requests from 2 KiB to 1 MiB",
    parameters: &[
        Parameter::bytes("obldisk.size", 256 << 20, "file size in bytes"),
        Parameter::number(
            "obldisk.threads",
            (1, 256),
            1,
            "number of threads that share it",
        ),
        Parameter::switch("obldisk.direct", false, "whether requests bypass the cache"),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &[
            "read_4k_rate",
            "write_4k_rate",
            "read_1m_rate",
            "write_1m_rate",
            "bundling",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |values| Footprint::of_contents(Some(values.bytes("obldisk.size")), 1),
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "obldisk";
const FILE: &str = "obldisk/file";
const FILE_KEY: u64 = 1;

/// Every request size, with the names of its phases and figures.
const REQUESTS: [Request; 10] = [
    Request::new(2 << 10, "read_2k_rate", "write_2k_rate"),
    Request::new(4 << 10, "read_4k_rate", "write_4k_rate"),
    Request::new(8 << 10, "read_8k_rate", "write_8k_rate"),
    Request::new(16 << 10, "read_16k_rate", "write_16k_rate"),
    Request::new(32 << 10, "read_32k_rate", "write_32k_rate"),
    Request::new(64 << 10, "read_64k_rate", "write_64k_rate"),
    Request::new(128 << 10, "read_128k_rate", "write_128k_rate"),
    Request::new(256 << 10, "read_256k_rate", "write_256k_rate"),
    Request::new(512 << 10, "read_512k_rate", "write_512k_rate"),
    Request::new(REQUEST_MAX, "read_1m_rate", "write_1m_rate"),
];
const REQUEST_MAX: usize = 1 << 20;
/// Request size of the numerator of `bundling`.
const SMALL_REQUEST: usize = 4 << 10;

/// A request size.
#[derive(Clone, Copy)]
struct Request {
    bytes: usize,
    read: &'static str,
    write: &'static str,
}

impl Request {
    const fn new(bytes: usize, read: &'static str, write: &'static str) -> Self {
        Self { bytes, read, write }
    }
}

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Size of the file in bytes.
    pub size: u64,
    /// Number of threads that share it.
    pub threads: u32,
    /// True to use direct I/O.
    pub direct: bool,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let read = Self {
            size: values.bytes("obldisk.size"),
            threads: values.number("obldisk.threads"),
            direct: values.switch("obldisk.direct"),
        };
        let step = REQUEST_MAX as u64 * u64::from(read.threads);
        if read.size == 0 || !read.size.is_multiple_of(step) {
            return Err(ParameterError::new(
                "obldisk.size",
                format!(
                    "{} bytes are no multiple of 1 MiB for each thread",
                    read.size
                ),
            ));
        }
        Ok(read)
    }

    fn transfer(
        &self,
        run: &mut Run,
        phase: &'static str,
        bytes: usize,
        direction: Direction,
    ) -> Result<(), RunError> {
        let part = self.size / u64::from(self.threads);
        let parts = (0..self.threads)
            .map(|thread| Part {
                client: run.client(u64::from(thread)),
                from: part * u64::from(thread),
                length: part,
                request: bytes,
                is_direct: self.direct,
                direction,
            })
            .collect();
        for part in run.crew(phase, parts, Part::work)? {
            run.absorb(part.client);
        }
        Ok(())
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let mut run = stage.run(REQUEST_MAX, 2 * REQUESTS.len() as u64);
        let file = stage.target().open(FILE, OpenFlags::WRITE.create_new())?;
        stage.target().close(file)?;
        for request in &REQUESTS {
            self.transfer(&mut run, request.write, request.bytes, Direction::Write)?;
        }
        for request in &REQUESTS {
            self.transfer(&mut run, request.read, request.bytes, Direction::Read)?;
        }
        let rates: Vec<_> = REQUESTS
            .iter()
            .flat_map(|request| [request.read, request.write])
            .map(|name| (name, run.took(name)))
            .collect();
        let mut outcome = run.finish();
        outcome.totals();
        for (name, span) in rates {
            outcome.rate(name, self.size, span);
        }
        let reading = REQUESTS.iter().filter_map(|r| outcome.value(r.read));
        let best = reading.fold(0.0, f64::max);
        let small = REQUESTS.iter().find(|r| r.bytes == SMALL_REQUEST);
        if let Some(rate) = small.and_then(|request| outcome.value(request.read)) {
            outcome.figure("bundling", rate / best);
        }
        Ok(outcome)
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// A thread's part of the file.
struct Part {
    client: Client,
    from: u64,
    length: u64,
    request: usize,
    is_direct: bool,
    direction: Direction,
}

impl Part {
    fn work(&mut self) -> Result<(), RunError> {
        let flags = match self.direction {
            Direction::Read => OpenFlags::READ,
            Direction::Write => OpenFlags::WRITE,
        };
        let flags = flags.direct(self.is_direct);
        let mut file = self.client.open(FILE, flags, FILE_KEY)?;
        let worked = self.transfer(&mut file);
        let closed = self.client.close(file);
        self.client.advance(1);
        worked.and(closed)
    }

    fn transfer(&mut self, file: &mut Opened) -> Result<(), RunError> {
        let end = self.from + self.length;
        for offset in (self.from..end).step_by(self.request) {
            if !self.client.goes_on()? {
                return Ok(());
            }
            match self.direction {
                Direction::Read => self.client.pread(file, offset, self.request)?,
                Direction::Write => self.client.pwrite(file, offset, self.request)?,
            }
        }
        match self.direction {
            Direction::Read => Ok(()),
            Direction::Write => self.client.fsync(file),
        }
    }
}
