//! The personality of a database: many readers, whose reads trigger writers and a log writer.
//!
//! A reader reads 2 KiB at a random offset of a random data file and then posts two semaphores. The
//! log writer writes 256 KiB, durable when the call returns, for every [`LOG_VALUE`] posts. Each of
//! ten writers writes 100 random blocks of 2 KiB, durable likewise, for every [`WRITER_VALUE`]
//! posts. A reader waits while the outstanding posts exceed a semaphore's high water mark, so that
//! no side runs ahead.
//!
//! The original's writers submit their 100 blocks asynchronously and wait for all of them; a target
//! has no such call, so they are written one after the other. The original's `hog`, a loop that
//! burns CPU time between operations, is omitted: in a simulated world the host's profile charges
//! the cost of operations.

use std::sync::Arc;

use rt::{Condvar, Mutex, Nanos};

use super::{FOLDER, Parameters, Served};
use crate::client::{Client, Opened};
use crate::contents;
use crate::run::Run;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Defaults: number of data files, bytes of each, and readers.
pub(super) const DEFAULTS: (u32, u64, u32) = (10, 10 << 20, 200);
/// Size of the largest request in bytes.
pub(super) const REQUEST_MAX: usize = LOG_WRITE;
/// Minimum size of a file in bytes.
pub(super) const FILE_BYTES_MIN: u64 = LOG_WRITE as u64;

const BLOCK: usize = 2 << 10;
const LOG_WRITE: usize = 256 << 10;
/// Number of blocks per turn of a writer.
const WRITER_BLOCKS: u32 = 100;
const WRITERS: u32 = 10;
/// Size of the circular log in bytes.
const LOG_BYTES: u64 = 10 << 20;
/// Posts that trigger a write of the log, and the maximum of outstanding posts.
pub const LOG_VALUE: u64 = 3200;
const LOG_HIGH_WATER: u64 = LOG_VALUE + 1000;
/// Posts that trigger a turn of a writer, and the maximum of outstanding posts.
pub const WRITER_VALUE: u64 = 1000;
const WRITER_HIGH_WATER: u64 = 2000;

/// A counting semaphore with a high water mark, whose waits stop at the end of the run.
struct Semaphore {
    posts: Mutex<u64>,
    changed: Condvar,
    high_water: u64,
    end: Nanos,
}

impl Semaphore {
    fn new(high_water: u64, end: Nanos) -> Self {
        Self {
            posts: Mutex::new(0),
            changed: Condvar::new(),
            high_water,
            end,
        }
    }

    /// Adds a post; waits while the high water mark is reached.
    fn post(&self) {
        let mut posts = self.posts.lock();
        while *posts >= self.high_water && rt::monotonic() < self.end {
            self.changed.wait_until(&mut posts, self.end);
        }
        *posts += 1;
        self.changed.notify_all();
    }

    /// Takes `value` posts. Returns false if they did not arrive before the end.
    fn take(&self, value: u64) -> bool {
        let mut posts = self.posts.lock();
        while *posts < value && rt::monotonic() < self.end {
            self.changed.wait_until(&mut posts, self.end);
        }
        if *posts < value {
            return false;
        }
        *posts -= value;
        self.changed.notify_all();
        true
    }
}

#[derive(Clone, Copy)]
enum Role {
    Reader,
    Writer,
    Log,
}

/// State that all tasks share.
struct Database {
    files: u32,
    blocks: u64,
    log: Semaphore,
    writers: Semaphore,
    end: Nanos,
}

/// A task.
struct Task {
    client: Client,
    served: Served,
    role: Role,
    database: Arc<Database>,
}

pub(super) fn serve(parameters: &Parameters, run: &mut Run) -> Result<Served, RunError> {
    let mut maker = run.quiet_client(u64::MAX);
    let (files, size) = (parameters.files, parameters.mean_size);
    run.phase("make", || {
        for number in 0..files {
            make(&mut maker, &path(number), size)?;
        }
        make(&mut maker, &log_path(), LOG_BYTES)?;
        maker.sync()
    })?;
    let end = rt::monotonic() + parameters.time;
    let database = Arc::new(Database {
        files,
        blocks: size / BLOCK as u64,
        log: Semaphore::new(LOG_HIGH_WATER, end),
        writers: Semaphore::new(WRITER_HIGH_WATER, end),
        end,
    });
    let roles = std::iter::once(Role::Log)
        .chain((0..WRITERS).map(|_| Role::Writer))
        .chain((0..parameters.threads).map(|_| Role::Reader));
    let tasks = roles
        .zip(0_u64..)
        .map(|(role, index)| Task {
            client: run.client(index),
            served: Served::default(),
            role,
            database: Arc::clone(&database),
        })
        .collect();
    let mut served = Served::default();
    for task in run.crew("serve", tasks, Task::work)? {
        served.add(&task.served);
        run.absorb(task.client);
    }
    Ok(served)
}

fn path(number: u32) -> String {
    format!("{FOLDER}/data{number}")
}

fn log_path() -> String {
    format!("{FOLDER}/log")
}

/// Creates a file. All files have the same contents, so a write does not change them.
fn make(client: &mut Client, path: &str, size: u64) -> Result<(), RunError> {
    client.make_file(path, contents::key(1), size, LOG_WRITE)
}

impl Task {
    fn work(&mut self) -> Result<(), RunError> {
        let durable = OpenFlags {
            data_sync: true,
            ..OpenFlags::READ_WRITE
        };
        let (paths, flags): (Vec<String>, _) = match self.role {
            Role::Log => (vec![log_path()], durable),
            Role::Writer => ((0..self.database.files).map(path).collect(), durable),
            Role::Reader => (
                (0..self.database.files).map(path).collect(),
                OpenFlags::READ,
            ),
        };
        let mut files = Vec::new();
        let mut result = Ok(());
        for path in paths {
            match self.client.open(path, flags, contents::key(1)) {
                Ok(file) => files.push(file),
                Err(error) => result = Err(error),
            }
        }
        if result.is_ok() {
            result = self.serve(&files);
        }
        for file in files {
            result = result.and(self.client.close(file));
        }
        result
    }

    fn serve(&mut self, files: &[Opened]) -> Result<(), RunError> {
        let database = Arc::clone(&self.database);
        let mut log_at = 0;
        while rt::monotonic() < database.end && self.client.goes_on()? {
            match self.role {
                Role::Reader => {
                    let (file, offset) = self.draw(files);
                    self.client.pread(file, offset, BLOCK)?;
                    self.served.bytes_read += BLOCK as u64;
                    self.served.operations += 1;
                    database.log.post();
                    database.writers.post();
                }
                Role::Writer if database.writers.take(WRITER_VALUE) => {
                    for _ in 0..WRITER_BLOCKS {
                        let (file, offset) = self.draw(files);
                        self.write(file, offset, BLOCK)?;
                    }
                }
                Role::Log if database.log.take(LOG_VALUE) => {
                    self.write(&files[0], log_at, LOG_WRITE)?;
                    log_at = (log_at + LOG_WRITE as u64) % LOG_BYTES;
                }
                Role::Writer | Role::Log => return Ok(()),
            }
        }
        Ok(())
    }

    fn write(&mut self, file: &Opened, offset: u64, length: usize) -> Result<(), RunError> {
        if rt::monotonic() >= self.database.end {
            return Ok(());
        }
        self.client.pwrite(file, offset, length)?;
        self.served.bytes_written += length as u64;
        self.served.operations += 1;
        Ok(())
    }

    fn draw<'f>(&mut self, files: &'f [Opened]) -> (&'f Opened, u64) {
        let random = &mut self.client.random;
        let file = &files[random.below(files.len() as u64) as usize];
        (file, random.below(self.database.blocks) * BLOCK as u64)
    }
}
