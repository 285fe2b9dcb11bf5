//! `jext mount`: mounts a volume through FUSE.
//!
//! With `-f` the mount is served in the foreground, else by a separate process ([`background`]).
//! For `mount.fuse.jext`, which mount(8) and fstab run, see [`helper`].

mod background;
pub(crate) mod helper;
mod options;
mod refused;
mod remount;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::{DeviceError, DeviceText};
use clap::Args;
use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use fuse::{Mount, Unmounter};
use layout::InodeNr;

use crate::advice;
use crate::image::{
    Access, MountArguments, explain, has_replayed, note_other_node, open_device, parse_device,
    replayed, take_defaults, warn_of_errors,
};
use crate::in_use;
use crate::output;
use options::Options;

/// Mount a file system through FUSE.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Image or block device.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Mount point: a directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Stay in the foreground.
    #[arg(short, long)]
    foreground: bool,
    /// File for the messages of a mount in the background.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// This process is the one in the background.
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if remount::is_wanted(&arguments.mount) {
        let directory = find_directory(&arguments.directory)?;
        return remount::run(&directory, &arguments.mount);
    }
    if !arguments.foreground && !arguments.detached {
        return background::start();
    }
    let options = Options::parse(&arguments.mount)?;
    let directory = find_directory(&arguments.directory)?;
    let log = arguments.log.as_deref();
    let log = log.map(background::open_log).transpose()?;
    let mount = mount(&arguments.image, &directory, &options)?;
    end_on_signals(mount.unmounter())?;
    if arguments.detached {
        background::leave(log)?;
    }
    mount
        .run()
        .with_context(|| arguments.image.clone())
        .inspect_err(|error| tracing::error!("{}", advice::text(error)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory to mount on, if it is accessible.
fn find_directory(path: &Path) -> Result<PathBuf> {
    let place = || path.display().to_string();
    // The path of such a mount is found, and only a look at it fails.
    let found = path.canonicalize();
    match found.and_then(|found| Ok((found.metadata()?.is_dir(), found))) {
        Ok((true, found)) => Ok(found),
        Ok(_) => bail!("{}: not a directory", place()),
        Err(error) if error.raw_os_error() == Some(in_use::NOT_CONNECTED) => bail!(
            "{0}: the process of the mount there is gone; `fusermount3 -u {0}` (root: `umount {0}`) takes the mount away",
            place()
        ),
        Err(error) => Err(error).with_context(place),
    }
}

/// The permissions of a group and of others to write.
const WRITE_BY_OTHERS: u16 = 0o022;

fn mount(image: &str, directory: &Path, options: &Options) -> Result<Mount> {
    let (volume, report) = open(image, options)?;
    warn_of_errors(image, &report);
    let of_owner = owner_note(image, &volume, options);
    for limit in volume.superblock().features.limits() {
        output::warn(&format!("{image}: {limit}"));
    }
    if has_replayed(&report) {
        let count = replayed(&report);
        tracing::info!("{image}: replayed {count} of the journal");
    }
    let mut settings = options.settings.clone();
    settings.description.source = source(image)?;
    if volume.is_read_only() {
        settings.description.flags.push("ro".to_owned());
    }
    let mount = Mount::new(volume, directory, &settings).map_err(refused::advised)?;
    of_owner.iter().for_each(|text| output::note(text));
    Ok(mount)
}

/// Returns a note for a caller without root privileges that the root directory is not writable. The
/// kernel checks the owners that the mount shows.
fn owner_note(image: &str, volume: &Volume, options: &Options) -> Option<String> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let root = volume.attributes(InodeNr::ROOT).ok()?;
    let owner = options.settings.owners.uid.unwrap_or(root.uid);
    let is_for_others = root.permissions & WRITE_BY_OTHERS != 0;
    let is_refused = !uid.is_root() && owner != uid.as_raw() && !is_for_others;
    (is_refused && !volume.is_read_only()).then(|| {
        format!(
            "{image}: its root directory belongs to user {owner}, so that you may not write there: -o uid={},gid={} shows all files as yours, \
             and jext mkfs -E root_owner makes the root directory of a new volume yours (docs/how-to/cannot-write.md)",
            uid.as_raw(),
            gid.as_raw()
        )
    })
}

/// Returns the source for the mount table: the path of an image, if it has one.
fn source(image: &str) -> Result<String> {
    Ok(match parse_device(image)? {
        DeviceText::File { path, .. } => std::fs::canonicalize(&path)
            .with_context(|| path.clone())?
            .display()
            .to_string(),
        _ => image.to_owned(),
    })
}

/// Opens the volume. A read-only mount only reads the devices, unless the journal has to be
/// replayed.
fn open(image: &str, options: &Options) -> Result<(Volume, OpenReport)> {
    let engine = &mut options.engine.options.clone();
    let attempt = |access, engine: &MountOptions| -> Result<(Volume, OpenReport)> {
        let device = open_device(image, access)?;
        let mut parsed = options.engine.clone();
        parsed.options = engine.clone();
        take_defaults(image, &mut parsed, &device);
        if access == Access::Write {
            note_other_node(image, &device);
        }
        let journal = parsed.journal_path.as_deref();
        let journal = journal.map(|text| open_device(text, access)).transpose()?;
        let opened = Volume::open_with_report(Arc::clone(&device), journal, parsed.options);
        opened
            .map_err(|error| explain(error, &device))
            .with_context(|| image.to_owned())
    };
    let mut is_refused = false;
    if !engine.read_only {
        match attempt(Access::Write, engine) {
            Err(error) if is_write_protected(image, &error) => {
                is_refused = true;
                engine.read_only = true;
            }
            opened => {
                let (volume, report) = opened?;
                if let Some(why) = &report.read_only_because {
                    volume.close()?;
                    bail!("{image}: can only be read: {why}; mount it with -o ro");
                }
                return Ok((volume, report));
            }
        }
    }
    let opened = match attempt(Access::Read, engine) {
        Err(error) if !engine.no_recovery && is_unreplayed(&error) => {
            match attempt(Access::Write, engine) {
                Err(error) if is_write_protected(image, &error) => bail!(
                    "{image}: was not closed cleanly, and is write-protected, so that its journal cannot be replayed: `jext journal replay` \
                     recovers a copy that you may write; -o ro,noload shows the file system without the transactions in its log"
                ),
                opened => opened,
            }
        }
        opened => opened,
    }?;
    if is_refused {
        output::warn(&format!("{image}: write-protected, mounted read-only"));
    }
    Ok(opened)
}

/// Returns true if an image cannot be opened for writing but possibly for reading.
fn is_write_protected(image: &str, error: &anyhow::Error) -> bool {
    use rustix::io::Errno;
    if let Some(DeviceError::Open { cause, .. }) = error.downcast_ref()
        && cause.contains("read-only")
    {
        return true;
    }
    let Ok(DeviceText::File { path, .. }) = parse_device(image) else {
        return false;
    };
    let refused = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK);
    matches!(refused, Err(Errno::ROFS | Errno::ACCESS | Errno::PERM))
}

fn is_unreplayed(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ext::Error::NeedsRecovery { .. }))
}

/// Unmounts on termination signals; the serving threads then find the connection closed, and the
/// volume is closed.
fn end_on_signals(unmounter: Unmounter) -> Result<()> {
    ctrlc::set_handler(move || {
        if let Err(error) = unmounter.end() {
            output::warn(&format!("not unmounted: {error}"));
        }
    })
    .context("signals")
}
