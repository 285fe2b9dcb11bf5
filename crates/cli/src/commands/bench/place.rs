//! Targets of a benchmark: a directory, an image, or a new file system in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::DeviceText;
use clap::Args;
use ext::Volume;
use lab::targets::VolumeTarget;
use workload::Target;
use workload::directory::DirectoryTarget;

use crate::commands::format_arguments::{Format, FormatArguments};
use crate::image::{Access, MountArguments, open_parsed, parse_device, take_defaults};

/// Start of a target that is a guest.
const GUEST_PREFIX: &str = "uml:";

/// The target of a benchmark.
#[derive(Debug, Args)]
pub(super) struct PlaceArguments {
    /// A directory, an image, mem:SIZE for a new file system in memory, or uml:TYPE for a new file
    /// system of a real kernel in a guest.
    #[arg(
        value_name = "DIR|IMAGE|mem:SIZE|uml:TYPE",
        required_unless_present_any = ["on", "parameters"]
    )]
    target: Option<String>,
    /// The target, as an option.
    #[arg(long, value_name = "TARGET", conflicts_with = "target")]
    on: Option<String>,
    #[command(flatten)]
    guest: GuestArguments,
    /// mkfs options for the file system in memory, as in --mkfs "-t ext3 -b 4096 -J size=32".
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mkfs: Option<String>,
    #[command(flatten)]
    mount: MountArguments,
}

/// The devices and keys of a guest.
#[derive(Debug, Args)]
pub(super) struct GuestArguments {
    /// Device of a guest's file system: a simulated one, in virtual time, or a file.
    #[arg(long, value_name = "DEVICE")]
    pub(super) device: Option<String>,
    /// Set a key of a plan for a guest, such as journal=nvram:32MiB, host=p4-2.66-2003,
    /// memory.host=512MiB or guest.scheduler=none.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) key: Vec<String>,
    /// Record every request to the devices of a guest in a new file, for `jext lab replay`.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Make a guest's file system even on files that already hold something.
    #[arg(short = 'F', long)]
    pub(super) force: bool,
}

/// An open target.
enum Place {
    Directory(Arc<dyn Target>),
    Volume(Arc<VolumeTarget>),
}

impl PlaceArguments {
    /// Returns the target.
    fn target(&self) -> &str {
        let given = self.target.as_ref().or(self.on.as_ref());
        given.map_or("", String::as_str)
    }

    /// Returns the target and the arguments of a guest, if the target is one.
    pub(super) fn guest(&self) -> Option<(&str, &GuestArguments)> {
        let target = self.target();
        let is_guest = target.starts_with(GUEST_PREFIX);
        is_guest.then_some((target, &self.guest))
    }

    /// Opens the target, runs `work` on it, and always closes it.
    pub(super) fn with_target<T>(
        &self,
        work: impl FnOnce(&Arc<dyn Target>) -> Result<T>,
    ) -> Result<T> {
        let place = place(self)?;
        let target = match &place {
            Place::Directory(target) => Arc::clone(target),
            Place::Volume(target) => Arc::<VolumeTarget>::clone(target),
        };
        let result = work(&target);
        drop(target);
        if let Place::Volume(target) = place {
            let target =
                Arc::into_inner(target).ok_or_else(|| anyhow!("the benchmark still runs"))?;
            target
                .into_volume()
                .close()
                .with_context(|| format!("{}: closing", self.target()))?;
        }
        result
    }
}

fn place(arguments: &PlaceArguments) -> Result<Place> {
    let text = arguments.target();
    let guest = &arguments.guest;
    if guest.device.is_some() || !guest.key.is_empty() || guest.record.is_some() || guest.force {
        bail!("{text}: --device, --key, --record and -F are for {GUEST_PREFIX}TYPE");
    }
    if Path::new(text).is_dir() {
        if arguments.mkfs.is_some() {
            bail!("{text}: is a directory; --mkfs is for mem:SIZE");
        }
        lab::system::open_files::raise_limit()?;
        let target = DirectoryTarget::new(text).map_err(|error| anyhow!("{text}: {error}"))?;
        return Ok(Place::Directory(Arc::new(target)));
    }
    let device = parse_device(text)?;
    if device.is_simulated() {
        bail!("{text}: exists in simulated time only; write a plan and use `jext lab run`");
    }
    let opened = open_parsed(&device, Access::Write)?;
    let mut parsed = arguments.mount.parse()?;
    let journal = match &parsed.journal_path {
        Some(text) => Some(open_parsed(&parse_device(text)?, Access::Write)?),
        None => None,
    };
    if matches!(device, DeviceText::Memory { .. }) {
        format(arguments, &opened, journal.as_ref()).context("mkfs")?;
    } else if arguments.mkfs.is_some() {
        bail!("{text}: --mkfs is for mem:SIZE; `jext mkfs {text}` makes a file system there");
    }
    take_defaults(text, &mut parsed, &opened);
    let volume = Volume::open(opened, journal, parsed.options).with_context(|| text.to_owned())?;
    Ok(Place::Volume(Arc::new(VolumeTarget::new(
        volume,
        text.to_owned(),
    ))))
}

/// Creates the file system in memory.
fn format(
    arguments: &PlaceArguments,
    device: &Arc<dyn block::BlockDevice>,
    journal: Option<&Arc<dyn block::BlockDevice>>,
) -> Result<()> {
    let Format {
        options,
        journal_device,
    } = match &arguments.mkfs {
        None => FormatArguments::default().parse()?,
        Some(text) => parse_mkfs(text)?.parse()?,
    };
    if journal_device.is_some() {
        bail!("-J device: say --journal DEV");
    }
    match journal {
        None => ext::mkfs::format(device, &options)?,
        Some(journal) => {
            let uuid =
                (u128::from(rt::random_u64()) << 64 | u128::from(rt::random_u64())).to_le_bytes();
            let block_bytes = options.block_bytes.unwrap_or(4096);
            ext::mkfs::format_journal_device(journal, block_bytes, uuid)?;
            ext::mkfs::format_with_journal(device, journal, &options)?
        }
    };
    Ok(())
}

/// Parses mkfs options from one string.
fn parse_mkfs(text: &str) -> Result<FormatArguments> {
    #[derive(clap::Parser)]
    #[command(name = "--mkfs", no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        format: FormatArguments,
    }
    let parsed = <Line as clap::Parser>::try_parse_from(text.split_whitespace());
    let parsed = parsed.map_err(|error| {
        let said = error.to_string();
        let first = said
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        anyhow!("--mkfs {text:?}: {first}")
    })?;
    Ok(parsed.format)
}
