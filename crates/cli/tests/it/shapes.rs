//! `build --fit`, `--free`, `--verity` and `--partition`: the smallest image, and what surrounds
//! it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use testkit::{Mount, Random, privilege, tool};

use crate::building::{make_old, make_tree, marks, tree};
use crate::support::Folder;

const UUID: &str = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
const SECONDS: &str = "1700000000";
/// Types and features whose smallest images are made.
const SHAPES: [&str; 14] = [
    "-t ext4",
    "-t ext4 -O ^has_journal",
    "-t ext4 -b 1024 -O ^resize_inode",
    "-t ext4 -b 2048 -I 512",
    "-t ext4 -O ^64bit,^flex_bg,^metadata_csum",
    "-t ext4 -O ^metadata_csum,uninit_bg -b 1024",
    "-t ext4 -O meta_bg,^resize_inode -g 1024",
    "-t ext4 -O inline_data,ea_inode",
    "-t ext4 -O bigalloc -C 16384",
    "-t ext4 -O bigalloc,^has_journal -b 1024 -C 65536",
    "-t ext3 -b 1024",
    "-t ext3 -J size=8",
    "-t ext2 -g 2048",
    "-t ext2 -b 1024 -I 128",
];
/// Blocks that mke2fs and resize2fs leave in the last group, besides its own: a shorter group is
/// none.
const LAST_GROUP_BLOCKS: u64 = 50;

fn build(folder: &Folder, line: &str) -> String {
    let output = folder
        .command(&format!("build {line}"))
        .env("SOURCE_DATE_EPOCH", SECONDS)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", tool::said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn build_json(folder: &Folder, line: &str) -> serde_json::Value {
    serde_json::from_str(&build(folder, &format!("--json {line}"))).unwrap()
}

/// Returns a number in the output of `dumpe2fs -h`.
fn number(image: &Path, name: &str) -> u64 {
    let facts = tool::run_well("dumpe2fs", &["-h".as_ref(), image.as_os_str()]);
    let value = facts.lines().find_map(|line| line.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("{name} in {facts}"));
    value.trim_start_matches(':').trim().parse().unwrap()
}

/// The tree of `building`, and files of many sizes.
fn prepared() -> Folder {
    let folder = Folder::new();
    make_tree(&folder.path().join("tree"));
    let mut random = Random::new(20);
    for file in 0..300_u64 {
        let length = (file * file * 7 % 40_000) as usize;
        folder.write(&format!("tree/large/more-{file}"), &random.bytes(length));
    }
    make_old(&folder);
    folder
}

/// Returns the size in bytes to which resize2fs shrinks an image of the same tree.
fn resized(folder: &Folder, shape: &str) -> Option<u64> {
    build(folder, &format!("-q -F {shape} whole.img tree"));
    let image = folder.path().join("whole.img");
    tool::run_well("e2fsck", &["-fp".as_ref(), image.as_os_str()]);
    let output = tool::run("resize2fs", &["-M".as_ref(), image.as_os_str()]);
    // It cannot shrink every volume.
    output
        .status
        .success()
        .then(|| fs::metadata(&image).unwrap().len())
}

#[test]
fn the_smallest_image_holds_the_tree_and_nothing_else() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let from = folder.path().join("tree");
    let image = folder.path().join("fit.img");
    for shape in SHAPES {
        let built = build_json(&folder, &format!("-F --fit {shape} fit.img tree"));
        folder.check("fit.img");
        let bytes = fs::metadata(&image).unwrap().len();
        assert_eq!(built["bytes"], bytes, "{shape}");
        let block = number(&image, "Block size:");
        assert_eq!(number(&image, "Block count:") * block, bytes, "{shape}");
        assert_eq!(number(&image, "Reserved block count:"), 0, "{shape}");
        let free = number(&image, "Free blocks:");
        let per_group = number(&image, "Blocks per group:");
        let rest = (bytes / block - number(&image, "First block:")) % per_group;
        // Free is a cluster at most, or the space of a last group that is as short as one may be.
        let table = number(&image, "Inode blocks per group:");
        let is_short = rest <= LAST_GROUP_BLOCKS + table + 70;
        assert!(
            free <= 1 || is_short,
            "{shape}: {free} blocks are free of {}",
            bytes / block
        );
        let per_table_block = block / number(&image, "Inode size:");
        let groups = (bytes / block).div_ceil(per_group);
        let free_inodes = number(&image, "Free inodes:");
        assert!(
            free_inodes < groups * per_table_block.max(8),
            "{shape}: {free_inodes}"
        );
        let mount = Mount::new(&image, None, "ext4", "ro").unwrap();
        assert!(tree(mount.path()) == tree(&from), "{shape}");
        assert_eq!(marks(mount.path()), marks(&from), "{shape}");
        drop(mount);
        if let Some(theirs) = resized(&folder, shape) {
            assert!(bytes <= theirs, "{shape}: {bytes}, resize2fs {theirs}");
        }
        let first = folder.read("fit.img");
        build(&folder, &format!("-q -F --fit {shape} fit.img tree"));
        assert!(first == folder.read("fit.img"), "{shape}: the same bytes");
    }
}

#[test]
fn an_archive_fits_as_its_directory_does() {
    let folder = prepared();
    let root = folder.path().to_str().unwrap().to_owned();
    let (archive, from) = (format!("{root}/tree.tar"), format!("{root}/tree"));
    let mut arguments = vec!["-cSf", &archive, "--format=posix", "--sort=name"];
    arguments.extend(["--acls", "--xattrs", "--xattrs-include=*", "-C", &from, "."]);
    tool::run_well("tar", &arguments);
    for shape in ["-t ext4", "-t ext2 -b 1024"] {
        build(&folder, &format!("-q -F --fit {shape} one.img tree"));
        build(&folder, &format!("-q -F --fit {shape} two.img tree.tar"));
        folder.check("two.img");
        let sizes = ["one.img", "two.img"].map(|name| folder.read(name).len());
        // The parts of a sparse file are other extents.
        assert!(sizes[0].abs_diff(sizes[1]) <= 4096, "{shape}: {sizes:?}");
        assert!(
            number(&folder.path().join("two.img"), "Free blocks:") <= 1,
            "{shape}"
        );
    }
}

/// Files of more extents than their inodes hold, in volumes of many groups.
#[test]
fn large_files_fit_too() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("tree")).unwrap();
    let file = File::create(folder.path().join("tree/large")).unwrap();
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(7), 90 << 20),
        &mut &file,
    )
    .unwrap();
    for shape in [
        "-b 1024 -O ^flex_bg",
        "-g 1024",
        "-t ext3 -b 1024",
        "-t ext2",
    ] {
        build(&folder, &format!("-q -F --fit {shape} fit.img tree"));
        folder.check("fit.img");
        let image = folder.path().join("fit.img");
        let (free, block) = (
            number(&image, "Free blocks:"),
            number(&image, "Block size:"),
        );
        assert!(free * block < 400 << 10, "{shape}: {free} blocks are free");
    }
}

#[test]
fn free_space_is_what_was_asked_for() {
    let folder = prepared();
    let image = folder.path().join("disk.img");
    for (free, reserved) in [("20%", "5"), ("50%", "0"), ("0%", "0"), ("10MiB", "5")] {
        build(
            &folder,
            &format!("-q -F --free {free} -m {reserved} disk.img tree"),
        );
        folder.check("disk.img");
        let blocks = number(&image, "Block count:");
        let left = number(&image, "Free blocks:") - number(&image, "Reserved block count:");
        let wanted = match free.strip_suffix('%') {
            Some(percent) => (blocks * percent.parse::<u64>().unwrap()).div_ceil(100),
            None => (10 << 20) / 4096,
        };
        assert!(
            (wanted..=wanted + 2).contains(&left),
            "{free}: {left} of {blocks}"
        );
    }
    let part = "expected a part of the image, from 0% to less than 100%";
    for (line, why) in [
        ("--free 100%", part),
        ("--free=-1%", part),
        ("--free nan%", part),
        ("--free x", "--free x: expected a percentage"),
        (
            "--free 95%",
            "95% free and 5% reserved blocks leave nothing of the image for the tree",
        ),
        ("--free 99.9%", "99.9% free and 5% reserved"),
        (
            "--free 99% -m 0 -g 256 -O ^resize_inode",
            "no image has 99% free blocks",
        ),
    ] {
        let said = folder.bad(&format!("build {line} other.img tree"));
        assert!(said.contains(why), "{said}");
    }
    build(
        &folder,
        "-q -F --free 99.9% -m 0 -O ^has_journal,^resize_inode disk.img tree",
    );
    folder.check("disk.img");
    let (blocks, free) = (
        number(&image, "Block count:"),
        number(&image, "Free blocks:"),
    );
    assert!(
        free * 1000 >= blocks * 999,
        "{free} blocks are free of {blocks}"
    );
    let nothing = ["--fit -m 0", "--free 0 -m 0", "--free 0% -m 0"].map(|size| {
        build(&folder, &format!("-q -F {size} disk.img tree"));
        folder.read("disk.img")
    });
    assert!(nothing.iter().all(|image| *image == nothing[0]));
    for line in [
        "--fit --size 4M",
        "--fit --slack 5",
        "--fit --free 1%",
        "--free 1% --size 9M",
    ] {
        let output = folder
            .command(&format!("build {line} other.img tree"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            tool::said(&output).contains("cannot be used with"),
            "{line}"
        );
    }
    assert!(!folder.path().join("other.img").exists());
}

#[test]
fn a_target_chooses_the_features() {
    let folder = prepared();
    for target in ["debian-12", "debian-13", "grub-2.06"] {
        let built = build_json(&folder, &format!("-F --fit --for {target} disk.img tree"));
        let made = folder.json("info --json disk.img");
        let info = folder.path().join("empty.img");
        let _ = fs::remove_file(&info);
        folder.good(&format!("mkfs -q --for {target} -b 4096 empty.img 64M"));
        let empty = folder.json("info --json empty.img");
        assert_eq!(made["features"], empty["features"], "{target}");
        assert_eq!(built["uuid"], made["uuid"]);
        folder.check("disk.img");
    }
}

fn verify(data: &Path, hashes: &Path, verity: &serde_json::Value) -> bool {
    let [data, hashes] = [data, hashes].map(|path| path.display().to_string());
    let root = verity["root_hash"].as_str().unwrap();
    let offset = verity["hash_offset"].to_string();
    let arguments = ["verify", &data, &hashes, root, "--hash-offset", &offset];
    tool::run("veritysetup", &arguments).status.success()
}

#[test]
fn a_hash_tree_vouches_for_the_image() {
    let folder = prepared();
    let at = |name: &str| folder.path().join(name);
    for shape in ["--fit -b 1024", "--slack 5"] {
        let built = build_json(&folder, &format!("-F {shape} --verity one.img tree"));
        assert!(
            verify(&at("one.img"), &at("one.img"), &built["verity"]),
            "{shape}"
        );
        let line = format!("-F {shape} --verity=hashes --json two.img tree");
        let apart: serde_json::Value = serde_json::from_str(&build(&folder, &line)).unwrap();
        assert!(
            verify(&at("two.img"), &at("hashes"), &apart["verity"]),
            "{shape}"
        );
        assert_eq!(built["verity"]["root_hash"], apart["verity"]["root_hash"]);
        let (one, two) = (folder.read("one.img"), folder.read("two.img"));
        assert!(one[..two.len()] == two && one[two.len()..] == folder.read("hashes"));
        folder.check("two.img");
        let again = build_json(&folder, &format!("-F {shape} --verity one.img tree"));
        assert_eq!(built, again, "UUIDs and salt follow from the tree");
        let mut bytes = folder.read("one.img");
        bytes[5000] ^= 1;
        folder.write("one.img", &bytes);
        assert!(!verify(&at("one.img"), &at("one.img"), &built["verity"]));
    }
    let said = build(&folder, "-F --verity one.img tree");
    assert!(said.contains("root hash:   "), "{said}");
    let refused = folder.bad("build --verity=hashes other.img tree");
    assert!(refused.contains("hashes: is there already"), "{refused}");
    assert!(!at("other.img").exists());
}

/// An image and its hash tree in a file of its own are there together, or neither of them is.
#[test]
fn an_image_and_its_hash_tree_appear_together() {
    let folder = prepared();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for (line, why) in [
        (
            "--verity=folder disk.img tree",
            "folder: is no regular file",
        ),
        (
            "-F --verity=folder disk.img tree",
            "folder: is no regular file",
        ),
        (
            "--verity=missing/hashes disk.img tree",
            "missing/hashes: No such file",
        ),
        (
            "--verity=hashes missing/disk.img tree",
            "missing/disk.img: No such file",
        ),
        ("--verity=/proc/hashes disk.img tree", "/proc/hashes: "),
        ("--verity=hashes --size 1M disk.img tree", "disk.img: "),
    ] {
        let said = folder.bad(&format!("build {line}"));
        assert!(said.contains(why), "{line}: {said}");
        assert_eq!(names(), before, "{line}");
    }
    let old = build_json(&folder, "--fit --verity=hashes disk.img tree");
    let pair = || ["disk.img", "hashes"].map(|name| folder.read(name));
    let (whole, before) = (pair(), names());
    for line in [
        "-F --verity=hashes --size 1M disk.img tree",
        "-F --verity=folder disk.img tree",
        "--verity=hashes disk.img tree",
        "--verity=other disk.img tree",
        "--verity=hashes other.img tree",
    ] {
        folder.bad(&format!("build {line}"));
        assert!(pair() == whole && names() == before, "{line}");
    }
    assert!(verify(&at("disk.img"), &at("hashes"), &old["verity"]));
    folder.write("tree/new", b"another tree");
    let new = build_json(&folder, "-F --fit --verity=hashes disk.img tree");
    assert!(verify(&at("disk.img"), &at("hashes"), &new["verity"]));
    assert_ne!(new["verity"]["root_hash"], old["verity"]["root_hash"]);
    assert_eq!(names(), before);
}

/// The pair is old or new, whatever comes between.
#[test]
fn a_pair_that_cannot_be_replaced_is_the_old_one() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let at = |name: &str| folder.path().join(name);
    let old = build_json(&folder, "--fit --verity=hashes disk.img tree");
    folder.write("tree/new", b"another tree");
    // Nothing replaces what something is mounted on.
    let [image, hashes] = ["disk.img", "hashes"].map(|name| at(name).display().to_string());
    for mounted in [&image, &hashes] {
        tool::run_well("mount", &["--bind", mounted, mounted]);
        let output = folder
            .command("build -F --verity=hashes disk.img tree")
            .output();
        tool::run_well("umount", &[mounted]);
        let said = tool::said(&output.unwrap());
        assert!(
            said.contains(&format!(
                "{}: ",
                Path::new(mounted).file_name().unwrap().display()
            )),
            "{said}"
        );
        assert!(
            verify(&at("disk.img"), &at("hashes"), &old["verity"]),
            "{said}"
        );
        let names = fs::read_dir(folder.path()).unwrap();
        let hidden =
            names.filter(|entry| entry.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
        assert_eq!(hidden.count(), 0, "{said}");
    }
}

#[test]
fn a_disk_has_the_image_in_its_partition() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let disk = folder.path().join("disk.img");
    let text = disk.display().to_string();
    for shape in ["--fit -b 1024", "--fit --verity", "--size 64M"] {
        let line = format!("-F {shape} --partition gpt disk.img tree");
        let built = build_json(&folder, &line);
        let said = tool::run_well("sgdisk", &["-v", &text]);
        assert!(said.contains("No problems found"), "{said}");
        let said = tool::run_well("sfdisk", &["--dump", &text]);
        let uuid = built["partition"]["uuid"].as_str().unwrap().to_uppercase();
        assert!(said.contains(&format!("uuid={uuid}")), "{said}");
        // The partition as an image of its own.
        let whole = folder.read("disk.img");
        let start = built["partition"]["offset"].as_u64().unwrap() as usize;
        let length = built["partition"]["bytes"].as_u64().unwrap() as usize;
        folder.write("part.img", &whole[start..start + length]);
        let part = folder.path().join("part.img");
        if shape.contains("verity") {
            assert!(verify(&part, &part, &built["verity"]));
        }
        folder.check("part.img");
        let mount = Mount::new(&part, None, "ext4", "ro").unwrap();
        let from = folder.path().join("tree");
        assert!(tree(mount.path()) == tree(&from), "{shape}");
        drop(mount);
        build(&folder, &format!("-q {line}"));
        assert!(whole == folder.read("disk.img"), "{shape}: the same bytes");
    }
    build(
        &folder,
        &format!("-q -F -U {UUID} --partition gpt disk.img tree"),
    );
}

/// Pieces of data far apart, of which each takes a cluster.
#[test]
fn pieces_in_clusters_of_their_own_have_their_place() {
    const PIECES: u64 = 1500;
    let folder = Folder::new();
    for name in ["tree", "pieces"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder.write("tree/file", b"text");
    let file = File::create(folder.path().join("pieces/pieces")).unwrap();
    for piece in 0..PIECES {
        file.write_all_at(&[7; 4096], piece << 16).unwrap();
    }
    for format in ["gnu", "posix"] {
        let archive = folder.path().join(format!("{format}.tar"));
        let (archive, pieces) = (archive.to_str().unwrap(), folder.path().join("pieces"));
        let format = format!("--format={format}");
        let arguments = [
            "-cSf",
            archive,
            &format,
            "-C",
            pieces.to_str().unwrap(),
            ".",
        ];
        tool::run_well("tar", &arguments);
    }
    let image = folder.path().join("disk.img");
    for size in ["--slack 0", "--slack 10", "--fit", "--free 10% -m 0"] {
        for sources in [
            "pieces",
            "gnu.tar",
            "posix.tar",
            "tree pieces",
            "tree posix.tar",
        ] {
            let line = format!("-q -F -O bigalloc -C 65536 {size} disk.img {sources}");
            build(&folder, &line);
            folder.check("disk.img");
            let clusters = number(&image, "Block count:") / 16;
            let free = number(&image, "Free blocks:") / 16;
            let most = match size {
                "--fit" => 1,
                "--slack 0" => clusters / 10,
                _ => clusters / 6,
            };
            assert!(
                free <= most,
                "{line}: {free} clusters are free of {clusters}"
            );
            assert!(clusters - free > PIECES, "{line}");
        }
    }
}

/// The folder for temporary files, in which blocks are counted, is full after more or less.
#[test]
fn a_full_folder_for_temporary_files_is_named() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    for number in 0..700 {
        fs::create_dir_all(folder.path().join(format!("tree/{number}"))).unwrap();
    }
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    let at = full.display().to_string();
    for size in ["16k", "100k", "500k", "1m"] {
        let size = format!("size={size}");
        tool::run_well("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &at]);
        let mut command = folder.command("build --fit disk.img tree");
        let output = command.env("TMPDIR", &full).output();
        tool::run_well("umount", &[&at]);
        let output = output.unwrap();
        let said = tool::said(&output);
        assert_eq!(output.status.code(), Some(1), "{size}: {said}");
        for word in [&at, "TMPDIR", "o space left"] {
            assert!(said.contains(word), "{size}: {said}");
        }
        assert!(!folder.path().join("disk.img").exists());
    }
}

/// mkfs rounds the inodes of a group down: to a multiple of 8, of which a block has 4, 2 or 1.
#[test]
fn a_few_files_fit() {
    for options in ["-t ext2 -b 1024", "-b 1024", "-I 1024", "-b 2048 -I 512"] {
        for count in [0, 1, 5, 6, 9, 14, 17] {
            let folder = Folder::new();
            fs::create_dir(folder.path().join("tree")).unwrap();
            for number in 0..count {
                folder.write(&format!("tree/f{number}"), b"text");
            }
            folder.good(&format!("build -q --fit {options} disk.img tree"));
            folder.check("disk.img");
            let size = fs::metadata(folder.path().join("disk.img")).unwrap().len();
            assert!(size < 1 << 20, "{options}, {count} files: {size}");
        }
    }
}

#[test]
fn the_hash_tree_is_not_the_image() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("tree")).unwrap();
    for hashes in ["disk.img", "./disk.img"] {
        let error = folder.bad(&format!("build --verity={hashes} disk.img tree"));
        assert!(error.contains("is the image itself"), "{error}");
        assert!(!folder.path().join("disk.img").exists());
    }
}
