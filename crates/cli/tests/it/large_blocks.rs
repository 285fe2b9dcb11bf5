//! Images with blocks that are larger than those that are written.

use std::fs;
use std::path::Path;

use testkit::{Loop, privilege, tool};

use crate::support::Folder;

/// Makes `large.img` with `mke2fs -d`, of the directory `tree`, which has a file of one block.
fn folder(block_bytes: usize) -> Folder {
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("tree/d")).unwrap();
    folder.write("tree/d/f", &vec![b'a'; block_bytes]);
    let image = folder.path().join("large.img");
    let file = fs::File::create(&image).unwrap();
    file.set_len(2560 * block_bytes as u64).unwrap();
    let (image, block_bytes) = (image.to_str().unwrap(), block_bytes.to_string());
    let tree = folder.path().join("tree");
    let (tree, kind) = (tree.to_str().unwrap(), "ext4");
    let arguments = ["-q", "-F", "-t", kind, "-b", &block_bytes, "-d", tree];
    tool::run_well("mke2fs", &[&arguments[..], &[image]].concat());
    folder
}

/// Writes the block of the file `d/f` to the journal, with other contents.
fn log(folder: &Folder, newer: &[u8]) {
    folder.write("newer", newer);
    let (image, newer) = (
        folder.path().join("large.img"),
        folder.path().join("newer").display().to_string(),
    );
    let requests = folder.path().join("requests");
    let debugfs = |text: &str| {
        fs::write(&requests, text).unwrap();
        let (requests, image) = (requests.to_str().unwrap(), image.to_str().unwrap());
        tool::run_well("debugfs", &["-w", "-f", requests, image])
    };
    let block = debugfs("bmap /d/f 0");
    let block = block.lines().last().unwrap();
    debugfs(&format!("jo -c -v 3\njw -b {block} {newer}\njc\n"));
}

#[test]
fn images_with_large_blocks_are_read_and_not_written() {
    for block_bytes in [8192, 65_536] {
        let folder = folder(block_bytes);
        let before = folder.read("large.img");
        let why = format!("blocks of {block_bytes} bytes are only read");
        assert_eq!(folder.good("ls large.img:/d"), "f\n");
        assert_eq!(folder.good("cat large.img:/d/f"), "a".repeat(block_bytes));
        folder.good("cp large.img:/d/f out");
        assert_eq!(folder.read("out"), vec![b'a'; block_bytes]);
        folder.good("export large.img exported");
        assert_eq!(folder.read("exported/d/f"), vec![b'a'; block_bytes]);
        assert!(folder.good("info large.img").contains("only read"));
        folder.good("fsck large.img");
        for line in [
            "mkdir large.img:/new",
            "cp newer large.img:/newer",
            "tune -L label large.img",
        ] {
            folder.write("newer", b"");
            let said = folder.bad(line);
            assert!(said.contains(&why), "{line}: {said}");
        }
        assert!(folder.read("large.img") == before, "the image has changed");
    }
}

#[test]
fn their_journals_are_replayed_in_memory() {
    let folder = folder(65_536);
    log(&folder, &[b'b'; 65_536]);
    let before = folder.read("large.img");
    assert_eq!(folder.good("cat large.img:/d/f"), "b".repeat(65_536));
    let said = folder.bad("journal replay large.img");
    let why = "has to be replayed, but blocks of 65536 bytes are only read; e2fsck -p replays it";
    assert!(said.contains(why), "{said}");
    assert!(folder.read("large.img") == before, "the image has changed");
}

#[test]
fn their_external_journals_are_replayed_in_memory() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let (block_bytes, at) = (16_384_usize, |name: &str| folder.path().join(name));
    fs::create_dir(at("tree")).unwrap();
    folder.write("tree/f", &vec![b'a'; block_bytes]);
    folder.write("newer", &vec![b'b'; block_bytes]);
    for name in ["large.img", "log.img"] {
        let file = fs::File::create(at(name)).unwrap();
        file.set_len(4096 * block_bytes as u64).unwrap();
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (image, log, tree) = (
        text(&at("large.img")),
        text(&at("log.img")),
        text(&at("tree")),
    );
    let of_blocks = ["-q", "-F", "-b", "16384"];
    tool::run_well(
        "mke2fs",
        &[&of_blocks[..], &["-O", "journal_dev", &log]].concat(),
    );
    let attached = Loop::attach(&at("log.img"));
    let device = attached.path();
    let journal = format!("device={device}");
    let more = ["-t", "ext4", "-J", &journal, "-d", &tree, &image];
    tool::run_well("mke2fs", &[&of_blocks[..], &more].concat());
    let debugfs = |text: &str| {
        folder.write("requests", text.as_bytes());
        let requests = at("requests").display().to_string();
        tool::run_well("debugfs", &["-w", "-f", &requests, &image])
    };
    let block = debugfs("bmap /f 0");
    let block = block.lines().last().unwrap();
    let newer = at("newer").display().to_string();
    debugfs(&format!(
        "jo -c -v 3 -f {device}\njw -b {block} {newer}\njc\n"
    ));

    drop(attached);
    let before = (folder.read("large.img"), folder.read("log.img"));
    let read = folder.good("cat --journal log.img large.img:/f");
    assert_eq!(read, "b".repeat(block_bytes));
    let said = folder.bad("cat large.img:/f");
    assert!(said.contains("the journal is on another device"), "{said}");
    let said = folder.bad("journal replay --journal log.img large.img");
    assert!(said.contains("16384 bytes are only read"), "{said}");
    let after = (folder.read("large.img"), folder.read("log.img"));
    assert!(before == after, "an image has changed");
}

#[test]
fn they_are_mounted_read_only() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder(65_536);
    fs::create_dir(folder.path().join("mnt")).unwrap();
    let said = folder.bad("mount large.img mnt");
    let why = "blocks of 65536 bytes are only read; mount it with -o ro";
    assert!(said.contains(why), "{said}");
    folder.good("mount -o ro large.img mnt");
    let read = fs::read(folder.path().join("mnt/d/f"));
    let made = fs::create_dir(folder.path().join("mnt/new"));
    folder.good("umount mnt");
    assert!(read.unwrap() == vec![b'a'; 65_536]);
    assert!(made.is_err(), "it is read-only");
    log(&folder, &[b'b'; 65_536]);
    let said = folder.bad("mount -o ro large.img mnt");
    assert!(said.contains("has to be replayed"), "{said}");
    folder.good("mount -o ro,noload large.img mnt");
    folder.good("umount mnt");
}
