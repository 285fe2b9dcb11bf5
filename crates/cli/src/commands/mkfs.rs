//! `jext mkfs`: creates a file system, with the options of mke2fs.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::Args;
use ext::mkfs::{self, Options, Summary};
use layout::feature::Features;
use serde_json::json;
use transfer::{Times, new_image};
use uuid::Uuid;

use super::format_arguments::{Format, FormatArguments, JOURNAL_DEV, pairs};
use super::new_device::{KIB, open_or_make, refuse_used};
use crate::image::{Access, open_device};
use crate::output;
use crate::progress;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Make an ext2, ext3 or ext4 file system on a device or in an image file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) format: FormatArguments,
    /// Path or device text.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Size: 64M, 2G; in KiB without a unit, or in blocks with -b. A missing file is created with
    /// this size.
    #[arg(value_name = "SIZE")]
    size: Option<String>,
    /// Directory or archive to copy into the file system; `-` reads an archive from standard input.
    #[arg(short = 'd', value_name = "FROM")]
    from: Option<PathBuf>,
    /// Create it even if the device already holds a file system.
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
    if arguments.format.is_journal_device() {
        return run_for_journal(arguments);
    }
    let Format {
        mut options,
        journal_device,
    } = arguments.format.parse()?;
    let block_bytes = arguments.format.block_bytes;
    let size = arguments.size.as_deref();
    let place = open_or_make("mkfs", &arguments.device, size, block_bytes)?;
    if let Some(bytes) = place.less {
        let default = if bytes < 512 * KIB * KIB { 1024 } else { 4096 };
        let block_bytes = *options.block_bytes.get_or_insert(default);
        options.block_count = bytes.checked_div(block_bytes.into());
    }
    let summary = make(arguments, &place.device, options, journal_device)?;
    place.finish()?;
    summary
        .warnings
        .iter()
        .for_each(|warning| output::warn(warning));
    if arguments.json {
        output::print_json(&to_json(&summary))?;
    } else if !arguments.quiet {
        output::print(&text(&arguments.device, &summary))?;
        note_owner(&arguments.format);
    }
    Ok(ExitCode::SUCCESS)
}

/// Notes for a caller without root privileges that the root directory belongs to root.
fn note_owner(format: &FormatArguments) {
    let is_named = pairs(&format.extended).any(|(name, _)| name == "root_owner");
    if !is_named && !rustix::process::geteuid().is_root() {
        output::note(
            "the root directory belongs to root: -E root_owner makes it yours, and jext mount -o uid=$(id -u) shows it as yours",
        );
    }
}

/// Creates the file system, and fills it.
fn make(
    arguments: &Arguments,
    device: &Arc<dyn BlockDevice>,
    mut options: Options,
    journal_device: Option<String>,
) -> Result<Summary> {
    if !arguments.force {
        refuse_used(&arguments.device, device)?;
    }
    let from = arguments.from.as_deref();
    let origin = from.map(|path| super::build::origin::open(path, None));
    let origin = origin.transpose()?;
    let seconds = options.seconds.unwrap_or_else(|| rt::wall().seconds);
    let times = Times {
        seconds,
        clamps: options.seconds.is_some(),
    };
    options.seconds = Some(seconds);
    let summary = match journal_device {
        None => mkfs::format(device, &options),
        Some(text) => {
            let journal = open_device(&text, Access::Write).context("-J device")?;
            mkfs::format_with_journal(device, &journal, &options)
        }
    };
    let summary = summary.with_context(|| arguments.device.clone())?;
    if let Some(origin) = origin {
        let bar = progress::bytes(0);
        let filled = new_image::fill(device, origin, times, &|bytes| bar.inc(bytes));
        bar.finish_and_clear();
        filled.with_context(|| arguments.device.clone())?;
    }
    Ok(summary)
}

/// Runs `-O journal_dev`: the whole device becomes an external journal.
fn run_for_journal(arguments: &Arguments) -> Result<ExitCode> {
    let format = &arguments.format;
    if !format.describes_only_a_journal() {
        bail!(
            "-O {JOURNAL_DEV} makes a journal, for which only -b, -U, -L and a size can be given"
        );
    }
    super::journal::create(&super::journal::CreateArguments {
        device: arguments.device.clone(),
        size: arguments.size.clone(),
        block_bytes: format.block_bytes.unwrap_or(super::journal::BLOCK_BYTES),
        uuid: format.uuid,
        label: format.label.clone(),
        force: arguments.force,
        quiet: arguments.quiet,
        json: arguments.json,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn features_text(features: &Features) -> String {
    features.names().join(" ")
}

fn text(device: &str, summary: &Summary) -> String {
    let geometry = &summary.geometry;
    let mut text = String::new();
    let mut row = |label: &str, value: String| {
        writeln!(text, "{label:<18}{value}").expect(INFALLIBLE);
    };
    row("Device:", device.to_owned());
    row("UUID:", Uuid::from_bytes(summary.uuid).to_string());
    row("Features:", features_text(&summary.features));
    let (count, bytes) = (geometry.block_count, geometry.block_bytes);
    row("Blocks:", format!("{count} of {bytes} bytes"));
    if geometry.cluster_log > 0 {
        let bytes = geometry.block_bytes << geometry.cluster_log;
        row("Clusters:", format!("of {bytes} bytes"));
    }
    row("Reserved blocks:", summary.reserved_blocks.to_string());
    row("Free blocks:", summary.free_blocks.to_string());
    row(
        "Groups:",
        format!(
            "{} of {} blocks",
            geometry.group_count, geometry.blocks_per_group
        ),
    );
    row(
        "Inodes:",
        format!("{} of {} bytes", geometry.inode_count, geometry.inode_bytes),
    );
    if summary.journal_blocks > 0 {
        row("Journal:", format!("{} blocks", summary.journal_blocks));
    } else if summary.has_journal() {
        row("Journal:", "external".to_owned());
    }
    text
}

fn to_json(summary: &Summary) -> serde_json::Value {
    let geometry = &summary.geometry;
    json!({
        "uuid": Uuid::from_bytes(summary.uuid).to_string(),
        "features": summary.features.names(),
        "block_bytes": geometry.block_bytes,
        "cluster_bytes": geometry.block_bytes << geometry.cluster_log,
        "blocks": geometry.block_count,
        "reserved_blocks": summary.reserved_blocks,
        "free_blocks": summary.free_blocks,
        "groups": geometry.group_count,
        "blocks_per_group": geometry.blocks_per_group,
        "inodes": geometry.inode_count,
        "inode_bytes": geometry.inode_bytes,
        "free_inodes": summary.free_inodes,
        "journal_blocks": summary.journal_blocks,
        "warnings": summary.warnings,
    })
}
