//! Remains of killed runs: loop devices without a user, and empty folders.
//!
//! A run that mounts has a folder with its process in its name, and an image in memory has that
//! name, too. A loop device whose file has such a name, or a folder that has it, is a stray if
//! there is no such process any more; nothing else is touched, and nothing that is still mounted.
//! Mounts go with their namespace, and with them the loop devices that were left to them; a stray
//! loop device is one whose owner was killed before it had mounted it.

use std::fs;
use std::path::Path;

use super::tool;

const PREFIX: &str = "jext-lab-";
/// The mount points in such a folder.
const MOUNT_POINTS: [&str; 3] = ["mounted", "home", "log"];

/// The name of a folder of this process.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{}-{number}", std::process::id())
}

/// The process in such a name.
fn owner(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Removes a folder and its mount points; whatever is still mounted is not to be emptied, and
/// stays.
pub(crate) fn remove_folder(folder: &Path) {
    for name in MOUNT_POINTS {
        let _ = fs::remove_dir(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

/// Gives back what killed runs have left; what it was, one line each. What cannot be given back is
/// left for the next time.
#[must_use]
pub fn release() -> Vec<String> {
    let mut released = Vec::new();
    for (device, file) in loop_devices() {
        let name = file.rsplit('/').next().unwrap_or_default();
        if let Some(process) = dead_owner(name)
            && tool::call("losetup", &["--detach", &device]).is_ok()
        {
            released.push(format!(
                "{device} of the killed process {process} is given back ({file})"
            ));
        }
    }
    let temporary = std::env::temp_dir();
    for entry in fs::read_dir(&temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(dead_owner) else {
            continue;
        };
        let folder = entry.path();
        remove_folder(&folder);
        if !folder.exists() {
            let folder = folder.display();
            released.push(format!(
                "{folder} of the killed process {process} is removed"
            ));
        }
    }
    released
}

/// The process in such a name, if it is there no more.
fn dead_owner(name: &str) -> Option<u32> {
    let process = owner(name)?;
    let is_there = Path::new("/proc").join(process.to_string()).exists();
    (!is_there).then_some(process)
}

/// Every loop device with the file behind it, as the kernel shows it.
fn loop_devices() -> Vec<(String, String)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let devices = entries.filter_map(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let device = format!("/dev/{}", entry.file_name().to_str()?);
        Some((device, file.trim_end_matches('\n').to_owned()))
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_kind_have_an_owner() {
        assert_eq!(owner(&name(7)), Some(std::process::id()));
        assert_eq!(owner("jext-lab-12-0"), Some(12));
        for other in [
            "jext-lab-12",
            "jext-lab--0",
            "jext-lab-12-x",
            "x-jext-lab-12-0",
            "image",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
        assert_eq!(dead_owner(&name(0)), None, "this process lives");
    }
}
