//! Converts keys to the host's memory.

use block::text::Size;

use super::{Reader, SetupError, wrong};
use crate::file_system::{Ballast, JournalPlace, MemorySetup, size_of};
use crate::plan::key::JOURNAL;
use crate::plan::value::Value;

/// Minimum memory of an engine, in bytes.
const LEFT_BYTES_MIN: u64 = 4 << 20;

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
                "memory.ballast: the size of {device} is unknown until it is opened; set a size"
            );
            return Err(wrong(&["memory.ballast"], &message));
        }
        let left = memory.left(journal);
        if left < LEFT_BYTES_MIN {
            let message = format!(
                "memory: {} of {} remain for caching, less than {}",
                Size::from(left),
                Size::from(memory.host),
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
