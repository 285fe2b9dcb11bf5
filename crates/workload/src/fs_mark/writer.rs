//! One thread of fs_mark, with the files of its directory.

use rt::Nanos;

use super::{FOLDER, Parameters, SyncAfter};
use crate::client::Client;
use crate::contents;
use crate::error::ErrorKind;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Characters of the random part of a name.
const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Minimum number of digits of the sequence number that starts a name.
const NUMBER_LENGTH: usize = 16;

/// A thread.
pub(super) struct Writer {
    pub(super) client: Client,
    /// Time spent outside file operations.
    pub(super) overhead: Nanos,
    parameters: Parameters,
    thread: u32,
    // Number of files created in all loops.
    made: u64,
    // Existing files, in order of creation.
    files: Vec<Made>,
    // Number of those files that earlier loops created.
    kept: usize,
}

/// A file that was created.
struct Made {
    directory: String,
    path: String,
    key: u64,
    is_first: bool,
}

impl Writer {
    pub(super) fn new(parameters: &Parameters, thread: u32, client: Client) -> Self {
        Self {
            client,
            overhead: Nanos::ZERO,
            parameters: parameters.clone(),
            thread,
            made: 0,
            files: Vec::new(),
            kept: 0,
        }
    }

    /// Creates the thread's directory; the first of the threads that share a directory creates it.
    pub(super) fn make_directory(&mut self) -> Result<(), RunError> {
        if self.thread >= self.parameters.directories {
            return Ok(());
        }
        Ok(self.client.meter.target().mkdir(&self.directory())?)
    }

    /// Runs one loop: creates the files, and syncs them by the method.
    pub(super) fn work(&mut self) -> Result<(), RunError> {
        self.kept = self.files.len();
        for index in 0..self.parameters.files {
            if !self.client.goes_on()? {
                return Ok(());
            }
            let began = rt::monotonic();
            let made = self.draw_file(index);
            self.ensure_directory(&made)?;
            self.overhead += rt::monotonic().saturating_sub(began);
            self.write_file(&made)?;
            self.files.push(made);
            self.client.advance(1);
        }
        if self.parameters.sync.everything {
            self.client.sync()?;
        }
        self.sync_after()
    }

    /// Compares the files of the last loop with the written data.
    pub(super) fn verify(&self, client: &mut Client) -> Result<(), RunError> {
        for file in &self.files[self.kept..] {
            let (size, block) = (self.parameters.size, self.parameters.write);
            client.read_file(&file.path, file.key, size, block)?;
        }
        Ok(())
    }

    /// Removes the files.
    pub(super) fn unlink(&mut self) -> Result<(), RunError> {
        for file in self.files.drain(..) {
            if !self.client.goes_on()? {
                break;
            }
            self.client.delete(&file.path)?;
        }
        Ok(())
    }

    fn directory(&self) -> String {
        format!("{FOLDER}/{}", self.thread % self.parameters.directories)
    }

    /// Creates the file's directory, which nearly always exists: the original makes this call for
    /// every file.
    fn ensure_directory(&mut self, made: &Made) -> Result<(), RunError> {
        match self.client.meter.target().mkdir(&made.directory) {
            Err(error) if error.kind != ErrorKind::Exists => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn write_file(&mut self, made: &Made) -> Result<(), RunError> {
        let (size, block) = (self.parameters.size, self.parameters.write);
        let is_synced = self.parameters.sync.in_place;
        let flags = OpenFlags::READ_WRITE.create().truncate();
        self.client
            .with_file(made.path.as_str(), flags, made.key, |client, file| {
                client.write_blocks(Call::Write, file, size, block)?;
                if is_synced {
                    client.fsync(file)?;
                }
                Ok(())
            })
    }

    fn sync_after(&mut self) -> Result<(), RunError> {
        let files = std::mem::take(&mut self.files);
        let last = &files[self.kept..];
        let result = match self.parameters.sync.after {
            SyncAfter::None => Ok(()),
            SyncAfter::First => self.sync_each(last.iter().filter(|file| file.is_first)),
            SyncAfter::Backwards => self.sync_each(last.iter().rev()),
            SyncAfter::Forwards => self.sync_each(last.iter()),
        };
        self.files = files;
        result
    }

    fn sync_each<'f>(&mut self, files: impl Iterator<Item = &'f Made>) -> Result<(), RunError> {
        for file in files {
            self.client.with_file(
                file.path.as_str(),
                OpenFlags::READ,
                file.key,
                |client, file| client.fsync(file),
            )?;
        }
        Ok(())
    }

    /// Returns a new file with a random name; `index` is its number within the loop.
    fn draw_file(&mut self, index: u32) -> Made {
        let (thread, number) = (self.thread, self.made);
        self.made += 1;
        let random_length = self.parameters.name_length - NUMBER_LENGTH;
        let random = &mut self.client.random;
        let letter = |_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize]);
        let letters: String = (0..random_length).map(letter).collect();
        let name = format!("{number:0NUMBER_LENGTH$x}{letters}");
        let (subdirectories, run) = (
            self.parameters.subdirectories,
            self.parameters.files_per_subdirectory,
        );
        let directory = match (index / run).checked_rem(subdirectories) {
            None => self.directory(),
            Some(subdirectory) => format!("{}/{subdirectory:02x}", self.directory()),
        };
        Made {
            path: format!("{directory}/{name}"),
            directory,
            key: contents::key(u64::from(thread) << 32 | number),
            is_first: index == 0,
        }
    }
}
