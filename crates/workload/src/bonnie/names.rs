//! The phases of Bonnie++ on thousands of files.

use super::phase::{Kind, Results};
use super::{FOLDER, FileKind, Parameters, Version};
use crate::client::Client;
use crate::contents;
use crate::meter::Call;
use crate::run::Run;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Characters of the random part of a name.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Exclusive limit for the length of the random part.
const LETTERS_END: u64 = 13;

/// Runs all phases on files: sequential names first, then random ones.
pub(super) fn phases(
    parameters: &Parameters,
    run: &mut Run,
    results: &mut Results,
) -> Result<(), RunError> {
    for (is_random, [create, stat, delete]) in [
        (
            false,
            [Kind::CreateInOrder, Kind::StatInOrder, Kind::DeleteInOrder],
        ),
        (
            true,
            [Kind::CreateRandom, Kind::StatRandom, Kind::DeleteRandom],
        ),
    ] {
        let mut crowd = Crowd::draw(parameters, run, is_random)?;
        let amount = u64::from(parameters.file_count());
        results.phase(run, create, amount, |client| crowd.create(client))?;
        results.phase(run, stat, amount, |client| crowd.stat(client))?;
        results.phase(run, delete, amount, |client| crowd.delete(client))?;
    }
    Ok(())
}

/// The set of files.
struct Crowd {
    parameters: Parameters,
    is_random: bool,
    directories: Vec<String>,
    // In order of creation.
    files: Vec<Member>,
    // In random order; used for random names only.
    shuffled: Vec<usize>,
}

/// A file.
struct Member {
    directory: usize,
    name: String,
    size: u64,
}

impl Crowd {
    /// Draws names and sizes, and creates the directories.
    fn draw(parameters: &Parameters, run: &mut Run, is_random: bool) -> Result<Self, RunError> {
        let mut client = run.quiet_client(1000 + u64::from(is_random));
        let count = parameters.file_count();
        let directories: Vec<String> = (0..parameters.directories)
            .map(|number| format!("{FOLDER}/{number:05}"))
            .collect();
        for directory in &directories {
            client.meter.target().mkdir(directory)?;
        }
        let files = (0..count)
            .map(|number| Member {
                directory: (u64::from(number) * directories.len() as u64 / u64::from(count))
                    as usize,
                name: name(parameters, &mut client, number, is_random),
                size: client
                    .random
                    .between(parameters.file_min, parameters.file_max),
            })
            .collect::<Vec<_>>();
        let mut shuffled: Vec<usize> = (0..files.len()).collect();
        client.random.shuffle(&mut shuffled);
        Ok(Self {
            parameters: parameters.clone(),
            is_random,
            directories,
            files,
            shuffled,
        })
    }

    fn path(&self, file: usize) -> String {
        let member = &self.files[file];
        format!("{}/{}", self.directories[member.directory], member.name)
    }

    fn create(&mut self, client: &mut Client) -> Result<(), RunError> {
        let first = self.path(0);
        for number in 0..self.files.len() {
            if !client.goes_on()? {
                return Ok(());
            }
            let path = self.path(number);
            match self.parameters.file_kind {
                FileKind::HardLinks if number > 0 => {
                    client.call(Call::Link, |target| target.link(&first, &path))?;
                }
                FileKind::Symlinks if number > 0 => {
                    client.call(Call::Symlink, |target| target.symlink(&first, &path))?;
                }
                _ => self.create_file(client, number, path)?,
            }
        }
        client.sync()
    }

    fn create_file(
        &self,
        client: &mut Client,
        number: usize,
        path: String,
    ) -> Result<(), RunError> {
        let size = self.files[number].size as usize;
        let is_synced = self.parameters.sync_each;
        let (flags, key) = (OpenFlags::WRITE.create_new(), contents::key(number as u64));
        client.with_file(path, flags, key, |client, opened| {
            if size > 0 {
                client.write(Call::Write, opened, size)?;
            }
            if is_synced {
                client.fsync(opened)?;
            }
            Ok(())
        })?;
        if is_synced {
            client.fsync_directory(&self.directories[self.files[number].directory])?;
        }
        Ok(())
    }

    fn stat(&mut self, client: &mut Client) -> Result<(), RunError> {
        if self.is_random {
            for number in &self.shuffled {
                let key = contents::key(*number as u64);
                self.look(client, &self.path(*number), Some(key))?;
            }
            return Ok(());
        }
        for directory in &self.directories {
            for entry in client.list(directory)? {
                self.look(client, &format!("{directory}/{}", entry.name), None)?;
            }
        }
        Ok(())
    }

    /// Stats a file and reads its data. Without a key, the key follows from the number in its name.
    fn look(&self, client: &mut Client, path: &str, key: Option<u64>) -> Result<(), RunError> {
        if !client.goes_on()? {
            return Ok(());
        }
        let stat = client.stat(path)?;
        if stat.size == 0 || self.parameters.file_kind != FileKind::Files {
            return Ok(());
        }
        let known = || in_order(&self.parameters, path).map(|number| contents::key(number as u64));
        let key = key.or_else(known);
        let key = key.ok_or_else(|| RunError::WrongTree {
            path: path.to_owned(),
            fact: "nobody has made this".to_owned(),
        })?;
        client.read_file(path, key, stat.size, self.parameters.chunk)
    }

    fn delete(&mut self, client: &mut Client) -> Result<(), RunError> {
        if self.is_random {
            for number in &self.shuffled {
                if !client.goes_on()? {
                    return Ok(());
                }
                client.delete(&self.path(*number))?;
            }
        }
        for directory in &self.directories {
            if !self.is_random {
                for entry in client.list(directory)? {
                    if !client.goes_on()? {
                        return Ok(());
                    }
                    client.delete(&format!("{directory}/{}", entry.name))?;
                }
            }
            client.remove_directory(directory)?;
        }
        client.sync()
    }
}

/// Returns a name of a number and letters; in random names the letters come first.
fn name(parameters: &Parameters, client: &mut Client, number: u32, is_random: bool) -> String {
    let random = &mut client.random;
    let length = random.below(LETTERS_END);
    let letter = |_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize]);
    let letters: String = (0..length).map(letter).collect();
    let number = match parameters.version {
        Version::V1_03 => format!("{number:07}"),
        Version::V2_00 => format!("{number:010x}"),
    };
    if is_random {
        format!("{letters}{number}")
    } else {
        format!("{number}{letters}")
    }
}

/// Returns the number at the start of a sequential name.
fn in_order(parameters: &Parameters, path: &str) -> Option<usize> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    match parameters.version {
        Version::V1_03 => name.get(..7)?.parse().ok(),
        Version::V2_00 => usize::from_str_radix(name.get(..10)?, 16).ok(),
    }
}
