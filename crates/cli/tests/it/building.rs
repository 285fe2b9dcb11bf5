//! build, export and mkfs -d: whole trees into images and out of them, from directories and
//! archives.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, FileDevice, OpenOptions};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, llistxattr, lsetxattr, mknodat};
use testkit::tree::{Tree, of_folder};
use testkit::{Mount, privilege, tool};

use crate::support::Folder;

const UUID: &str = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
const SECONDS: &str = "1700000000";
/// `u:rwx u1000:r-x g:r-x m:r-x o:---`, in the form of programs.
const LIST: &[u8] = &[
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 0xE8, 3, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];
/// Names in the large directory, which is indexed.
const NAMES: usize = 700;

/// The attributes of every path that has some.
pub(crate) type Marks = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A tree with something of everything.
pub(crate) fn make_tree(root: &Path) {
    std::fs::create_dir_all(root.join("large")).unwrap();
    for number in 0..NAMES {
        let name = format!("large/a-name-of-some-length-{number}");
        std::fs::write(root.join(name), number.to_string()).unwrap();
    }
    std::fs::write(root.join("file"), vec![7; 300_000]).unwrap();
    let long: Vec<u8> = (0..1_300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(root.join("long"), &long[..long.len() - 3]).unwrap();
    std::fs::hard_link(root.join("file"), root.join("other-name")).unwrap();
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"far away", 40 << 20).unwrap();
    sparse.set_len((40 << 20) + 100_000).unwrap();
    std::fs::write(root.join("nobody"), "secret").unwrap();
    symlink("short", root.join("fast")).unwrap();
    symlink("l".repeat(200), root.join("slow")).unwrap();
    mknodat(
        CWD,
        root.join("null"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 3),
    )
    .unwrap();
    mknodat(
        CWD,
        root.join("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    // What is in it was made before the list that its directory hands down, and has none.
    std::fs::create_dir_all(root.join("listed/inner")).unwrap();
    std::fs::write(root.join("listed/inner/file"), "plain").unwrap();
    for (path, name, value) in [
        ("file", "user.colour", b"green".as_slice()),
        ("file", "user.long", &[9; 900]),
        ("listed", "system.posix_acl_default", LIST),
        ("listed", "system.posix_acl_access", LIST),
        ("nobody", "user.long", &[9; 900]),
        ("large", "trusted.mark", b"\0binary\xFF"),
    ] {
        lsetxattr(root.join(path), name, value, XattrFlags::empty()).unwrap();
    }
    std::os::unix::fs::chown(root.join("file"), Some(1000), Some(70_000)).unwrap();
    std::fs::set_permissions(root.join("nobody"), PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::set_permissions(root.join("file"), PermissionsExt::from_mode(0o4751)).unwrap();
}

pub(crate) fn marks(root: &Path) -> Marks {
    let mut marks = Marks::new();
    for path in of_folder(root).keys() {
        let path = String::from_utf8(path.clone()).unwrap();
        let at = root.join(path.trim_start_matches('/'));
        let mut names = vec![0; 1 << 16];
        let count = llistxattr(&at, &mut names).unwrap();
        let names = names[..count].split(|byte| *byte == 0);
        let found: BTreeMap<_, _> = names
            .filter(|name| !name.is_empty())
            .map(|name| {
                let mut value = vec![0; 1 << 16];
                let count = lgetxattr(&at, name, &mut value).unwrap();
                (name.to_vec(), value[..count].to_vec())
            })
            .collect();
        if !found.is_empty() {
            marks.insert(path, found);
        }
    }
    marks
}

/// Returns the tree without `lost+found`; modes and contents, links and times of files.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut tree = of_folder(root);
    tree.retain(|path, _| path != b"/lost+found");
    if let Some(root) = tree.get_mut(b"".as_slice()) {
        root.links = None;
    }
    tree
}

/// The kernel sees the same tree in the image.
fn assert_same(folder: &Folder, image: &str, expected: &Path) {
    folder.check(image);
    let mount = Mount::new(&folder.path().join(image), None, "ext4", "ro").unwrap();
    let (found, wanted) = (tree(mount.path()), tree(expected));
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        wanted.keys().collect::<Vec<_>>()
    );
    for (path, node) in &wanted {
        assert!(found[path] == *node, "{}", String::from_utf8_lossy(path));
    }
    assert_eq!(marks(mount.path()), marks(expected));
}

fn build(folder: &Folder, line: &str) {
    let output = folder
        .command(&format!("build -q -U {UUID} {line}"))
        .env("SOURCE_DATE_EPOCH", SECONDS)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", tool::said(&output));
}

/// Makes `piped.img` of an archive that comes through a pipe.
fn build_from_input(folder: &Folder, archive: &str) {
    let output = folder
        .command(&format!("build -q -F -U {UUID} piped.img -"))
        .env("SOURCE_DATE_EPOCH", SECONDS)
        .write_stdin(folder.read(archive))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{archive}: {}",
        tool::said(&output)
    );
}

/// Sets the times of the tree: what is older than the image keeps them.
pub(crate) fn make_old(folder: &Folder) {
    let tree = folder.path().join("tree");
    let tree = tree.to_str().unwrap();
    let touch = ["-exec", "touch", "-h", "-d", "@1500000000", "{}", "+"];
    tool::run_well("find", &[&[tree], &touch[..]].concat());
}

fn prepared() -> Folder {
    let folder = Folder::new();
    make_tree(&folder.path().join("tree"));
    make_old(&folder);
    folder
}

#[test]
fn a_directory_becomes_an_image_and_comes_back() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let from = folder.path().join("tree");
    for kind in ["ext2", "ext3", "ext4", "ext4 -O bigalloc -C 16384"] {
        build(&folder, &format!("-F -t {kind} one.img tree"));
        assert_same(&folder, "one.img", &from);
        build(&folder, &format!("-F -t {kind} two.img tree"));
        let is_same = folder.read("one.img") == folder.read("two.img");
        assert!(is_same, "{kind}: the same bytes");
    }
    build(&folder, "-b 1024 -I 128 -t ext2 small.img tree");
    assert_same(&folder, "small.img", &from);
    folder.good("export one.img back");
    assert_eq!(tree(&folder.path().join("back")), tree(&from));
    assert_eq!(marks(&folder.path().join("back")), marks(&from));
    folder.good("mkfs -q -d tree filled.img 64M");
    assert_same(&folder, "filled.img", &from);
}

#[test]
fn archives_of_tar_become_images_and_images_archives() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let from = folder.path().join("tree");
    let tar = |arguments: &[&str]| {
        let mut all = vec!["-C", folder.path().to_str().unwrap(), "--numeric-owner"];
        all.extend(["--acls", "--xattrs", "--xattrs-include=*"]);
        all.extend(arguments);
        tool::run_well("tar", &all);
    };
    let root = folder.path().to_str().unwrap();
    for (name, more) in [
        ("plain.tar", ["--format=posix", "--sort=name"]),
        ("sparse.tar.gz", ["-Sz", "--format=posix"]),
        ("old.tar.zst", ["--zstd", "--format=posix"]),
    ] {
        let out = format!("{root}/{name}");
        let tree = format!("{root}/tree");
        let mut arguments = vec!["-cf", out.as_str(), "-C", tree.as_str()];
        arguments.extend(more);
        arguments.push(".");
        tar(&arguments);
        build(&folder, &format!("{name}.img {name}"));
        assert_same(&folder, &format!("{name}.img"), &from);
    }
    for name in ["plain.tar", "sparse.tar.gz", "old.tar.zst"] {
        build_from_input(&folder, name);
        assert!(
            folder.read("piped.img") == folder.read(&format!("{name}.img")),
            "{name} through a pipe"
        );
    }
    for name in ["out.tar", "out.tar.gz", "out.tar.zst"] {
        folder.good(&format!("export sparse.tar.gz.img {name}"));
        let back = folder.path().join(format!("{name}.back"));
        std::fs::create_dir(&back).unwrap();
        let archive = format!("{root}/{name}");
        tar(&["-xpf", &archive, "-C", back.to_str().unwrap()]);
        assert_eq!(tree(&back), tree(&from), "{name}");
        assert_eq!(marks(&back), marks(&from), "{name}");
        build(&folder, &format!("{name}.img {name}"));
        assert_same(&folder, &format!("{name}.img"), &from);
    }
    let bytes = folder.read("out.tar").len();
    assert!(bytes < 20 << 20, "{bytes}: the file of 40 MiB is a hole");
}

#[test]
fn what_cannot_be_built_is_said_in_one_line() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    folder.write("tree/file", b"x");
    folder.write(
        "text",
        b"this is no archive, but it is long enough to be taken for one by mistake",
    );
    assert!(
        folder
            .bad("build out.img nowhere")
            .contains("nowhere: No such file")
    );
    assert!(
        folder
            .bad("build out.img text")
            .contains("neither a directory nor a tar archive")
    );
    assert!(!folder.path().join("out.img").exists());
    folder.good("build -q out.img tree");
    assert!(folder.bad("build out.img tree").contains("-F replaces it"));
    folder.good("build -q -F out.img tree");
    folder.check("out.img");
    folder.write("tree/large", &[1; 2 << 20]);
    let full = folder.bad("build --size 1M small.img tree");
    assert!(full.contains("no space is left"), "{full}");
    assert!(!folder.path().join("small.img").exists());
    assert!(folder.bad("export out.img tree").contains("is not empty"));
    assert!(
        folder
            .bad("export text x.tar")
            .contains("less than a sector")
    );
}

/// The journal lies on a device of its own, which knows the image.
#[test]
fn an_image_is_built_with_its_journal_elsewhere() {
    if !privilege::is_granted() {
        return;
    }
    let folder = prepared();
    let from = folder.path().join("tree");
    folder.good("journal create -q -b 1024 log.img 4M");
    let built = folder.json("build --json -J device=log.img disk.img tree");
    let info = folder.json("info --json disk.img");
    let log = folder.json("info --json log.img");
    assert_eq!(info["block_bytes"], 1024, "as the journal has them");
    assert_eq!(info["journal_uuid"], log["uuid"]);
    assert_eq!(log["journal_users"][0], built["uuid"]);
    let at = |name: &str| folder.path().join(name);
    let (image, journal) = (at("disk.img"), at("log.img"));
    let check = || {
        let (image, journal) = (image.display().to_string(), journal.display().to_string());
        tool::run_well("e2fsck", &["-fn", "-j", &journal, &image]);
    };
    check();
    for line in [
        "build -b 4096 -J device=log.img other.img tree",
        "build -J device=log.img other.img tree",
        "build -J device=tree/file other.img tree",
    ] {
        folder.bad(line);
        assert!(!at("other.img").exists(), "{line}");
    }
    assert_eq!(folder.json("info --json log.img"), log);
    let mount = Mount::new(&image, Some(&journal), "ext4", "rw").unwrap();
    assert_eq!(tree(mount.path()), tree(&from));
    assert_eq!(marks(mount.path()), marks(&from));
    std::fs::write(mount.at("/new"), "by the kernel").unwrap();
    drop(mount);
    check();
    folder.good("mkdir --journal log.img disk.img:/more");
    check();
}

/// A failed build does not become a user of the journal.
#[test]
fn a_build_that_fails_leaves_the_journal_free() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    folder.write("tree/large", &vec![7; 8 << 20]);
    folder.good("journal create -q -b 1024 log.img 4M");
    let error = folder.bad("build --size 4M -J device=log.img disk.img tree");
    assert!(error.contains("no space"), "{error}");
    assert_eq!(folder.json("info --json log.img")["journal_user_count"], 0);
    folder.good("build -q -J device=log.img disk.img tree");
}

/// A build is killed before its image replaces the old one, or right after that.
#[test]
fn a_build_that_is_killed_leaves_an_image_that_its_journal_knows() {
    for is_replaced in [false, true] {
        let folder = Folder::new();
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        folder.good("journal create -q -b 1024 log.img 4M");
        let new = folder.json("build --json -J device=log.img disk.img tree");
        let uuid = |found: &serde_json::Value, key: &str| {
            uuid::Uuid::parse_str(found[key].as_str().unwrap()).unwrap()
        };
        let new = uuid(&new, "uuid").into_bytes();
        let images = ["disk.img", "log.img"].map(|name| folder.read(name));
        folder.good("build -q -F -J device=log.img disk.img tree");
        let log = uuid(&folder.json("info --json log.img"), "uuid").into_bytes();
        on_log(&folder, |device| {
            jbd2::format::announce_user(device, 1024, log, Some(new)).unwrap();
        });
        if is_replaced {
            folder.write("disk.img", &images[0]);
        }
        folder.good("fsck --journal log.img disk.img");
        folder.good("mkdir --journal log.img disk.img:/more");
        folder.bad("build -J device=log.img other.img tree");
        let again = folder.json("build --json -F -J device=log.img disk.img tree");
        let found = folder.json("info --json log.img");
        assert_eq!(found["journal_users"], serde_json::json!([again["uuid"]]));
        folder.good("fsck --journal log.img disk.img");
    }
}

fn on_log(folder: &Folder, change: impl FnOnce(&Arc<dyn BlockDevice>)) {
    let path = folder.path().join("log.img");
    let device = FileDevice::open(&path, &OpenOptions::default()).unwrap();
    change(&(Arc::new(device) as Arc<dyn BlockDevice>));
}

/// The journal changes its user when the new image replaces the old one.
#[test]
fn a_journal_belongs_to_the_image_that_is_there() {
    const UUID: &str = "-U 6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
    let folder = Folder::new();
    for name in ["tree", "large"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder.write("tree/file", b"text");
    folder.write("large/large", &vec![7; 8 << 20]);
    folder.good("journal create -q -b 1024 log.img 4M");
    let user = || {
        let found = folder.json("info --json log.img");
        assert_eq!(found["journal_user_count"], 1);
        found["journal_users"][0].as_str().unwrap().to_owned()
    };
    folder.good(&format!("build -q {UUID} -J device=log.img disk.img tree"));
    let pair = || ["disk.img", "log.img"].map(|name| folder.read(name));
    let old = pair();
    for uuid in [UUID, ""] {
        let line = format!("build -F {uuid} --size 4M -J device=log.img disk.img large");
        let error = folder.bad(&line);
        assert!(error.contains("no space"), "{error}");
        assert!(pair() == old, "{line}");
    }
    for uuid in [UUID, ""] {
        let line = format!("build --json -F {uuid} -J device=log.img disk.img large");
        let built = folder.json(&line);
        assert_eq!(built["uuid"], user().as_str());
        folder.good("ls --journal log.img disk.img:/large");
    }
    let other = "build -F -J device=log.img other.img tree";
    let taken = folder.bad(other);
    assert!(taken.starts_with("-J device=log.img: "), "{taken}");
    // The old image exists under another name.
    std::fs::hard_link(
        folder.path().join("disk.img"),
        folder.path().join("other.img"),
    )
    .unwrap();
    let whole = pair();
    folder.bad(other);
    assert!(pair() == whole);
}
