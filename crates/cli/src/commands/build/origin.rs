//! The source tree of an image, and error texts for files that are not archives.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use block::{BlockDevice, FileDevice, OpenOptions};
use transfer::{Origin, Platform, Stop};

use crate::foreign;

/// Opens a directory, an archive or a container image.
pub(crate) fn open(path: &Path, platform: Option<&Platform>) -> Result<Origin> {
    let recognise = |file: &File| recognise(file, path);
    Origin::open(path, platform, &recognise, &Stop::default())
}

/// Returns the contents of a file that is not an archive, with advice.
fn recognise(file: &File, path: &Path) -> Option<String> {
    let options = OpenOptions {
        locks: false,
        ..OpenOptions::read_only()
    };
    let name = path.display().to_string();
    let device = FileDevice::of_file(file.try_clone().ok()?.into(), &name, &options).ok()?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    if foreign::has_ext(&device, 0) {
        let next = "jext export makes an archive of it, and cp a copy";
        return Some(format!("is an image of an ext file system: {next}"));
    }
    if let Some(found) = foreign::recognise(&device) {
        return Some(found);
    }
    let next = "no archive; jext mkfs makes an empty file system";
    foreign::is_empty(&device).then(|| format!("holds only zeroes, and is {next}"))
}
