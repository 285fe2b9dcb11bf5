//! Images on the command line: `IMAGE:/path`, the options that all commands share, and opening of
//! images.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::text::split_image_path_bytes;
use block::{BlockDevice, DeviceError, DeviceText, OpenOptions};
use clap::Args;
use ext::volume::OpenReport;
use ext::{Corrupt, MountOptions, Volume};
use jext::device::OverlayDevice;
use jext::mount_options::{OptionError, ParsedOptions};
use layout::feature::Incompatible;
use layout::superblock as disk;
use zerocopy::FromBytes;

use crate::foreign;
use crate::in_use;
use crate::output;

/// Options of every command that opens an image.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MountArguments {
    /// Mount options as of ext3 and ext4: data=writeback,commit=30,noload; see
    /// docs/how-to/mount-options.md.
    #[arg(short, long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// Device of the external journal (same as -o journal_path=DEV).
    #[arg(long, value_name = "DEV")]
    pub(crate) journal: Option<String>,
    /// Memory budget for pages and metadata (same as -o memory=SIZE).
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
}

/// Options of `jext mount` that are none of the volume's.
pub(crate) const OF_MOUNT: &[&str] = &[
    "uid",
    "gid",
    "allow_other",
    "lazy_open",
    "parallel_direct",
    "threads",
    "nopoll",
];

/// The access that a command needs to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// An image and a path within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePath {
    /// The device text of the image.
    pub(crate) image: String,
    /// The path, starting with a slash. Names need not be UTF-8.
    pub(crate) path: Vec<u8>,
}

impl MountArguments {
    /// Returns the parsed options.
    pub(crate) fn parse(&self) -> Result<ParsedOptions> {
        let mut parsed = ParsedOptions::default();
        for list in &self.options {
            parsed.add(list).map_err(name_mount)?;
        }
        if let Some(size) = &self.memory {
            parsed.add(&format!("memory={size}"))?;
        }
        if let Some(device) = &self.journal {
            parsed.journal_path = Some(device.clone());
        }
        Ok(parsed)
    }
}

/// Returns the error of an option, which may be one of `jext mount` alone.
fn name_mount(error: OptionError) -> anyhow::Error {
    match &error {
        OptionError::Expected { option, expected }
            if OF_MOUNT.contains(&option.split('=').next().unwrap_or_default()) =>
        {
            anyhow!("mount option {option:?}: is for `jext mount` alone; expected {expected}")
        }
        _ => error.into(),
    }
}

impl ImagePath {
    /// Parses `IMAGE:/path`.
    pub(crate) fn parse(text: impl AsRef<OsStr>) -> Result<Self> {
        let text = text.as_ref();
        match Self::split(text)? {
            Some(path) => Ok(path),
            None => bail!(
                "{}: not a path within an image; say IMAGE:/path",
                text.display()
            ),
        }
    }

    /// Parses `IMAGE:/path`, or returns `None` if the text is not a path within an image.
    pub(crate) fn split(text: &OsStr) -> Result<Option<Self>> {
        let Some((image, path)) = split_image_path_bytes(text.as_bytes()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            image: device_text(OsStr::from_bytes(image))?.to_owned(),
            path: path.to_owned(),
        }))
    }

    /// Parses `IMAGE:/path`, or `IMAGE` for its root directory.
    pub(crate) fn parse_or_root(text: impl AsRef<OsStr>) -> Result<Self> {
        let text = text.as_ref();
        Ok(match Self::split(text)? {
            Some(path) => path,
            None => Self {
                image: device_text(text)?.to_owned(),
                path: b"/".to_vec(),
            },
        })
    }

    /// Returns the path as it is written on the command line.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.image, output::name_text(&self.path))
    }
}

/// Returns a device text, which must be UTF-8 even if names within the image are not.
fn device_text(text: &OsStr) -> Result<&str> {
    let found = text.to_str();
    found.with_context(|| format!("{}: the image's own name is not UTF-8", text.display()))
}

/// Parses a device text.
pub(crate) fn parse_device(text: &str) -> Result<DeviceText> {
    text.parse().map_err(|error| anyhow!("{text}: {error}"))
}

/// Opens a device that outlives the process; refuses others.
pub(crate) fn open_device(text: &str, access: Access) -> Result<Arc<dyn BlockDevice>> {
    open_parsed(&parse_lasting(text)?, access)
}

/// Parses the text of a device that outlives the process.
fn parse_lasting(text: &str) -> Result<DeviceText> {
    let parsed = parse_device(text)?;
    if parsed.is_ephemeral() {
        bail!(
            "{text}: lives for one process only, so that no other command would find what this one does; name a file or \
             a block device (bench and lab take memory and simulated devices)"
        );
    }
    Ok(parsed)
}

/// Opens a device for reading, unless a mount may change it meanwhile.
pub(crate) fn open_unused(text: &str) -> Result<Arc<dyn BlockDevice>> {
    let parsed = parse_lasting(text)?;
    let path = in_use::path_of(&parsed);
    if let Some(user) = path.as_deref().and_then(in_use::mounted) {
        bail!(
            "{text}: is in use: {}, or -n checks it all the same",
            user.sentence()
        );
    }
    open_parsed(&parsed, Access::Read)
}

/// Opens a device for reading even if a mount uses it, and warns of that user.
pub(crate) fn open_to_look(text: &str) -> Result<Arc<dyn BlockDevice>> {
    let parsed = parse_lasting(text)?;
    let options = OpenOptions::read_only();
    let (opened, user) = match open_with(&parsed, &options) {
        Err(DeviceError::InUse { device, cause }) => {
            let path = in_use::path_of(&parsed);
            let user = path.as_deref().and_then(in_use::used);
            let text =
                user.map_or_else(|| format!("{device} is in use: {cause}"), |user| user.text);
            let options = OpenOptions {
                locks: false,
                ..options
            };
            (open_with(&parsed, &options), Some(text))
        }
        opened => {
            let path = in_use::path_of(&parsed);
            let user = path.as_deref().and_then(in_use::mounted);
            (opened, user.map(|user| user.text))
        }
    };
    if let Some(user) = user {
        warn_of_user(text, &user);
    }
    opened.map_err(|error| name_user(error, &parsed))
}

/// Warns that another process writes the image.
fn warn_of_user(text: &str, user: &str) {
    output::warn(&format!(
        "{text}: {user}; what is read may be older than what is there, or change meanwhile"
    ));
}

/// Opens any device. Reports what its text rounds, and warns if it is read while mounted: the
/// kernel takes no lock.
pub(crate) fn open_parsed(text: &DeviceText, access: Access) -> Result<Arc<dyn BlockDevice>> {
    text.notes().iter().for_each(|note| output::warn(note));
    let options = OpenOptions {
        is_read_only: access == Access::Read,
        ..OpenOptions::default()
    };
    let device = open_with(text, &options).map_err(|error| name_user(error, text))?;
    if access == Access::Read
        && let Some(path) = in_use::path_of(text)
        && let Some(user) = in_use::mounted(&path)
    {
        warn_of_user(&path.display().to_string(), &user.text);
    }
    Ok(device)
}

fn open_with(
    text: &DeviceText,
    options: &OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    jext::device::open_text(text, options)
}

/// Returns an error of opening a device with advice; names the user of a device in use.
fn name_user(error: DeviceError, text: &DeviceText) -> anyhow::Error {
    let path = in_use::path_of(text);
    let Some(path) = path.as_deref() else {
        return error.into();
    };
    let name = path.display();
    let said = match &error {
        DeviceError::InUse { device, .. } => {
            in_use::used(path).map(|user| format!("{device}: is in use: {}", user.sentence()))
        }
        DeviceError::Open { .. } => match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(format!(
                "{name}: no such file or directory; jext mkfs {name} 64M makes an image"
            )),
            Ok(found) if found.is_dir() => Some(format!(
                "{name}: is a directory, and no image; jext build OUT.img {name} makes an image of it"
            )),
            Ok(found) if found.is_file() && found.len() == 0 => Some(format!(
                "{name}: is empty; remove it, and jext mkfs {name} 64M makes an image"
            )),
            _ => None,
        },
        _ => None,
    };
    said.map_or_else(|| error.into(), |said| anyhow!(said))
}

/// Opens an image's file system.
pub(crate) fn open_volume(
    image: &str,
    access: Access,
    arguments: &MountArguments,
) -> Result<Volume> {
    let (volume, report) = open_with_report(image, access, arguments)?;
    if let (Access::Write, Some(why)) = (access, &report.read_only_because) {
        bail!("{image}: can only be read: {why}");
    }
    Ok(volume)
}

/// Opens an image's file system, and returns the report of the mount.
pub(crate) fn open_with_report(
    image: &str,
    access: Access,
    arguments: &MountArguments,
) -> Result<(Volume, OpenReport)> {
    open_with_options(image, access, arguments.parse()?)
}

/// Opens an image's file system like [`open_with_report`], with options that are already parsed.
pub(crate) fn open_with_options(
    image: &str,
    access: Access,
    mut parsed: ParsedOptions,
) -> Result<(Volume, OpenReport)> {
    if access == Access::Write && parsed.options.read_only {
        bail!("{image}: this command writes; leave out -o ro");
    }
    let device = open_device(image, access)?;
    take_defaults(image, &mut parsed, &device);
    let ParsedOptions {
        mut options,
        journal_path,
        ..
    } = parsed;
    options.read_only |= access == Access::Read;
    options.privileged |= rustix::process::geteuid().is_root();
    let journal = journal_path
        .map(|text| open_device(&text, access))
        .transpose()?;
    open_on(image, device, journal, options)
}

/// Takes the options that were not given from the superblock of a volume. Warns of those that are
/// not supported. A device without a superblock is left to the caller.
pub(crate) fn take_defaults(
    image: &str,
    parsed: &mut ParsedOptions,
    device: &Arc<dyn BlockDevice>,
) {
    let Some(superblock) = superblock(device) else {
        return;
    };
    for refused in parsed.for_volume(&superblock) {
        output::warn(&format!("{image}: in its superblock: {refused}"));
    }
}

/// Opens a file system like [`open_with_report`], on devices that are already open.
fn open_on(
    image: &str,
    device: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    options: MountOptions,
) -> Result<(Volume, OpenReport)> {
    let in_memory = options.read_only && !options.no_recovery && needs_recovery(&device);
    let options = MountOptions {
        is_private: in_memory,
        ..options
    };
    let (device, journal) = if in_memory {
        let over = |device| -> Arc<dyn BlockDevice> { Arc::new(OverlayDevice::new(device)) };
        (over(device), journal.map(over))
    } else {
        (device, journal)
    };
    if !options.read_only {
        note_other_node(image, &device);
    }
    let opened = Volume::open_with_report(Arc::clone(&device), journal, options);
    let (volume, report) = opened
        .map_err(|error| explain(error, &device))
        .with_context(|| image.to_owned())?;
    if in_memory && has_replayed(&report) {
        let count = replayed(&report);
        let command = match volume.superblock().has_large_blocks() {
            true => "e2fsck -p",
            false => "jext journal replay",
        };
        output::note(&format!(
            "{image}: was not closed cleanly: {count} of its journal replayed in memory, and the image left as it is; \
             {command} does it for good"
        ));
    }
    warn_of_errors(image, &report);
    Ok((volume, report))
}

/// Notes that opening a file system for writing will wait for another node, if it will.
pub(crate) fn note_other_node(image: &str, device: &Arc<dyn BlockDevice>) {
    let Ok(Some(status)) = ext::multi_mount::status(device) else {
        return;
    };
    let (user, seconds) = (&status.user, status.wait_seconds);
    if seconds > 0 && !user.is_checking {
        output::note(&format!(
            "{image}: was not released by node {}, device {}: waiting {seconds} to {} seconds to see if it is in use there",
            user.node,
            user.device,
            2 * seconds
        ));
    }
}

/// Warns of errors noted in the superblock, and of a transaction lost by the journal.
pub(crate) fn warn_of_errors(image: &str, report: &OpenReport) {
    if let Some(lost) = &report.lost {
        output::warn(&format!("{image}: {lost}"));
    }
    if report.has_errors {
        output::warn(&format!(
            "{image}: its superblock notes errors; jext fsck checks it, e2fsck -f repairs it"
        ));
    }
}

/// Opens an image's file system for reading even if a mount uses it.
pub(crate) fn look_at_volume(image: &str, arguments: &MountArguments) -> Result<Volume> {
    let ParsedOptions {
        mut options,
        journal_path,
        ..
    } = arguments.parse()?;
    options.read_only = true;
    let device = open_to_look(image)?;
    let journal = journal_path.map(|text| open_to_look(&text)).transpose()?;
    open_on(image, device, journal, options).map(|(volume, _)| volume)
}

/// A file system's devices after its journal was replayed in memory.
pub(crate) struct Replayed {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) journal: Option<Arc<dyn BlockDevice>>,
    pub(crate) report: OpenReport,
}

/// Replays a file system's journal in memory, or returns `None` if it needs no recovery.
pub(crate) fn replay_in_memory(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> Result<Option<Replayed>> {
    if !needs_recovery(device) {
        return Ok(None);
    }
    let over = |device: &Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
        Arc::new(OverlayDevice::new(Arc::clone(device)))
    };
    let (device, journal) = (over(device), journal.map(over));
    let options = MountOptions {
        read_only: true,
        is_private: true,
        ..MountOptions::default()
    };
    let opened = Volume::open_with_report(Arc::clone(&device), journal.clone(), options);
    let (volume, report) = opened?;
    volume.close()?;
    Ok(Some(Replayed {
        device,
        journal,
        report,
    }))
}

/// True if the superblock has `needs_recovery` set.
pub(crate) fn needs_recovery(device: &Arc<dyn BlockDevice>) -> bool {
    superblock(device).is_some_and(|superblock| {
        let incompatible = superblock.features().incompatible;
        incompatible.contains(Incompatible::NEEDS_RECOVERY)
            && !incompatible.contains(Incompatible::JOURNAL_DEV)
    })
}

/// Returns the superblock of an ext file system, unchecked apart from its magic number.
fn superblock(device: &Arc<dyn BlockDevice>) -> Option<disk::Superblock> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32).ok()?;
    let (superblock, _) = disk::Superblock::read_from_prefix(&bytes).ok()?;
    (superblock.magic.get() == disk::MAGIC).then_some(superblock)
}

/// Returns the transactions and fast commits that an open has replayed: `3 transactions`, `1
/// transaction and 2 fast commits`.
pub(crate) fn replayed(report: &OpenReport) -> String {
    let whole = transactions(report.replayed_transactions);
    match report.replayed_fast_commits {
        0 => whole,
        count => format!("{whole} and {}", fast_commits(count)),
    }
}

/// Returns true if an open has replayed anything.
pub(crate) fn has_replayed(report: &OpenReport) -> bool {
    report.replayed_transactions > 0 || report.replayed_fast_commits > 0
}

/// Returns `1 fast commit`, `3 fast commits`.
pub(crate) fn fast_commits(count: u32) -> String {
    match count {
        1 => "1 fast commit".to_owned(),
        count => format!("{count} fast commits"),
    }
}

/// Returns `1 transaction`, `3 transactions`.
pub(crate) fn transactions(count: u32) -> String {
    match count {
        1 => "1 transaction".to_owned(),
        count => format!("{count} transactions"),
    }
}

/// Returns an error of opening a file system. If the device holds no ext file system, names its
/// contents.
pub(crate) fn explain(error: ext::Error, device: &Arc<dyn BlockDevice>) -> anyhow::Error {
    match error {
        ext::Error::Corrupt(Corrupt::Magic { .. }) => anyhow!("{}", foreign::describe(device)),
        error => error.into(),
    }
}

/// Runs `work` on an image's file system and closes it. A failed close fails the command.
pub(crate) fn with_volume<T>(
    image: &str,
    access: Access,
    arguments: &MountArguments,
    work: impl FnOnce(&Volume) -> Result<T>,
) -> Result<T> {
    with_open(image, open_volume(image, access, arguments)?, work)
}

/// Runs `work` on an image's file system for reading even if a mount uses it, and closes it.
pub(crate) fn with_look<T>(
    image: &str,
    arguments: &MountArguments,
    work: impl FnOnce(&Volume) -> Result<T>,
) -> Result<T> {
    with_open(image, look_at_volume(image, arguments)?, work)
}

fn with_open<T>(image: &str, volume: Volume, work: impl FnOnce(&Volume) -> Result<T>) -> Result<T> {
    let result = work(&volume);
    let closed = volume.close().with_context(|| format!("{image}: closing"));
    let value = result?;
    closed?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_paths_are_split() {
        let path = ImagePath::parse("disk.img:/etc/fstab").expect("it is one");
        assert_eq!(
            (path.image.as_str(), path.path.as_slice()),
            ("disk.img", &b"/etc/fstab"[..])
        );
        assert_eq!(path.text(), "disk.img:/etc/fstab");
        let root = ImagePath::parse_or_root("disk.img").expect("its root");
        assert_eq!(root.path, b"/");
        let odd = ImagePath::parse(OsStr::from_bytes(b"disk.img:/\xFF")).expect("it is one");
        assert_eq!(odd.path, b"/\xFF");
        assert!(ImagePath::parse(OsStr::from_bytes(b"\xFF:/x")).is_err());
        let error = ImagePath::parse("disk.img")
            .expect_err("no path")
            .to_string();
        assert_eq!(
            error,
            "disk.img: not a path within an image; say IMAGE:/path"
        );
    }

    #[test]
    fn devices_of_one_process_are_refused() {
        let error = open_device("mem:1MiB", Access::Read)
            .expect_err("refused")
            .to_string();
        assert!(
            error.starts_with("mem:1MiB: lives for one process only"),
            "{error}"
        );
    }
}
