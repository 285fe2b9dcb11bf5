//! Images on the command line: `IMAGE:/path`, the options that all commands share, and opening them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::text::split_image_path_bytes;
use block::{BlockDevice, DeviceText, OpenOptions};
use clap::Args;
use ext::volume::OpenReport;
use ext::{Corrupt, Volume};
use jext::mount_options::ParsedOptions;

use crate::foreign;
use crate::output;

/// How an image is opened, in every command that opens one.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MountArguments {
    /// Mount options as of ext3: data=writeback,commit=30,noload; see the manual.
    #[arg(short, long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// The external journal's device (the same as -o journal_path=DEV).
    #[arg(long, value_name = "DEV")]
    pub(crate) journal: Option<String>,
    /// The memory budget for pages and metadata (the same as -o memory=SIZE).
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
}

/// What a command is going to do with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// An image, and a path within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImagePath {
    /// The device's text.
    pub(crate) image: String,
    /// The path, which begins with a slash. Names need not be UTF-8.
    pub(crate) path: Vec<u8>,
}

impl MountArguments {
    /// What the options say.
    pub(crate) fn parse(&self) -> Result<ParsedOptions> {
        let mut parsed = ParsedOptions::default();
        for list in &self.options {
            parsed.add(list)?;
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

impl ImagePath {
    /// Reads `IMAGE:/path`.
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

    /// The same; none of what is no path within an image.
    pub(crate) fn split(text: &OsStr) -> Result<Option<Self>> {
        let Some((image, path)) = split_image_path_bytes(text.as_bytes()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            image: device_text(OsStr::from_bytes(image))?.to_owned(),
            path: path.to_owned(),
        }))
    }

    /// Reads `IMAGE:/path`, or `IMAGE` for its root.
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

    /// How it is written.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.image, output::name_text(&self.path))
    }
}

/// A device's text, which is UTF-8 whatever the names within the image are.
fn device_text(text: &OsStr) -> Result<&str> {
    let found = text.to_str();
    found.with_context(|| format!("{}: the image's own name is not UTF-8", text.display()))
}

/// Reads a device text.
pub(crate) fn parse_device(text: &str) -> Result<DeviceText> {
    text.parse().map_err(|error| anyhow!("{text}: {error}"))
}

/// Opens a device that outlives the process; others are refused.
pub(crate) fn open_device(text: &str, access: Access) -> Result<Arc<dyn BlockDevice>> {
    let parsed = parse_device(text)?;
    if parsed.is_ephemeral() {
        bail!(
            "{text}: lives for one process only, so that no other command would find what this one does; name a file or \
             a block device (bench and lab take memory and simulated devices)"
        );
    }
    open_parsed(&parsed, access)
}

/// Opens any device. What was rounded in its text is said.
pub(crate) fn open_parsed(text: &DeviceText, access: Access) -> Result<Arc<dyn BlockDevice>> {
    text.notes().iter().for_each(|note| output::warn(note));
    let options = OpenOptions {
        is_read_only: access == Access::Read,
        ..OpenOptions::default()
    };
    Ok(jext::device::open_text(text, &options)?)
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

/// Opens an image's file system, and says what happened on the way.
pub(crate) fn open_with_report(
    image: &str,
    access: Access,
    arguments: &MountArguments,
) -> Result<(Volume, OpenReport)> {
    open_with_options(image, access, arguments.parse()?)
}

/// The same with options that were read already.
pub(crate) fn open_with_options(
    image: &str,
    access: Access,
    options: ParsedOptions,
) -> Result<(Volume, OpenReport)> {
    let ParsedOptions {
        mut options,
        journal_path,
    } = options;
    if access == Access::Write && options.read_only {
        bail!("{image}: this command writes; leave out -o ro");
    }
    options.read_only |= access == Access::Read;
    options.privileged |= rustix::process::geteuid().is_root();
    let device = open_device(image, access)?;
    let journal = journal_path
        .map(|text| open_device(&text, access))
        .transpose()?;
    let opened = Volume::open_with_report(Arc::clone(&device), journal, options);
    opened
        .map_err(|error| explain(error, &device))
        .with_context(|| image.to_owned())
}

/// An error of opening a file system; of a device that holds none it says what it holds.
pub(crate) fn explain(error: ext::Error, device: &Arc<dyn BlockDevice>) -> anyhow::Error {
    match error {
        ext::Error::Corrupt(Corrupt::Magic { .. }) => anyhow!("{}", foreign::describe(device)),
        error => error.into(),
    }
}

/// Does something with an image's file system and closes it. An error of the closing is one of the command.
pub(crate) fn with_volume<T>(
    image: &str,
    access: Access,
    arguments: &MountArguments,
    work: impl FnOnce(&Volume) -> Result<T>,
) -> Result<T> {
    let volume = open_volume(image, access, arguments)?;
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
            .err()
            .expect("refused")
            .to_string();
        assert!(
            error.starts_with("mem:1MiB: lives for one process only"),
            "{error}"
        );
    }
}
