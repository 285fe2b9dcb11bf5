//! `jext build`: makes an image from a directory or an archive in one step.
//!
//! The volume is sized for its contents, filled without its journal, and sealed as if it had never
//! been mounted. With `SOURCE_DATE_EPOCH` the same tree gives the same bytes: UUID and hash seed
//! are then derived from the tree.

mod digest;
pub(super) mod origin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::text::Size;
use block::{BlockDevice, OpenOptions};
use clap::Args;
use ext::mkfs::{self, JournalDevice, JournalOption, Options, Summary};
use ext::options::{AccessTime, Memory};
use ext::{MountOptions, Volume};
use indicatif::HumanBytes;
use layout::inode::EXTRA_SIZE;
use serde_json::json;
use transfer::{Filling, Origin, Tally, Times};

use super::format_arguments::{Format, FormatArguments, random_uuid};
use crate::image::{Access, open_device};
use crate::interrupt;
use crate::new_file::NewFile;
use crate::output;
use crate::progress;

/// Default block size in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Supported block sizes in bytes.
const BLOCK_BYTES_ALL: [u32; 3] = [1024, 2048, BLOCK_BYTES];
/// Memory budget while the image is filled, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Inodes in addition to those of the tree: the reserved ones, and a few free ones.
const INODES_MORE: u64 = 64;
/// Maximum number of attempts to find a size.
const SIZE_ROUNDS_MAX: u32 = 64;

/// Make an image of a directory or a tar archive (plain, gzip or zstd).
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    format: FormatArguments,
    /// Image to make; it must not exist yet.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// A directory or an archive; `-` reads an archive from standard input.
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Size of the image: 64M, 2G. The default is the size that the tree needs, plus the slack.
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Free space to leave, in percent of the space that the tree needs.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    slack: u32,
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

/// The device of the image's external journal.
struct Journal {
    device: Arc<dyn BlockDevice>,
    found: JournalDevice,
}

impl Journal {
    fn open(text: &str) -> Result<Self> {
        let device = open_device(text, Access::Write).context("-J device")?;
        let found = mkfs::journal_device(&device).with_context(|| text.to_owned())?;
        Ok(Self { device, found })
    }

    /// Removes the image, which was not completed, from the journal's users.
    fn forget(&self, image: [u8; 16]) -> Result<(), jbd2::Error> {
        let JournalDevice {
            uuid, block_bytes, ..
        } = self.found;
        jbd2::format::remove_user(&self.device, block_bytes, uuid, image)
    }
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
    let journal = journal.map(Arc::new);
    let origin = origin::open(&arguments.from)?;
    let block_bytes = match &journal {
        // The journal and the image have the same block size.
        Some(journal) => options.block_bytes.unwrap_or(journal.found.block_bytes),
        None => options.block_bytes.unwrap_or(BLOCK_BYTES),
    };
    if !BLOCK_BYTES_ALL.contains(&block_bytes) {
        bail!("-b {block_bytes}: blocks have 1024, 2048 or 4096 bytes");
    }
    let options = Options {
        block_bytes: Some(block_bytes),
        ..options
    };
    let tally = Tally::of(&origin, block_bytes, options.allocation_bytes())?;
    let wanted = arguments.size.as_deref().map(|text| {
        Size::parse(text)
            .map(|size| size.bytes())
            .map_err(|expected| anyhow::anyhow!("--size {text}: expected {expected}"))
            .and_then(|bytes| match bytes {
                0 => bail!("--size {text}: an image has 4096 bytes at least"),
                bytes => Ok(bytes),
            })
    });
    let seconds = options.seconds.unwrap_or_else(|| rt::wall().seconds);
    let times = Times {
        seconds,
        clamps: options.seconds.is_some(),
    };
    let options = Options {
        inode_count: Some(
            options
                .inode_count
                .unwrap_or(inode_count(&options, &tally)?),
        ),
        seconds: Some(seconds),
        journal: match &journal {
            Some(journal) => JournalOption::External(journal.found.uuid),
            None => options.journal,
        },
        ..options
    };
    let is_fixed = options.uuid.is_some() || times.clamps;
    let uuid = match options.uuid {
        Some(uuid) => uuid,
        None if times.clamps => digest::uuid(&origin, &options, times)?,
        None => random_uuid(),
    };
    let options = Options {
        uuid: Some(uuid),
        hash_seed: options.hash_seed.or(is_fixed.then_some(uuid)),
        ..options
    };
    let bytes = match wanted.transpose()? {
        Some(bytes) => bytes,
        None => size(&options, &tally, arguments.slack)?,
    };
    // Before the file is made.
    mkfs::preview(&geometry(bytes), &options).with_context(|| out.display().to_string())?;
    let new = NewFile::create(out)?;
    let forget = || {
        if let Some(journal) = &journal {
            // The original error or signal is reported, not this one.
            let _ = journal.forget(uuid);
        }
    };
    let at_signal = journal.clone();
    let on_signal = interrupt::on_signal(out.display().to_string(), move || {
        if let Some(journal) = at_signal {
            let _ = journal.forget(uuid);
        }
    });
    let bar = progress::bytes(tally.bytes);
    bar.set_message(out.display().to_string());
    let count = |bytes| bar.inc(bytes);
    let filling = Filling {
        times,
        count: &count,
    };
    let made = make(
        &new,
        arguments,
        bytes,
        &options,
        journal.as_deref(),
        (&origin, &filling),
    );
    bar.finish_and_clear();
    let made = made.with_context(|| out.display().to_string());
    let made = made.and_then(|summary| {
        refuse_present(out, arguments.force)?;
        new.finish(arguments.force)?;
        Ok(summary)
    });
    drop(on_signal);
    if made.is_err() {
        forget();
    }
    report(arguments, &made?, &tally, bytes)
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

fn inode_count(options: &Options, tally: &Tally) -> Result<u32> {
    let by_share = options
        .bytes_per_inode
        .and_then(|bytes| tally.bytes.checked_div(bytes.into()));
    let count = tally.inodes + INODES_MORE + by_share.unwrap_or(tally.inodes / 10);
    u32::try_from(count).context("more than 2^32 inodes")
}

/// Returns the geometry of an image of this size in bytes.
fn geometry(size_bytes: u64) -> block::Geometry {
    block::Geometry {
        size_bytes,
        sector_bytes: 512,
        has_volatile_cache: false,
        has_force_unit_access: false,
        can_flush: true,
        atomic_write_bytes: 512,
        queue_depth: 1,
        is_read_only: false,
    }
}

/// Returns the smallest size in bytes that holds the tree, the reserved blocks and the slack.
fn size(options: &Options, tally: &Tally, slack_percent: u32) -> Result<u64> {
    let block_bytes = u64::from(options.block_bytes.unwrap_or(BLOCK_BYTES));
    // The tree was counted in clusters, where blocks are allocated by them.
    let in_unit = u64::from(options.allocation_bytes()) / block_bytes;
    let units = tally.blocks + tally.blocks * u64::from(slack_percent) / 100 + 16;
    let needed = units * in_unit;
    let inode_bytes = u64::from(options.inode_bytes.unwrap_or(128 + EXTRA_SIZE as u16));
    let tables = u64::from(options.inode_count.unwrap_or_default()) * inode_bytes / block_bytes;
    let mut blocks = needed + tables + 2048;
    let mut refused = None;
    for _ in 0..SIZE_ROUNDS_MAX {
        let geometry = geometry((blocks * block_bytes).next_multiple_of(u64::from(BLOCK_BYTES)));
        let free = match mkfs::preview(&geometry, options) {
            Ok(summary) => summary.free_blocks.saturating_sub(summary.reserved_blocks),
            // Too small for the requested options, such as the number of inodes or the journal
            // size.
            Err(ext::Error::Invalid(why)) => {
                refused = Some(why);
                0
            }
            Err(error) => return Err(error.into()),
        };
        if free >= needed {
            return Ok(geometry.size_bytes);
        }
        blocks += (needed - free) + (needed - free) / 16 + 8;
    }
    match refused {
        Some(why) => bail!("no size can be found that holds the tree: {why}"),
        None => bail!("no size can be found that holds the tree; give one with --size"),
    }
}

fn make(
    new: &NewFile,
    arguments: &Arguments,
    bytes: u64,
    options: &Options,
    journal: Option<&Journal>,
    (origin, filling): (&Origin, &Filling<'_>),
) -> Result<Summary> {
    let file = new.file().try_clone()?;
    file.set_len(bytes)?;
    let name = arguments.out.display().to_string();
    let device = block::FileDevice::of_file(file.into(), &name, &OpenOptions::default())?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let summary = match journal {
        None => mkfs::format(&device, options),
        Some(journal) => mkfs::format_with_journal(&device, &journal.device, options),
    };
    let summary = summary?;
    fill(&device, origin, filling)?;
    Ok(summary)
}

/// Fills a newly made volume and seals it.
pub(super) fn fill(
    device: &Arc<dyn BlockDevice>,
    origin: &Origin,
    filling: &Filling<'_>,
) -> Result<()> {
    let options = MountOptions {
        is_being_made: true,
        privileged: true,
        access_time: AccessTime::Never,
        memory: Memory {
            budget_bytes: MEMORY_BYTES,
            ..Memory::default()
        },
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(device), None, options)?;
    origin.fill(device, volume, filling)?;
    Ok(mkfs::seal(device, filling.times.seconds)?)
}

fn report(arguments: &Arguments, summary: &Summary, tally: &Tally, bytes: u64) -> Result<ExitCode> {
    let warnings = &summary.warnings;
    warnings.iter().for_each(|warning| output::warn(warning));
    let out = arguments.out.display();
    let uuid = uuid::Uuid::from_bytes(summary.uuid).to_string();
    if arguments.json {
        output::print_json(&json!({
            "image": out.to_string(),
            "bytes": bytes,
            "uuid": uuid,
            "inodes": tally.inodes,
            "data_bytes": tally.bytes,
            "features": summary.features.names(),
        }))?;
    } else if !arguments.quiet {
        output::print(&format!(
            "{out}: {} of {} files, {} of data, {}\n",
            HumanBytes(bytes),
            tally.inodes,
            HumanBytes(tally.bytes),
            uuid
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
