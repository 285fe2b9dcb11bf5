//! `jext journal`: a journal's contents, its replay, and external journals.

mod blocks;
mod fast_commits;
mod locate;
mod render;
mod show;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use ext::mkfs::{self, JournalDeviceOptions};
use ext::options::UnmarkedLog;
use layout::feature::Incompatible;
use serde_json::json;
use uuid::Uuid;

use super::format_arguments::{parse_uuid, random_uuid, source_date};
use super::info::raw_superblock;
use super::new_device::{open_or_make, refuse_used};
use crate::image::{
    Access, MountArguments, open_device, open_with_options, replayed, transactions,
};
use crate::output;

/// Default block size of a journal device in bytes.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// Inspect or replay a journal, or create an external one.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a journal and the transactions in it. Nothing is changed.
    Show(locate::Arguments),
    /// Replay the journal, complete the operations on the orphan list, and close the file system
    /// cleanly.
    Replay(SettleArguments),
    /// Discard the transactions of a log that the superblock does not mark for replay
    /// (needs_recovery is clear), as a mount by Linux does.
    Discard(SettleArguments),
    /// Create an external journal on a device, for mkfs -J device=DEV.
    Create(CreateArguments),
}

#[derive(Debug, Args)]
struct SettleArguments {
    /// Device of the file system.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Device, all of which becomes the journal unless a size is given.
    #[arg(value_name = "DEVICE")]
    pub(super) device: String,
    /// Size: 4M, or in blocks without a unit. A missing file is created with this size.
    #[arg(value_name = "SIZE")]
    pub(super) size: Option<String>,
    /// Block size in bytes; the file system must have the same.
    #[arg(short = 'b', value_name = "BYTES", default_value_t = BLOCK_BYTES)]
    pub(super) block_bytes: u32,
    /// UUID of the journal.
    #[arg(short = 'U', value_name = "UUID", value_parser = parse_uuid)]
    pub(super) uuid: Option<[u8; 16]>,
    /// Label of the journal, at most 16 bytes.
    #[arg(short = 'L', value_name = "LABEL")]
    pub(super) label: Option<String>,
    /// Create it even if the device already holds a file system or journal.
    #[arg(short = 'F', long)]
    pub(super) force: bool,
    /// Print nothing.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Replay(arguments) => settle(arguments, UnmarkedLog::Replay),
        Command::Discard(arguments) => {
            refuse_marked(&arguments.image)?;
            settle(arguments, UnmarkedLog::Discard)
        }
        Command::Create(arguments) => create(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a file system, which replays or empties its log, and closes it.
fn settle(arguments: &SettleArguments, unmarked_log: UnmarkedLog) -> Result<()> {
    let image = &arguments.image;
    let mut options = arguments.mount.parse()?;
    options.options.unmarked_log = unmarked_log;
    let (volume, report) = open_with_options(image, Access::Write, options)?;
    volume
        .close()
        .with_context(|| format!("{image}: closing"))?;
    if let Some(why) = report.read_only_because {
        bail!("{image}: can only be read: {why}");
    }
    let (deleted, truncated) = (report.orphans_deleted, report.orphans_truncated);
    if arguments.json {
        return output::print_json(&json!({
            "replayed_transactions": report.replayed_transactions,
            "replayed_fast_commits": report.replayed_fast_commits,
            "discarded_transactions": report.discarded_transactions,
            "orphans_deleted": deleted,
            "orphans_truncated": truncated,
        }));
    }
    let (what, done) = match unmarked_log {
        UnmarkedLog::Discard => (transactions(report.discarded_transactions), "dropped"),
        _ => (replayed(&report), "replayed"),
    };
    output::print(&format!(
        "{image}: {what} {done}, {deleted} orphans deleted, {truncated} truncated\n"
    ))
}

/// Refuses a file system whose superblock marks its log for replay: such a log is never discarded.
fn refuse_marked(image: &str) -> Result<()> {
    let device = open_device(image, Access::Read)?;
    let raw = raw_superblock(&device).with_context(|| image.to_owned())?;
    let features = raw.features().incompatible;
    if features.contains(Incompatible::NEEDS_RECOVERY) {
        bail!(
            "{image}: the superblock calls for what the log holds (needs_recovery is set): jext journal replay brings it home"
        );
    }
    Ok(())
}

/// Creates an external journal on a device.
pub(super) fn create(arguments: &CreateArguments) -> Result<()> {
    let text = &arguments.device;
    let size = arguments.size.as_deref();
    let block_bytes = Some(arguments.block_bytes);
    let place = open_or_make("journal create", text, size, block_bytes)?;
    let device = &place.device;
    if !arguments.force {
        refuse_used(text, device)?;
    }
    let uuid = arguments.uuid.unwrap_or_else(random_uuid);
    let options = JournalDeviceOptions {
        block_bytes: arguments.block_bytes,
        block_count: place
            .less
            .and_then(|bytes| bytes.checked_div(arguments.block_bytes.into())),
        uuid,
        label: arguments.label.clone().unwrap_or_default(),
        seconds: source_date()?,
    };
    let made = mkfs::format_journal_device_as(device, &options);
    let made = made.with_context(|| text.clone())?;
    place.finish()?;
    let uuid = Uuid::from_bytes(made.uuid);
    if arguments.json {
        return output::print_json(&json!({
            "uuid": uuid.to_string(),
            "block_bytes": made.block_bytes,
            "blocks": made.block_count,
        }));
    }
    if arguments.quiet {
        return Ok(());
    }
    let (count, bytes) = (made.block_count, made.block_bytes);
    output::print(&format!(
        "{text}: journal {uuid}, {count} blocks of {bytes} bytes\n"
    ))
}
