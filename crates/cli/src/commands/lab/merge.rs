//! `jext lab merge`: merges the records that shards of a plan have made.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use lab::Record;
use lab::store::{Lines, Store, merge};

use super::warn_of_torn_line;
use crate::output;

/// Merge record files of one plan and one build. The order of the files makes no difference, and a
/// file may be merged again.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record files.
    #[arg(value_name = "FILE.jsonl", required = true)]
    files: Vec<PathBuf>,
    /// Folder of the records that `jext lab report` and `jext lab run` read. Records that it has of
    /// the plan are merged as well.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// File to write instead; records that it has are merged as well.
    #[arg(short, long, value_name = "FILE.jsonl", conflicts_with = "results")]
    output: Option<PathBuf>,
    #[command(flatten)]
    build: BuildArgument,
}

/// The choice of a build.
#[derive(Debug, Args)]
pub(super) struct BuildArgument {
    /// Pass over the records of other builds than this one, named by the first digits of the hash
    /// of its sources, or of its executable for trials in real time.
    #[arg(long, value_name = "HASH")]
    build: Option<String>,
}

impl BuildArgument {
    /// Returns the records of files, merged.
    pub(super) fn merge(&self, files: &[PathBuf]) -> Result<Vec<Record>> {
        for file in files {
            warn_of_torn_line(&Store::at(file))?;
        }
        let records = merge(files, self.build.as_deref())?;
        if let (Some(build), true) = (&self.build, records.is_empty()) {
            bail!("no record in these files is of build {build}");
        }
        Ok(records)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut files = arguments.files.clone();
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => {
            let first = arguments.build.merge(&files[..1])?;
            let context = &first[0].context;
            let folder = arguments.results.join(&context.plan);
            folder.join(format!("{}.jsonl", context.plan_hash))
        }
    };
    let has_records = path.metadata().is_ok_and(|file| file.len() > 0);
    if has_records && !files.contains(&path) {
        files.push(path.clone());
    }
    let records = arguments.build.merge(&files)?;
    write(&path, &records)?;
    output::print(&format!(
        "{} trials of {} files; records in {}\n",
        records.len(),
        files.len(),
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces a file by these records, durably: a crash leaves the old file or the new one.
fn write(path: &Path, records: &[Record]) -> Result<()> {
    let mut lines = Lines::default();
    let mut text = String::new();
    for record in records {
        text.push_str(&lines.of(record)?);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let unfinished = path.with_extension("jsonl.new");
    let mut file = File::create(&unfinished).with_context(|| unfinished.display().to_string())?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.with_context(|| unfinished.display().to_string())?;
    fs::rename(&unfinished, path).with_context(|| path.display().to_string())
}
