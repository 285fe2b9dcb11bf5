//! `jext build`: makes an image from a directory or an archive in one step.
//!
//! The volume is sized for its contents, filled without its journal, and sealed as if it had never
//! been mounted. With `SOURCE_DATE_EPOCH` the same tree gives the same bytes: UUID and hash seed
//! are then derived from the tree.

pub(super) mod origin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::text::Size;
use block::{BlockDevice, OpenOptions};
use clap::Args;
use ext::mkfs::{self, JournalDevice, JournalOption, Options, Summary};
use indicatif::HumanBytes;
use serde_json::json;
use transfer::new_image::{self, BLOCK_BYTES, BLOCK_BYTES_ALL};
use transfer::{Filling, Origin, Tally, Times, digest};

use super::format_arguments::{Format, FormatArguments, random_uuid};
use crate::image::{Access, open_device};
use crate::interrupt;
use crate::new_file::NewFile;
use crate::output;
use crate::progress;

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
        inode_count: Some(new_image::inode_count(&options, &tally)?),
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
        None if times.clamps => digest::uuid(std::slice::from_ref(&origin), &options, times)?,
        None => random_uuid(),
    };
    let options = Options {
        uuid: Some(uuid),
        hash_seed: options.hash_seed.or(is_fixed.then_some(uuid)),
        ..options
    };
    let bytes = match wanted.transpose()? {
        Some(bytes) => bytes,
        None => new_image::size(&options, &tally, arguments.slack)?,
    };
    // Before the file is made.
    mkfs::preview(&new_image::geometry(bytes), &options)
        .with_context(|| out.display().to_string())?;
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
    new_image::fill(&device, std::slice::from_ref(origin), filling)?;
    Ok(summary)
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
