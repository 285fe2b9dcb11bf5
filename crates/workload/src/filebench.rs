//! filebench's server personalities: mail, files, web, and a database.
//!
//! # Origin
//!
//! filebench 1.5 by R. McDougall and others. Its language describes threads that cycle through
//! lists of operations on sets of files until a timer expires. Four of its personalities are built
//! in, with their defaults:
//!
//! - varmail: 1000 files, mean 16 KiB; 16 threads. Each thread repeats: delete; create, append,
//!   fsync, close; open, read, append, fsync, close; open, read, close.
//! - fileserver: 10,000 files, mean 128 KiB; 50 threads. Each thread repeats: create, write, close;
//!   open, append, close; open, read, close; delete; stat.
//! - webserver: 1000 files, mean 16 KiB; 100 threads. Each thread repeats: ten times open, read,
//!   close; then append to one log.
//! - oltp: 10 files of 10 MB, and a log; 200 readers of 2 KiB, 10 writers of 100 blocks, and a log
//!   writer; see [`oltp`].
//!
//! Sizes have a gamma distribution of shape 1.5. The size of an append is uniform from 0 to 16 KiB:
//! the value that the original calls its mean is its maximum, and an append of 0 bytes is an
//! operation without effect.
//!
//! # Choices, and differences from the original
//!
//! - The timer stops on time: no operation starts after it, and waiting threads stop waiting.
//! - Random streams are seeded; the original's are not.
//! - While one thread appends to a file no other thread opens it, so that every read can be
//!   compared.
//! - If no suitable file exists (all deleted, or all present), the rest of the cycle's group is
//!   skipped; the original waits.
//! - Files are in directories of `dirwidth` files, one level deep; the original draws depths around
//!   that mean.
//! - An operation of a personality is one of the original's flowops. Latencies are those of the
//!   calls below them.
//! - The default, varmail with 16 MB of files, fits in the cache of any current machine: sweep
//!   `filebench.files` against the host's memory.

mod fileset;
pub mod oltp;
mod personality;
mod worker;

use std::sync::Arc;

use rt::Nanos;

use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::meter::Call;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run::Run;
use crate::run_error::RunError;
use crate::stage::Stage;

use fileset::FileSet;
use personality::{FILESERVER, Personality, VARMAIL, WEBSERVER};
use worker::Worker;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "filebench: a mail, file, web or database server",
    parameters: &[
        Parameter::word(
            "filebench.personality",
            &["varmail", "fileserver", "webserver", "oltp"],
            "server personality",
        ),
        Parameter::time(
            "filebench.time",
            Nanos::from_secs(60),
            "duration of the run",
        ),
        Parameter::number(
            "filebench.files",
            (0, 10_000_000),
            0,
            "number of files; 0 for the default of the personality",
        ),
        Parameter::bytes(
            "filebench.mean_size",
            0,
            "mean file size in bytes; 0 for the default of the personality",
        ),
        Parameter::number(
            "filebench.threads",
            (0, 10_000),
            0,
            "number of threads; 0 for the default of the personality",
        ),
        Parameter::bytes(
            "filebench.io",
            1 << 20,
            "bytes per read or write of whole files",
        ),
    ],
    headline: Headline {
        primary: "operations_rate",
        shown: &[
            "operations_rate",
            "read_rate",
            "write_rate",
            "fsync_p99",
            "longest_call",
        ],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "filebench";
const IO_MAX: u64 = 16 << 20;
/// Maximum size of a file, as a multiple of the mean.
const SIZE_TIMES_MAX: f64 = 100.0;
/// Number of progress steps.
const STEPS: u64 = 1000;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    server: Server,
    /// Duration of the run.
    pub time: Nanos,
    /// Number of files.
    pub files: u32,
    /// Mean size of a file in bytes.
    pub mean_size: u64,
    /// Number of threads.
    pub threads: u32,
    /// Bytes per read or write of whole files.
    pub io: usize,
}

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Files(&'static Personality),
    Database,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let (server, (files, mean_size, threads)) = match values.text("filebench.personality") {
            "oltp" => (Server::Database, oltp::DEFAULTS),
            "fileserver" => (Server::Files(&FILESERVER), FILESERVER.defaults),
            "webserver" => (Server::Files(&WEBSERVER), WEBSERVER.defaults),
            _ => (Server::Files(&VARMAIL), VARMAIL.defaults),
        };
        let own = |number, default| if number == 0 { default } else { number };
        let read = Self {
            server,
            time: values.time("filebench.time"),
            files: own(values.number("filebench.files"), files),
            mean_size: match values.bytes("filebench.mean_size") {
                0 => mean_size,
                bytes => bytes,
            },
            threads: own(values.number("filebench.threads"), threads),
            io: values.buffer("filebench.io", IO_MAX)?,
        };
        if read.time == Nanos::ZERO {
            return Err(ParameterError::new(
                "filebench.time",
                "must be longer than zero",
            ));
        }
        if server == Server::Database && read.mean_size < oltp::FILE_BYTES_MIN {
            let message = "a database's file must hold a log write";
            return Err(ParameterError::new("filebench.mean_size", message));
        }
        Ok(read)
    }

    fn serve(&self, run: &mut Run, personality: &'static Personality) -> Result<Served, RunError> {
        let set = Arc::new(FileSet::new(personality, self.files));
        let mut maker = run.quiet_client(u64::MAX);
        run.phase("make", || {
            set.make(&mut maker, self)?;
            maker.sync()
        })?;
        let end = rt::monotonic() + self.time;
        let workers = (0..self.threads)
            .map(|index| {
                let client = run.client(u64::from(index));
                Worker::new(self, personality, &set, client, end)
            })
            .collect();
        let mut served = Served::default();
        for worker in run.crew("serve", workers, Worker::work)? {
            served.add(&worker.served);
            run.absorb(worker.client);
        }
        Ok(served)
    }
}

/// Totals of the completed operations.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
}

impl Served {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let mut run = stage.run(self.io.max(oltp::REQUEST_MAX), STEPS);
        let served = match self.server {
            Server::Files(personality) => self.serve(&mut run, personality)?,
            Server::Database => oltp::serve(self, &mut run)?,
        };
        let span = run.took("serve");
        let mut outcome = run.finish();
        outcome.totals();
        outcome.count("operations", served.operations);
        outcome.rate("operations_rate", served.operations, span);
        outcome.rate("read_rate", served.bytes_read, span);
        outcome.rate("write_rate", served.bytes_written, span);
        outcome.count("bytes_read", served.bytes_read);
        outcome.count("bytes_written", served.bytes_written);
        if let Some(latencies) = &outcome.latencies {
            let fsync = latencies.summary(Call::Fsync.label());
            if let Some(summary) = fsync {
                outcome.seconds("fsync_p99", summary.p99);
            }
        }
        Ok(outcome)
    }
}
