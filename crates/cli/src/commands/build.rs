//! `jext build`: makes an image from directories, archives and container images in one step.
//!
//! The volume is sized for its contents, filled without its journal, and sealed as if it had never
//! been mounted. With `SOURCE_DATE_EPOCH` the same tree gives the same bytes: UUID and hash seed
//! are then derived from the tree.

mod journal;
pub(super) mod origin;
mod shape;
mod sources;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use block::text::Size;
use clap::Args;
use envelope::Wrapped;
use ext::mkfs::Summary;
use indicatif::HumanBytes;
use serde_json::json;
use transfer::new_image::{Plan, Settings, SizeRule};
use transfer::{Counter, Stop};

use self::journal::Journal;
use self::shape::{Envelope, ShapeArguments};
use self::sources::SourceArguments;
use super::format_arguments::{Format, FormatArguments, random_uuid};
use crate::interrupt;
use crate::new_file::NewFile;
use crate::output;
use crate::progress;

/// Make an image of directories, tar archives and container images.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    format: FormatArguments,
    /// Image to make; it must not exist yet.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    sources: SourceArguments,
    /// Size of the image: 64M, 2G. The default is the size that the tree needs, plus the slack.
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Free space to leave, in percent of the space that the tree needs.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    slack: u32,
    #[command(flatten)]
    shape: ShapeArguments,
    /// Replace an existing image.
    #[arg(short = 'F', long)]
    force: bool,
    /// Print nothing.
    #[arg(short, long)]
    quiet: bool,
    /// Print a summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let out = &arguments.out;
    interrupt::watch()?;
    refuse_present(out, arguments.force)?;
    let Format {
        options,
        journal_device,
    } = arguments.format.parse()?;
    let journal = journal_device.as_deref().map(Journal::open).transpose()?;
    if let Some(hashes) = arguments.shape.hashes() {
        refuse_present(hashes, arguments.force)?;
        if place(hashes) == place(out) {
            bail!("--verity={}: is the image itself", hashes.display());
        }
    }
    let reserved = arguments.format.reserved_percent;
    let settings = Settings {
        options: arguments.shape.options(options, reserved),
        size: size_rule(arguments)?,
        journal: journal.as_ref().map(|journal| journal.found),
        now: rt::wall().seconds,
        edits: arguments.sources.edits()?,
        random_uuid: Some(random_uuid()),
        stop: Stop::default(),
    };
    let origins = arguments.sources.origins()?;
    // Everything that can be refused is refused before the file is made.
    let plan = Plan::new(origins, &settings).map_err(|error| match error.is::<ext::Error>() {
        true => error.context(out.display().to_string()),
        false => error,
    })?;
    if let Some(journal) = &journal {
        let uuid = plan.options.uuid.unwrap_or_default();
        journal.check(uuid, out, arguments.shape.image_offset())?;
    }
    let new = NewFile::create(out)?;
    let envelope = arguments.shape.envelope()?;
    let bar = progress::bytes(plan.tally.bytes);
    bar.set_message(out.display().to_string());
    let count = |bytes| bar.inc(bytes);
    let made = make((&new, out, &envelope), &plan, &count);
    bar.finish_and_clear();
    let made = made.with_context(|| out.display().to_string())?;
    interrupt::complete(|| {
        refuse_present(out, arguments.force)?;
        publish(
            (new, envelope),
            journal.as_ref(),
            made.summary.uuid,
            arguments.force,
        )
    })?;
    report(arguments, &made, &plan)
}

/// Gives the image its name, and its UUID to the journal. Where the image is, its hash tree is.
fn publish(
    (new, envelope): (NewFile, Envelope),
    journal: Option<&Journal>,
    uuid: [u8; 16],
    replaces: bool,
) -> Result<()> {
    let files = envelope.hashes.into_iter().chain([new]).collect();
    let Some(journal) = journal else {
        return NewFile::finish_all(files, replaces);
    };
    journal.announce(uuid)?;
    let published = NewFile::finish_all(files, replaces);
    match published.is_ok() {
        true => journal.give_to(uuid)?,
        false => journal.take_back(uuid),
    }
    published
}

/// Returns the directory and the name of a file, which need not exist.
fn place(path: &Path) -> (Option<PathBuf>, Option<&OsStr>) {
    let directory = path
        .parent()
        .map(|parent| match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        });
    let directory = directory.and_then(|directory| directory.canonicalize().ok());
    (directory, path.file_name())
}

/// Fails if the output exists, unless it is a regular file and replacement is forced.
fn refuse_present(out: &Path, is_forced: bool) -> Result<()> {
    match std::fs::metadata(out) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| out.display().to_string()),
        Ok(found) if !found.is_file() => bail!(
            "{}: is no regular file; jext mkfs -d fills a file system on a device",
            out.display()
        ),
        Ok(_) if is_forced => Ok(()),
        Ok(_) => bail!("{}: is there already; -F replaces it", out.display()),
    }
}

/// Returns the rule for the size of the image.
fn size_rule(arguments: &Arguments) -> Result<SizeRule> {
    if let Some(free) = arguments.shape.free()? {
        return Ok(SizeRule::Exact(free));
    }
    let Some(text) = &arguments.size else {
        return Ok(SizeRule::Slack(arguments.slack));
    };
    match Size::parse(text).map(|size| size.bytes()) {
        Err(expected) => bail!("--size {text}: expected {expected}"),
        Ok(0) => bail!("--size {text}: an image has 4096 bytes at least"),
        Ok(bytes) => Ok(SizeRule::Bytes(bytes)),
    }
}

/// An image that is complete but for its name.
struct Made {
    summary: Summary,
    bytes: u64,
    wrapped: Wrapped,
}

fn make(
    (new, out, envelope): (&NewFile, &Path, &Envelope),
    plan: &Plan,
    count: Counter<'_>,
) -> Result<Made> {
    let name = out.display().to_string();
    let mut open = |bytes| envelope.device(new.file(), &name, bytes);
    let (summary, bytes) = plan.make(&mut open, count)?;
    let wrapped = envelope.wrap(new.file(), bytes, summary.uuid)?;
    Ok(Made {
        summary,
        bytes,
        wrapped,
    })
}

fn report(arguments: &Arguments, made: &Made, plan: &Plan) -> Result<ExitCode> {
    let Made {
        summary,
        bytes,
        wrapped,
    } = made;
    let tally = &plan.tally;
    let warnings = &summary.warnings;
    warnings.iter().for_each(|warning| output::warn(warning));
    let out = arguments.out.display();
    let uuid = uuid::Uuid::from_bytes(summary.uuid).to_string();
    if arguments.json {
        let mut summary = json!({
            "image": out.to_string(),
            "bytes": bytes,
            "uuid": uuid,
            "inodes": tally.inodes,
            "data_bytes": tally.bytes,
            "features": summary.features.names(),
        });
        shape::add_json(&mut summary, wrapped);
        output::print_json(&summary)?;
    } else if !arguments.quiet {
        output::print(&format!(
            "{out}: {} of {} files, {} of data, {}\n{}",
            HumanBytes(*bytes),
            tally.inodes,
            HumanBytes(tally.bytes),
            uuid,
            shape::text(wrapped)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
