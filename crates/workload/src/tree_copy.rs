//! Tree copy: copies a tree of files of many sizes within one file system, as `cp -r` does.
//!
//! # Origin
//!
//! OpenBench Labs' comparison of journaling file systems (2001): `cp` of a tree of 14,648 files in
//! 1645 directories, 3 GB in all, from and to the same volume. Published: ReiserFS and JFS 135 s,
//! ext2 147 s, ext3 170 s, ext3 with data=journal 203 s. Only these numbers of its tree are known.
//!
//! # Choices
//!
//! - Directories: the parent of each new directory is a random earlier one, so that the tree is
//!   bushy at the root. Files are assigned to directories at random.
//! - Sizes: lognormal with [`Parameters::sigma_permille`], scaled so that all files together have
//!   exactly [`Parameters::bytes`].
//! - The copy walks directories in the file system's order, and reads and writes through a buffer
//!   of [`Parameters::buffer`] bytes (4 KiB, which `cp` took from `st_blksize` then; 128 KiB and
//!   more today).
//! - The tree is created and made durable before the copy. A sync after the copy is a separate
//!   phase, because the original's time stops with `cp`. Then the copy is compared with the written
//!   data, outside the measured time.
//! - The tree is cached as far as the cache holds it. For a cold run use a smaller cache, or a host
//!   with less memory.

use std::sync::Arc;

use crate::client::Client;
use crate::contents::{self, PIECE_BYTES_MAX};
use crate::copier::Copier;
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::random::Random;
use crate::run_error::RunError;
use crate::stage::Stage;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "tree copy: cp -r of a tree within one file system",
    parameters: &[
        Parameter::number(
            "tree-copy.files",
            (1, 10_000_000),
            14_648,
            "number of files",
        ),
        Parameter::number(
            "tree-copy.directories",
            (1, 1_000_000),
            1645,
            "number of directories",
        ),
        Parameter::bytes(
            "tree-copy.bytes",
            3_000_000_000,
            "total size of all files in bytes",
        ),
        Parameter::number(
            "tree-copy.sigma_permille",
            (0, 4000),
            1500,
            "sigma of the lognormal size distribution, in thousandths",
        ),
        Parameter::bytes("tree-copy.buffer", 4096, "bytes per read and write"),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &["copy_rate", "copy_time", "copy_sync_time", "elapsed"],
    },
    frame: Frame::Common,
    footprint: |values| {
        let files = u64::from(values.number("tree-copy.files"));
        Footprint::of_contents(values.bytes("tree-copy.bytes").checked_mul(2), 2 * files)
    },
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "tree-copy";
const SOURCE: &str = "tree-copy/source";
const COPY: &str = "tree-copy/copy";
/// Bytes per write while the tree is created.
const MAKING_BYTES: usize = 64 << 10;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of files.
    pub files: u32,
    /// Number of directories.
    pub directories: u32,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Sigma of the lognormal distribution of sizes, in thousandths.
    pub sigma_permille: u32,
    /// Bytes per read and write.
    pub buffer: usize,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        Ok(Self {
            files: values.number("tree-copy.files"),
            directories: values.number("tree-copy.directories"),
            bytes: values.bytes("tree-copy.bytes"),
            sigma_permille: values.number("tree-copy.sigma_permille"),
            buffer: values.buffer("tree-copy.buffer", PIECE_BYTES_MAX as u64)?,
        })
    }

    /// Returns the directories as paths below the tree's root, each after its parent.
    fn draw_directories(&self, random: &mut Random) -> Vec<String> {
        let mut paths: Vec<String> = vec![String::new()];
        for number in 1..u64::from(self.directories) {
            let parent = &paths[random.below(number) as usize];
            let path = format!("{parent}/d{number}");
            paths.push(path);
        }
        paths
    }

    /// Returns the sizes of all files; their sum is exactly [`Parameters::bytes`].
    fn draw_sizes(&self, random: &mut Random) -> Vec<u64> {
        let sigma = f64::from(self.sigma_permille) / 1000.0;
        let weights: Vec<f64> = (0..self.files)
            .map(|_| libm::exp(sigma * random.normal()))
            .collect();
        let total: f64 = weights.iter().sum();
        let (mut sizes, mut so_far, mut given) = (Vec::with_capacity(weights.len()), 0.0, 0);
        for weight in &weights {
            so_far += weight;
            let end = ((self.bytes as f64) * (so_far / total)).round() as u64;
            let end = end.clamp(given, self.bytes);
            sizes.push(end - given);
            given = end;
        }
        if let Some(last) = sizes.last_mut() {
            *last += self.bytes - given;
        }
        sizes
    }

    /// Creates the tree. Returns the paths and sizes of its files, whose keys are their indices.
    fn make(&self, client: &mut Client) -> Result<Vec<(String, u64)>, RunError> {
        let directories = self.draw_directories(&mut client.random);
        for directory in &directories {
            client.make_directory(&format!("{SOURCE}{directory}"))?;
        }
        let sizes = self.draw_sizes(&mut client.random);
        let mut files = Vec::with_capacity(sizes.len());
        for (number, size) in sizes.into_iter().enumerate() {
            if !client.goes_on()? {
                break;
            }
            let place = client.random.below(u64::from(self.directories)) as usize;
            let path = format!("{}/f{number}", directories[place]);
            let whole = format!("{SOURCE}{path}");
            let key = contents::key(number as u64);
            client.make_file(whole, key, size, MAKING_BYTES)?;
            client.advance(1);
            files.push((path, size));
        }
        Ok(files)
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let mut run = stage.run(self.buffer.max(MAKING_BYTES), 2 * u64::from(self.files));
        let mut maker = run.quiet_client(0);
        let files = run.phase("make", || {
            let files = self.make(&mut maker)?;
            maker.sync()?;
            Ok(files)
        })?;
        let mut copier = Copier::new(run.client(1), self.buffer);
        run.phase("copy", || copier.copy_directory(SOURCE, COPY))?;
        run.sync("copy sync")?;
        if (copier.files, copier.bytes) != (files.len() as u64, self.bytes) {
            return Err(RunError::WrongTree {
                path: COPY.to_owned(),
                fact: format!("{} files, {} bytes copied", copier.files, copier.bytes),
            });
        }
        if stage.verifies() {
            for (number, (path, size)) in files.iter().enumerate() {
                let key = contents::key(number as u64);
                maker.read_file(&format!("{COPY}{path}"), key, *size, MAKING_BYTES)?;
            }
        }
        run.absorb(copier.client);
        let (copy, sync) = (run.took("copy"), run.took("copy sync"));
        let mut outcome = run.finish();
        outcome.totals();
        outcome.seconds("copy_time", copy);
        outcome.seconds("copy_sync_time", sync);
        outcome.rate("copy_rate", self.bytes, copy);
        outcome.rate("files_rate", u64::from(self.files), copy);
        outcome.count("bytes_written", self.bytes);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_and_directories_follow_their_parents() {
        let defaults = Parameters::read(&DEFINITION.defaults()).expect("the defaults are good");
        let mut random = Random::new(42, 0);
        let sizes = defaults.draw_sizes(&mut random);
        assert_eq!(sizes.len(), 14_648);
        assert_eq!(sizes.iter().sum::<u64>(), 3_000_000_000);
        let directories = defaults.draw_directories(&mut random);
        assert_eq!(directories.len(), 1645);
        for (at, path) in directories.iter().enumerate().skip(1) {
            let (parent, _) = path.rsplit_once('/').expect("it is below the root");
            assert!(directories[..at].iter().any(|earlier| earlier == parent));
        }
    }
}
