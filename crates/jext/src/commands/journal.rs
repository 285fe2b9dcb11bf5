//! `jext journal`: a journal's contents, its replay, and external journals.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::{Args, Subcommand};
use ext::{MountOptions, Volume, mkfs};
use jbd2::recovery::{self, Inspection, TransactionInfo};
use jbd2::{Location, LogExtent};
use layout::feature::{Compatible, Incompatible};
use layout::{BlockNr, InodeNr};
use serde_json::{Value, json};
use uuid::Uuid;

use super::info::raw_superblock;
use super::mkfs::parse_uuid;
use crate::image::{Access, MountArguments, open_device, open_with_report};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Bytes of a block of a journal device, unless other ones are asked for.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// Look at a journal, replay it, make an external one.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what a journal is and which transactions it holds. Nothing is changed.
    Show(ShowArguments),
    /// Replay the journal, finish what the orphan list says, and close the file system cleanly.
    Replay(ReplayArguments),
    /// Make a device an external journal, for mkfs -J device=DEV.
    Create(CreateArguments),
}

#[derive(Debug, Args)]
struct ShowArguments {
    /// A file system with an internal journal, or a journal device.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// And which blocks each transaction holds.
    #[arg(long)]
    blocks: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReplayArguments {
    /// The file system's device.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// The device, all of which becomes the journal.
    #[arg(value_name = "DEVICE")]
    pub(super) device: String,
    /// The size: 4M, or without a unit in blocks. A file that is not there is made with it.
    #[arg(value_name = "SIZE")]
    pub(super) size: Option<String>,
    /// Bytes of a block, which those of the file system must have too.
    #[arg(short = 'b', value_name = "BYTES", default_value_t = BLOCK_BYTES)]
    pub(super) block_bytes: u32,
    /// The journal's UUID.
    #[arg(short = 'U', value_name = "UUID", value_parser = parse_uuid)]
    pub(super) uuid: Option<[u8; 16]>,
    /// Make it even though the device holds a file system or journal already.
    #[arg(short = 'F', long)]
    pub(super) force: bool,
    /// Print nothing.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print what was made as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Show(arguments) => show(arguments),
        Command::Replay(arguments) => replay(arguments),
        Command::Create(arguments) => create(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn show(arguments: &ShowArguments) -> Result<()> {
    let context = || arguments.device.clone();
    let device = open_device(&arguments.device, Access::Read)?;
    let (place, log) = locate(&device).with_context(context)?;
    let inspection = recovery::inspect(&log).with_context(context)?;
    if arguments.json {
        return output::print_json(&to_json(&place, &inspection));
    }
    output::print(&text(&place, &inspection, arguments.blocks))
}

/// Where the journal of a device is, in words and in blocks.
fn locate(device: &Arc<dyn BlockDevice>) -> Result<(String, Location)> {
    let raw = raw_superblock(device)?;
    if raw
        .features()
        .incompatible
        .contains(Incompatible::JOURNAL_DEV)
    {
        let found = mkfs::journal_device(device)?;
        let log = jbd2::format::open_external(Arc::clone(device), found.block_bytes, found.uuid)?;
        return Ok(("external".to_owned(), log));
    }
    if !raw.features().compatible.contains(Compatible::HAS_JOURNAL) {
        bail!("has no journal");
    }
    let number = raw.s_journal_inum.get();
    if number == 0 {
        let uuid = Uuid::from_bytes(raw.s_journal_uuid);
        bail!("the journal is on another device, {uuid}; show that one");
    }
    let options = MountOptions {
        read_only: true,
        no_recovery: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(device), None, options)?;
    let blocks = volume.blocks_of(InodeNr::new(number))?;
    let block_bytes = volume.superblock().geometry.block_bytes;
    volume.close()?;
    let extents = blocks.into_iter().filter_map(|(file_block, first, count)| {
        file_block.map(|_| LogExtent {
            first: BlockNr::new(first),
            count,
        })
    });
    let log = Location {
        device: Arc::clone(device),
        block_bytes,
        extents: extents.collect(),
    };
    Ok((format!("internal, inode {number}"), log))
}

fn text(place: &str, found: &Inspection, with_blocks: bool) -> String {
    let mut text = String::new();
    let mut row = |label: &str, value: String| {
        writeln!(text, "{label:<18}{value}").expect(INFALLIBLE);
    };
    row("Journal:", place.to_owned());
    row("Version:", found.version.to_string());
    row("Features:", found.features.join(" "));
    row(
        "Blocks:",
        format!("{} of {} bytes", found.blocks, found.block_bytes),
    );
    row("Sequence:", found.sequence.to_string());
    row(
        "Start:",
        match found.start {
            Some(start) => format!("block {start}; it has to be replayed"),
            None => "empty".to_owned(),
        },
    );
    for user in &found.users {
        row("User:", Uuid::from_bytes(*user).to_string());
    }
    if let Some(error) = found.noted_error {
        row("Aborted with:", format!("errno {}", -error));
    }
    for transaction in &found.transactions {
        render_transaction(&mut text, transaction, with_blocks);
    }
    if let Some(end) = &found.end {
        let state = match (end.is_damaged, end.is_torn) {
            (true, _) => "damaged: recovery refuses it",
            (_, true) => "a transaction was interrupted and is dropped",
            _ => "the end",
        };
        let why = end
            .wrong
            .map(|(block, what)| format!(" ({what} in block {block})"));
        let why = why.unwrap_or_default();
        writeln!(text, "block {:<8} {state}{why}", end.log_block).expect(INFALLIBLE);
    }
    text
}

fn render_transaction(text: &mut String, transaction: &TransactionInfo, with_blocks: bool) {
    let TransactionInfo {
        tid,
        first,
        commit_block,
        committed_at,
        blocks,
        revokes,
    } = transaction;
    let time = match committed_at {
        0 => String::new(),
        seconds => format!(
            ", {}",
            output::time_text(i64::try_from(*seconds).unwrap_or(i64::MAX))
        ),
    };
    let (count, revoked) = (blocks.len(), revokes.len());
    writeln!(
        text,
        "block {first:<8} transaction {tid}: {count} blocks, {revoked} revoked, commit in block {commit_block}{time}"
    )
    .expect(INFALLIBLE);
    if !with_blocks {
        return;
    }
    for block in blocks {
        let escaped = if block.is_escaped { ", escaped" } else { "" };
        writeln!(
            text,
            "  block {:<8} of {}{escaped}",
            block.log_block, block.home
        )
        .expect(INFALLIBLE);
    }
    for revoke in revokes {
        writeln!(text, "  revoked {revoke}").expect(INFALLIBLE);
    }
}

fn to_json(place: &str, found: &Inspection) -> Value {
    let transactions = found.transactions.iter().map(|transaction| {
        let blocks = transaction.blocks.iter().map(|block| {
            json!({
                "log_block": block.log_block,
                "home": block.home.get(),
                "is_escaped": block.is_escaped,
            })
        });
        json!({
            "tid": transaction.tid.get(),
            "first": transaction.first,
            "commit_block": transaction.commit_block,
            "committed_at": transaction.committed_at,
            "blocks": blocks.collect::<Vec<_>>(),
            "revokes": transaction.revokes.iter().map(|block| block.get()).collect::<Vec<_>>(),
        })
    });
    let users = found
        .users
        .iter()
        .map(|user| Uuid::from_bytes(*user).to_string());
    json!({
        "place": place,
        "version": found.version,
        "features": found.features,
        "block_bytes": found.block_bytes,
        "blocks": found.blocks,
        "first": found.first,
        "start": found.start,
        "sequence": found.sequence.get(),
        "uuid": Uuid::from_bytes(found.uuid).to_string(),
        "users": users.collect::<Vec<_>>(),
        "noted_error": found.noted_error,
        "transactions": transactions.collect::<Vec<_>>(),
        "end": found.end.as_ref().map(|end| json!({
            "log_block": end.log_block,
            "expected": end.expected.get(),
            "is_torn": end.is_torn,
            "is_damaged": end.is_damaged,
            "wrong": end.wrong.map(|(block, what)| json!({ "log_block": block, "what": what })),
        })),
    })
}

fn replay(arguments: &ReplayArguments) -> Result<()> {
    let image = &arguments.image;
    let (volume, report) = open_with_report(image, Access::Write, &arguments.mount)?;
    volume
        .close()
        .with_context(|| format!("{image}: closing"))?;
    if let Some(why) = report.read_only_because {
        bail!("{image}: can only be read: {why}");
    }
    let (replayed, deleted, truncated) = (
        report.replayed_transactions,
        report.orphans_deleted,
        report.orphans_truncated,
    );
    if arguments.json {
        return output::print_json(&json!({
            "replayed_transactions": replayed,
            "orphans_deleted": deleted,
            "orphans_truncated": truncated,
        }));
    }
    output::print(&format!(
        "{image}: {replayed} transactions replayed, {deleted} orphans deleted, {truncated} truncated\n"
    ))
}

/// Makes an external journal of a device.
pub(super) fn create(arguments: &CreateArguments) -> Result<()> {
    let text = &arguments.device;
    let size = arguments.size.as_deref();
    let block_bytes = Some(arguments.block_bytes);
    let (device, less) = super::mkfs::open_or_make("journal create", text, size, block_bytes)?;
    if less.is_some() {
        bail!("{text}: all of the device becomes the journal; leave out the size");
    }
    if !arguments.force && raw_superblock(&device).is_ok() {
        bail!("{text}: holds a file system or journal already; -F replaces it");
    }
    let uuid = arguments.uuid.unwrap_or_else(super::mkfs::random_uuid);
    let made = mkfs::format_journal_device(&device, arguments.block_bytes, uuid);
    let made = made.with_context(|| text.clone())?;
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
