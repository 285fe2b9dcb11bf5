//! cp, in all directions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use testkit::tool;

use crate::support::Folder;

/// Bytes that differ from place to place.
fn pattern(count: usize) -> Vec<u8> {
    (0..count)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

#[test]
fn files_go_in_and_come_out() {
    let folder = Folder::with_image();
    for (name, size) in [
        ("empty", 0),
        ("small", 100),
        ("block", 1024),
        ("large", 3_000_001),
    ] {
        folder.write(name, &pattern(size));
        folder.good(&format!("cp {name} disk.img:/{name}"));
        folder.good(&format!("cp disk.img:/{name} back"));
        assert_eq!(folder.read("back"), folder.read(name), "{name}");
    }
    folder.good("cp disk.img:/large disk.img:/copy");
    folder.good("cp disk.img:/copy disk.img:/small .");
    assert_eq!(folder.read("copy"), folder.read("large"));
    folder.check("disk.img");
}

#[test]
fn trees_go_in_and_come_out_as_they_are() {
    let folder = Folder::with_image();
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("inner/deep")).unwrap();
    folder.write("tree/file", &pattern(5000));
    folder.write("tree/inner/other", b"x");
    std::os::unix::fs::symlink("file", tree.join("link")).unwrap();
    std::fs::set_permissions(tree.join("file"), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(folder.bad("cp tree disk.img:/").contains("-r copies it"));
    folder.good("cp -rp tree disk.img:/");
    let listed = folder.json("ls --json disk.img:/tree");
    let kinds: Vec<_> = listed[0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["kind"])
        .collect();
    assert_eq!(kinds, ["regular file", "directory", "symbolic link"]);
    folder.good("cp -rp disk.img:/tree back");
    let (own, copy) = (tree.join("file"), folder.path().join("back/file"));
    let (own, copy) = (own.metadata().unwrap(), copy.metadata().unwrap());
    assert_eq!((own.mode(), own.mtime()), (copy.mode(), copy.mtime()));
    assert_eq!(folder.read("back/inner/other"), b"x");
    assert_eq!(
        std::fs::read_link(folder.path().join("back/link"))
            .unwrap()
            .to_str(),
        Some("file")
    );
    assert!(folder.path().join("back/inner/deep").is_dir());
    assert!(
        folder
            .bad("cp -r disk.img:/tree disk.img:/tree/inner")
            .contains("cannot be copied into itself")
    );
    folder.check("disk.img");
}

#[test]
fn images_are_copied_between() {
    let folder = Folder::with_image();
    folder.good("mkfs -q -t ext2 other.img 8M");
    folder.write("file", &pattern(300_000));
    folder.good("cp file disk.img:/file");
    folder.good("cp disk.img:/file other.img:/renamed");
    folder.good("cp other.img:/renamed out");
    assert_eq!(folder.read("out"), folder.read("file"));
    assert!(
        folder
            .bad("mv disk.img:/file other.img:/file")
            .contains("use cp and rm")
    );
    assert!(
        folder
            .bad("ln disk.img:/file other.img:/l")
            .contains("a link cannot lead out")
    );
    folder.check("disk.img");
    folder.check("other.img");
}

#[test]
fn holes_stay_holes_if_asked() {
    let folder = Folder::with_image();
    let mut bytes = vec![0; 2_000_000];
    bytes[1_000_000] = 1;
    folder.write("sparse", &bytes);
    folder.good("cp --sparse --sync sparse disk.img:/sparse");
    let stat = folder.json("stat --json disk.img:/sparse");
    assert_eq!(stat[0]["size"], 2_000_000);
    assert!(stat[0]["sectors"].as_u64().unwrap() < 40, "{stat}");
    folder.good("cp disk.img:/sparse out");
    assert_eq!(folder.read("out"), bytes);
    // Those that the source has stay without being asked for.
    let out = folder.path().join("out").metadata().unwrap();
    assert!(out.blocks() * 512 < out.len(), "{} blocks", out.blocks());
    folder.good("cp out disk.img:/again");
    let stat = folder.json("stat --json disk.img:/again");
    assert!(stat[0]["sectors"].as_u64().unwrap() < 40, "{stat}");
    folder.check("disk.img");
}

/// The kernel states 0 or 4096 bytes as the length of a file that it generates.
#[test]
fn files_that_the_kernel_makes_are_copied_to_their_end() {
    let folder = Folder::with_image();
    for path in [
        "/proc/version",
        "/proc/self/mounts",
        "/sys/kernel/uevent_seqnum",
    ] {
        for options in ["", "-a"] {
            folder.good(&format!("cp {options} {path} disk.img:/copy"));
            let found = folder.good("cat disk.img:/copy");
            let stat = folder.json("stat --json disk.img:/copy");
            assert_eq!(stat[0]["size"], found.len(), "{options} {path}");
            assert!(found.ends_with('\n') && !found.contains('\0'), "{path}");
        }
    }
    folder.good("cp -r /sys/kernel/uevent_seqnum disk.img:/again");
    assert!(!folder.good("cat disk.img:/again").contains('\0'));
    folder.check("disk.img");
}

#[test]
fn files_of_several_sources_stay_one_file() {
    let folder = Folder::with_image();
    for name in ["a", "b", "back"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder.write("a/one", b"contents");
    let at = |name: &str| folder.path().join(name);
    std::fs::hard_link(at("a/one"), at("b/two")).unwrap();
    folder.good("cp -a a b disk.img:/");
    let links = |path: &str| folder.json(&format!("stat --json {path}"))[0]["links"].clone();
    assert_eq!(links("disk.img:/a/one"), 2);
    folder.good("cp -a disk.img:/a disk.img:/b back");
    assert_eq!(at("back/b/two").metadata().unwrap().nlink(), 2);
    assert_eq!(folder.read("back/b/two"), b"contents");
    folder.check("disk.img");
}

#[test]
fn a_full_image_says_so_and_stays_whole() {
    let folder = Folder::new();
    folder.good("mkfs -q disk.img 4M");
    folder.write("big", &pattern(8 << 20));
    assert_eq!(
        folder.bad("cp big disk.img:/big"),
        "disk.img:/big: no space is left on the volume"
    );
    folder.check("disk.img");
    // Half a copy is not kept.
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    for name in ["a", "b"] {
        folder.write(name, b"x");
    }
    folder.good("cp a disk.img:/big");
    assert!(
        folder
            .bad("cp a b disk.img:/big")
            .contains("not a directory to copy several files into")
    );
    assert!(
        folder
            .bad("cp nothing disk.img:/x")
            .ends_with("nothing: no such file or directory")
    );
}

/// A command whose last arguments are bytes; what it prints.
fn with_bytes(folder: &Folder, line: &str, arguments: &[&[u8]]) -> Vec<u8> {
    let arguments = arguments.iter().map(|bytes| OsStr::from_bytes(bytes));
    let output = folder.command(line).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "jext {line}: {error}");
    output.stdout
}

#[test]
fn names_that_are_not_text_are_names() {
    let folder = Folder::with_image();
    let inner = folder.path().join("tree").join(OsStr::from_bytes(b"d\xE9"));
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join(OsStr::from_bytes(b"\xFFile")), b"data").unwrap();
    std::os::unix::fs::symlink(OsStr::from_bytes(b"\xFE"), inner.join("link")).unwrap();
    folder.good("cp -r tree disk.img:/");
    folder.good("cp -r disk.img:/tree back");
    let back = folder.path().join("back").join(OsStr::from_bytes(b"d\xE9"));
    let file = back.join(OsStr::from_bytes(b"\xFFile"));
    assert_eq!(std::fs::read(file).unwrap(), b"data");
    let target = std::fs::read_link(back.join("link")).unwrap();
    assert_eq!(target.as_os_str().as_bytes(), b"\xFE");
    // Given by name, to every command.
    let run = |line: &str, arguments: &[&[u8]]| with_bytes(&folder, line, arguments);
    let (directory, path) = (b"disk.img:/tree/d\xE9", b"disk.img:/tree/d\xE9/\xFFile");
    assert_eq!(run("ls", &[directory]), b"link\n\xFFile\n");
    assert_eq!(run("cat", &[path]), b"data");
    assert!(!run("stat", &[path]).is_empty());
    run("cp", &[path, b"disk.img:/\x80copy"]);
    run("cp", &[path, b"disk.img:/"]);
    run("mv", &[b"disk.img:/\x80copy", b"disk.img:/tree"]);
    run("ln", &[path, b"disk.img:/tree/\x81hard"]);
    run("mkdir", &[b"disk.img:/\xC0dir"]);
    assert_eq!(
        run("ls disk.img:/tree", &[]),
        b"d\xE9\n\x80copy\n\x81hard\n"
    );
    let listed = folder.json("ls --json disk.img:/");
    let entries = listed[0]["entries"].as_array().unwrap();
    let hex: Vec<_> = entries.iter().map(|entry| &entry["name_hex"]).collect();
    assert!(hex.contains(&&serde_json::json!("c0646972")), "{hex:?}");
    run("rm", &[b"disk.img:/\xFFile", path]);
    run("rm -r", &[b"disk.img:/\xC0dir", directory]);
    folder.check("disk.img");
}

#[test]
fn a_copy_of_directories_in_a_circle_ends() {
    let folder = Folder::with_image();
    folder.good("mkdir disk.img:/d");
    let image = folder.path().join("disk.img");
    let link = ["-w", "-R", "link <2> /d/up"].map(OsStr::new);
    tool::run_well("debugfs", &[link[0], link[1], link[2], image.as_os_str()]);
    let error = folder.bad("cp -r disk.img:/ out");
    assert!(error.contains("two entries that lead to it"), "{error}");
}

/// Whatever the two are called, and whatever is between them.
#[test]
fn a_copy_onto_itself_is_refused_and_loses_nothing() {
    let folder = Folder::with_image();
    folder.write("file", b"kept");
    std::fs::hard_link(folder.path().join("file"), folder.path().join("other")).unwrap();
    std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
    folder.good("mkdir disk.img:/d");
    folder.good("cp file disk.img:/file");
    folder.good("ln disk.img:/file disk.img:/other");
    folder.good("ln -s file disk.img:/link");
    for base in ["./", "disk.img:/d/../"] {
        for (options, from, to) in [
            ("", "file", "./file"),
            ("", "file", "other"),
            ("", "file", "link"),
            ("", "link", "file"),
            ("-r", "link", "./link"),
            ("-r", "link", "file"),
            ("-a", "file", "other"),
            ("--sparse", "file", "other"),
        ] {
            let plain = base.replace("d/../", "");
            let line = format!("cp {options} {plain}{from} {base}{to}");
            let error = folder.bad(&line);
            assert!(
                error.contains("cannot be copied onto itself"),
                "{line}: {error}"
            );
        }
    }
    assert_eq!(folder.read("link"), b"kept");
    for name in ["file", "other", "link"] {
        assert_eq!(folder.good(&format!("cat disk.img:/{name}")), "kept");
    }
    // One of several names, twice in one command.
    folder.good("cp -a disk.img:/file disk.img:/other disk.img:/file disk.img:/d");
    for name in ["file", "other"] {
        assert_eq!(folder.good(&format!("cat disk.img:/d/{name}")), "kept");
    }
    // A link that leads to the same as the one in its place is made anew.
    folder.good("cp -r disk.img:/link disk.img:/same");
    folder.good("cp -r disk.img:/link disk.img:/same");
    folder.check("disk.img");
}

#[test]
fn a_directory_is_not_copied_into_itself_by_another_way() {
    let folder = Folder::with_image();
    folder.good("mkdir disk.img:/a");
    folder.good("mkdir disk.img:/b");
    std::fs::create_dir_all(folder.path().join("a")).unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("l")).unwrap();
    for line in [
        "cp -r disk.img:/a disk.img:/b/../a/new",
        "cp -r a ./a/new",
        "cp -r a l/other",
    ] {
        let error = folder.bad(line);
        assert!(
            error.contains("cannot be copied into itself"),
            "{line}: {error}"
        );
    }
    folder.check("disk.img");
}
