//! Hostile users: archives and images that want to harm, arguments that make no sense. Each command
//! says in one line what is wrong, and writes nothing outside of what it was given.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;

use jext::volume::NewInode;
use jext::{BlockDevice, FileDevice, MountOptions, OpenOptions, Volume};
use layout::InodeNr;
use tar::{EntryType, Header};
use testkit::tool;

use crate::support::Folder;

/// Entries of an archive with their data.
type Entries<'d> = Vec<(Header, &'d [u8])>;

/// An entry of an archive.
fn entry(path: &[u8], kind: EntryType, target: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    if !target.is_empty() {
        header.set_link_name_literal(target).unwrap();
    }
    header.set_cksum();
    header
}

/// An archive of entries with their data.
fn archive(folder: &Folder, name: &str, entries: &[(Header, &[u8])]) {
    let mut bytes = Vec::new();
    for (header, data) in entries {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    folder.write(name, &bytes);
}

fn file(path: &str) -> Header {
    entry(path.as_bytes(), EntryType::Regular, "", 0)
}

#[test]
fn archives_that_want_to_leave_their_tree_are_refused() {
    let folder = Folder::new();
    for (path, kind, target) in [
        ("../outside", EntryType::Regular, ""),
        ("a/../../outside", EntryType::Directory, ""),
        ("link", EntryType::Link, "../../etc/passwd"),
    ] {
        archive(
            &folder,
            "bad.tar",
            &[(entry(path.as_bytes(), kind, target, 0), b"")],
        );
        let error = folder.bad("build out.img bad.tar");
        assert!(
            error.contains("leads out of the archive"),
            "{path}: {error}"
        );
        assert!(!folder.path().join("out.img").exists());
    }
    // An absolute path lies below the root of the image, and a link is only a link.
    let link = entry(b"l", EntryType::Symlink, "/tmp", 0);
    archive(
        &folder,
        "odd.tar",
        &[(file("/etc/x"), b""), (link, b""), (file("etc/x"), b"")],
    );
    folder.good("build -q odd.img odd.tar");
    folder.check("odd.img");
    assert_eq!(folder.good("ls odd.img:/etc"), "x\n");
    // Nothing is made behind a link.
    let link = entry(b"l", EntryType::Symlink, "/tmp", 0);
    archive(&folder, "behind.tar", &[(link, b""), (file("l/x"), b"")]);
    folder.good("build -q behind.img behind.tar");
    folder.check("behind.img");
    assert_eq!(folder.good("ls behind.img:/l"), "x\n");
}

#[test]
fn archives_whose_numbers_cannot_be_are_refused() {
    let folder = Folder::new();
    let all_ones = |at: usize| {
        let mut header = file("file");
        header.as_mut_bytes()[at] = 0x80;
        header.as_mut_bytes()[at + 4..at + 12].fill(0xFF);
        header.set_cksum();
        header
    };
    let digits = [b'1'; 4096];
    let mut listed = entry(b"x", EntryType::XHeader, "", 0);
    let lines = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=4096\n";
    listed.set_size(lines.len() as u64);
    listed.set_cksum();
    let sparse = entry(b"sparse", EntryType::Regular, "", 4096);
    let cases: &[(&str, Entries<'_>)] = &[
        ("size", vec![(all_ones(124), b"")]),
        ("time", vec![(all_ones(136), b"")]),
        ("owner", vec![(all_ones(108), b"")]),
        ("parts", vec![(listed, lines), (sparse, &digits)]),
        (
            "short",
            vec![(entry(b"file", EntryType::Regular, "", 1 << 40), b"x")],
        ),
    ];
    for (name, entries) in cases {
        archive(&folder, name, entries);
        let error = folder.bad(&format!("build out.img {name}"));
        assert!(error.contains(name), "{name}: {error}");
        assert!(!folder.path().join("out.img").exists());
    }
}

/// A file takes the place of a directory, a directory that of a file, and both have been used
/// before.
#[test]
fn later_entries_replace_earlier_ones_of_another_kind() {
    let folder = Folder::new();
    let directory = |path: &str| entry(path.as_bytes(), EntryType::Directory, "", 0);
    let entries: Vec<(Header, &[u8])> = vec![
        (directory("a"), b""),
        (file("a"), b""),
        (file("b"), b""),
        (directory("a"), b""),
        (file("a/c"), b""),
        (file("b/d/e"), b""),
    ];
    archive(&folder, "twice.tar", &entries);
    folder.good("build -q out.img twice.tar");
    folder.check("out.img");
    assert_eq!(folder.good("ls out.img:/a"), "c\n");
    assert_eq!(folder.good("ls out.img:/b/d"), "e\n");
}

/// The three ways in which GNU tar writes sparse files into POSIX archives.
#[test]
fn sparse_files_of_all_versions_are_read() {
    let folder = Folder::new();
    let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    for (at, text) in [
        (8192, "one"),
        (20 << 20, "two"),
        ((40 << 20) - 4096, "three"),
    ] {
        sparse.write_all_at(text.as_bytes(), at).unwrap();
    }
    let expected = folder.read("sparse");
    for version in ["0.0", "0.1", "1.0"] {
        let made = Command::new("tar")
            .current_dir(folder.path())
            .args(["-S", "--format=posix", "-cf", "sparse.tar"])
            .args([&format!("--sparse-version={version}"), "sparse"])
            .status();
        assert!(made.unwrap().success());
        folder.good("build -q -F out.img sparse.tar");
        folder.check("out.img");
        assert_eq!(
            folder.good("ls out.img"),
            "lost+found\nsparse\n",
            "{version}"
        );
        folder.good("cp --sparse out.img:/sparse back");
        assert!(folder.read("back") == expected, "{version}");
    }
}

fn volume(folder: &Folder, name: &str) -> Volume {
    let path = folder.path().join(name);
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&path, &OpenOptions::default()).unwrap());
    Volume::open(device, None, MountOptions::default()).unwrap()
}

/// An image in which one name is replaced by another of the same length.
fn renamed(folder: &Folder, name: &[u8], other: &[u8]) {
    folder.good("mkfs -q -t ext2 -F named.img 4M");
    folder.write("file", b"harm");
    let plain = String::from_utf8(name.to_vec()).unwrap();
    folder.good("mkdir named.img:/d");
    folder.good(&format!("cp file named.img:/d/{plain}"));
    let mut bytes = folder.read("named.img");
    let at = bytes
        .windows(name.len())
        .position(|window| window == name)
        .unwrap();
    bytes[at..at + name.len()].copy_from_slice(other);
    folder.write("named.img", &bytes);
}

#[test]
fn names_that_lead_out_of_an_image_are_refused() {
    let folder = Folder::new();
    folder.write("named.img", &[0; 4 << 20]);
    for other in ["../outside", "/tmp/harm0", "in/side/it"] {
        renamed(&folder, b"0123456789", other.as_bytes());
        for line in [
            "export named.img out",
            "export named.img out.tar",
            "cp -r named.img:/ copied",
            "ls named.img:/d",
            "ls -R named.img",
            "rm -r named.img:/d",
        ] {
            let error = folder.bad(line);
            assert!(error.contains("holds a slash"), "{line}: {error}");
        }
        assert!(!folder.path().join("outside").exists());
        assert!(!folder.path().join("out.tar").exists());
        let _ = fs::remove_dir_all(folder.path().join("out"));
        let _ = fs::remove_dir_all(folder.path().join("copied"));
    }
}

/// Returns the output of a command that succeeds, as bytes.
fn printed(folder: &Folder, line: &str) -> Vec<u8> {
    let output = folder.command(line).output().unwrap();
    assert!(output.status.success(), "jext {line}");
    output.stdout
}

#[test]
fn names_may_hold_any_other_bytes() {
    let folder = Folder::with_image();
    let open = volume(&folder, "disk.img");
    for name in [b"line\nfeed".as_slice(), b"\xFF\xFE", b"-rf", b"\x1B[2J"] {
        open.make_directory(InodeNr::ROOT, name, &NewInode::default())
            .unwrap();
        let nr = open.lookup(InodeNr::ROOT, name).unwrap();
        open.create(nr, name, &NewInode::default()).unwrap();
    }
    open.close().unwrap();
    folder.renew("disk.img");
    let listed = printed(&folder, "ls -R disk.img");
    let found = listed.windows(2).filter(|bytes| *bytes == b"\xFF\xFE");
    assert_eq!(found.count(), 3);
    folder.json("ls -R --json disk.img");
    folder.good("export disk.img out");
    assert!(
        folder
            .path()
            .join(OsStr::from_bytes(b"out/\xFF\xFE/\xFF\xFE"))
            .is_file()
    );
    folder.good("export disk.img out.tar");
    folder.good("build -q again.img out.tar");
    folder.good("build -q tree.img out");
    for image in ["again.img", "tree.img"] {
        folder.check(image);
        assert_eq!(
            printed(&folder, &format!("ls {image}")),
            printed(&folder, "ls disk.img")
        );
    }
}

#[test]
fn directories_that_lead_in_a_circle_end() {
    let folder = Folder::with_image_of_ext3();
    folder.good("mkdir -p disk.img:/a/b");
    let image = folder.path().join("disk.img").display().to_string();
    tool::run_well("debugfs", &["-w", "-R", "link /a /a/b/again", &image]);
    tool::run_well("debugfs", &["-w", "-R", "link /a /a/b/more", &image]);
    let listed = folder.command("ls -R disk.img").output().unwrap();
    let error = tool::said(&listed);
    assert_eq!(listed.status.code(), Some(1), "{error}");
    assert!(
        error.contains("/a/b/more: directory 2049 has two entries"),
        "{error}"
    );
    for line in ["export disk.img out.tar", "rm -r disk.img:/a"] {
        let error = folder.bad(line);
        assert!(error.contains("two entries"), "{line}: {error}");
    }
    for line in ["cp -r disk.img:/a out", "cp -r disk.img:/a disk.img:/c"] {
        folder.bad(line);
    }
}

#[test]
fn deep_trees_are_no_matter() {
    const DEPTH: usize = 3000;
    let folder = Folder::with_image();
    let open = volume(&folder, "disk.img");
    let mut nr = InodeNr::ROOT;
    for _ in 0..DEPTH {
        nr = open.make_directory(nr, b"d", &NewInode::default()).unwrap();
    }
    open.close().unwrap();
    folder.renew("disk.img");
    folder.good("export disk.img out.tar");
    folder.good("build -q again.img out.tar");
    folder.check("again.img");
    let listed = folder.good("ls -R again.img");
    assert_eq!(listed.lines().filter(|line| *line == "d").count(), DEPTH);
    assert!(
        folder
            .bad("cp -r again.img:/d copied")
            .contains("jext export")
    );
    folder.good("rm -r again.img:/d");
    folder.check("again.img");
}

#[test]
fn arguments_that_are_not_utf_8_are_an_error() {
    let folder = Folder::new();
    for words in [
        &[b"info".as_slice(), b"\xFF"][..],
        &[b"\xFF"],
        &[b"fsck", b"--\xFF"],
    ] {
        let mut command = folder.command("");
        command.args(words.iter().map(|word| OsStr::from_bytes(word)));
        let output = command.output().unwrap();
        let code = output.status.code();
        assert!(
            matches!(code, Some(2 | 16)),
            "{code:?}: {}",
            tool::said(&output)
        );
    }
}

#[test]
fn what_fails_leaves_no_file_behind() {
    let folder = Folder::new();
    folder.write("log.img", &[0; 4 << 20]);
    for line in [
        "mkfs new.img 0",
        "mkfs new.img 1K",
        "mkfs new.img 9223372036854775807",
        "mkfs new.img 16M -I 100",
        "mkfs new.img 16M -b 1000",
        "mkfs new.img 16M -b 0",
        "mkfs new.img 16M -i 0",
        "mkfs new.img 16M -g 1",
        "mkfs new.img 16M -m 99",
        "mkfs new.img 16M -L 12345678901234567",
        "mkfs new.img 16M -J size=1000",
        "mkfs new.img 16M -J device=log.img",
        "mkfs new.img 16M -d nowhere",
        "mkfs -O journal_dev new.img 16K",
        "mkfs -O journal_dev -b 77 new.img 16M",
        "mkfs -O journal_dev -L 12345678901234567 new.img 16M",
        "journal create new.img 0",
        "build -b 7 new.img .",
        "build -i 0 new.img .",
        "build --size 0 new.img .",
        "build --size 9223372036854775808 new.img .",
    ] {
        folder.bad(line);
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{line} leaves {left:?}");
    }
}

#[test]
fn build_replaces_an_image_and_nothing_else() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("tree")).unwrap();
    fs::create_dir(folder.path().join("directory")).unwrap();
    tool::run_well("mkfifo", &[folder.path().join("fifo")]);
    for name in ["directory", "fifo", "/dev/null"] {
        let error = folder.bad(&format!("build -F {name} tree"));
        assert!(error.contains("no regular file"), "{error}");
    }
    // What was there stays until the new image is whole.
    folder.good("build -q out.img tree");
    let before = folder.read("out.img");
    folder.write("tree/large", &vec![7; 4 << 20]);
    folder.bad("build -F --size 1M out.img tree");
    assert!(folder.read("out.img") == before);
}
