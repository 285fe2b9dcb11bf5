//! What `e2fsck -fn` says of a closed volume: a second opinion on a share of all images.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::disks::Disks;
use crate::rule::{Broken, Rule};

/// Memory that looks like a folder, where there is one: images are written by the thousand.
const FAST_FOLDER: &str = "/dev/shm";

/// Asks e2fsck.
///
/// # Errors
/// U2, with what it printed, or why it could not be asked.
pub fn check(disks: &Disks) -> Result<(), Broken> {
    match ask(disks) {
        Ok(None) => Ok(()),
        Ok(Some(text)) => Err(Broken::new(Rule::U2, format!("e2fsck -fn: {text}"))),
        Err(error) => {
            let what = format!("e2fsck could not be run ({error}): run scripts/install-test-tools");
            Err(Broken::new(Rule::U2, what))
        }
    }
}

/// What it found, if it found anything.
fn ask(disks: &Disks) -> io::Result<Option<String>> {
    let folder = if Path::new(FAST_FOLDER).is_dir() {
        tempfile::tempdir_in(FAST_FOLDER)?
    } else {
        tempfile::tempdir()?
    };
    let image = folder.path().join("image");
    std::fs::write(&image, disks.home.to_bytes())?;
    let mut command = Command::new("e2fsck");
    command.arg("-fn").env("LC_ALL", "C");
    if let Some(log) = &disks.log {
        let journal = folder.path().join("journal");
        std::fs::write(&journal, log.to_bytes())?;
        command.arg("-j").arg(journal);
    }
    let output = command.arg(image).output()?;
    if output.status.code() == Some(0) {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let lines: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .map(str::to_owned)
        .collect();
    Ok(Some(lines.join(" | ")))
}
