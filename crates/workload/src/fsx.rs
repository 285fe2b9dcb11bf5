//! fsx: random operations on one file, with each read compared with a copy in memory.
//!
//! # Origin
//!
//! Apple's and SGI's `fsx`, as in xfstests: one file of at most 256 KiB, and operations of at most
//! 64 KiB at random offsets, chosen among read, write, truncate, and close with reopen. The program
//! keeps the expected contents of the file, and compares.
//!
//! # Differences from the original
//!
//! - It tests correctness: its figure is the number of operations, and a difference fails the run
//!   with the offset and the operations before it.
//! - Operations that [`Target`](crate::Target) has no call for are omitted: mapped reads and
//!   writes, allocating, punching, collapsing, inserting and cloning ranges. An fsync is added.
//! - On a target that keeps no contents only the sizes are compared.

mod shadow;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::client::Client;
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::meter::Call;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::{OpenFile, OpenFlags};

use shadow::{Deed, Shadow};

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "fsx: random operations on one file, compared with a copy in memory",
    parameters: &[
        Parameter::number(
            "fsx.operations",
            (1, 1_000_000_000),
            10_000,
            "number of operations (-N)",
        ),
        Parameter::bytes("fsx.size_max", 256 << 10, "maximum file size in bytes (-l)"),
        Parameter::bytes(
            "fsx.operation_max",
            64 << 10,
            "maximum size of an operation in bytes (-o)",
        ),
        Parameter::number("fsx.tasks", (1, 1024), 1, "number of tasks, one file each"),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &["operations_rate", "longest_call", "elapsed"],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "fsx";
const SIZE_MAX: u64 = 1 << 30;
/// Number of operations that a failure prints.
const SHOWN: usize = 8;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of operations per task.
    pub operations: u32,
    /// Maximum size of the file in bytes.
    pub size_max: usize,
    /// Maximum size of an operation in bytes.
    pub operation_max: usize,
    /// Number of tasks, each with its file.
    pub tasks: u32,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        Ok(Self {
            operations: values.number("fsx.operations"),
            size_max: values.buffer("fsx.size_max", SIZE_MAX)?,
            operation_max: values.buffer("fsx.operation_max", SIZE_MAX)?,
            tasks: values.number("fsx.tasks"),
        })
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let operations = u64::from(self.operations) * u64::from(self.tasks);
        let mut run = stage.run(1, operations);
        let tasks = (0..self.tasks)
            .map(|index| Task {
                client: run.client(u64::from(index)),
                parameters: self.clone(),
                path: format!("{FOLDER}/{index}"),
                shadow: Shadow::default(),
                compares: stage.verifies(),
                last: VecDeque::new(),
            })
            .collect();
        for task in run.crew("operations", tasks, Task::work)? {
            run.absorb(task.client);
        }
        let span = run.elapsed();
        let mut outcome = run.finish();
        outcome.totals();
        outcome.count("operations", operations);
        outcome.rate("operations_rate", operations, span);
        Ok(outcome)
    }
}

/// A task with its file.
struct Task {
    client: Client,
    parameters: Parameters,
    path: String,
    shadow: Shadow,
    compares: bool,
    // The last operations, for the message of a failure.
    last: VecDeque<Deed>,
}

impl Task {
    fn work(&mut self) -> Result<(), RunError> {
        let mut file = self.open(OpenFlags::READ_WRITE.create_new())?;
        for _ in 0..self.parameters.operations {
            if !self.client.goes_on()? {
                break;
            }
            let deed = self.shadow.draw(
                &mut self.client.random,
                self.parameters.size_max,
                self.parameters.operation_max,
            );
            if self.last.len() == SHOWN {
                self.last.pop_front();
            }
            self.last.push_back(deed);
            if deed == Deed::Reopen {
                self.close(file)?;
                file = self.open(OpenFlags::READ_WRITE)?;
            } else if let Err(error) = self.act(deed, &file) {
                // The operation's error counts, not that of the close.
                let _ = self.close(file);
                return Err(error);
            }
            self.client.advance(1);
        }
        self.close(file)?;
        self.check_size()?;
        let file = self.open(OpenFlags::READ)?;
        let checked = self.read(&file, 0, self.shadow.size());
        self.close(file).and(checked)
    }

    fn open(&mut self, flags: OpenFlags) -> Result<OpenFile, RunError> {
        let call = if flags.create {
            Call::Create
        } else {
            Call::Open
        };
        self.client
            .call(call, |target| target.open(&self.path, flags))
    }

    fn close(&mut self, file: OpenFile) -> Result<(), RunError> {
        self.client.call(Call::Close, |target| target.close(file))
    }

    fn act(&mut self, deed: Deed, file: &OpenFile) -> Result<(), RunError> {
        match deed {
            Deed::Read { offset, length } => self.read(file, offset, length),
            Deed::Write { offset, length } => {
                let data = self.shadow.write(&mut self.client.random, offset, length);
                let mut done = 0;
                while done < length {
                    let (rest, at) = (&data[done..], (offset + done) as u64);
                    let write = |target: &dyn crate::Target| target.pwrite(file, rest, at);
                    match self.client.call(Call::Write, write)? {
                        0 => {
                            let path = self.path.clone();
                            return Err(RunError::WroteNothing { path });
                        }
                        count => done += count,
                    }
                }
                Ok(())
            }
            Deed::Truncate { size } => {
                self.shadow.truncate(size);
                self.client
                    .call(Call::Truncate, |t| t.truncate(&self.path, size as u64))?;
                self.check_size()
            }
            Deed::Fsync => self.client.call(Call::Fsync, |target| target.fsync(file)),
            Deed::Reopen => Ok(()),
        }
    }

    fn check_size(&mut self) -> Result<(), RunError> {
        let found = self.client.stat(&self.path)?.size;
        if found == self.shadow.size() as u64 {
            return Ok(());
        }
        let fact = format!(
            "{found} bytes instead of {}, after {}",
            self.shadow.size(),
            self.story()
        );
        Err(self.wrong(fact))
    }

    fn read(&mut self, file: &OpenFile, offset: usize, length: usize) -> Result<(), RunError> {
        let mut buffer = vec![0; length];
        let mut done = 0;
        while done < length {
            let (rest, at) = (&mut buffer[done..], (offset + done) as u64);
            match self
                .client
                .call(Call::Read, |target| target.pread(file, rest, at))?
            {
                0 => break,
                count => done += count,
            }
        }
        let expected = self.shadow.read(offset, length);
        if done != expected.len() {
            let fact = format!(
                "{done} bytes instead of {} could be read at {offset}, after {}",
                expected.len(),
                self.story()
            );
            return Err(self.wrong(fact));
        }
        let same = expected.iter().zip(&buffer).take_while(|(a, b)| a == b);
        match same.count() {
            count if count == done || !self.compares => Ok(()),
            count => {
                let at = offset + count;
                let fact = format!("another byte at {at}, after {}", self.story());
                Err(self.wrong(fact))
            }
        }
    }

    fn wrong(&self, fact: String) -> RunError {
        RunError::WrongTree {
            path: self.path.clone(),
            fact,
        }
    }

    fn story(&self) -> String {
        let deeds: Vec<String> = self.last.iter().map(|deed| format!("{deed:?}")).collect();
        deeds.join(", ")
    }
}
