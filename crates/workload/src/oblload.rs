//! OBLload: a database-like load of small random requests that grows until responses take too long.
//!
//! # Origin
//!
//! OpenBench Labs' `OBLload` (about 2000), without public source: requests of 8 KB, some to a hot
//! spot (an index) and the others anywhere. The number of simulated users grows until the mean
//! response time exceeds 100 ms; the figure is the I/O rate per second at that point. Published:
//! Windows 2000 3500; Linux 2.4 on a NetRAID-2M 1500, on a DuraStor 500.
//!
//! # Choices
//!
//! - Arrivals are open-loop: a user's requests are a Poisson process, and a response time counts
//!   from the instant at which the request was *due*. A slow request therefore delays the following
//!   ones without hiding the delay (coordinated omission). Requests that were due but not answered
//!   at the end of a level count with the time that they have waited by then.
//! - [`Parameters::hot_accesses`] percent of the requests go to the first [`Parameters::hot_space`]
//!   percent of the file, 80 and 20 by default; [`Parameters::reads`] percent of them read.
//! - After the file is created and synced the load pauses for [`Parameters::pause`], none by
//!   default. A controller can then destage its cached part of the file without slowing down the
//!   first users.
//! - Each level adds [`Parameters::step`] users and lasts [`Parameters::level`]; its first half
//!   second, at most a tenth of it, is not counted. The load stops after the first level above the
//!   limit, or at [`Parameters::users_max`].
//! - A level stops on time: no request starts after it, and waits for due times are cut short.
//! - `supported_rate` is the completed I/O per second of the last level whose mean response time
//!   was within the limit.

mod user;

use std::sync::Arc;

use rt::Nanos;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::figure::Headline;
use crate::latency::Latencies;
use crate::meter::Call;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run::Run;
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::OpenFlags;

use user::{FILE_KEY, User};

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "OBLload: random 8 KiB requests of a growing number of users, until responses take too long",
    parameters: &[
        Parameter::bytes("oblload.size", 512 << 20, "file size in bytes"),
        Parameter::bytes("oblload.request", 8 << 10, "request size in bytes"),
        Parameter::number(
            "oblload.reads",
            (0, 100),
            80,
            "percentage of requests that read",
        ),
        Parameter::number(
            "oblload.hot_accesses",
            (0, 100),
            80,
            "percentage of requests to the hot spot",
        ),
        Parameter::number(
            "oblload.hot_space",
            (1, 100),
            20,
            "percentage of the file that is the hot spot",
        ),
        Parameter::number(
            "oblload.rate",
            (1, 100_000),
            10,
            "requests per second and user",
        ),
        Parameter::number("oblload.step", (1, 10_000), 10, "users added by each level"),
        Parameter::number(
            "oblload.users_max",
            (1, 10_000),
            1000,
            "maximum number of users",
        ),
        Parameter::time(
            "oblload.pause",
            Nanos::ZERO,
            "idle time after the file is created",
        ),
        Parameter::time("oblload.level", Nanos::from_secs(30), "duration of a level"),
        Parameter::time(
            "oblload.limit",
            Nanos::from_millis(100),
            "mean response time that ends the run",
        ),
        Parameter::switch("oblload.direct", false, "whether requests bypass the cache"),
        Parameter::switch(
            "oblload.data_sync",
            false,
            "whether a write is durable when it returns",
        ),
    ],
    headline: Headline {
        primary: "supported_rate",
        shown: &[
            "supported_users",
            "supported_rate",
            "response_mean",
            "response_p95",
            "response_p99",
        ],
    },
    frame: Frame::Common,
    footprint: |values| Footprint::of_contents(Some(values.bytes("oblload.size")), 1),
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "oblload";
const FILE: &str = "oblload/file";
/// Bytes per write while the file is created.
const MAKING_BYTES: usize = 1 << 20;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Size of the file in bytes.
    pub size: u64,
    /// Size of a request in bytes.
    pub request: usize,
    /// Percentage of requests that read.
    pub reads: u32,
    /// Percentage of requests to the hot spot.
    pub hot_accesses: u32,
    /// Percentage of the file that is the hot spot.
    pub hot_space: u32,
    /// Requests per second and user.
    pub rate: u32,
    /// Number of users that each level adds.
    pub step: u32,
    /// Maximum number of users.
    pub users_max: u32,
    /// Idle time between the creation of the file and the first level.
    pub pause: Nanos,
    /// Duration of a level.
    pub level: Nanos,
    /// Mean response time that stops the run.
    pub limit: Nanos,
    /// True to use direct I/O.
    pub direct: bool,
    /// True if a write is durable when it returns.
    pub data_sync: bool,
}

/// Result of a level.
struct Level {
    users: u32,
    completed: u64,
    span: Nanos,
    responses: Latencies,
    mean: Nanos,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let read = Self {
            size: values.bytes("oblload.size"),
            request: values.buffer("oblload.request", PIECE_BYTES_MAX as u64)?,
            reads: values.number("oblload.reads"),
            hot_accesses: values.number("oblload.hot_accesses"),
            hot_space: values.number("oblload.hot_space"),
            rate: values.number("oblload.rate"),
            step: values.number("oblload.step"),
            users_max: values.number("oblload.users_max"),
            pause: values.time("oblload.pause"),
            level: values.time("oblload.level"),
            limit: values.time("oblload.limit"),
            direct: values.switch("oblload.direct"),
            data_sync: values.switch("oblload.data_sync"),
        };
        if read.size / 100 < read.request as u64 {
            return Err(ParameterError::new(
                "oblload.size",
                "a hundredth of the file must hold a request",
            ));
        }
        if read.level == Nanos::ZERO {
            return Err(ParameterError::new(
                "oblload.level",
                "must be longer than zero",
            ));
        }
        Ok(read)
    }

    /// Creates the file and makes it durable.
    fn make(&self, run: &mut Run) -> Result<(), RunError> {
        let mut client = run.quiet_client(u64::MAX);
        let flags = OpenFlags::WRITE.create_new();
        run.phase("make", || {
            client.with_file(FILE, flags, FILE_KEY, |client, file| {
                client.write_blocks(Call::Write, file, self.size, MAKING_BYTES)?;
                client.fsync(file)
            })
        })
    }

    /// Runs one level.
    fn measure(&self, run: &mut Run, users: u32) -> Result<Level, RunError> {
        let began = rt::monotonic();
        let counted_from = began + (self.level / 10).min(Nanos::from_millis(500));
        let end = began + self.level;
        let crew = (0..users)
            .map(|index| {
                let stream = u64::from(users) << 32 | u64::from(index);
                User::new(self, run.client(stream), counted_from, end)
            })
            .collect();
        let mut level = Level {
            users,
            completed: 0,
            span: end.saturating_sub(counted_from),
            responses: Latencies::new(Call::LABELS),
            mean: Nanos::ZERO,
        };
        for user in run.crew("level", crew, User::work)? {
            level.completed += user.completed;
            level.responses.merge(&user.responses);
            run.absorb(user.client);
        }
        let summary = level.responses.summary(Call::Response.label());
        level.mean = Nanos::new(summary.map_or(0.0, |summary| summary.mean_ns) as u64);
        Ok(level)
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let mut run = stage.run(
            self.request.max(MAKING_BYTES),
            u64::from(self.users_max.div_ceil(self.step)),
        );
        self.make(&mut run)?;
        rt::sleep(self.pause);
        let (mut supported, mut operations) = (None, 0);
        let mut users = 0;
        while users < self.users_max {
            users = users.saturating_add(self.step).min(self.users_max);
            let level = self.measure(&mut run, users)?;
            stage.advance(1);
            operations += level.completed;
            if level.mean > self.limit {
                break;
            }
            supported = Some(level);
        }
        let mut outcome = run.finish();
        outcome.totals();
        outcome.count("operations", operations);
        match supported {
            None => outcome.count("supported_users", 0),
            Some(level) => {
                outcome.count("supported_users", u64::from(level.users));
                outcome.rate("supported_rate", level.completed, level.span);
                if let Some(summary) = level.responses.summary(Call::Response.label()) {
                    outcome.seconds("response_mean", level.mean);
                    outcome.seconds("response_p99", summary.p99);
                }
                if let Some(p95) = level.responses.quantile(Call::Response.label(), 0.95) {
                    outcome.seconds("response_p95", p95);
                }
            }
        }
        Ok(outcome)
    }
}
