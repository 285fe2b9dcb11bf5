//! The host's memory, and what is left of it for caching.
//!
//! The published comparisons of journals in memory took that memory from the cache, so that two things changed at once.
//! Here the memory that a journal's device stands for is a *ballast*, the same for every level; the level "journal" of
//! `memory.ballast` repeats the mistake on purpose.

use block::DeviceText;
use block::text::Size;

use super::{JournalPlace, Reader, SetupError, wrong};
use crate::plan::key::JOURNAL;
use crate::plan::value::Value;

/// The least memory that an engine is given, in bytes.
const LEFT_BYTES_MIN: u64 = 4 << 20;

/// The host's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySetup {
    /// All of it, in bytes.
    pub host: u64,
    /// What the kernel and programs take, in bytes.
    pub kernel: u64,
    /// What else is taken.
    pub ballast: Ballast,
}

/// Memory that is taken from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ballast {
    /// So many bytes.
    Bytes(u64),
    /// As many as the journal's device has.
    Journal,
}

impl MemorySetup {
    /// Bytes that are taken by the ballast.
    #[must_use]
    pub fn ballast_bytes(&self, journal: &JournalPlace) -> u64 {
        match (self.ballast, journal) {
            (Ballast::Bytes(bytes), _) => bytes,
            (Ballast::Journal, JournalPlace::External(device)) => size_of(device).unwrap_or(0),
            (Ballast::Journal, _) => 0,
        }
    }

    /// Bytes that are left for caching.
    #[must_use]
    pub fn left(&self, journal: &JournalPlace) -> u64 {
        self.host
            .saturating_sub(self.kernel)
            .saturating_sub(self.ballast_bytes(journal))
    }
}

impl Reader<'_> {
    pub(super) fn memory(&self, journal: &JournalPlace) -> Result<MemorySetup, SetupError> {
        let ballast = match self.value("memory.ballast") {
            Value::Text(word) if word == JOURNAL => Ballast::Journal,
            _ => Ballast::Bytes(self.bytes("memory.ballast").unwrap_or(0)),
        };
        let bytes = |key| self.bytes(key).unwrap_or(0);
        let memory = MemorySetup {
            host: bytes("memory.host"),
            kernel: bytes("memory.kernel"),
            ballast,
        };
        if let (Ballast::Journal, JournalPlace::External(device)) = (ballast, journal)
            && size_of(device).is_none()
        {
            let message = format!(
                "memory.ballast: the size of {device} is not known before it is opened; say a size"
            );
            return Err(wrong(&["memory.ballast"], &message));
        }
        let left = memory.left(journal);
        if left < LEFT_BYTES_MIN {
            let message = format!(
                "memory: of {} {} are left for caching, less than {}",
                Size::from(memory.host),
                Size::from(left),
                Size::from(LEFT_BYTES_MIN)
            );
            return Err(wrong(
                &["memory.host", "memory.kernel", "memory.ballast"],
                &message,
            ));
        }
        Ok(memory)
    }
}

/// The size of a device, where its text says it.
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
        DeviceText::Cached { device, .. } | DeviceText::Fault { device, .. } => size_of(device),
        _ => None,
    }
}
