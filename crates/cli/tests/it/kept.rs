//! Properties of a tree that are kept: `cp -a` beside GNU cp, images that are built twice, and the
//! owner of a root directory.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use testkit::{Mount, privilege, tool};

use super::building::{Marks, make_tree, marks, tree};
use crate::support::Folder;

/// The facts of stat about each path beyond the contents: owner, mode, links, times to the
/// nanosecond, and true if there are holes.
type Facts = BTreeMap<Vec<u8>, (u32, u32, u32, u64, (i64, i64), (i64, i64), bool)>;

fn facts(root: &Path) -> Facts {
    let mut facts = Facts::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let name = path
            .strip_prefix(root)
            .unwrap()
            .as_os_str()
            .as_bytes()
            .to_vec();
        // What was copied into it last has changed that.
        let mtime = match &name[..] {
            b"listed" => (0, 0),
            _ => (found.mtime(), found.mtime_nsec()),
        };
        let is_sparse = found.is_file() && found.blocks() * 512 < found.len();
        // Reading the source has changed the times of access of its directories and links.
        let atime = match found.is_file() {
            true => (found.atime(), found.atime_nsec()),
            false => (0, 0),
        };
        let of = (
            found.mode(),
            found.uid(),
            found.gid(),
            if found.is_dir() { 0 } else { found.nlink() },
            mtime,
            atime,
            is_sparse,
        );
        facts.insert(name, of);
    }
    facts
}

fn gnu_cp(from: &Path, to: &Path) {
    tool::run_well("cp", &["-a".as_ref(), from.as_os_str(), to.as_os_str()]);
}

/// Everything that can be seen of a tree.
fn all(root: &Path) -> (Facts, Marks, testkit::tree::Tree) {
    let mut seen = tree(root);
    seen.values_mut().for_each(|node| {
        // The facts have it.
        node.mtime = None;
        node.links = None;
    });
    (facts(root), marks(root), seen)
}

fn assert_equal(found: &Path, wanted: &Path, what: &str) {
    let (found, wanted) = (all(found), all(wanted));
    for (path, of) in &wanted.0 {
        let name = String::from_utf8_lossy(path);
        assert_eq!(found.0.get(path), Some(of), "{what}: {name}");
    }
    assert_eq!(found.0.len(), wanted.0.len(), "{what}");
    assert_eq!(found.1, wanted.1, "{what}: attributes");
    assert!(found.2 == wanted.2, "{what}: contents");
}

#[test]
fn an_archive_copy_keeps_what_gnu_cp_keeps() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    make_tree(&at("tree"));
    // Access times that reading does not change.
    let times = [
        "-type",
        "f",
        "-exec",
        "touch",
        "-a",
        "-d",
        "now + 1 hour",
        "{}",
        ";",
    ];
    let mut find = vec![at("tree").display().to_string()];
    find.extend(times.map(str::to_owned));
    tool::run_well("find", &find);
    for name in ["own.img", "gnu.img"] {
        folder.good(&format!("mkfs -q -N 4000 {name} 64M"));
    }
    {
        let mount = Mount::new(&at("gnu.img"), None, "ext4", "rw,user_xattr,acl").unwrap();
        gnu_cp(&at("tree"), mount.path());
        // Into a directory that hands a list down, which a copy does not take.
        gnu_cp(&at("tree/listed/inner"), &mount.at("tree/listed/taken"));
    }
    folder.good("cp -a tree own.img:/");
    folder.good("cp -a tree/listed/inner own.img:/tree/listed/taken");
    folder.good("cp -a own.img:/tree back");
    folder.check("own.img");
    {
        let own = Mount::new(&at("own.img"), None, "ext4", "ro,noatime").unwrap();
        let gnu = Mount::new(&at("gnu.img"), None, "ext4", "ro,noatime").unwrap();
        assert_equal(&own.at("tree"), &gnu.at("tree"), "into an image");
    }
    // Out of the image, and from one into another.
    gnu_cp(&at("tree/listed/inner"), &at("tree/listed/taken"));
    assert_equal(&at("back"), &at("tree"), "out of an image");
    folder.good("mkfs -q -N 4000 other.img 64M");
    folder.good("cp -a own.img:/tree other.img:/tree");
    folder.check("other.img");
    let other = Mount::new(&at("other.img"), None, "ext4", "ro,noatime").unwrap();
    assert_equal(&other.at("tree"), &at("tree"), "between images");
}

#[test]
fn copies_are_named_if_asked() {
    let folder = Folder::with_image();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    folder.write("d/f", b"x");
    let said = folder.good("cp -r -v d disk.img:/");
    assert_eq!(said, "'d' -> 'disk.img:/d'\n'd/f' -> 'disk.img:/d/f'\n");
    assert_eq!(folder.good("cp -r d disk.img:/e"), "");
}

/// Makes an image at a fixed time, without a UUID.
fn build(folder: &Folder, line: &str) -> Vec<u8> {
    let mut command = folder.command(&format!("build -q {line}"));
    let output = command
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", tool::said(&output));
    folder.read(line.split_whitespace().next().unwrap())
}

#[test]
fn an_image_is_the_same_whenever_it_is_built() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("tree/large")).unwrap();
    for number in 0..500 {
        folder.write(&format!("tree/large/a-name-of-some-length-{number}"), b"x");
    }
    folder.write("tree/file", &[7; 50_000]);
    // Another tree with the same names and contents, made in another order.
    std::fs::create_dir_all(at("again/large")).unwrap();
    folder.write("again/file", &[7; 50_000]);
    for number in (0..500).rev() {
        folder.write(&format!("again/large/a-name-of-some-length-{number}"), b"x");
    }
    let first = build(&folder, "first.img tree");
    assert!(build(&folder, "second.img tree") == first);
    assert!(build(&folder, "again.img again") == first, "the same tree");
    folder.check("first.img");
    let uuid = |image: &str| folder.json(&format!("info --json {image}"))["uuid"].clone();
    let mut uuids = vec![uuid("first.img")];
    // One byte, one time, one option: each makes another image, which is not taken for the first.
    let mut bytes = vec![7; 50_000];
    bytes[30_000] = 8;
    folder.write("again/file", &bytes);
    build(&folder, "byte.img again");
    tool::run_well(
        "touch",
        &["-d", "2001-01-01", &at("tree/file").display().to_string()],
    );
    build(&folder, "time.img tree");
    build(&folder, "label.img tree -L label");
    uuids.extend(["byte.img", "time.img", "label.img"].map(uuid));
    uuids.sort_by_key(ToString::to_string);
    uuids.dedup();
    assert_eq!(uuids.len(), 4, "{uuids:?}");
    // Without a time that is given, each image is one of its own.
    folder.good("build -q one.img tree");
    folder.good("build -q two.img tree");
    assert_ne!(uuid("one.img"), uuid("two.img"));
}

/// Compared with mke2fs, both run by a user without root privileges.
#[test]
fn the_root_directory_is_roots_unless_asked() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let program = assert_cmd::cargo::cargo_bin("jext");
    let ours = folder.path().join("jext");
    if std::fs::hard_link(&program, &ours).is_err() {
        std::fs::copy(&program, &ours).unwrap();
    }
    for (options, owner) in [
        ("", "0"),
        ("-E root_owner", "65534"),
        ("-E root_owner=7:7", "7"),
    ] {
        for line in [
            format!("./jext mkfs -q {options} own.img 8M"),
            format!("/usr/sbin/mke2fs -q -F {options} gnu.img 8M"),
        ] {
            let mut command = Command::new("setpriv");
            command.current_dir(folder.path());
            command.args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "sh",
                "-c",
                &line,
            ]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{line}: {}", tool::said(&output));
        }
        for image in ["own.img", "gnu.img"] {
            let path = folder.path().join(image);
            let stat = tool::run_well(
                "debugfs",
                &["-R".as_ref(), "stat <2>".as_ref(), path.as_os_str()],
            );
            let words: Vec<&str> = stat.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "User:").unwrap();
            assert_eq!(words[at + 1], owner, "{image}, {options}: {stat}");
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// On a terminal, and nowhere else.
#[test]
fn progress_is_shown_on_a_terminal() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    folder.write("tree/large", &vec![7; 64 << 20]);
    let program = assert_cmd::cargo::cargo_bin("jext").display().to_string();
    for line in ["build -q seen.img tree", "export seen.img seen.tar"] {
        let typed = format!("{program} {line}");
        let mut command = Command::new("script");
        let command = command.args(["-q", "-e", "-c", &typed, "/dev/null"]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let seen = tool::said(&output);
        assert!(output.status.success(), "{line}: {seen}");
        // A fast machine is done before more than the beginning is drawn.
        assert!(seen.contains("B/64.0"), "{line}: {seen:?}");
        let output = folder.command(
            &line
                .replace("seen.img tree", "-F seen.img tree")
                .replace("seen.tar", "unseen.tar"),
        );
        let output = { output }.output().unwrap();
        assert!(
            output.status.success() && tool::said(&output).is_empty(),
            "{line}"
        );
    }
}

/// Values of up to 64 KiB, which lie in inodes of their own, come from a tree, go through an
/// archive, and are copied between images.
#[test]
fn large_values_are_kept() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    let values = [("file", 65_536), ("file", 5000), ("listed", 20_000)];
    let name_of = |bytes: usize| format!("user.of-{bytes}");
    folder.good("mkfs -q -t ext4 -O ea_inode source.img 64M");
    let source = Mount::new(&at("source.img"), None, "ext4", "rw,user_xattr").unwrap();
    std::fs::write(source.at("/file"), "contents").unwrap();
    std::fs::create_dir(source.at("/listed")).unwrap();
    for (path, bytes) in values {
        let (path, value) = (source.at(&format!("/{path}")), vec![bytes as u8; bytes]);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(path, name_of(bytes), &value, flags).unwrap();
    }
    let tree = source.path().display();
    folder.good(&format!("build -t ext4 -O ea_inode built.img {tree}"));
    drop(source);
    folder.good("export built.img out.tar");
    folder.good("build -t ext4 -O ea_inode,quota again.img out.tar");
    folder.good("mkfs -q -t ext4 -O ea_inode copied.img 64M");
    folder.good("cp -a again.img:/file copied.img:/");
    folder.good("cp -a again.img:/listed copied.img:/");
    for image in ["source.img", "built.img", "again.img", "copied.img"] {
        folder.check(image);
        let mount = Mount::new(&at(image), None, "ext4", "ro,user_xattr").unwrap();
        for (path, bytes) in values {
            let mut found = vec![0; 1 << 17];
            let path = mount.at(&format!("/{path}"));
            let count = rustix::fs::lgetxattr(path, name_of(bytes), &mut found).unwrap();
            assert!(
                found[..count] == vec![bytes as u8; bytes],
                "{image}: {bytes}"
            );
        }
    }
}
