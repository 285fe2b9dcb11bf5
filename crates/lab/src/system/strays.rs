//! Remains of killed runs: unused loop devices and empty folders.
//!
//! The folder of a run that mounts contains the process id in its name; an image in memory has the
//! same name. A folder or loop device with such a name is a stray if that process no longer exists;
//! nothing else is changed, and nothing that is mounted. Mounts end with their namespace, and loop
//! devices with their mounts. A stray loop device therefore belongs to a process that was killed
//! before it mounted the device.

use std::fs;
use std::path::Path;

use super::tool;

const PREFIX: &str = "jext-lab-";
/// The mount points in such a folder.
const MOUNT_POINTS: [&str; 3] = ["mounted", "home", "log"];

/// Returns the name of a folder of this process.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{}-{number}", std::process::id())
}

/// Returns the process id in such a name.
fn owner(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Removes a folder and its mount points. A folder with a mounted file system is not empty and
/// stays.
pub(crate) fn remove_folder(folder: &Path) {
    for name in MOUNT_POINTS {
        let _ = fs::remove_dir(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

/// Detaches or removes the remains of killed runs; returns a line for each. Failures are left for
/// the next call.
#[must_use]
pub fn release() -> Vec<String> {
    let mut released = Vec::new();
    for (device, file) in loop_devices() {
        let name = file.rsplit('/').next().unwrap_or_default();
        if let Some(process) = dead_owner(name)
            && tool::call("losetup", &["--detach", &device]).is_ok()
        {
            released.push(format!(
                "{device} of the killed process {process} is detached ({file})"
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

/// Returns the process id in such a name if that process no longer exists.
fn dead_owner(name: &str) -> Option<u32> {
    let process = owner(name)?;
    let is_there = Path::new("/proc").join(process.to_string()).exists();
    (!is_there).then_some(process)
}

/// Returns every loop device with its backing file, as reported by the kernel.
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
