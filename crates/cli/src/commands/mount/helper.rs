//! The command line of mount(8) and umount(8), which call a program by the type of the file system.
//!
//! ```text
//! mount.fuse.jext IMAGE DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]
//!     becomes    jext mount IMAGE DIR -o OPTIONS
//! umount.fuse.jext DIR [-fnlrv] [-N NAMESPACE] [-t TYPE]
//!     becomes    jext umount DIR
//! ```
//! A link with these names in /sbin is all that fstab needs; its type is `fuse.jext`. `mount -f`
//! requests everything but the mount: it becomes `jext info`, which changes nothing.

use std::ffi::OsString;
use std::path::Path;

/// Returns the arguments in the form of `jext`.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.into_iter();
    let Some(program) = given.next() else {
        return Vec::new();
    };
    let name = Path::new(&program)
        .file_name()
        .unwrap_or_default()
        .to_owned();
    let command = match name.to_str() {
        Some("mount.fuse.jext" | "mount.jext") => "mount",
        Some("umount.fuse.jext" | "umount.jext") => "umount",
        _ => return std::iter::once(program).chain(given).collect(),
    };
    let mut words = vec![OsString::from("jext"), OsString::from(command)];
    let mut is_fake = false;
    while let Some(word) = given.next() {
        match word.to_str() {
            Some("-o") => words.extend([Some(word), given.next()].into_iter().flatten()),
            Some("-N" | "-t") => drop(given.next()),
            Some(flags) if flags.len() > 1 && flags.starts_with('-') => {
                is_fake |= command == "mount" && flags.contains('f');
            }
            _ => words.push(word),
        }
    }
    if is_fake {
        words.truncate(3);
        words[1] = OsString::from("info");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = arguments(line.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
        words.join(" ")
    }

    #[test]
    fn the_words_of_mount_become_ours() {
        for (given, ours) in [
            (
                "/sbin/mount.fuse.jext a.img /mnt -o rw,noatime -t fuse.jext",
                "jext mount a.img /mnt -o rw,noatime",
            ),
            ("mount.jext a.img /mnt -s -n -v", "jext mount a.img /mnt"),
            ("mount.fuse.jext a.img /mnt -f -o ro", "jext info a.img"),
            ("umount.fuse.jext /mnt -n -l", "jext umount /mnt"),
            ("jext mount a.img /mnt -f", "jext mount a.img /mnt -f"),
        ] {
            assert_eq!(translated(given), ours);
        }
    }
}
