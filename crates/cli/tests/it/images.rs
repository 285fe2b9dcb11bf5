//! mkfs, info, ls, cat, stat, mkdir, rm, mv, ln.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::support::Folder;

#[test]
fn mkfs_says_what_it_made_and_info_agrees() {
    let folder = Folder::new();
    let made = folder.json("mkfs --json -t ext3 -b 4096 -I 128 -L crowns -U 6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000 -J size=8 disk.img 64M");
    assert_eq!(made["blocks"], 16384);
    assert_eq!(made["journal_blocks"], 2048);
    let info = folder.json("info --json disk.img");
    assert_eq!(info["kind"], "ext3");
    assert_eq!(info["label"], "crowns");
    assert_eq!(info["uuid"], "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000");
    assert_eq!(info["state"], "clean");
    for key in [
        "blocks",
        "free_blocks",
        "inodes",
        "inode_bytes",
        "block_bytes",
        "features",
    ] {
        assert_eq!(info[key], made[key], "{key}");
    }
    assert!(
        folder
            .good("info disk.img")
            .contains("Label:                    crowns")
    );
    folder.check("disk.img");
}

/// A new file stays sparse, and holds what it would have held if every zero had been written.
#[test]
fn a_new_file_stays_sparse() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    let bytes = vec![0xAA; 64 << 20];
    let uuid = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
    let volume = format!("-t ext3 -J size=16 -U {uuid} -E hash_seed={uuid}");
    let journal = format!("-O journal_dev -U {uuid}");
    for (options, size) in [(volume, "1G"), (journal, "64M")] {
        let mkfs = |name: &str, size: &str| {
            let mut command = folder.command(&format!("mkfs -q -F {options} {name} {size}"));
            command.env("SOURCE_DATE_EPOCH", "1700000000");
            assert!(command.output().unwrap().status.success(), "{options}");
        };
        mkfs("sparse.img", size);
        let allocated = fs::metadata(at("sparse.img")).unwrap().blocks() * 512;
        assert!(allocated < 4 << 20, "{options}: {allocated} bytes");
        fs::write(at("full.img"), &bytes).unwrap();
        mkfs("full.img", "64M");
        fs::remove_file(at("sparse.img")).unwrap();
        mkfs("sparse.img", "64M");
        let (sparse, full) = (folder.read("sparse.img"), folder.read("full.img"));
        let differs = (0..sparse.len()).step_by(1024).filter(|at| {
            let (sparse, full) = (&sparse[*at..at + 1024], &full[*at..at + 1024]);
            sparse != full && full != &bytes[..1024]
        });
        assert_eq!(differs.count(), 0, "{options}");
        fs::remove_file(at("sparse.img")).unwrap();
        fs::remove_file(at("full.img")).unwrap();
    }
}

#[test]
fn mkfs_takes_mke2fs_options() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext2 -O ^dir_index,^resize_inode -N 512 -m 0 -E root_owner=1000:100 disk.img 8192");
    let info = folder.json("info --json disk.img");
    assert_eq!(
        (info["kind"].as_str(), info["blocks"].as_u64()),
        (Some("ext2"), Some(8192))
    );
    assert_eq!(info["reserved_blocks"], 0);
    let root = folder.json("ls --json -d disk.img");
    assert_eq!(root[0]["entries"][0]["uid"], 1000);
    folder.check("disk.img");
    let made = folder.good("mkfs -t ext4 other.img 64M");
    assert!(made.contains(" extent 64bit flex_bg "), "{made}");
    folder.check("other.img");
    let wrong = folder
        .command("mkfs -t ext5 third.img 64M")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("expected ext2, ext3 or ext4"));
}

#[test]
fn mkfs_does_not_destroy_by_mistake() {
    let folder = Folder::new();
    folder.good("mkfs -q -L precious disk.img 16M");
    let error = folder.bad("mkfs disk.img");
    assert!(
        error.starts_with("disk.img: holds an ext file system labelled \"precious\""),
        "{error}"
    );
    assert!(error.ends_with("-F replaces it"), "{error}");
    folder.good("mkfs -q -F disk.img");
    assert_eq!(folder.json("info --json disk.img")["label"], "");
}

#[test]
fn errors_say_what_where_and_what_next() {
    let folder = Folder::with_image();
    assert!(
        folder
            .bad("mkfs new.img")
            .starts_with("new.img: is not there; give a size, as in `jext mkfs new.img 64M`")
    );
    assert!(
        folder
            .bad("mkfs mem:1GiB")
            .starts_with("mem:1GiB: lives for one process only")
    );
    assert!(
        folder
            .bad("ls mem:1GiB")
            .contains("bench and lab take memory")
    );
    assert!(folder.bad("ls nowhere.img").starts_with("nowhere.img: "));
    assert_eq!(
        folder.bad("ls disk.img:/x"),
        "disk.img:/x: no such file or directory"
    );
    assert_eq!(
        folder.bad("cat disk.img"),
        "disk.img: not a path within an image; say IMAGE:/path"
    );
    assert_eq!(folder.bad("cat disk.img:/"), "disk.img:/: is a directory");
    assert!(
        folder
            .bad("mkdir disk.img:/a/b")
            .ends_with("disk.img:/a/b; -p makes those above it")
    );
    assert!(
        folder
            .bad("rm disk.img:/lost+found")
            .contains("-r removes it")
    );
    assert!(
        folder
            .bad("ls -o data=fast disk.img")
            .contains("expected data=journal, ordered or writeback")
    );
    assert!(folder.bad("ls slice(disk.img,0..x)").contains("column"));
    folder.write("text.img", &[b'x'; 8192]);
    assert!(
        folder
            .bad("info text.img")
            .contains("holds no ext file system (magic is 0x7878")
    );
    assert!(
        folder
            .bad("ls text.img")
            .contains("holds no ext file system (magic is 0x7878")
    );
    assert!(
        folder
            .bad("mkdir -o ro disk.img:/a")
            .contains("leave out -o ro")
    );
}

#[test]
fn names_are_made_listed_moved_and_removed() {
    let folder = Folder::with_image();
    folder.good("mkdir disk.img:/a");
    folder.good("mkdir -p -m 700 disk.img:/b/c/d");
    folder.write("hello", b"hello, world\n");
    folder.good("cp hello disk.img:/a/one");
    folder.good("ln disk.img:/a/one disk.img:/a/two");
    folder.good("ln -s ../a/one disk.img:/b/link");
    assert_eq!(folder.good("cat disk.img:/b/link"), "hello, world\n");
    assert_eq!(folder.good("ls disk.img:/a"), "one\ntwo\n");
    let long = folder.good("ls -l disk.img:/b");
    assert!(
        long.contains("lrwxrwxrwx") && long.contains("link -> ../a/one"),
        "{long}"
    );
    let stat = folder.json("stat --json disk.img:/a/two");
    assert_eq!(
        (stat[0]["links"].as_u64(), stat[0]["size"].as_u64()),
        (Some(2), Some(13))
    );
    assert_eq!(
        folder.json("stat --json disk.img:/b/c/d")[0]["mode"],
        "0700"
    );
    let blocks = folder.good("stat --blocks disk.img:/a/one");
    assert!(blocks.contains("Blocks: 0.. at "), "{blocks}");
    folder.good("mv disk.img:/a/one disk.img:/b/link disk.img:/b/c");
    assert_eq!(folder.good("ls disk.img:/b/c"), "d\nlink\none\n");
    assert!(
        folder
            .bad("mv -n disk.img:/a/two disk.img:/b/c/one")
            .ends_with("the name exists already")
    );
    folder.good("mv --exchange disk.img:/a disk.img:/b");
    assert_eq!(folder.good("ls disk.img:/b"), "two\n");
    let tree = folder.good("ls -R disk.img:/a");
    assert!(
        tree.contains("disk.img:/a/c:") && tree.contains("disk.img:/a/c/d:"),
        "{tree}"
    );
    folder.good("rm disk.img:/b/two");
    folder.good("rm -f disk.img:/b/two");
    folder.good("rm -r disk.img:/a");
    folder.good("rm -d disk.img:/b");
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    folder.check("disk.img");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::with_image();
    folder.write("big", &vec![b'x'; 4 << 20]);
    folder.good("cp big disk.img:/big");
    let script = format!(
        "{} cat disk.img:/big | head -c 1",
        assert_cmd::cargo::cargo_bin("jext").display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (b"x".as_slice(), b"".as_slice())
    );
}

#[test]
fn traces_are_shown_when_asked_for() {
    let folder = Folder::with_image();
    assert!(
        folder
            .command("ls disk.img")
            .output()
            .unwrap()
            .stderr
            .is_empty()
    );
    let wrong = folder
        .command("ls disk.img")
        .env("JEXT_LOG", "jbd2=loud")
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&wrong.stderr)
            .starts_with("jext: JEXT_LOG=jbd2=loud: not a filter")
    );
}

/// The superblock of an array lies at the end of each of its disks.
#[test]
fn a_disk_of_an_array_is_one_no_more() {
    let folder = Folder::new();
    let path = folder.path().join("disk.img");
    for (size, block_bytes) in [
        (64 << 20, 1024),
        ((64 << 20) + 40_960, 4096),
        (1 << 20, 1024),
    ] {
        let end: u64 = size / (64 << 10) * (64 << 10);
        // Version 0.90, and 1.0.
        for at in [end - (64 << 10), (size - 8192) / 4096 * 4096] {
            let disk = fs::File::create(&path).unwrap();
            disk.set_len(size).unwrap();
            disk.write_all_at(&0xA92B_4EFC_u32.to_le_bytes(), at)
                .unwrap();
            folder.good(&format!("mkfs -q -F -b {block_bytes} disk.img"));
            let at = at as usize;
            let magic = &folder.read("disk.img")[at..at + 4];
            assert_eq!(magic, [0; 4], "{size}, {at}");
            folder.check("disk.img");
        }
    }
}
