//! Checksums that are turned on and off: what e2fsck, the kernel and tune2fs say.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use testkit::{Mount, privilege, tool};

use super::{UUID, told};
use crate::support::Folder;

/// A tree: paths, and the bytes of files.
type Tree = BTreeMap<String, Vec<u8>>;

/// Makes directories that are full and indexed, files in many pieces, and attributes.
fn fill(root: &Path) {
    for (directory, names, length) in [("few", 20, 8), ("many", 2500, 40), ("full", 400, 4)] {
        let folder = root.join(directory);
        std::fs::create_dir(&folder).unwrap();
        for number in 0..names {
            std::fs::write(folder.join(format!("{number:0length$}")), b"").unwrap();
        }
    }
    for number in (0..2500).step_by(5) {
        std::fs::remove_file(root.join(format!("many/{number:040}"))).unwrap();
    }
    let file = std::fs::File::create(root.join("pieces")).unwrap();
    for number in 0..400 {
        file.write_all_at(&[7; 1024], number * 8192).unwrap();
    }
    symlink("x".repeat(200), root.join("link")).unwrap();
    for (number, bytes) in [(1, 30), (2, 600), (3, 600)] {
        let path = root.join(format!("few/{number:08}")).display().to_string();
        tool::run_well(
            "setfattr",
            &["-n", "user.x", "-v", &"v".repeat(bytes), &path],
        );
    }
}

fn mount(folder: &Folder, options: &str) -> Mount {
    Mount::new(&folder.path().join("disk.img"), None, "ext4", options).unwrap()
}

/// Returns the tree as the kernel reads it.
fn tree(folder: &Folder) -> Tree {
    let mounted = mount(folder, "ro");
    let mut found = Tree::new();
    let mut waiting = vec![mounted.path().to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let name = entry
                .path()
                .strip_prefix(mounted.path())
                .unwrap()
                .display()
                .to_string();
            let kind = entry.file_type().unwrap();
            let bytes = match kind {
                _ if kind.is_dir() => {
                    waiting.push(entry.path());
                    Vec::new()
                }
                _ if kind.is_symlink() => std::fs::read_link(entry.path())
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
                _ => std::fs::read(entry.path()).unwrap(),
            };
            found.insert(name, bytes);
        }
    }
    found
}

/// Returns the words of the features that concern checksums.
fn features(folder: &Folder) -> Vec<String> {
    let all = told(folder, "Filesystem features");
    let known = ["metadata_csum", "uninit_bg", "metadata_csum_seed"];
    let words = all.split_whitespace().filter(|word| known.contains(word));
    words.map(str::to_owned).collect()
}

/// Tunes an image, and has e2fsck and the kernel look at it, which then change it.
fn tune(folder: &Folder, options: &str, before: &Tree, expected: &[&str]) {
    folder.good(&format!("tune {options} disk.img"));
    folder.check("disk.img");
    assert_eq!(features(folder), expected, "{options}");
    assert!(tree(folder) == *before, "{options}");
    let mounted = mount(folder, "rw");
    for number in 0..60 {
        std::fs::write(mounted.at(&format!("/full/new-{number}")), b"x").unwrap();
        std::fs::remove_file(mounted.at(&format!("/many/{:040}", number * 5 + 1))).unwrap();
    }
    for number in 0..60 {
        std::fs::remove_file(mounted.at(&format!("/full/new-{number}"))).unwrap();
        std::fs::write(mounted.at(&format!("/many/{:040}", number * 5 + 1)), b"").unwrap();
    }
    drop(mounted);
    folder.check("disk.img");
    folder.good("mkdir disk.img:/many/another");
    folder.good("rm -r disk.img:/many/another");
    folder.check("disk.img");
}

const FORMATS: [&str; 8] = [
    "-t ext3 -b 1024",
    "-t ext3 -b 4096 -I 128",
    "-t ext3 -b 1024 -O ^dir_index",
    "-t ext3 -b 1024 -O ^has_journal",
    "-t ext4 -b 1024",
    "-t ext4 -b 4096 -O orphan_file",
    "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit",
    "-t ext4 -b 2048 -O ^metadata_csum,meta_bg,^resize_inode -g 1024",
];

/// Every change from what a format has, there and back.
fn there_and_back(format: &str) {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let image = folder.path().join("disk.img").display().to_string();
    let mut arguments = vec!["-q", "-F", "-E", "lazy_itable_init=1"];
    arguments.extend(format.split_whitespace());
    std::fs::write(&image, vec![0xA5; 48 << 20]).unwrap();
    arguments.extend([image.as_str(), "48M"]);
    let with_nodiscard: Vec<&str> = arguments
        .iter()
        .map(|word| match *word {
            "lazy_itable_init=1" => "nodiscard,lazy_itable_init=1",
            word => word,
        })
        .collect();
    tool::run_well("mke2fs", &with_nodiscard);
    let mounted = mount(&folder, "rw,noinit_itable");
    fill(mounted.path());
    drop(mounted);
    folder.check("disk.img");
    let before = tree(&folder);
    let has_all = features(&folder).contains(&"metadata_csum".to_owned());
    if !has_all {
        tune(&folder, "-O metadata_csum", &before, &["metadata_csum"]);
    }
    let renamed = format!("-U {UUID}");
    tune(&folder, &renamed, &before, &["metadata_csum"]);
    tune(&folder, "-O ^metadata_csum,^uninit_bg", &before, &[]);
    tune(&folder, "-O uninit_bg", &before, &["uninit_bg"]);
    tune(&folder, "-U random", &before, &["uninit_bg"]);
    let both = ["metadata_csum_seed", "metadata_csum"];
    tune(
        &folder,
        "-O metadata_csum,metadata_csum_seed",
        &before,
        &both,
    );
    tune(&folder, "-U random", &before, &both);
    tune(
        &folder,
        "-O ^metadata_csum_seed",
        &before,
        &["metadata_csum"],
    );
    tune(&folder, "-O ^metadata_csum", &before, &["uninit_bg"]);
    tune(&folder, "-O ^uninit_bg", &before, &[]);
}

/// One test for each format, so that they run in parallel.
macro_rules! formats {
    ($($name:ident: $index:expr;)*) => {
        $(
            #[test]
            fn $name() {
                there_and_back(FORMATS[$index]);
            }
        )*
    };
}

formats! {
    ext3_with_blocks_of_1k: 0;
    ext3_with_small_inodes: 1;
    ext3_without_indexes: 2;
    ext3_without_a_journal: 3;
    ext4_with_blocks_of_1k: 4;
    ext4_with_an_orphan_file: 5;
    ext4_with_short_descriptors: 6;
    ext4_with_meta_groups: 7;
}

/// Returns the flags of each group. The checksum of a descriptor covers those of bitmaps, which
/// tune2fs leaves where nothing reads them any more.
fn group_flags(folder: &Folder) -> Vec<String> {
    let image = folder.path().join("disk.img").display().to_string();
    let said = tool::run_well("dumpe2fs", &[&image]);
    let lines = said.lines().filter(|line| line.starts_with("Group "));
    let flags = lines.map(|line| line.split_once('[').map_or("", |(_, flags)| flags));
    flags.map(str::to_owned).collect()
}

/// tune2fs makes the same features of the same image, and the same flags of groups.
#[test]
fn tune2fs_does_the_same() {
    for (format, change) in [
        ("-t ext3 -b 1024", "metadata_csum"),
        ("-t ext3 -b 1024", "uninit_bg"),
        ("-t ext4 -b 1024", "^metadata_csum"),
        ("-t ext4 -b 1024 -O metadata_csum_seed", "^metadata_csum"),
        ("-t ext4 -b 1024", "^metadata_csum,^uninit_bg"),
        ("-t ext4 -b 1024 -g 2048", "^metadata_csum"),
        ("-t ext4 -b 1024 -g 2048", "^metadata_csum,uninit_bg"),
        ("-t ext4 -b 1024 -g 2048", "^metadata_csum,^uninit_bg"),
        (
            "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg",
            "metadata_csum",
        ),
        ("-t ext4 -b 1024 -O ^metadata_csum,uninit_bg", "^uninit_bg"),
    ] {
        let folder = Folder::new();
        let image = folder.path().join("disk.img").display().to_string();
        let mut arguments = vec!["-q", "-F", "-E", "lazy_itable_init=0"];
        arguments.extend(format.split_whitespace());
        arguments.extend([image.as_str(), "24M"]);
        tool::run_well("mke2fs", &arguments);
        let made = folder.read("disk.img");
        tool::run("tune2fs", &["-f", "-O", change, &image]);
        let (expected, expected_flags) = (features(&folder), group_flags(&folder));
        folder.write("disk.img", &made);
        folder.good(&format!("tune -O {change} disk.img"));
        folder.check("disk.img");
        assert_eq!(features(&folder), expected, "{format}: {change}");
        assert_eq!(group_flags(&folder), expected_flags, "{format}: {change}");
    }
}

/// Writes bytes into an image.
fn damage(image: &str, offset: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(image);
    file.unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn a_damaged_structure_gets_no_good_checksum() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 disk.img 24M");
    folder.good("mkdir disk.img:/d");
    let image = folder.path().join("disk.img").display().to_string();
    let said = tool::run_well("debugfs", &["-R", "blocks /d", &image]);
    let block: u64 = said.split_whitespace().last().unwrap().parse().unwrap();
    damage(&image, block * 1024 + 1020, &[9]);
    let before = folder.read("disk.img");
    for change in ["-O ^metadata_csum", "-U random"] {
        let error = folder.bad(&format!("tune {change} disk.img"));
        assert!(error.contains("checksum"), "{error}");
        assert!(folder.read("disk.img") == before, "{change}");
    }
}

/// Makes a volume with files whose group descriptors have the checksums of `uninit_bg`.
fn with_files() -> (Folder, String) {
    let folder = Folder::new();
    folder.good(
        "mkfs -q -t ext4 -b 1024 -O ^metadata_csum,uninit_bg -E lazy_itable_init=1 disk.img 24M",
    );
    for number in 0..40 {
        folder.write("f", format!("{number}\n").repeat(200).as_bytes());
        folder.good(&format!("cp f disk.img:/f{number:02}"));
    }
    let image = folder.path().join("disk.img").display().to_string();
    (folder, image)
}

/// A descriptor that counts inodes in use as never used: its table is not zeroed there.
#[test]
fn inodes_in_use_are_not_zeroed_by_a_stale_descriptor() {
    let (folder, image) = with_files();
    for request in ["set_bg 0 itable_unused 2010", "set_bg 0 checksum calc"] {
        tool::run_well("debugfs", &["-w", "-R", request, &image]);
    }
    let before = folder.read("disk.img");
    for change in ["-O metadata_csum", "-U random", "-O ^uninit_bg"] {
        let error = folder.bad(&format!("tune {change} disk.img"));
        assert!(error.contains("counts as never used"), "{error}");
        assert!(folder.read("disk.img") == before, "{change}");
    }
}

/// A bitmap without a checksum that says something else than its descriptor.
#[test]
fn a_wrong_bitmap_gets_no_good_checksum() {
    let (folder, image) = with_files();
    let said = tool::run_well("dumpe2fs", &[&image]);
    let (_, rest) = said.split_once("Block bitmap at ").unwrap();
    let (block, _) = rest.split_once([' ', ',']).unwrap();
    let block: u64 = block.parse().unwrap();
    damage(&image, block * 1024, &[0; 1024]);
    let before = folder.read("disk.img");
    for change in ["-O metadata_csum", "-O ^uninit_bg"] {
        let error = folder.bad(&format!("tune {change} disk.img"));
        assert!(error.contains("marked free"), "{error}");
        assert!(folder.read("disk.img") == before, "{change}");
    }
}

/// An inode in use whose type has become an impossible one.
#[test]
fn an_inode_with_a_wrong_checksum_keeps_it() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 disk.img 24M");
    folder.good("cp hello disk.img:/hello");
    let image = folder.path().join("disk.img").display().to_string();
    let said = tool::run_well("debugfs", &["-R", "imap /hello", &image]);
    let (_, place) = said.split_once("located at block ").unwrap();
    let (block, offset) = place.trim().split_once(", offset ").unwrap();
    let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16).unwrap();
    let at = block.parse::<u64>().unwrap() * 1024 + offset;
    damage(&image, at + 1, &[0x91]);
    folder.good("tune -U random disk.img");
    let said = tool::said(&tool::run("e2fsck", &["-fn", &image]));
    assert!(said.contains("checksum does not match"), "{said}");
}
