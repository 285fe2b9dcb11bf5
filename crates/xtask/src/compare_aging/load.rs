//! The load that ages a file system.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use workload::random::Random;
use workload::{Control, OpenFile, OpenFlags, Target};

/// Number of directories.
const DIRECTORIES: u64 = 64;
/// The least size of a new file, and the number of times that it may be doubled: 1 KiB to 4 MiB.
const LEAST_BYTES: u64 = 1 << 10;
const DOUBLINGS: u64 = 12;
/// Largest file: what is appended to a larger one goes to another.
const MOST_BYTES: u64 = 16 << 20;
/// Bytes of an append, at least and at most.
const APPENDED: (u64, u64) = (1 << 10, 128 << 10);
/// Bytes of a write.
const WRITTEN: usize = 64 << 10;
/// Operations between two syncs of everything.
const SYNC_EVERY: u64 = 200;
/// Shares of appends and rewrites in percent; the rest creates or deletes.
const APPENDS: u32 = 40;
const REWRITES: u32 = 20;

/// The end of the load.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// After this time.
    Time(Duration),
    /// After this number of operations.
    Operations(u64),
}

/// A sequence of operations that depends on a seed and on the bytes that files may have only.
pub(super) struct Load {
    random: Random,
    /// Bytes that all files may have.
    wanted: u64,
    limit: Limit,
    files: Vec<File>,
    /// Bytes of all files.
    used: u64,
    created: u64,
    buffer: Vec<u8>,
    digest: u64,
}

/// A file of the load.
#[derive(Debug, Clone, Copy)]
struct File {
    number: u64,
    bytes: u64,
}

/// A file system after its load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aged {
    pub(super) operations: u64,
    pub(super) seconds: f64,
    /// Number of files that are left.
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Bytes that were written.
    pub(super) written: u64,
    /// Differs between different sequences of operations.
    pub(super) digest: u64,
}

impl File {
    fn path(self) -> String {
        let Self { number, .. } = self;
        format!("d{}/f{number}", number % DIRECTORIES)
    }
}

impl Load {
    pub(super) fn new(seed: u64, wanted: u64, limit: Limit) -> Self {
        Self {
            random: Random::new(seed, 0),
            wanted,
            limit,
            files: Vec::new(),
            used: 0,
            created: 0,
            buffer: vec![0x61; WRITTEN],
            digest: 0,
        }
    }

    /// Runs the load.
    pub(super) fn run(mut self, target: &dyn Target, control: &Control) -> Result<Aged> {
        for directory in 0..DIRECTORIES {
            target.mkdir(&format!("d{directory}"))?;
        }
        let started = Instant::now();
        let (mut operations, mut written) = (0, 0);
        while !self.is_over(operations, started) {
            ensure!(!control.is_cancelled(), "interrupted");
            let before = (self.used, self.files.len() as u64);
            written += self.step(target)?;
            operations += 1;
            if operations % SYNC_EVERY == 0 {
                target.sync()?;
            }
            for value in [before.0, before.1, written] {
                self.digest = (self.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        target.sync()?;
        Ok(Aged {
            operations,
            seconds: started.elapsed().as_secs_f64(),
            files: self.files.len() as u64,
            bytes: self.used,
            written,
            digest: self.digest,
        })
    }

    fn is_over(&self, operations: u64, started: Instant) -> bool {
        match self.limit {
            Limit::Time(time) => started.elapsed() >= time,
            Limit::Operations(count) => operations >= count,
        }
    }

    /// Does one operation. Returns the number of bytes that it has written.
    fn step(&mut self, target: &dyn Target) -> Result<u64> {
        let is_full = self.used >= self.wanted;
        if self.files.is_empty() {
            return self.create(target);
        }
        let at = self.random.below(self.files.len() as u64) as usize;
        if self.random.percent(APPENDS) && !is_full && self.files[at].bytes < MOST_BYTES {
            let bytes = self.random.between(APPENDED.0, APPENDED.1);
            let flags = OpenFlags::WRITE.append();
            self.write(target, at, flags, bytes)
        } else if self.random.percent(REWRITES) {
            self.used -= self.files[at].bytes;
            self.files[at].bytes = 0;
            let bytes = self.size();
            self.write(target, at, OpenFlags::WRITE.truncate(), bytes)
        } else if is_full {
            let file = self.files.swap_remove(at);
            self.used -= file.bytes;
            target.unlink(&file.path())?;
            Ok(0)
        } else {
            self.create(target)
        }
    }

    fn create(&mut self, target: &dyn Target) -> Result<u64> {
        let number = self.created;
        self.created += 1;
        self.files.push(File { number, bytes: 0 });
        let bytes = self.size();
        let flags = OpenFlags::WRITE.create_new();
        self.write(target, self.files.len() - 1, flags, bytes)
    }

    /// Returns the size of a new file: each doubling is equally likely.
    fn size(&mut self) -> u64 {
        let least = LEAST_BYTES << self.random.below(DOUBLINGS);
        self.random.between(least, least * 2 - 1)
    }

    fn write(
        &mut self,
        target: &dyn Target,
        at: usize,
        flags: OpenFlags,
        bytes: u64,
    ) -> Result<u64> {
        let bytes = bytes.min(self.wanted.saturating_sub(self.used)).max(1);
        let mut file = target.open(&self.files[at].path(), flags)?;
        let done = self.write_open(target, &mut file, bytes);
        target.close(file)?;
        done?;
        self.files[at].bytes += bytes;
        self.used += bytes;
        Ok(bytes)
    }

    fn write_open(&self, target: &dyn Target, file: &mut OpenFile, bytes: u64) -> Result<()> {
        let mut left = bytes as usize;
        while left > 0 {
            left -= target.write(file, &self.buffer[..left.min(WRITTEN)])?;
        }
        Ok(())
    }
}
