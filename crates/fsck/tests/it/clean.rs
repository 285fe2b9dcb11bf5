//! Clean images of mke2fs, debugfs, the kernel and jext: no problem is found.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::{BlockDevice, FileDevice, MemoryDevice, OpenOptions};
use ext::mkfs::{self, FileSystemType, JournalOption};
use ext::volume::NewInode;
use ext::{MountOptions, Volume};
use fsck::Options;
use layout::InodeNr;
use tempfile::TempDir;
use testkit::tool::run_well;
use testkit::{Mount, privilege};

use crate::tools::{debugfs, e2fsck};

const JOURNAL_UUID: [u8; 16] = [0x5A; 16];
/// Number of files in one directory, enough for a hash tree.
const FILES: usize = 400;

fn assert_clean(image: &[u8], journal: Option<&[u8]>, what: &str) {
    let report = fsck::check_bytes(image, journal, &Options::default()).unwrap();
    assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
    assert!(report.is_clean(), "{what}");
}

fn image_of(folder: &TempDir, mebibytes: u64, arguments: &[&str]) -> std::path::PathBuf {
    let path = folder.path().join("image");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(mebibytes << 20).unwrap();
    let mut all = vec!["-q", "-F"];
    all.extend(arguments);
    all.push(path.to_str().unwrap());
    run_well("mke2fs", &all);
    path
}

#[test]
fn images_of_mke2fs_and_debugfs() {
    let commands = [
        "mkdir d",
        "mkdir d/e",
        "mknod p p",
        "symlink s target",
        "mknod c c 4 64",
    ];
    let mut commands: Vec<String> = commands.iter().map(|c| (*c).to_owned()).collect();
    commands.push("cd d".to_owned());
    commands.extend((0..60).map(|index| format!("mknod with-a-long-name-{index} p")));
    for kind in ["ext2", "ext3"] {
        for block_bytes in ["1024", "2048", "4096"] {
            for features in [
                "none",
                "",
                "^dir_index",
                "^sparse_super,^resize_inode",
                "^resize_inode",
                "^resize_inode,sparse_super2",
                "^filetype",
            ] {
                for inode_bytes in ["128", "256"] {
                    let what = format!("{kind} {block_bytes} {features} {inode_bytes}");
                    let folder = TempDir::new().unwrap();
                    let mut arguments = vec!["-t", kind, "-b", block_bytes, "-I", inode_bytes];
                    if !features.is_empty() {
                        let features = if kind == "ext3" && features == "none" {
                            "none,has_journal"
                        } else {
                            features
                        };
                        arguments.extend(["-O", features]);
                    }
                    let path = image_of(&folder, 16, &arguments);
                    assert_clean(&std::fs::read(&path).unwrap(), None, &what);
                    debugfs(&path, &commands);
                    assert_eq!(e2fsck(&path).0, 0, "{what}");
                    assert_clean(&std::fs::read(&path).unwrap(), None, &what);
                }
            }
        }
    }
}

fn fill(at: &Path) {
    let script = format!(
        "mkdir -p many deep/a/b/c/d && cd many && for i in $(seq {FILES}); do echo $i > file-with-number-$i; done && \
         for i in $(seq 1 3 {FILES}); do rm file-with-number-$i; done && cd .. && ln many/file-with-number-2 hard && \
         ln -s short s1 && ln -s $(printf %080d 0) s2 && mkfifo p && mknod c c 1 3 && \
         head -c 700000 /dev/zero | tr '\\0' x > large && truncate -s 90000000 sparse && echo end >> sparse && \
         head -c 300000 /dev/zero > gone && rm gone && mkdir empty && mv deep/a/b moved && sync"
    );
    let done = Command::new("sh")
        .arg("-ec")
        .arg(script)
        .current_dir(at)
        .status();
    assert!(done.unwrap().success());
}

#[test]
fn images_that_the_kernel_filled() {
    if !privilege::is_granted() {
        return;
    }
    for (kind, block_bytes) in [
        ("ext2", "1024"),
        ("ext3", "1024"),
        ("ext3", "2048"),
        ("ext3", "4096"),
    ] {
        let what = format!("kernel {kind} {block_bytes}");
        let folder = TempDir::new().unwrap();
        let path = image_of(&folder, 24, &["-t", kind, "-b", block_bytes]);
        let mount = Mount::new(&path, None, kind, "rw").unwrap();
        fill(mount.path());
        drop(mount);
        assert_eq!(e2fsck(&path).0, 0, "{what}");
        assert_clean(&std::fs::read(&path).unwrap(), None, &what);
    }
}

/// Fills a volume of jext with all kinds of files, and closes it.
fn fill_volume(device: &Arc<dyn BlockDevice>, journal: Option<Arc<dyn BlockDevice>>) {
    let volume = Volume::open(Arc::clone(device), journal, MountOptions::default()).unwrap();
    volume.create_directory_all("/many/inner").unwrap();
    for index in 0..FILES {
        volume
            .write_file(&format!("/many/file-with-number-{index}"), b"contents")
            .unwrap();
    }
    for index in (0..FILES).step_by(3) {
        volume
            .remove_file(&format!("/many/file-with-number-{index}"))
            .unwrap();
    }
    volume.write_file("/large", &[7; 700_000]).unwrap();
    let large = volume.resolve("/large", true).unwrap();
    volume.link(large, InodeNr::ROOT, b"hard").unwrap();
    for (name, target) in [("s1", "short".to_owned()), ("s2", "long/".repeat(30))] {
        let new = NewInode::default();
        volume
            .symlink(InodeNr::ROOT, name.as_bytes(), target.as_bytes(), &new)
            .unwrap();
    }
    volume.rename_path("/many/inner", "/moved").unwrap();
    volume.close().unwrap();
}

#[test]
fn images_of_our_own_engine() {
    for block_bytes in [1024, 2048, 4096] {
        for place in ["none", "internal", "external"] {
            let what = format!("ours {block_bytes} {place}");
            let home = Arc::new(MemoryDevice::new(16 << 20));
            let log = Arc::new(MemoryDevice::new(1100 * u64::from(block_bytes)));
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&home);
            let journal: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&log);
            let is_external = place == "external";
            let options = mkfs::Options {
                file_system: match place {
                    "none" => FileSystemType::Ext2,
                    _ => FileSystemType::Ext3,
                },
                block_bytes: Some(block_bytes),
                journal: match place {
                    "internal" => JournalOption::Blocks(1024),
                    _ => JournalOption::Default,
                },
                ..mkfs::Options::default()
            };
            if is_external {
                mkfs::format_journal_device(&journal, block_bytes, JOURNAL_UUID).unwrap();
                mkfs::format_with_journal(&device, &journal, &options).unwrap();
            } else {
                mkfs::format(&device, &options).unwrap();
            }
            let given = is_external.then_some(&*log);
            let check = || {
                let journal = given.map(|log| log as &dyn BlockDevice);
                fsck::check(&*home, journal, &Options::default()).unwrap()
            };
            assert_eq!(check().problems, [], "{what}, new");
            fill_volume(&device, is_external.then(|| Arc::clone(&journal)));
            let report = check();
            assert_eq!(report.problems, [], "{what}, filled");
            assert!(report.statistics.indexed_directories > 0, "{what}");
            let bytes = given.map(MemoryDevice::to_bytes);
            assert_clean(&home.to_bytes(), bytes.as_deref(), &what);
        }
    }
}

/// Checks that an external journal is required, and that a wrong one is rejected.
#[test]
fn external_journals_are_recognised() {
    let make = |uuid| {
        let log: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1100 * 1024));
        mkfs::format_journal_device(&log, 1024, uuid).unwrap();
        log
    };
    let (log, other) = (make(JOURNAL_UUID), make([0x77; 16]));
    let home: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(4 << 20));
    let options = mkfs::Options {
        file_system: FileSystemType::Ext3,
        block_bytes: Some(1024),
        ..mkfs::Options::default()
    };
    mkfs::format_with_journal(&home, &log, &options).unwrap();
    let check = |log: Option<&dyn BlockDevice>| {
        let report = fsck::check(&*home, log, &Options::default());
        report.map(|report| {
            report
                .kinds()
                .iter()
                .map(|kind| kind.name())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(check(Some(&*log)), Ok(vec![]));
    let error = fsck::Error::JournalDeviceNeeded { uuid: JOURNAL_UUID };
    assert_eq!(check(None), Err(error));
    assert_eq!(
        check(Some(&*other)),
        Ok(vec!["JournalInvalid", "JournalUuidWrong"])
    );
    assert_eq!(
        check(Some(&*home)),
        Ok(vec!["JournalInvalid", "JournalDeviceInvalid"])
    );
    // The superblock of the journal is block 2 of its device; its first user is at byte 256.
    let mut block = layout::Block::clone(&*log.read_block(2048, 1024).unwrap());
    block[256] ^= 1;
    log.write_blocks(2048, vec![block.into_arc()]).unwrap();
    assert_eq!(check(Some(&*log)), Ok(vec!["JournalOfOther"]));
    let journal = fsck::check(&*log, None, &Options::default());
    assert_eq!(journal, Err(fsck::Error::IsJournalDevice));
}

/// Checks a volume with many more inodes than fit in memory, almost all of them in holes of the
/// image.
#[test]
fn a_large_volume_that_is_nearly_empty() {
    const VOLUME_BYTES: u64 = 275 << 30;
    const INODES: u32 = 1 << 26;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    block::file::create_sparse(&path, VOLUME_BYTES).unwrap();
    let device = FileDevice::open(&path, &OpenOptions::default()).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let options = mkfs::Options {
        file_system: FileSystemType::Ext2,
        inode_bytes: Some(128),
        bytes_per_inode: Some(4096),
        ..mkfs::Options::default()
    };
    let made = mkfs::format(&device, &options).unwrap();
    assert!(made.geometry.inode_count > INODES);
    fill_volume(&device, None);
    let report = fsck::check(&*device, None, &Options::default()).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.statistics.directories, 4);
}
