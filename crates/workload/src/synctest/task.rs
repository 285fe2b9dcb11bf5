//! One task of synctest: the files that it writes, renames and removes.

use std::collections::VecDeque;

use super::{Parameters, Synchronous};
use crate::client::Client;
use crate::contents;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Name suffixes of a file, in the order of its renames.
const STATES: [&str; 4] = ["new", "in", "active", "done"];
/// Bytes per call of `write`.
const WRITE_BYTES: usize = 8 << 10;

/// A task.
pub(super) struct Task {
    pub(super) client: Client,
    /// Number of bytes written so far.
    pub(super) written: u64,
    parameters: Parameters,
    directory: String,
    index: u32,
    // Existing files, the oldest first.
    live: VecDeque<Live>,
}

/// A file that exists.
struct Live {
    path: String,
    key: u64,
    size: u64,
}

impl Task {
    pub(super) fn new(parameters: &Parameters, index: u32, client: Client) -> Self {
        Self {
            client,
            written: 0,
            directory: parameters.directory_of(index),
            parameters: parameters.clone(),
            index,
            live: VecDeque::new(),
        }
    }

    /// Runs all passes.
    pub(super) fn work(&mut self) -> Result<(), RunError> {
        for number in 0..self.parameters.files {
            if !self.client.goes_on()? {
                break;
            }
            self.pass(number)?;
            self.client.advance(1);
        }
        Ok(())
    }

    /// Compares the remaining files with the written data.
    pub(super) fn verify(&self, client: &mut Client) -> Result<(), RunError> {
        for file in &self.live {
            client.read_file(&file.path, file.key, file.size, WRITE_BYTES)?;
        }
        Ok(())
    }

    fn pass(&mut self, number: u32) -> Result<(), RunError> {
        let size = self.draw_size();
        let key = contents::key(u64::from(self.index) << 32 | u64::from(number));
        let mut path = self.path(number, 0);
        self.write_file(&path, key, size)?;
        self.sync_directory()?;
        for state in 1..=self.parameters.renames {
            let next = self.path(number, state);
            self.client.rename(&path, &next)?;
            self.sync_directory()?;
            path = next;
        }
        self.live.push_back(Live { path, key, size });
        if self.live.len() > self.parameters.live as usize
            && let Some(oldest) = self.live.pop_front()
        {
            self.client.delete(&oldest.path)?;
        }
        Ok(())
    }

    fn write_file(&mut self, path: &str, key: u64, size: u64) -> Result<(), RunError> {
        let flags = OpenFlags {
            sync: self.parameters.synchronous == Synchronous::Files,
            ..OpenFlags::WRITE.create_new()
        };
        let is_synced = self.parameters.fsync;
        self.client.with_file(path, flags, key, |client, file| {
            client.write_blocks(Call::Write, file, size, WRITE_BYTES)?;
            if is_synced {
                client.fsync(file)?;
            }
            Ok(())
        })?;
        self.written += size;
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), RunError> {
        if self.parameters.directory_fsync {
            self.client.fsync_directory(&self.directory)?;
        }
        Ok(())
    }

    fn draw_size(&mut self) -> u64 {
        let (least, most) = (self.parameters.size_min, self.parameters.size_max);
        let mean = self.parameters.size_mean as f64;
        loop {
            let size = self.client.random.exponential(mean) as u64;
            if (least..=most).contains(&size) {
                return size;
            }
        }
    }

    fn path(&self, number: u32, state: u32) -> String {
        let (directory, index) = (&self.directory, self.index);
        match STATES.get(state as usize) {
            Some(state) => format!("{directory}/{index}.{number}.{state}"),
            None => format!("{directory}/{index}.{number}.{state}"),
        }
    }
}
