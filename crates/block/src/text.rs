//! Device texts: the names of devices in every command that takes one.
//!
//! ```text
//! device  := base postfix*
//! base    := path | "quoted path" | kind(arguments) | kind:argument
//! postfix := +cache(SIZE)
//! ```
//!
//! | kind | device |
//! |---|---|
//! | `mem:1GiB` | memory |
//! | `sim:atlas-v-18`, `sim(atlas-v-18,wcache=off)` | a simulated model |
//! | `nvram:128MiB` | simulated NVRAM |
//! | `file("disk image",direct=on)` | a file or block device, with options |
//! | `slice(DEV,2.65GiB..3.95GiB)` | part of a device; without an end, up to the device's end |
//! | `disk(DEV)` | a device that all texts with the same `disk(DEV)` share, opened once |
//! | `raid0(DEV,DEV,chunk=64KiB)`, `raid1`, `raid5(DEV x4)`, `raid6`, `raid10` | an array |
//! | `raid50(DEV x6,groups=2)` | an array over arrays with parity |
//! | `bbu(DEV,cache=64MiB)` | a simulated controller with a battery-backed write-back cache |
//! | `fault(DEV,seed=7,eio=1e-6)` | a device that fails on purpose |
//!
//! A text that starts with `.` or `/` is a path. Commas and parentheses within quotes, and commas
//! within parentheses, separate nothing. Sizes have the units KiB, MiB, GiB, TiB (or K, M, G, T)
//! for powers of 1024 and kB, MB, GB, TB for powers of 1000, may be decimal, and are rounded down
//! to 4096 bytes; [`DeviceText::notes`] reports changes by rounding.

mod image_path;
mod open;
mod parser;
mod settings;
mod shared;
mod size;

use core::fmt;
use core::str::FromStr;

use crate::raid::RaidLevel;
pub use image_path::{split_image_path, split_image_path_bytes};
pub use open::{Factory, ONLY_SIMULATED, Simulated, no_simulation, open};
pub use settings::{FileSettings, Setting};
pub use shared::{DiskPart, SharedDisks};
pub use size::Size;

/// A parsed device text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceText {
    /// A file or block device.
    File {
        /// Path.
        path: String,
        /// Options of opening it.
        settings: FileSettings,
    },
    /// Memory.
    Memory {
        /// Size.
        size: Size,
    },
    /// A simulated model.
    Simulated {
        /// Name in the catalogue.
        model: String,
        /// Options.
        settings: Vec<Setting>,
    },
    /// Simulated NVRAM.
    Nvram {
        /// Size.
        size: Size,
        /// Options.
        settings: Vec<Setting>,
    },
    /// Part of a device.
    Slice {
        /// Whole device.
        device: Box<Self>,
        /// First byte.
        from: Size,
        /// Byte after the last; the device's end if absent.
        to: Option<Size>,
    },
    /// A device that all texts with the same device below share, see [`SharedDisks`].
    Shared {
        /// Device below.
        device: Box<Self>,
    },
    /// An array.
    Raid {
        /// Level.
        level: RaidLevel,
        /// Members in order.
        members: Vec<MemberText>,
        /// Chunk size, if it is not the default.
        chunk: Option<Size>,
        /// Number of groups of RAID 50, if it is not the default.
        groups: Option<u32>,
    },
    /// A device behind a simulated controller with a battery-backed cache.
    Controller {
        /// Device below.
        device: Box<Self>,
        /// Options of the controller.
        settings: Vec<Setting>,
    },
    /// A device that fails on purpose.
    Fault {
        /// Device below.
        device: Box<Self>,
        /// Rules of the failures.
        settings: Vec<Setting>,
    },
    /// A device behind a volatile cache.
    Cached {
        /// Device below.
        device: Box<Self>,
        /// Size of the cache.
        size: Size,
    },
}

/// Members of an array: a number of devices with the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberText {
    /// Device.
    pub device: DeviceText,
    /// Number of devices.
    pub count: u32,
}

/// The error of a device text, and its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}, found {found}")]
pub struct TextError {
    /// Column, from 1, in characters.
    pub column: usize,
    /// Expected text.
    pub expected: String,
    /// Text found.
    pub found: String,
}

impl DeviceText {
    /// Returns the text of a file or block device, opened with the caller's options.
    pub fn path(path: impl Into<String>) -> Self {
        Self::File {
            path: path.into(),
            settings: FileSettings::default(),
        }
    }

    /// True if the device, or a part of it, exists for one process only, so that a later command
    /// would not find the data of an earlier one.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            Self::Memory { .. }
            | Self::Simulated { .. }
            | Self::Nvram { .. }
            | Self::Controller { .. } => true,
            _ => self.below().into_iter().any(Self::is_ephemeral),
        }
    }

    /// True if the device, or a part of it, takes virtual time and so exists only in a simulated
    /// world.
    pub fn is_simulated(&self) -> bool {
        match self {
            Self::Simulated { .. } | Self::Nvram { .. } | Self::Controller { .. } => true,
            _ => self.below().into_iter().any(Self::is_simulated),
        }
    }

    /// Returns the names of the simulated models in it.
    pub fn models(&self) -> Vec<&str> {
        match self {
            Self::Simulated { model, .. } => vec![model],
            _ => self.below().into_iter().flat_map(Self::models).collect(),
        }
    }

    /// Returns the devices directly below: one for each member of an array that is written out.
    fn below(&self) -> Vec<&Self> {
        match self {
            Self::File { .. }
            | Self::Memory { .. }
            | Self::Simulated { .. }
            | Self::Nvram { .. } => vec![],
            Self::Slice { device, .. }
            | Self::Shared { device }
            | Self::Controller { device, .. }
            | Self::Fault { device, .. }
            | Self::Cached { device, .. } => vec![device],
            Self::Raid { members, .. } => members.iter().map(|member| &member.device).collect(),
        }
    }

    /// Returns a sentence for each size that was rounded.
    pub fn notes(&self) -> Vec<String> {
        let sizes: Vec<&Size> = match self {
            Self::Memory { size } | Self::Nvram { size, .. } | Self::Cached { size, .. } => {
                vec![size]
            }
            Self::Slice { from, to, .. } => [from].into_iter().chain(to).collect(),
            Self::Raid { chunk, .. } => chunk.iter().collect(),
            _ => vec![],
        };
        let below = self.below().into_iter().flat_map(Self::notes);
        below
            .chain(sizes.into_iter().filter_map(Size::note))
            .collect()
    }
}

impl FromStr for DeviceText {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        parser::parse(text)
    }
}

impl fmt::Display for DeviceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, settings } if settings.is_default() => write_path(f, path),
            Self::File { path, settings } => {
                f.write_str("file(")?;
                write_path(f, path)?;
                write!(f, "{settings})")
            }
            Self::Memory { size } => write!(f, "mem:{size}"),
            Self::Simulated { model, settings } => write_kind(f, "sim", model, settings),
            Self::Nvram { size, settings } => write_kind(f, "nvram", &size.to_string(), settings),
            Self::Slice {
                device,
                from,
                to: Some(to),
            } => write!(f, "slice({device},{from}..{to})"),
            Self::Slice {
                device,
                from,
                to: None,
            } => write!(f, "slice({device},{from}..)"),
            Self::Shared { device } => write!(f, "disk({device})"),
            Self::Raid {
                level,
                members,
                chunk,
                groups,
            } => {
                write!(f, "{level}(")?;
                for (number, member) in members.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    write!(f, "{comma}{}", member.device)?;
                    if member.count != 1 {
                        write!(f, " x{}", member.count)?;
                    }
                }
                if let Some(chunk) = chunk {
                    write!(f, ",chunk={chunk}")?;
                }
                if let Some(groups) = groups {
                    write!(f, ",groups={groups}")?;
                }
                f.write_str(")")
            }
            Self::Controller { device, settings } => write_around(f, "bbu", device, settings),
            Self::Fault { device, settings } => write_around(f, "fault", device, settings),
            Self::Cached { device, size } => write!(f, "{device}+cache({size})"),
        }
    }
}

/// Formats `kind:argument`, or `kind(argument,settings)` if there are settings.
fn write_kind(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    argument: &str,
    settings: &[Setting],
) -> fmt::Result {
    if settings.is_empty() {
        return write!(f, "{kind}:{argument}");
    }
    write!(f, "{kind}({argument}")?;
    settings
        .iter()
        .try_for_each(|setting| write!(f, ",{setting}"))?;
    f.write_str(")")
}

/// Formats `kind(device,settings)`.
fn write_around(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    device: &DeviceText,
    settings: &[Setting],
) -> fmt::Result {
    write!(f, "{kind}({device}")?;
    settings
        .iter()
        .try_for_each(|setting| write!(f, ",{setting}"))?;
    f.write_str(")")
}

/// Formats a path, in quotes if necessary to parse it back.
fn write_path(f: &mut fmt::Formatter<'_>, path: &str) -> fmt::Result {
    let is_plain = path.starts_with(['.', '/'])
        && path
            .chars()
            .all(|letter| letter.is_alphanumeric() || "./-_@%=".contains(letter));
    if is_plain {
        return f.write_str(path);
    }
    write!(f, "\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
