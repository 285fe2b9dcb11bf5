//! `jext lab merge`: merges the records that shards of a plan have made.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use lab::store::{Lines, merge};

use crate::output;

/// Merge record files of one plan and one build. The order of the files makes no difference.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record files.
    #[arg(value_name = "FILE.jsonl", required = true)]
    files: Vec<PathBuf>,
    /// Folder of the records that `jext lab report` and `jext lab run` read. Records that it has of
    /// the plan are merged as well.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let first = merge(&arguments.files[..1])?;
    let context = &first[0].context;
    let folder = arguments.results.join(&context.plan);
    let path = folder.join(format!("{}.jsonl", context.plan_hash));
    let mut files = arguments.files.clone();
    if path.exists() {
        files.push(path.clone());
    }
    let records = merge(&files)?;
    let mut lines = Lines::default();
    let mut text = String::new();
    for record in &records {
        text.push_str(&lines.of(record)?);
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let unfinished = path.with_extension("jsonl.new");
    fs::write(&unfinished, text).with_context(|| unfinished.display().to_string())?;
    fs::rename(&unfinished, &path).with_context(|| path.display().to_string())?;
    output::print(&format!(
        "{} trials of {} files; records in {}\n",
        records.len(),
        files.len(),
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
