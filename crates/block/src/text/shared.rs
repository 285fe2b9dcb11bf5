//! Shared disks: `disk(X)` is one device for all texts that are opened together.
//!
//! | opened together | devices |
//! |---|---|
//! | `slice(X,0..4GiB)`, `slice(X,4GiB..5GiB)` | two, each as large as `X` |
//! | `slice(disk(X),0..4GiB)`, `slice(disk(X),4GiB..5GiB)` | one with two partitions |
//! | `slice(disk(X),0..4GiB)`, `slice(X,4GiB..5GiB)` | two: the second text does not share |
//! | `slice(disk(X),0..4GiB)`, `slice(disk(X),3GiB..5GiB)` | refused: the partitions overlap |
//! | `disk(X)`, `disk(X)` | refused, for the same reason |

use core::fmt;
use core::ops::Range;
use std::io::ErrorKind;
use std::sync::Arc;

use super::{DeviceText, Size};
use crate::device::BlockDevice;
use crate::error::DeviceError;

/// All bytes of a device of unknown size.
const ALL: Range<u64> = 0..u64::MAX;

/// A part of a shared disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPart {
    /// The device `X` of `disk(X)`.
    pub disk: DeviceText,
    /// Bytes of it; the end is `u64::MAX` if the text does not state it.
    pub bytes: Range<u64>,
}

impl DiskPart {
    /// True if both parts have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (&self.bytes, &other.bytes);
        self.disk == other.disk && one.start < two.end && two.start < one.end
    }
}

impl fmt::Display for DiskPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, bytes } = self;
        if *bytes == ALL {
            return write!(f, "disk({disk})");
        }
        write!(f, "slice(disk({disk}),{}..", Size::from(bytes.start))?;
        if bytes.end < u64::MAX {
            write!(f, "{}", Size::from(bytes.end))?;
        }
        f.write_str(")")
    }
}

impl DeviceText {
    /// Returns the device `X` of each `disk(X)` in the text, innermost first and each once.
    pub fn shared_disks(&self) -> Vec<&Self> {
        let mut found: Vec<&Self> = Vec::new();
        for device in self.below() {
            let own = matches!(self, Self::Shared { .. }).then_some(device);
            for disk in device.shared_disks().into_iter().chain(own) {
                if !found.contains(&disk) {
                    found.push(disk);
                }
            }
        }
        found
    }

    /// Returns the parts of shared disks that a device of this text uses. Does not look into shared
    /// disks, because those are opened once.
    pub fn disk_parts(&self) -> Vec<DiskPart> {
        let mut parts = Vec::new();
        self.add_parts(ALL, &mut parts);
        parts
    }

    /// Adds the parts below the bytes `window` of the device. All devices but arrays keep
    /// addresses; an array uses the whole of its members.
    fn add_parts(&self, window: Range<u64>, parts: &mut Vec<DiskPart>) {
        match self {
            Self::Shared { device } => parts.push(DiskPart {
                disk: (**device).clone(),
                bytes: window,
            }),
            Self::Slice { device, from, to } => {
                let start = from.bytes().saturating_add(window.start);
                let end = from.bytes().saturating_add(window.end);
                let end = to.as_ref().map_or(end, |to| to.bytes().min(end));
                device.add_parts(start..end, parts);
            }
            Self::Raid { members, .. } => {
                for member in members {
                    (0..member.count).for_each(|_| member.device.add_parts(ALL, parts));
                }
            }
            Self::Controller { device, .. }
            | Self::Fault { device, .. }
            | Self::Cached { device, .. } => device.add_parts(window, parts),
            Self::File { .. }
            | Self::Memory { .. }
            | Self::Simulated { .. }
            | Self::Nvram { .. } => {}
        }
    }
}

/// The shared disks of devices that are opened together, and the parts that are in use.
#[derive(Default)]
pub struct SharedDisks {
    disks: Vec<(DeviceText, Arc<dyn BlockDevice>)>,
    parts: Vec<DiskPart>,
}

impl SharedDisks {
    /// Returns the device of `disk(text)`, if it is open.
    pub(super) fn find(&self, text: &DeviceText) -> Option<Arc<dyn BlockDevice>> {
        let disk = self.disks.iter().find(|(disk, _)| disk == text)?;
        Some(Arc::clone(&disk.1))
    }

    /// Adds the device of `disk(text)`.
    pub(super) fn add(&mut self, text: &DeviceText, device: &Arc<dyn BlockDevice>) {
        assert!(self.find(text).is_none(), "a shared disk is opened once");
        self.disks.push((text.clone(), Arc::clone(device)));
    }

    /// Marks the parts that a device of this text uses.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if one of them is in use already.
    pub(super) fn take_parts(&mut self, text: &DeviceText) -> Result<(), DeviceError> {
        for part in text.disk_parts() {
            if let Some(other) = self.parts.iter().find(|other| other.overlaps(&part)) {
                return Err(DeviceError::Open {
                    device: part.to_string(),
                    kind: ErrorKind::InvalidInput,
                    cause: format!("overlaps {other}, which is in use already"),
                });
            }
            self.parts.push(part);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
