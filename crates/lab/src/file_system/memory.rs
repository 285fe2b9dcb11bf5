//! The host's memory, and the part of it that remains for caching.
//!
//! The published comparisons of journals in memory took that memory from the cache, so two things
//! changed at once. Here the memory that a journal device stands for is a *ballast*, the same for
//! every level. The level "journal" of `memory.ballast` repeats the published setup on purpose.

use block::DeviceText;
use block::text::Size;

use super::JournalPlace;

/// The host's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySetup {
    /// Its size in bytes.
    pub host: u64,
    /// Bytes used by the kernel and programs.
    pub kernel: u64,
    /// Further memory taken from the cache.
    pub ballast: Ballast,
}

/// Memory that is taken from the host's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ballast {
    /// A number of bytes.
    Bytes(u64),
    /// The size of the journal's device.
    Journal,
}

impl MemorySetup {
    /// Returns the size of the ballast in bytes.
    #[must_use]
    pub fn ballast_bytes(&self, journal: &JournalPlace) -> u64 {
        match (self.ballast, journal) {
            (Ballast::Bytes(bytes), _) => bytes,
            (Ballast::Journal, JournalPlace::External(device)) => size_of(device).unwrap_or(0),
            (Ballast::Journal, _) => 0,
        }
    }

    /// Returns the number of bytes that remain for caching.
    #[must_use]
    pub fn left(&self, journal: &JournalPlace) -> u64 {
        self.host
            .saturating_sub(self.kernel)
            .saturating_sub(self.ballast_bytes(journal))
    }
}

/// Returns the size of a device, if its text states it.
pub(crate) fn size_of(device: &DeviceText) -> Option<u64> {
    match device {
        DeviceText::Memory { size } | DeviceText::Nvram { size, .. } => Some(size.bytes()),
        DeviceText::Simulated { settings, .. } => {
            let size = settings.iter().find(|setting| setting.key == "capacity")?;
            Size::parse(&size.value).ok().map(|size| size.bytes())
        }
        DeviceText::Slice {
            from, to: Some(to), ..
        } => Some(to.bytes().saturating_sub(from.bytes())),
        DeviceText::Shared { device }
        | DeviceText::Cached { device, .. }
        | DeviceText::Fault { device, .. } => size_of(device),
        _ => None,
    }
}
