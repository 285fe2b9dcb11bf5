//! Commands on volumes with encrypted files, files with verity, and directories that ignore case.

use testkit::{Mount, privilege, tool};

use crate::support::Folder;

/// Makes `disk.img` with features.
fn with_features(features: &str) -> Folder {
    let folder = Folder::new();
    let path = folder.path().join("disk.img").display().to_string();
    tool::run_well(
        "mke2fs",
        &["-q", "-t", "ext4", "-O", features, &path, "32M"],
    );
    folder
}

fn debugfs(folder: &Folder, request: &str) {
    let path = folder.path().join("disk.img").display().to_string();
    tool::run_well("debugfs", &["-w", "-R", request, &path]);
}

/// Returns the message of a command that fails, of any status.
fn refusal(folder: &Folder, line: &str) -> String {
    let output = folder.command(line).output().unwrap();
    assert!(!output.status.success(), "jext {line}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_not_done_is_told() {
    let folder = with_features("encrypt,casefold,verity");
    let facts = folder.json("info --json disk.img");
    assert_eq!(facts["encoding"], "utf8-12.1");
    let limits = facts["limits"].as_str().unwrap();
    for word in ["no keys", "ignore case", "without verification"] {
        assert!(limits.contains(word), "{limits}");
    }
    let text = folder.good("info disk.img");
    assert!(
        text.contains("Character encoding:       utf8-12.1"),
        "{text}"
    );
    folder.good("mkdir disk.img:/d");
    folder.check("disk.img");
    assert!(folder.good("fsck disk.img").contains("clean"));
}

#[test]
fn what_is_encrypted_is_neither_copied_nor_exported() {
    if !privilege::is_granted() {
        return;
    }
    let folder = with_features("encrypt");
    let image = folder.path().join("disk.img");
    let mounted = Mount::new(&image, None, "ext4", "rw").unwrap();
    let at = mounted.path().to_str().unwrap();
    let fill = "cd \"$1\" && mkdir secret plain && echo text >plain/file \
      && key=$(printf 'k%.0s' $(seq 64) | xfs_io -c add_enckey . | sed 's/.* //') \
      && xfs_io -c \"set_encpolicy $key\" secret && echo hidden >secret/file";
    tool::run_well("bash", &["-c", fill, "bash", at]);
    drop(mounted);
    folder.renew("disk.img");
    let shown = folder.good("ls disk.img:/secret");
    let name = shown.trim();
    assert_eq!(name.len(), 32, "{shown}");
    for line in [
        "export disk.img out.tar",
        "cp -r disk.img:/secret copy",
        &format!("cat disk.img:/secret/{name}"),
        &format!("cp disk.img:/secret/{name} copy"),
        "mkdir disk.img:/secret/new",
        "cp disk.img:/plain/file disk.img:/secret/new",
        &format!("mv disk.img:/secret/{name} disk.img:/plain/"),
    ] {
        let said = refusal(&folder, line);
        assert!(
            said.contains("encrypted, and there is no key"),
            "{line}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
    }
    assert!(!folder.path().join("out.tar").exists());
    folder.good("cp -r disk.img:/plain copied");
    assert_eq!(folder.read("copied/file"), b"text\n");
    folder.good(&format!("rm disk.img:/secret/{name}"));
    folder.check("disk.img");
    assert!(folder.good("fsck disk.img").contains("clean"));
}

#[test]
fn contents_of_files_with_verity_are_copied() {
    let folder = with_features("verity");
    let contents: Vec<u8> = (0..90_000_u32).map(|at| (at % 251) as u8).collect();
    folder.write("source", &contents);
    let source = folder.path().join("source");
    debugfs(&folder, &format!("write {} sealed", source.display()));
    debugfs(&folder, "set_inode_field sealed size 5000");
    debugfs(&folder, "set_inode_field sealed flags 0x180000");
    folder.good("cp disk.img:/sealed copy");
    assert_eq!(folder.read("copy"), &contents[..5000]);
    folder.good("export disk.img out.tar");
    folder.good("build -q built.img out.tar");
    folder.good("cp built.img:/sealed again");
    assert_eq!(folder.read("again"), &contents[..5000]);
    let said = refusal(&folder, "cp source disk.img:/sealed");
    assert!(said.contains("verity"), "{said}");
    folder.check("disk.img");
    assert!(folder.good("fsck disk.img").contains("clean"));
}

#[test]
fn names_of_directories_that_ignore_case_stay() {
    let folder = with_features("casefold");
    folder.write("file", b"contents");
    let source = folder.path().join("file");
    debugfs(&folder, "mkdir d");
    debugfs(&folder, &format!("write {} d/File", source.display()));
    debugfs(&folder, "set_inode_field d flags 0x40080000");
    assert_eq!(folder.good("ls disk.img:/d"), "File\n");
    assert_eq!(folder.good("cat disk.img:/d/File"), "contents");
    for line in [
        "cp file disk.img:/d/new",
        "mkdir disk.img:/d/new",
        "rm disk.img:/d/File",
        "mv disk.img:/d/File disk.img:/out",
    ] {
        let said = refusal(&folder, line);
        assert!(said.contains("ignores case (casefold)"), "{line}: {said}");
    }
    assert_eq!(folder.good("cat disk.img:/d/File"), "contents");
    folder.check("disk.img");
    assert!(folder.good("fsck disk.img").contains("clean"));
}

/// As with `mke2fs -d`, small files lie within their inodes, whatever the tree is read from.
#[test]
fn small_files_are_built_within_their_inodes() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    for (name, length) in [("small", 50), ("middle", 120), ("large", 300)] {
        folder.write(&format!("tree/{name}"), &vec![b'x'; length]);
    }
    folder.good("build -q -O inline_data one.img tree");
    folder.good("export one.img tree.tar");
    folder.good("build -q -O inline_data two.img tree.tar");
    for image in ["one.img", "two.img"] {
        folder.check(image);
        for (name, is_within) in [("small", true), ("middle", true), ("large", false)] {
            let path = folder.path().join(image).display().to_string();
            let stat = tool::run_well("debugfs", &["-R", &format!("stat {name}"), &path]);
            assert_eq!(stat.contains("Blockcount: 0"), is_within, "{image}: {stat}");
        }
    }
    folder.good("export one.img one");
    for (name, length) in [("small", 50), ("middle", 120), ("large", 300)] {
        assert_eq!(folder.read(&format!("one/{name}")), vec![b'x'; length]);
    }
}
