//! The device for a new file system or journal: opened, or created as a file; refused if it already
//! holds something.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::file::OpenOptions;
use block::text::Size;
use block::{BlockDevice, DeviceText, FileDevice};
use layout::feature::Incompatible;

use super::info::raw_superblock;
use crate::foreign;
use crate::image::{Access, open_device, open_parsed, parse_device};
use crate::interrupt;
use crate::new_file::NewFile;
use crate::output;

/// Unit of sizes without a suffix, in bytes.
pub(super) const KIB: u64 = 1024;

/// The device for a new file system or journal.
pub(super) struct NewDevice {
    pub(super) device: Arc<dyn BlockDevice>,
    /// Requested size in bytes, if it is less than the whole device.
    pub(super) less: Option<u64>,
    /// The file, if it was created. It has no name before it is complete.
    new: Option<NewFile>,
}

impl NewDevice {
    /// Gives a created file its name.
    pub(super) fn finish(self) -> Result<()> {
        match self.new {
            Some(new) => new.finish(false),
            None => Ok(()),
        }
    }
}

/// Opens the device for a command; a missing file is created with the requested size.
pub(super) fn open_or_make(
    command: &str,
    text: &str,
    size_text: Option<&str>,
    block_bytes: Option<u32>,
) -> Result<NewDevice> {
    interrupt::watch()?;
    let bytes = match size_text {
        None => None,
        Some(size_text) => Some(size(size_text, block_bytes)?),
    };
    if bytes == Some(0) {
        bail!("{text}: a size of 0 bytes holds nothing");
    }
    let parsed = parse_device(text)?;
    if let DeviceText::File { path, .. } = &parsed
        && !Path::new(path).exists()
    {
        let Some(bytes) = bytes else {
            bail!(
                "{path}: is not there; give a size, as in `jext {command} {path} 64M`, to make it"
            );
        };
        return make(path, bytes);
    }
    if parsed.is_ephemeral() {
        // Fails with the reason.
        let device = open_device(text, Access::Write)?;
        return Ok(NewDevice {
            device,
            less: bytes,
            new: None,
        });
    }
    let device = open_parsed(&parsed, Access::Write)?;
    let has = device.geometry().size_bytes;
    if let Some(bytes) = bytes
        && bytes > has
    {
        bail!("{text}: has {has} bytes, less than {bytes}");
    }
    Ok(NewDevice {
        device,
        less: bytes.filter(|bytes| *bytes != has),
        new: None,
    })
}

/// Creates a sparse file.
fn make(path: &str, bytes: u64) -> Result<NewDevice> {
    let new = NewFile::create(Path::new(path))?;
    new.file().set_len(bytes).with_context(|| path.to_owned())?;
    let file = new.file().try_clone()?;
    let device = FileDevice::of_file(file.into(), path, &OpenOptions::default())?;
    let has = device.geometry().size_bytes;
    Ok(NewDevice {
        device: Arc::new(device),
        less: Some(bytes).filter(|bytes| *bytes != has),
        new: Some(new),
    })
}

/// Parses a size as mke2fs does.
fn size(text: &str, block_bytes: Option<u32>) -> Result<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain {
        let unit = block_bytes.map_or(KIB, u64::from);
        let number: u64 = text
            .parse()
            .with_context(|| format!("{text}: not a size"))?;
        return number
            .checked_mul(unit)
            .with_context(|| format!("{text}: too large"));
    }
    match Size::parse(text) {
        Ok(size) => Ok(size.bytes()),
        Err(expected) => bail!("{text}: not a size; expected {expected}"),
    }
}

/// Refuses a device that holds a file system or other known contents, because it may be the wrong
/// one.
pub(super) fn refuse_used(text: &str, device: &Arc<dyn BlockDevice>) -> Result<()> {
    let Ok(found) = raw_superblock(device) else {
        let Some(found) = foreign::recognise(device) else {
            return Ok(());
        };
        let what = found.split_once(':').map_or(&*found, |(what, _)| what);
        bail!("{text}: {what}; -F replaces it");
    };
    let incompatible = found.features().incompatible;
    let what = if incompatible.contains(Incompatible::JOURNAL_DEV) {
        "a journal"
    } else {
        "an ext file system"
    };
    let label = found
        .label
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let label = match output::name_text(label) {
        empty if empty.is_empty() => "without a label".to_owned(),
        label => format!("labelled {label:?}"),
    };
    bail!(
        "{text}: holds {what} {label}, made {}; -F replaces it",
        output::time_text(i64::from(found.creation_time.get()))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_mke2fs() {
        let of = |text, block| size(text, block).map_err(|error| error.to_string());
        assert_eq!(of("65536", None), Ok(64 << 20));
        assert_eq!(of("16384", Some(4096)), Ok(64 << 20));
        assert_eq!(of("64M", Some(4096)), Ok(64 << 20));
        assert!(
            of("64X", None)
                .expect_err("no unit")
                .starts_with("64X: not a size; expected a unit")
        );
    }
}
