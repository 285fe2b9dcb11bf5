//! Builds the kernel that runs in virtual time, from the source package of the system.
//!
//! | step | program |
//! |---|---|
//! | unpack the source | `tar` |
//! | change it: `RECLAIM` | none |
//! | configure it: the default of user-mode Linux, then [`ENABLED`] and [`DISABLED`] | `make` |
//! | build it | `make`, `gcc` |
//!
//! Everything happens in a folder beside the result, which is moved to its place at the end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{BUILT, Kernel};
use crate::GuestError;

/// The source, as Debian's package `linux-source-6.1` installs it.
pub const SOURCE: &str = "/usr/src/linux-source-6.1.tar.xz";
/// The packages that a build needs.
pub const PACKAGES: &str = "linux-source-6.1 gcc make flex bison bc xz-utils";
/// The programs that a build needs.
const TOOLS: [&str; 7] = ["tar", "xz", "make", "gcc", "flex", "bison", "bc"];
/// Approximate number of files that a build compiles, for its progress.
const FILES: u32 = 1500;
/// Number of last lines of a failed command that its error shows.
const LINES_SHOWN: usize = 10;

/// Options that are switched on.
pub const ENABLED: &[&str] = &[
    "UML_TIME_TRAVEL_SUPPORT",
    "VIRTIO_MENU",
    "VIRTIO_UML",
    "VIRTIO_BLK",
    "BLK_DEV_UBD",
    "EXT2_FS",
    "EXT2_FS_XATTR",
    "EXT4_FS",
    "JFS_FS",
    "REISERFS_FS",
    "XFS_FS",
    "BTRFS_FS",
    "BLK_DEV_RAM",
    "BLK_DEV_LOOP",
    "HOSTFS",
    "TMPFS",
    "DEVTMPFS",
    "DEVTMPFS_MOUNT",
    "MD",
    "BLK_DEV_DM",
    "DM_LOG_WRITES",
    "MQ_IOSCHED_DEADLINE",
    "MQ_IOSCHED_KYBER",
    "IOSCHED_BFQ",
    "DEBUG_INFO_NONE",
];
/// Options that are switched off. The first one would measure the processor at boot; the second
/// one would mount ext2 by the driver of ext4; static linking would leave no place for the library
/// of random numbers.
pub const DISABLED: &[&str] = &[
    "RAID6_PQ_BENCHMARK",
    "EXT4_USE_FOR_EXT2",
    "STATIC_LINK",
    "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT",
    "INET",
    "WIRELESS",
    "NETDEVICES",
    "UML_NET",
    "SOUND",
    "UML_SOUND",
    "WERROR",
];

/// A line that is added to a file of the source.
struct Change {
    file: &'static str,
    /// The only line after which it is added.
    after: &'static str,
    line: &'static str,
}

/// The search for free memory takes time: 10 us, and 1 us for each page that it looks at.
///
/// Without it no virtual time passes while a kernel searches. Memory is often freed by something
/// that waits for time to pass, such as a write in progress or the next commit, so that a guest
/// with little memory searched without end.
const RECLAIM: Change = Change {
    file: "mm/vmscan.c",
    after: "\tshrink_node_memcgs(pgdat, sc);",
    line: "\tndelay(10000 + 1000 * (sc->nr_scanned - nr_scanned));",
};

/// An observer of a build.
pub trait Progress {
    /// Reports the start of a step.
    fn step(&mut self, name: &str);

    /// Reports the share of the step that is done, 0 to 1.
    fn advanced(&mut self, share: f64);
}

/// Builds the kernel with a number of processes; returns it.
///
/// # Errors
/// Fails if the source or a program is missing, or with the last lines of the step that failed.
pub fn build(jobs: usize, progress: &mut dyn Progress) -> Result<Kernel, GuestError> {
    check_tools()?;
    let no_home = || GuestError::Missing("HOME: not set, so that there is no cache folder".into());
    let folder = Kernel::folder().ok_or_else(no_home)?;
    let place = folder.join("build");
    // A build that was interrupted is not continued: its state is unknown.
    remove(&place)?;
    let (source, output) = (place.join("source"), place.join("output"));
    for folder in [&source, &output] {
        fs::create_dir_all(folder).map_err(GuestError::at(folder.display().to_string()))?;
    }
    progress.step("unpacking");
    let mut unpack = Command::new("tar");
    unpack
        .args(["-xf", SOURCE, "--strip-components=1", "-C"])
        .arg(&source);
    run(&mut unpack, &mut |_| {})?;
    change(&source, &RECLAIM)?;
    progress.step("configuring");
    let make = |target: &str| {
        let mut make = Command::new("make");
        let place = format!("O={}", output.display());
        make.current_dir(&source).args(["ARCH=um", &place, target]);
        make
    };
    run(&mut make("defconfig"), &mut |_| {})?;
    configure(&output.join(".config"))?;
    run(&mut make("olddefconfig"), &mut |_| {})?;
    progress.step("building");
    let mut built = 0;
    let mut count = |line: &str| {
        built += u32::from(line.starts_with("  CC"));
        progress.advanced((f64::from(built) / f64::from(FILES)).min(1.0));
    };
    run(make("linux").arg(format!("-j{jobs}")), &mut count)?;
    check(&output.join(BUILT))?;
    let target = folder.join(BUILT);
    fs::rename(output.join(BUILT), &target)
        .map_err(GuestError::at(target.display().to_string()))?;
    remove(&place)?;
    Kernel::in_virtual_time()
}

fn check_tools() -> Result<(), GuestError> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &&&str| {
        let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(tool));
        paths.any(|path| path.is_file())
    };
    let missing = TOOLS.iter().find(|tool| !is_there(tool)).copied();
    let missing = missing.or_else(|| (!Path::new(SOURCE).is_file()).then_some(SOURCE));
    match missing {
        None => Ok(()),
        Some(what) => {
            let message = format!("{what} is missing; apt-get install {PACKAGES}");
            Err(GuestError::Missing(message))
        }
    }
}

/// Adds a line to a file of the source.
fn change(source: &Path, change: &Change) -> Result<(), GuestError> {
    let path = source.join(change.file);
    let at = || GuestError::at(path.display().to_string());
    let text = fs::read_to_string(&path).map_err(at())?;
    let places = text.lines().filter(|line| *line == change.after).count();
    if places != 1 {
        let message = format!(
            "{}: {places} lines are {:?}; one was expected, as in Linux 6.1",
            path.display(),
            change.after.trim()
        );
        return Err(GuestError::Missing(message));
    }
    let changed = text.lines().flat_map(|line| {
        let added = (line == change.after).then_some(change.line);
        std::iter::once(line).chain(added)
    });
    let changed = changed.fold(String::with_capacity(text.len()), |text, line| {
        text + line + "\n"
    });
    fs::write(&path, changed).map_err(at())
}

/// Appends the options; of several lines for one option the last one counts.
fn configure(path: &Path) -> Result<(), GuestError> {
    let at = || GuestError::at(path.display().to_string());
    let mut text = fs::read_to_string(path).map_err(at())?;
    let on = ENABLED.iter().map(|option| format!("CONFIG_{option}=y\n"));
    let off = DISABLED
        .iter()
        .map(|option| format!("# CONFIG_{option} is not set\n"));
    text.extend(on.chain(off));
    fs::write(path, text).map_err(at())
}

/// Checks that a kernel has what guests need.
fn check(kernel: &Path) -> Result<(), GuestError> {
    let output = Command::new(kernel).arg("--showconfig").output();
    let output = output.map_err(GuestError::at(kernel.display().to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let has = |option: &&&str| {
        text.lines()
            .any(|line| line == format!("CONFIG_{option}=y"))
    };
    match ENABLED.iter().find(|option| !has(option)) {
        None => Ok(()),
        Some(option) => {
            let message = format!("{}: was built without CONFIG_{option}", kernel.display());
            Err(GuestError::Missing(message))
        }
    }
}

/// Runs a command; `line` is called with each line of its output.
fn run(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<(), GuestError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (pipe, output) = std::io::pipe().map_err(GuestError::at(name.as_str()))?;
    let again = output.try_clone().map_err(GuestError::at(name.as_str()))?;
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(again);
    let child = command.spawn();
    // The command keeps the ends of the pipe that it was given.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.map_err(GuestError::at(name.as_str()))?;
    let mut last: Vec<String> = Vec::new();
    for text in BufReader::new(pipe).lines().map_while(Result::ok) {
        line(&text);
        if last.len() == LINES_SHOWN {
            last.remove(0);
        }
        last.push(text);
    }
    let status = child.wait().map_err(GuestError::at(name.as_str()))?;
    match status.success() {
        true => Ok(()),
        false => {
            let message = format!("{name}: {status}\n{}", last.join("\n"));
            Err(GuestError::Missing(message))
        }
    }
}

fn remove(folder: &Path) -> Result<(), GuestError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(GuestError::at(folder.display().to_string())(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_in_its_place_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mm/vmscan.c");
        fs::create_dir(folder.path().join("mm")).expect("a new folder");
        let place = format!("{{\n{}\n}}\n", RECLAIM.after);
        fs::write(&file, &place).expect("a new file");
        change(folder.path(), &RECLAIM).expect("the place is there");
        let expected = format!("{{\n{}\n{}\n}}\n", RECLAIM.after, RECLAIM.line);
        assert_eq!(fs::read_to_string(&file).expect("text"), expected);
        for text in ["{\n}\n".to_owned(), place.repeat(2)] {
            fs::write(&file, &text).expect("a file");
            let error = change(folder.path(), &RECLAIM).expect_err("no place, or two");
            assert!(error.to_string().contains("mm/vmscan.c"), "{error}");
            assert_eq!(fs::read_to_string(&file).expect("text"), text);
        }
    }

    #[test]
    fn options_are_appended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".config");
        fs::write(&path, "CONFIG_INET=y\n").expect("space");
        configure(&path).expect("it is there");
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.contains("\nCONFIG_VIRTIO_UML=y\n"), "{text}");
        assert!(text.ends_with("# CONFIG_WERROR is not set\n"), "{text}");
    }

    #[test]
    fn a_failed_command_shows_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "seq 20; exit 3"]);
        let mut count = 0;
        let error = run(&mut command, &mut |_| count += 1).expect_err("it fails");
        let error = error.to_string();
        assert!(
            error.contains("\n20") && !error.contains("\n10\n"),
            "{error}"
        );
        assert_eq!(count, 20);
    }
}
