//! dbench: what clients of a file server did, done again on a file system.
//!
//! # Origin
//!
//! A. Tridgell's dbench 4: every client replays a *load*, a text with one request a line
//! ([`load`]), again and again until the time is over, `client1` in its names replaced by the
//! client's own. The figure is payload of reads and writes a second, over the time, which begins
//! after a warm-up of a fifth of it; next to it here are all requests a second and the latencies of
//! the calls.
//!
//! The original's load, 458,344 lines recorded from NetBench, is not shipped here: `dbench.load`
//! names a file of that format, on Debian `/usr/share/dbench/client.txt`. Without one a load is
//! generated: small documents made, written, looked at, read, renamed and removed with the recorded
//! load's mix of requests and about its 25 MB a client.
//!
//! # What a request does
//!
//! As the original, to the system call: every name is looked at first, and if it is not there its
//! directory is read, as a server must for clients that do not care about capitals
//! (`dbench.resolve`, its `--no-resolve`). Then
//!
//! | request | calls |
//! |---|---|
//! | `NTCreateX` | open and stat of the open file; only open where the name was not there |
//! | `QUERY_PATH_INFORMATION` | none |
//! | `QUERY_FILE_INFORMATION`, `QUERY_FS_INFORMATION` | stat of the open file; statfs |
//! | `SET_FILE_INFORMATION` | stat of the open file, and its times set |
//! | `FIND_FIRST` | the directory read, for the pattern is a name of it that was looked at like any other |
//! | `Flush` | fsync |
//!
//! # Where ours differs
//!
//! - Clients are tasks of one process and begin together; the warm-up has a fixed length, where the
//!   original also waits for the slowest client. The original looks at the clock once a second, and
//!   ends with the last whole one.
//! - The load is read once, before the clock runs. The original reads and takes apart every line
//!   when its turn has come, and asks with each whether its parent lives: on a file system in
//!   memory that is a fifth of its time.
//! - Bytes are not zeros but this laboratory's, and reads of what was written are compared.
//! - A request that failed on the recorded server for another reason than that a name was missing
//!   is not done; one that should have succeeded, or should have failed, and does not, fails the
//!   run.
//! - Locks are counted and do nothing, as on any file that only one client uses. There are no
//!   extended attributes (`-x`).

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

/// The workload by its name.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "dbench: what clients of a file server did, done again",
    parameters: &[
        Parameter::number("dbench.clients", (1, 10_000), 10, "how many clients"),
        Parameter::time(
            "dbench.time",
            Nanos::from_secs(600),
            "how long it is measured, after a fifth of it (-t)",
        ),
        Parameter::text(
            "dbench.load",
            GENERATED,
            "a file of the original's format (-c), or \"generated\"",
        ),
        Parameter::switch(
            "dbench.resolve",
            true,
            "whether names are looked for before they are used",
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
/// The warm-up is a part of the time: one in so many.
const WARM_UP: u64 = 5;

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// How many clients.
    pub clients: u32,
    /// How long it is measured.
    pub time: Nanos,
    /// Whether names are looked for before they are used.
    pub resolve: bool,
    /// Whether files are opened with `O_SYNC`.
    pub sync: bool,
    /// Whether every write is synced.
    pub fsync: bool,
    /// Whether directories are synced after removals and renames.
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
            return Err(ParameterError::new("dbench.time", "must take some time"));
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
