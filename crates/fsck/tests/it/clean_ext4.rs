//! Clean ext4 images of mke2fs, filled by the kernel: no problem is found, as by e2fsck.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use block::{FileDevice, OpenOptions};
use fsck::{Options, Report};
use tempfile::TempDir;
use testkit::tool::run_well;
use testkit::{Mount, privilege};

use crate::tools::e2fsck;

/// Features that are switched on or off, beside the defaults of `-t ext4`.
const FEATURES: [&str; 12] = [
    "",
    "^64bit",
    "^flex_bg",
    "^metadata_csum",
    "^metadata_csum,uninit_bg",
    "^metadata_csum,uninit_bg,^64bit",
    "^metadata_csum,uninit_bg,^64bit,^flex_bg",
    "metadata_csum_seed",
    "^has_journal",
    "^resize_inode,^64bit",
    "^extent,^64bit",
    "^huge_file,^dir_nlink,^extra_isize",
];
/// Number of files in one directory, enough for a hash tree.
const FILES: usize = 400;
/// Number of extents of the fragmented file, which need two levels of nodes with blocks of 1 KiB.
const FRAGMENTS: u64 = 700;
/// Number of directories in one directory: more than links are counted.
const MANY_DIRECTORIES: usize = 65_100;

fn image(folder: &TempDir, mebibytes: u64, arguments: &[&str]) -> PathBuf {
    let path = folder.path().join("image");
    File::create(&path)
        .unwrap()
        .set_len(mebibytes << 20)
        .unwrap();
    let mut all = vec!["-q", "-F", "-t", "ext4"];
    all.extend(arguments);
    all.push(path.to_str().unwrap());
    run_well("mke2fs", &all);
    path
}

fn check(path: &Path, what: &str) -> Report {
    let device = FileDevice::open(path, &OpenOptions::default()).unwrap();
    let report = fsck::check(&device, None, &Options::default()).unwrap();
    assert_eq!(report.problems, [], "{what}");
    report
}

/// Checks an image, which e2fsck finds clean, and returns our report about it.
fn clean(path: &Path, what: &str) -> Report {
    let (status, said) = e2fsck(path);
    assert_eq!(status, 0, "{what}: {said}");
    check(path, what)
}

fn shell(at: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(at)
        .status();
    assert!(done.unwrap().success(), "{script}");
}

/// Writes every second block of a file, one by one.
fn write_fragments(at: &Path, block_bytes: u64) {
    let file = File::create(at).unwrap();
    let block = vec![7; block_bytes as usize];
    for index in 0..FRAGMENTS {
        file.write_all_at(&block, 2 * index * block_bytes).unwrap();
    }
}

fn fill(at: &Path, block_bytes: u64, has_extents: bool) {
    fs::create_dir_all(at.join("deep/a/b/c/d")).unwrap();
    fs::create_dir(at.join("many")).unwrap();
    for index in 0..FILES {
        let name = format!("many/file-with-number-{index}");
        fs::write(at.join(name), b"contents").unwrap();
    }
    for index in (0..FILES).step_by(3) {
        fs::remove_file(at.join(format!("many/file-with-number-{index}"))).unwrap();
    }
    fs::hard_link(at.join("many/file-with-number-1"), at.join("hard")).unwrap();
    symlink("short", at.join("s1")).unwrap();
    symlink("long/".repeat(30), at.join("s2")).unwrap();
    fs::write(at.join("large"), vec![7; 700_000]).unwrap();
    write_fragments(&at.join("fragments"), block_bytes);
    let sparse = File::create(at.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 9_000_000_000).unwrap();
    fs::rename(at.join("deep/a/b"), at.join("moved")).unwrap();
    shell(
        at,
        "mkfifo p; mknod c c 1 3; head -c 300000 /dev/zero > gone; rm gone; truncate -s 100 large",
    );
    if has_extents {
        let script = "fallocate -l 300000 pre; fallocate -n -o 1000000 -l 400000 pre; \
                      fallocate -p -o 16384 -l 8192 pre; fallocate -z -o 32768 -l 8192 fragments; \
                      touch beyond; fallocate -n -l 5000000 beyond";
        shell(at, script);
    }
}

#[test]
fn images_of_every_feature_that_the_kernel_filled() {
    let is_root = privilege::is_granted();
    for block_bytes in [1024, 2048, 4096] {
        for features in FEATURES {
            let what = format!("{block_bytes} {features}");
            let folder = TempDir::new().unwrap();
            let size = block_bytes.to_string();
            let mut arguments = vec!["-b", &size];
            if !features.is_empty() {
                arguments.extend(["-O", features]);
            }
            let path = image(&folder, 80, &arguments);
            clean(&path, &format!("{what}, new"));
            if !is_root {
                continue;
            }
            let has_extents = !features.contains("^extent");
            let mount = Mount::new(&path, None, "ext4", "rw").unwrap();
            // Blocks of a map end earlier than the sparse file with blocks of 1 KiB.
            fill(mount.path(), block_bytes, has_extents);
            drop(mount);
            let statistics = clean(&path, &what).statistics;
            assert!(statistics.indexed_directories > 0 && statistics.map_blocks > 0);
        }
    }
}

/// Inodes of other sizes, groups of other sizes, and flexible groups of other sizes.
#[test]
fn images_of_other_shapes() {
    for arguments in [
        "-b 1024 -I 128",
        "-b 1024 -I 1024 -N 1024",
        "-b 4096 -I 4096 -N 1024",
        "-b 1024 -g 1024",
        "-b 4096 -g 2048 -G 1",
        "-b 1024 -G 64 -g 512 -N 16384",
        "-b 1024 -O ^sparse_super,^resize_inode -g 1024",
        "-b 1024 -O uninit_bg,^metadata_csum -g 1024",
        "-b 65536",
    ] {
        let folder = TempDir::new().unwrap();
        let words: Vec<&str> = arguments.split(' ').collect();
        let path = image(&folder, 96, &words);
        clean(&path, arguments);
        // The kernel does not mount blocks that are larger than its pages.
        if !privilege::is_granted() || arguments.contains("65536") {
            continue;
        }
        let mount = Mount::new(&path, None, "ext4", "rw").unwrap();
        fill(mount.path(), words[1].parse().unwrap(), true);
        drop(mount);
        clean(&path, arguments);
    }
}

/// A directory with more directories than links are counted, which has one link then.
#[test]
fn a_directory_of_more_directories_than_are_counted() {
    if !privilege::is_granted() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = image(&folder, 220, &["-b", "1024", "-I", "128", "-N", "66000"]);
    let mount = Mount::new(&path, None, "ext4", "rw").unwrap();
    let top = mount.path().join("top");
    fs::create_dir(&top).unwrap();
    for index in 0..MANY_DIRECTORIES {
        fs::create_dir(top.join(index.to_string())).unwrap();
    }
    drop(mount);
    let report = clean(&path, "many directories");
    assert!(report.statistics.directories as usize > MANY_DIRECTORIES);
}

/// Symbolic links within their inodes, which Linux counts in quotas and e2fsck does not.
#[test]
fn quotas_with_and_without_symbolic_links_within_their_inodes() {
    const INODES: u64 = 5 * 1024 + 40;
    let folder = TempDir::new().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    symlink("long/".repeat(17), tree.join("link")).unwrap();
    let features = "quota,project,inline_data,^has_journal";
    let tree = tree.to_str().unwrap();
    let path = image(&folder, 8, &["-b", "1024", "-O", features, "-d", tree]);
    let repair = ["-fy", path.to_str().unwrap()];
    testkit::tool::run("e2fsck", &repair);
    clean(&path, "counted by e2fsck");
    let listed = run_well("debugfs", &["-R", "blocks <3>", path.to_str().unwrap()]);
    let first: u64 = listed.split_whitespace().next().unwrap().parse().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut count = [0; 8];
    file.read_exact_at(&mut count, first * 1024 + INODES)
        .unwrap();
    assert_eq!(u64::from_le_bytes(count), 2);
    for (inodes, expected) in [(1, 1), (2, 0), (3, 0), (4, 1)] {
        file.write_all_at(&u64::to_le_bytes(inodes), first * 1024 + INODES)
            .unwrap();
        let device = FileDevice::open(&path, &OpenOptions::default()).unwrap();
        let report = fsck::check(&device, None, &Options::default()).unwrap();
        assert_eq!(report.problems.len(), expected, "{inodes} inodes");
        for problem in report.problems {
            let differing = (problem.found, problem.expected);
            assert_eq!(differing, (Some(inodes), Some(3)), "{inodes} inodes");
        }
    }
}

/// Blocks above 2^32: the upper halves of descriptors, of block counts and of extents. The volume
/// lies in memory, because files of other file systems do not become that large.
#[test]
fn a_volume_of_more_blocks_than_32_bits_count() {
    const SHARED_MEMORY: &str = "/dev/shm";
    const MEBIBYTES: u64 = 17 << 20;
    let Ok(folder) = TempDir::new_in(SHARED_MEMORY) else {
        return;
    };
    let arguments = [
        "-b",
        "4096",
        "-N",
        "2228224",
        "-E",
        "lazy_itable_init=1",
        "-O",
        "^has_journal,^resize_inode",
    ];
    let path = image(&folder, MEBIBYTES, &arguments);
    let report = check(&path, "17 TiB");
    assert!(report.statistics.blocks > u64::from(u32::MAX));
}
