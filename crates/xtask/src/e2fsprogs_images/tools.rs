//! The tools of jext, run on an image: none panics or goes on for ever, and none damages a file
//! system that was whole.

use std::fs;

use anyhow::Result;
use testkit::e2fsck;

use super::Image;
use super::judges::{Judges, ended};

/// Time for a command in seconds.
const SECONDS_MAX: u32 = 30;
/// Minimum exit status of a command that panics, is killed or takes too long.
const STATUS_BROKEN: i32 = 100;
/// Test whose inodes are marked as never used without a feature for that: Linux leaves that, too.
const MAY_DIFFER: &str = "f_uninit_disable";

/// Runs the commands. Returns the failures.
pub(super) fn try_all(judges: &Judges, image: &Image, is_whole: bool) -> Result<Vec<String>> {
    let path = image.path.display();
    let (letter, archive) = (
        judges.scratch.at("letter"),
        judges.scratch.at("archive.tar"),
    );
    fs::write(&letter, "letter\n")?;
    if archive.exists() {
        fs::remove_file(&archive)?;
    }
    let (letter, archive) = (letter.display(), archive.display());
    let commands = [
        format!("fsck {path}"),
        format!("info {path}"),
        format!("ls -lR {path}:/"),
        format!("export {path} {archive}"),
        format!("journal show {path}"),
        format!("journal replay {path}"),
        format!("mkdir {path}:/made"),
        format!("cp {letter} {path}:/made/letter"),
        format!("rm -r {path}:/lost+found"),
    ];
    let mut failures = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.split(' ').collect();
        let done = ended(SECONDS_MAX, &judges.jext, &words)?;
        let is_killed = !(0..STATUS_BROKEN).contains(&done.status);
        if is_killed || done.errors.contains("panicked") {
            failures.push(format!("jext {} ends with {}", words[0], done.status));
        }
    }
    let is_compared = is_whole && image.name.split('.').next() != Some(MAY_DIFFER);
    let is_damaged = || {
        let after = judges.e2fsck(image, &e2fsck::messages())?;
        Ok::<_, anyhow::Error>(!after.verdict.is_clean())
    };
    if is_compared && is_damaged()? {
        failures.push("was whole, and is not any more".to_owned());
    }
    Ok(failures)
}
