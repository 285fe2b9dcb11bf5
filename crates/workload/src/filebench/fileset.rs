//! A set of files shared by threads. Tracks the existing files and the number of users of each.

use rt::Mutex;

use super::personality::{Personality, Pick};
use super::{FOLDER, Parameters, SIZE_TIMES_MAX};
use crate::client::Client;
use crate::contents;
use crate::random::Random;
use crate::run_error::RunError;

/// Shape of the gamma distribution of sizes.
const SHAPE: f64 = 1.5;
/// Number of the log in place of a file number.
pub(super) const LOG: usize = usize::MAX;

/// The set of files.
pub(super) struct FileSet {
    directory_width: usize,
    there: u32,
    entries: Mutex<Vec<Entry>>,
}

/// State of one file.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    is_there: bool,
    // Number of threads that have the file open, or `ALONE`.
    users: u32,
    size: u64,
    // Number of creations; distinguishes the contents from those of an earlier file of this name.
    generation: u64,
}

/// Value of `users` for exclusive use.
const ALONE: u32 = u32::MAX;

/// A file that a thread has picked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picked {
    pub(super) number: usize,
    pub(super) key: u64,
    pub(super) size: u64,
}

impl FileSet {
    pub(super) fn new(personality: &Personality, files: u32) -> Self {
        Self {
            directory_width: personality.directory_width as usize,
            there: personality.there,
            entries: Mutex::new(vec![Entry::default(); files as usize]),
        }
    }

    /// Creates the directories, the initial files, and the log.
    pub(super) fn make(
        &self,
        client: &mut Client,
        parameters: &Parameters,
    ) -> Result<(), RunError> {
        let files = self.entries.lock().len();
        for directory in 0..files.div_ceil(self.directory_width) {
            client.make_directory(&format!("{FOLDER}/{directory}"))?;
        }
        client.make_file(self.path(LOG), 0, 0, parameters.io)?;
        for number in 0..files {
            if !client.random.percent(self.there) {
                continue;
            }
            if !client.goes_on()? {
                break;
            }
            let size = draw_size(&mut client.random, parameters.mean_size);
            let entry = Entry {
                is_there: true,
                size,
                ..Entry::default()
            };
            let key = key_of(number, &entry);
            client.make_file(self.path(number), key, size, parameters.io)?;
            self.entries.lock()[number] = entry;
        }
        Ok(())
    }

    pub(super) fn path(&self, number: usize) -> String {
        if number == LOG {
            return format!("{FOLDER}/log");
        }
        format!("{FOLDER}/{}/{number}", number / self.directory_width)
    }

    /// Picks a file, if one fits; the caller must give it back.
    pub(super) fn pick(&self, pick: Pick, random: &mut Random) -> Option<Picked> {
        if pick == Pick::Log {
            return Some(Picked {
                number: LOG,
                key: 0,
                size: 0,
            });
        }
        let mut entries = self.entries.lock();
        let count = entries.len();
        let start = random.below(count as u64) as usize;
        let fits = |entry: &Entry| match pick {
            Pick::Absent => !entry.is_there && entry.users == 0,
            Pick::Shared => entry.is_there && entry.users < ALONE - 1,
            Pick::Alone | Pick::Log => entry.is_there && entry.users == 0,
        };
        let number = (start..count)
            .chain(0..start)
            .find(|n| fits(&entries[*n]))?;
        let entry = &mut entries[number];
        if pick == Pick::Absent {
            entry.generation += 1;
            entry.size = 0;
        }
        entry.users = match pick {
            Pick::Shared => entry.users + 1,
            _ => ALONE,
        };
        Some(Picked {
            number,
            key: key_of(number, entry),
            size: entry.size,
        })
    }

    /// Gives a file back and records its new state.
    pub(super) fn give_back(&self, picked: Picked, is_there: bool) {
        if picked.number == LOG {
            return;
        }
        let entry = &mut self.entries.lock()[picked.number];
        if entry.users == ALONE {
            entry.users = 0;
            entry.is_there = is_there;
            entry.size = picked.size;
        } else {
            entry.users -= 1;
        }
    }
}

fn key_of(number: usize, entry: &Entry) -> u64 {
    contents::key(entry.generation << 32 | number as u64)
}

/// Draws a size from the distribution. Limits it, because the tail could fill the device.
pub(super) fn draw_size(random: &mut Random, mean: u64) -> u64 {
    let mean = mean as f64;
    random.gamma(mean, SHAPE).min(mean * SIZE_TIMES_MAX) as u64
}
