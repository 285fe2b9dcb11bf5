//! dbench: replays the requests of file server clients on a file system.
//!
//! # Origin
//!
//! A. Tridgell's dbench 4. Every client replays a *load*, a text with one request per line
//! ([`load`]), until the time is over; `client1` in its names is replaced by the client's own name.
//! The figure is the payload of reads and writes per second, over the measured time, which starts
//! after a warm-up of a fifth of it. All requests per second and the latencies of the calls are
//! reported too.
//!
//! The original's load, 458,344 lines recorded from NetBench, is not included: `dbench.load` names
//! a file of that format, on Debian `/usr/share/dbench/client.txt`. Without one a load is
//! generated: small documents are created, written, looked up, read, renamed and removed with the
//! recorded load's mix of requests and about its 25 MB per client.
//!
//! # System calls of a request
//!
//! As in the original, every name is looked up first. If it does not exist, its directory is read,
//! as a server must do for case-insensitive clients (`dbench.resolve`; the original's
//! `--no-resolve` turns it off). Then:
//!
//! | request | calls |
//! |---|---|
//! | `NTCreateX` | open, and stat of the open file; only open if the name was missing |
//! | `QUERY_PATH_INFORMATION` | none |
//! | `QUERY_FILE_INFORMATION`, `QUERY_FS_INFORMATION` | stat of the open file; statfs |
//! | `SET_FILE_INFORMATION` | stat of the open file, and a change of its times |
//! | `FIND_FIRST` | readdir; the pattern itself is looked up like any other name |
//! | `Flush` | fsync |
//!
//! # Differences from the original
//!
//! - Clients are tasks of one process and start together. The warm-up has a fixed length, where the
//!   original also waits for the slowest client. The original checks the clock once a second, and
//!   stops with the last whole second.
//! - The load is parsed once, before the clock starts. The original parses every line when it
//!   executes it, and checks each time that its parent process is alive: on a file system in memory
//!   that is a fifth of its time.
//! - File contents are those of this crate instead of zeros, and reads of written data are
//!   compared.
//! - A request that failed on the recorded server for another reason than a missing name is
//!   omitted. A request fails the run if it should have succeeded and fails, or the reverse.
//! - Locks are counted and do nothing, as on any file with a single client. There are no extended
//!   attributes (`-x`).

mod client;
mod generate;
pub mod load;

use std::sync::Arc;

use rt::Nanos;

use crate::definition::{Definition, Frame, Workload};
use crate::directory::read_text;
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

use client::Client;
use load::Load;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "dbench: replays the requests of file server clients",
    parameters: &[
        Parameter::number("dbench.clients", (1, 10_000), 10, "number of clients"),
        Parameter::time(
            "dbench.time",
            Nanos::from_secs(600),
            "measured time, after a warm-up of a fifth of it (-t)",
        ),
        Parameter::text(
            "dbench.load",
            GENERATED,
            "a file of the original's format (-c), or \"generated\"",
        ),
        Parameter::switch(
            "dbench.resolve",
            true,
            "whether names are looked up before they are used",
        ),
        Parameter::switch(
            "dbench.sync",
            false,
            "whether files are opened with O_SYNC (-s)",
        ),
        Parameter::switch("dbench.fsync", false, "whether every write is synced (-F)"),
        Parameter::switch(
            "dbench.sync_directories",
            false,
            "whether directories are synced after removals and renames (-S)",
        ),
    ],
    headline: Headline {
        primary: "throughput",
        shown: &["throughput", "operations_rate", "longest_call"],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "dbench";
const GENERATED: &str = "generated";
/// The warm-up is one in this many parts of the time.
const WARM_UP: u64 = 5;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of clients.
    pub clients: u32,
    /// Measured time.
    pub time: Nanos,
    /// True to look up names before they are used.
    pub resolve: bool,
    /// True to open files with `O_SYNC`.
    pub sync: bool,
    /// True to sync every write.
    pub fsync: bool,
    /// True to sync directories after removals and renames.
    pub sync_directories: bool,
    load: Arc<Load>,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let wrong = |message: String| ParameterError::new("dbench.load", message);
        let load = match values.text("dbench.load") {
            GENERATED => generate::load(),
            path => {
                let text = read_text(path).map_err(|error| wrong(format!("{path}: {error}")))?;
                Load::parse(&text).map_err(|error| wrong(format!("{path}: {error}")))?
            }
        };
        let read = Self {
            clients: values.number("dbench.clients"),
            time: values.time("dbench.time"),
            resolve: values.switch("dbench.resolve"),
            sync: values.switch("dbench.sync"),
            fsync: values.switch("dbench.fsync"),
            sync_directories: values.switch("dbench.sync_directories"),
            load: Arc::new(load),
        };
        if read.time == Nanos::ZERO {
            return Err(ParameterError::new(
                "dbench.time",
                "must be longer than zero",
            ));
        }
        Ok(read)
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let mut run = stage.run(self.load.transfer_max(), u64::from(self.clients));
        let counted_from = rt::monotonic() + self.time / WARM_UP;
        let end = counted_from + self.time;
        let clients = (0..self.clients)
            .map(|index| {
                let hands = run.client(u64::from(index));
                Client::new(self, &self.load, index, hands, (counted_from, end))
            })
            .collect();
        let (mut bytes, mut requests, mut last) = (0, 0, end);
        for client in run.crew("replay", clients, Client::work)? {
            bytes += client.bytes;
            requests += client.requests;
            last = last.max(client.ended);
            run.absorb(client.hands);
        }
        let span = last.saturating_sub(counted_from);
        let mut outcome = run.finish();
        outcome.totals();
        outcome.rate("throughput", bytes, span);
        outcome.rate("operations_rate", requests, span);
        outcome.count("operations", requests);
        Ok(outcome)
    }
}
