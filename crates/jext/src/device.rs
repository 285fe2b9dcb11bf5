//! Devices from their texts: paths, `mem:1GiB`, `sim:atlas-v-18`, `slice(...)`, `raid5(...)`; see [`block::text`].

use std::sync::Arc;

use block::text::{self, Simulated};
use block::{BlockDevice, DeviceError, DeviceText, OpenOptions};

/// Opens a device for reading and writing. Simulated devices need a simulated world around the caller.
///
/// # Errors
/// [`DeviceError::Open`] if the text is wrong or the device cannot be opened, [`DeviceError::InUse`] if somebody else
/// uses it.
pub fn open(text: &str) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let parsed: DeviceText = text
        .parse()
        .map_err(|error: text::TextError| DeviceError::Open {
            device: text.to_owned(),
            kind: std::io::ErrorKind::InvalidInput,
            cause: error.to_string(),
        })?;
    open_text(&parsed, &OpenOptions::default())
}

/// Opens a device that was parsed already. `options` are for files and block devices.
///
/// # Errors
/// As [`open`].
pub fn open_text(
    text: &DeviceText,
    options: &OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let factory = |wanted: Simulated<'_>| {
        if rt::is_simulated() {
            sim::disk::factory(wanted)
        } else {
            text::no_simulation(wanted)
        }
    };
    text::open(text, options, &factory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_opened_and_errors_name_the_device() {
        assert_eq!(
            open("mem:1MiB").expect("memory").geometry().size_bytes,
            1 << 20
        );
        let error = |text| open(text).expect_err(text).to_string();
        assert!(
            error("mem:").starts_with("mem:: column 5"),
            "{}",
            error("mem:")
        );
        assert!(
            error("sim:atlas-v-18").contains("simulated"),
            "{}",
            error("sim:atlas-v-18")
        );
        assert!(error("/nowhere/at/all").starts_with("/nowhere/at/all: "));
    }
}
