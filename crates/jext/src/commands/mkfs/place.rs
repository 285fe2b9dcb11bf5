//! The device that something is made on: opened, or made as a file, and not one that holds something already.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::text::Size;
use block::{BlockDevice, DeviceText};
use layout::feature::Incompatible;

use super::super::info::raw_superblock;
use super::KIB;
use crate::foreign;
use crate::image::{Access, open_device, open_parsed, parse_device};
use crate::interrupt::{self, OnSignal};
use crate::output;

/// The device that a command makes something on.
pub(in crate::commands) struct Place {
    pub(in crate::commands) device: Arc<dyn BlockDevice>,
    /// Bytes of it that were asked for, if not all of them.
    pub(in crate::commands) less: Option<u64>,
    /// The file, if it was made for the command.
    made: Option<Made>,
}

/// A file that was made for a command. A signal removes it.
struct Made {
    path: PathBuf,
    _on_signal: OnSignal,
}

impl Made {
    fn create(path: &str, bytes: u64) -> Result<Self> {
        jext::create_image(path, bytes)?;
        let path = PathBuf::from(path);
        let (name, at_signal) = (path.display().to_string(), path.clone());
        Ok(Self {
            path,
            _on_signal: interrupt::on_signal(name, move || {
                let _ = std::fs::remove_file(at_signal);
            }),
        })
    }
}

impl Place {
    /// Whether it holds nothing but zeroes: a file that was made for the command.
    pub(in crate::commands) fn is_blank(&self) -> bool {
        self.made.is_some()
    }

    /// Takes a file away that was made for what has failed since.
    pub(in crate::commands) fn undo(&self) {
        if let Some(made) = &self.made {
            // The error of what has failed is told.
            let _ = std::fs::remove_file(&made.path);
        }
    }
}

/// Opens the device for a command; a file that is not there is made with the size that was asked for.
pub(in crate::commands) fn open_or_make(
    command: &str,
    text: &str,
    size_text: Option<&str>,
    block_bytes: Option<u32>,
) -> Result<Place> {
    interrupt::watch()?;
    let bytes = match size_text {
        None => None,
        Some(size_text) => Some(size(size_text, block_bytes)?),
    };
    if bytes == Some(0) {
        bail!("{text}: a size of 0 bytes holds nothing");
    }
    let parsed = parse_device(text)?;
    let mut made = None;
    if let DeviceText::File { path, .. } = &parsed
        && !Path::new(path).exists()
    {
        let Some(bytes) = bytes else {
            bail!(
                "{path}: is not there; give a size, as in `jext {command} {path} 64M`, to make it"
            );
        };
        made = Some(Made::create(path, bytes)?);
    }
    if parsed.is_ephemeral() {
        // Says why.
        let device = open_device(text, Access::Write)?;
        return Ok(Place {
            device,
            less: bytes,
            made,
        });
    }
    let device = open_parsed(&parsed, Access::Write)?;
    let has = device.geometry().size_bytes;
    if let Some(bytes) = bytes
        && bytes > has
    {
        bail!("{text}: has {has} bytes, less than {bytes}");
    }
    Ok(Place {
        device,
        less: bytes.filter(|bytes| *bytes != has),
        made,
    })
}

/// A size as mke2fs takes it.
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

/// Refuses a device that holds a file system, or anything else that is known, because it may be the wrong one.
pub(in crate::commands) fn refuse_used(text: &str, device: &Arc<dyn BlockDevice>) -> Result<()> {
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
        .s_volume_name
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let label = match output::name_text(label) {
        empty if empty.is_empty() => "without a label".to_owned(),
        label => format!("labelled {label:?}"),
    };
    bail!(
        "{text}: holds {what} {label}, made {}; -F replaces it",
        output::time_text(i64::from(found.s_mkfs_time.get()))
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
