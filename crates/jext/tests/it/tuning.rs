//! tune: what e2fsprogs reads of it, and what e2fsck says.

use testkit::tool;

use crate::support::Folder;

const UUID: &str = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";

/// A line of dumpe2fs's header.
fn told(folder: &Folder, label: &str) -> String {
    let image = folder.path().join("disk.img");
    let text = tool::run_well("dumpe2fs", &["-h".as_ref(), image.as_os_str()]);
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_default()
        .trim_start_matches(':')
        .trim()
        .to_owned()
}

#[test]
fn fields_are_changed_in_all_superblocks() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext3 -b 1024 -O ^dir_index disk.img 64M");
    folder.good(&format!(
        "tune -L crowns -U {UUID} -m 10 -e panic -c 30 -o ^user_xattr,journal_data -O dir_index disk.img"
    ));
    folder.check("disk.img");
    for (label, value) in [
        ("Filesystem volume name", "crowns"),
        ("Filesystem UUID", UUID),
        ("Reserved block count", "6553"),
        ("Errors behavior", "Panic"),
        ("Maximum mount count", "30"),
        ("Default mount options", "journal_data acl"),
    ] {
        assert_eq!(told(&folder, label), value, "{label}");
    }
    assert!(told(&folder, "Filesystem features").contains("dir_index"));
    let copy = folder.path().join("disk.img");
    let copy = ["-o", "superblock=8193", "-h", copy.to_str().unwrap()];
    let text = tool::run_well("dumpe2fs", &copy);
    assert!(text.contains(UUID) && text.contains("crowns"));
    folder.good("tune -r 100 -c 0 disk.img");
    assert_eq!(told(&folder, "Reserved block count"), "100");
    assert_eq!(told(&folder, "Maximum mount count"), "-1");
}

#[test]
fn journals_come_and_go() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext2 -b 1024 disk.img 64M");
    let free = |folder: &Folder| {
        folder.json("info --json disk.img")["free_blocks"]
            .as_u64()
            .unwrap()
    };
    let without = free(&folder);
    folder.write("hello", b"world");
    folder.good("tune -j disk.img");
    folder.check("disk.img");
    assert!(told(&folder, "Filesystem features").contains("has_journal"));
    folder.good("cp hello disk.img:/hello");
    assert!(folder.good("journal show disk.img").contains("internal"));
    folder.check("disk.img");
    folder.good("tune -O ^has_journal disk.img");
    folder.check("disk.img");
    assert_eq!(free(&folder), without - 1, "but for the file");
    folder.good("tune -J size=2 disk.img");
    folder.check("disk.img");
    assert_eq!(folder.json("journal show --json disk.img")["blocks"], 2048);
    assert!(
        folder
            .bad("tune -j disk.img")
            .contains("has a journal already")
    );
    folder.good("tune -O ^has_journal disk.img");
    folder.good("journal create -q -b 1024 log.img 4M");
    folder.good("tune -J device=log.img disk.img");
    folder.good("cp --journal log.img hello disk.img:/again");
    let (image, log) = (
        folder.path().join("disk.img"),
        folder.path().join("log.img"),
    );
    let arguments = ["-fn", "-j", log.to_str().unwrap(), image.to_str().unwrap()];
    tool::run_well("e2fsck", &arguments);
    folder.good("tune -O ^has_journal disk.img");
    folder.check("disk.img");
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let folder = Folder::with_image();
    for (line, said) in [
        ("tune disk.img", "nothing to change"),
        ("tune -L seventeen-letters disk.img", "at most 16 bytes"),
        ("tune -m 60 disk.img", "from 0 to 50 percent"),
        ("tune -O extents disk.img", "cannot be given"),
        (
            "tune -O ^dir_index disk.img",
            "only the journal can be taken away",
        ),
        ("tune -o nonsense disk.img", "no such option"),
        ("tune -J size=1,sise=2 disk.img", "expected size=MEGABYTES"),
        ("tune -L x nowhere.img", "nowhere.img"),
    ] {
        assert!(
            folder.bad(line).contains(said),
            "{line}: {}",
            folder.bad(line)
        );
    }
    folder.check("disk.img");
}
