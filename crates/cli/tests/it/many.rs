//! Memory of builds of many files. `cargo xtask memory-build` measures millions.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tar::{Builder, EntryType, Header};

use crate::support::Folder;

const FILES: u32 = 70_000;
const FILES_PER_DIRECTORY: u32 = 500;
/// Most memory that a build may take here, in bytes. It includes the cache, of 64 MiB.
const PEAK_BYTES_MAX: u64 = 150 << 20;
/// Interval at which the high-water mark is read; it never sinks.
const PAUSE: Duration = Duration::from_millis(3);

fn header(kind: EntryType) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_500_000_000);
    header.set_size(0);
    header
}

/// Writes an archive of empty files, or of directories, with long names. Files in the first
/// directories follow at last.
fn write_archive(path: &Path, kind: EntryType) {
    let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut builder = Builder::new(file);
    for number in 0..FILES {
        let directory = format!("directory-{:04}", number / FILES_PER_DIRECTORY);
        let nothing = std::io::empty();
        if number.is_multiple_of(FILES_PER_DIRECTORY) {
            let mut header = header(EntryType::Directory);
            builder
                .append_data(&mut header, &directory, nothing)
                .unwrap();
        }
        let name = format!("{directory}/a-file-with-a-name-of-some-length-{number:07}");
        let mut header = header(kind);
        builder.append_data(&mut header, name, nothing).unwrap();
    }
    for number in 0..3 {
        let name = format!("directory-{number:04}/late");
        let mut header = header(EntryType::Regular);
        builder
            .append_data(&mut header, name, std::io::empty())
            .unwrap();
    }
    builder.into_inner().unwrap();
}

/// Returns the high-water mark of the resident memory of a build in bytes.
fn peak_bytes(folder: &Folder, line: &str) -> u64 {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("jext"))
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        let line = said.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        peak = peak.max(number.map_or(0, |number| number.parse::<u64>().unwrap() << 10));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(PAUSE);
    };
    assert!(status.success(), "{line}");
    peak
}

#[test]
fn many_files_do_not_take_more_memory() {
    let folder = Folder::new();
    write_archive(&folder.path().join("tree.tar"), EntryType::Regular);
    let peak = peak_bytes(&folder, "build -q -t ext4 one.img tree.tar");
    assert!(peak < PEAK_BYTES_MAX, "an archive: {peak}");
    folder.check("one.img");
    folder.good("export one.img tree");
    let peak = peak_bytes(&folder, "build -q -F --fit two.img tree");
    assert!(peak < PEAK_BYTES_MAX, "a directory: {peak}");
    folder.check("two.img");
}

/// The attributes of directories are set before all their entries are known, and stay.
#[test]
fn many_directories_do_not_take_more_memory() {
    let folder = Folder::new();
    write_archive(&folder.path().join("tree.tar"), EntryType::Directory);
    let peak = peak_bytes(&folder, "build -q -t ext4 one.img tree.tar");
    assert!(peak < PEAK_BYTES_MAX, "an archive: {peak}");
    folder.check("one.img");
    let time = "Modify: 2017-07-14T02:40:00";
    for path in ["directory-0000", "directory-0002", "directory-0119"] {
        let stat = folder.good(&format!("stat one.img:/{path}"));
        assert!(stat.contains(time), "{path}: {stat}");
    }
    folder.good("export one.img tree");
    let peak = peak_bytes(&folder, "build -q -F two.img tree tree.tar");
    assert!(peak < PEAK_BYTES_MAX, "two sources: {peak}");
    folder.check("two.img");
}
