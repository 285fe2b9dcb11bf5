//! Images that hold something else than ext: each command says in one line what it is, and what
//! next.

use std::fs::File;
use std::os::unix::fs::FileExt;

use testkit::tool;

use crate::support::Folder;

const MIB: u64 = 1 << 20;

/// Hides all mounts from a program in its own namespace: mkfs.btrfs looks at each of them, and
/// fails at a mount of another test whose server was just killed.
const NO_MOUNTS: &str = "mount -t tmpfs none /proc && mkdir /proc/self && : >/proc/self/mounts";

/// An image that is zero but for some bytes.
fn image(folder: &Folder, name: &str, bytes: u64, pieces: &[(u64, &[u8])]) {
    let file = File::create(folder.path().join(name)).unwrap();
    file.set_len(bytes).unwrap();
    for (at, piece) in pieces {
        file.write_all_at(piece, *at).unwrap();
    }
}

/// Checks that every command which opens an image reports this about it, and changes nothing.
fn assert_told(folder: &Folder, name: &str, words: &[&str]) {
    let before = folder.read(name);
    folder.write("file", b"x");
    for line in [
        format!("info {name}"),
        format!("ls {name}"),
        format!("cp file {name}:/file"),
        format!("cat {name}:/file"),
        format!("tune -L label {name}"),
        format!("mount {name} ."),
        format!("journal show {name}"),
        format!("export {name} out.tar"),
    ] {
        let error = folder.bad(&line);
        for word in words {
            assert!(error.contains(word), "{line}: {error}");
        }
        assert!(error.contains(name), "{line}: {error}");
    }
    let output = folder.command(&format!("fsck {name}")).output().unwrap();
    let said = tool::said(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "fsck: {said}");
    let refused = folder.bad(&format!("mkfs {name}"));
    assert!(refused.contains("-F replaces it"), "{refused}");
    assert!(folder.read(name) == before, "{name} has changed");
}

#[test]
fn other_file_systems_and_containers_are_named() {
    let folder = Folder::new();
    let cases: &[(&str, u64, &[u8], &str)] = &[
        ("xfs", 0, b"XFSB", "XFS"),
        ("btrfs", 65_600, b"_BHRfS_M", "btrfs"),
        ("ntfs", 3, b"NTFS    ", "NTFS"),
        ("fat", 82, b"FAT32   ", "FAT"),
        ("iso", 32_769, b"CD001", "ISO 9660"),
        ("squashfs", 0, b"hsqs", "squashfs"),
        ("swap", 4086, b"SWAPSPACE2", "swap"),
        ("luks", 0, b"LUKS\xBA\xBE", "cryptsetup open"),
        ("lvm", 512, b"LABELONE", "vgchange -ay"),
        ("gzip", 0, b"\x1F\x8B", "gzip"),
        ("qcow2", 0, b"QFI\xFB", "qemu-img convert"),
        ("vmdk", 0, b"KDMV", "VMDK"),
        ("tar", 257, b"ustar", "jext build"),
    ];
    for (name, at, magic, word) in cases {
        image(&folder, name, MIB, &[(*at, magic)]);
        assert_told(&folder, name, &[word]);
    }
}

#[test]
fn what_other_mkfs_make_is_named() {
    let folder = Folder::new();
    for (program, arguments, bytes, word) in [
        ("mkfs.xfs", "-q", 300 * MIB, "XFS"),
        ("mkfs.btrfs", "-q", 128 * MIB, "btrfs"),
        ("mkswap", "", 8 * MIB, "swap"),
        ("mkfs.vfat", "", 8 * MIB, "FAT"),
        ("mkfs.ntfs", "-q -F -f", 8 * MIB, "NTFS"),
    ] {
        image(&folder, program, bytes, &[]);
        let path = folder.path().join(program);
        let line = format!("{program} {arguments} {}", path.display());
        tool::run_well(
            "unshare",
            &["-rm", "sh", "-c", &format!("{NO_MOUNTS} && exec {line}")],
        );
        assert_told(&folder, program, &[word]);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn ext4_is_written_and_other_features_are_refused_by_name() {
    let folder = Folder::new();
    image(&folder, "ext4.img", 64 * MIB, &[]);
    let path = folder.path().join("ext4.img").display().to_string();
    tool::run_well("mke2fs", &["-q", "-t", "ext4", &path]);
    folder.write("file", b"contents");
    for line in [
        "cp file ext4.img:/",
        "mkdir ext4.img:/new",
        "rm -r ext4.img:/lost+found",
    ] {
        folder.good(line);
        folder.check("ext4.img");
    }
    assert_eq!(folder.good("cat ext4.img:/file"), "contents");
    folder.good("tune -L label ext4.img");
    folder.check("ext4.img");
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    folder.write("tree/file", &[7; 100_000]);
    folder.good("build -t ext4 built.img tree");
    folder.good("mkfs -q -t ext4 -d tree made.img 64M");
    for image in ["built.img", "made.img"] {
        folder.check(image);
        let contents = folder.good(&format!("cat {image}:/file"));
        assert_eq!(contents, "\u{7}".repeat(100_000));
    }
    assert!(folder.good("info ext4.img").contains("extent"));
    assert!(folder.good("fsck ext4.img").contains("clean"));
    // The feature dirdata, which no program of e2fsprogs sets.
    image(&folder, "other.img", 64 * MIB, &[]);
    let path = folder.path().join("other.img").display().to_string();
    tool::run_well(
        "mke2fs",
        &["-q", "-t", "ext4", "-O", "^metadata_csum", &path],
    );
    let mut bytes = folder.read("other.img");
    bytes[1024 + 0x61] |= 0x10;
    folder.write("other.img", &bytes);
    let error = folder.bad("tune -L other other.img");
    assert!(error.contains("dirdata"), "{error}");
    let output = folder.command("fsck other.img").output().unwrap();
    let said = tool::said(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("dirdata"), "{said}");
    assert!(said.contains("e2fsck -fn"), "{said}");
}

/// A table of firmware: one partition of type 0x83.
fn mbr(start: u32, count: u32) -> Vec<u8> {
    let mut entry = vec![0x80, 0, 0, 0, 0x83, 0, 0, 0];
    entry.extend(start.to_le_bytes());
    entry.extend(count.to_le_bytes());
    entry
}

#[test]
fn a_whole_disk_tells_where_its_file_system_is() {
    let folder = Folder::new();
    folder.good("mkfs -q part.img 8M");
    let part = folder.read("part.img");
    for (start, named) in [(2048_u32, true), (63, false)] {
        let at = u64::from(start) * 512;
        let table = mbr(start, 16384);
        image(
            &folder,
            "disk.img",
            16 * MIB,
            &[(446, &table), (510, b"\x55\xAA"), (at, &part)],
        );
        let device = "slice(disk.img,1MiB..9MiB)";
        let words = if named {
            vec!["MBR", "partition 1 holds ext", device, "losetup -P"]
        } else {
            vec!["MBR", "partition 1 holds ext", "losetup -f --show -o 32256"]
        };
        assert_told(&folder, "disk.img", &words);
        if named {
            assert_eq!(folder.good(&format!("ls {device}")), "lost+found\n");
        }
    }
}

#[test]
fn the_partitions_of_gpt_are_found() {
    let folder = Folder::new();
    folder.good("mkfs -q part.img 8M");
    image(&folder, "disk.img", 24 * MIB, &[]);
    folder.write(
        "script",
        b"label: gpt\nstart=2048, size=2048\nstart=6144, size=16384\n",
    );
    let line = "sfdisk -q disk.img < script";
    let made = std::process::Command::new("sh")
        .args(["-c", line])
        .current_dir(folder.path())
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .status();
    assert!(made.unwrap().success());
    let disk = File::options()
        .write(true)
        .open(folder.path().join("disk.img"))
        .unwrap();
    disk.write_all_at(&folder.read("part.img"), 6144 * 512)
        .unwrap();
    let device = "slice(disk.img,3MiB..11MiB)";
    assert_told(
        &folder,
        "disk.img",
        &["GPT", "partition 2 holds ext", device],
    );
    assert_eq!(folder.good(&format!("ls {device}")), "lost+found\n");
}

#[test]
fn a_lost_superblock_is_told_from_none() {
    let folder = Folder::new();
    folder.good("mkfs -q -b 1024 disk.img 16M");
    let file = File::options()
        .write(true)
        .open(folder.path().join("disk.img"))
        .unwrap();
    file.write_all_at(&[0; 1024], 1024).unwrap();
    let error = folder.bad("ls disk.img");
    assert!(error.contains("e2fsck -b 8193 brings it back"), "{error}");
    image(&folder, "empty.img", MIB, &[]);
    assert!(folder.bad("info empty.img").contains("jext mkfs"));
}
