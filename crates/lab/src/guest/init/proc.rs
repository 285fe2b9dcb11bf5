//! Figures of a guest's kernel, from `/proc`.

use std::fs;

/// Returns the memory in bytes that the kernel can give to caches and programs without swapping.
pub(super) fn available_bytes() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the number of transactions that the journal of the mounted ext file system has
/// committed; `None` without such a journal.
pub(super) fn commits() -> Option<u64> {
    // A folder for each journal; a guest mounts one file system.
    let mut folders = fs::read_dir("/proc/fs/jbd2").ok()?.flatten();
    let folder = folders.next()?.path();
    commits_in(&fs::read_to_string(folder.join("info")).ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn commits_in(info: &str) -> Option<u64> {
    let (count, rest) = info.split_once(' ')?;
    rest.starts_with("transactions")
        .then(|| count.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        let meminfo =
            "MemTotal:         507904 kB\nMemFree:   480000 kB\nMemAvailable:     478912 kB\n";
        assert_eq!(available_in(meminfo), Some(478_912 << 10));
        assert_eq!(available_in("MemTotal:  5 kB\n"), None);
        let info =
            "12 transactions (11 requested), each up to 8192 blocks\naverage: \n  0ms waiting\n";
        assert_eq!(commits_in(info), Some(12));
        assert_eq!(commits_in("nothing"), None);
    }
}
