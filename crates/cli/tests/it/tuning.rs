//! tune: what e2fsprogs reads of it, and what e2fsck says.

use testkit::{Mount, privilege, tool};

use crate::facts::dumpe2fs;
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
    folder.good("tune -O ^has_journal -J device=log.img disk.img");
    folder.check("disk.img");
}

/// A line of dumpe2fs's header of a journal device.
fn told_of_log(folder: &Folder, label: &str) -> String {
    let text = dumpe2fs(folder, &["-h", "log.img"]);
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_default().trim().to_owned()
}

/// A volume with its journal on `log.img`, both clean.
fn with_external_journal() -> Folder {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("journal create -q -b 1024 log.img 4M");
    folder.good("mkfs -q -b 1024 -J device=log.img disk.img 16M");
    folder.good("cp --journal log.img hello disk.img:/hello");
    folder
}

fn check_with_log(folder: &Folder) {
    let at = |name| folder.path().join(name).display().to_string();
    tool::run_well("e2fsck", &["-fn", "-j", &at("log.img"), &at("disk.img")]);
}

#[test]
fn an_external_journal_forgets_a_volume_that_leaves_it() {
    let folder = with_external_journal();
    let uuid = folder.json("info --json log.img")["uuid"].clone();
    let error = folder.bad("tune -O ^has_journal disk.img");
    assert!(error.contains(uuid.as_str().unwrap()), "{error}");
    assert!(error.contains("-J device=DEV; -f"), "{error}");
    check_with_log(&folder);
    folder.good("tune -O ^has_journal -J device=log.img disk.img");
    assert_eq!(told_of_log(&folder, "Journal number of users:"), "0");
    assert_eq!(told(&folder, "Journal UUID"), "");
    folder.check("disk.img");
    folder.good("tune --journal log.img disk.img");
    let user = told(&folder, "Filesystem UUID");
    assert_eq!(told_of_log(&folder, "Journal users:"), user);
    check_with_log(&folder);
    folder.good("cp --journal log.img hello disk.img:/again");
    let forced = folder
        .command("tune -f -O ^has_journal disk.img")
        .output()
        .unwrap();
    let said = String::from_utf8(forced.stderr).unwrap();
    assert!(
        forced.status.success() && said.contains(uuid.as_str().unwrap()),
        "{said}"
    );
    assert_eq!(told_of_log(&folder, "Journal users:"), user);
    folder.check("disk.img");
}

#[test]
fn a_journal_is_changed_for_another_in_two_steps() {
    let folder = with_external_journal();
    folder.good("journal create -q -b 1024 other.img 4M");
    for line in [
        "tune -j disk.img",
        "tune -J size=1 disk.img",
        "tune -J device=other.img disk.img",
    ] {
        let error = folder.bad(line);
        assert!(error.contains("take it away first"), "{line}: {error}");
    }
    let error = folder.bad("tune -O ^has_journal -J device=other.img disk.img");
    for image in ["log.img", "other.img"] {
        let uuid = folder.json(&format!("info --json {image}"))["uuid"].clone();
        assert!(error.contains(uuid.as_str().unwrap()), "{error}");
    }
    check_with_log(&folder);
    folder.good("tune -O ^has_journal --journal log.img disk.img");
    folder.good("tune -J device=other.img disk.img");
    folder.good("cp --journal other.img hello disk.img:/again");
    folder.good("tune -O ^has_journal --journal other.img disk.img");
    folder.good("tune -j disk.img");
    folder.good("cp hello disk.img:/third");
    folder.check("disk.img");
    assert!(
        folder
            .bad("tune -L x --journal log.img disk.img")
            .contains("has a journal already")
    );
}

#[test]
fn an_external_journal_learns_the_new_uuid_of_its_volume() {
    let folder = with_external_journal();
    let error = folder.bad(&format!("tune -U {UUID} disk.img"));
    assert!(error.contains("name the journal's device"), "{error}");
    folder.good(&format!("tune -U {UUID} --journal log.img disk.img"));
    assert_eq!(told(&folder, "Filesystem UUID"), UUID);
    assert_eq!(told_of_log(&folder, "Journal users:"), UUID);
    check_with_log(&folder);
    folder.good("tune -U random -J device=log.img disk.img");
    assert_ne!(told(&folder, "Filesystem UUID"), UUID);
    check_with_log(&folder);
    folder.good("cp --journal log.img hello disk.img:/again");
    check_with_log(&folder);
    folder.good(&format!(
        "tune -U {UUID} -O ^has_journal --journal log.img disk.img"
    ));
    assert_eq!(told_of_log(&folder, "Journal number of users:"), "0");
    folder.check("disk.img");
}

/// Two devices are changed one after the other; what a crash in between leaves is mended by the
/// same command.
#[test]
fn what_was_half_done_on_two_devices_is_done_again() {
    let folder = with_external_journal();
    let info = folder.json("info --json disk.img");
    let bytes = |text: &str| *uuid::Uuid::parse_str(text).unwrap().as_bytes();
    let [old, log] = ["uuid", "journal_uuid"].map(|key| bytes(info[key].as_str().unwrap()));
    let on_log = |change: &dyn Fn(&std::sync::Arc<dyn jext::BlockDevice>)| {
        let path = folder.path().join("log.img");
        let device = jext::FileDevice::open(path, &jext::OpenOptions::default());
        change(&(std::sync::Arc::new(device.unwrap()) as _));
        folder.renew("log.img");
    };
    // The journal names the new UUID, the volume has the old one.
    on_log(&|device| jbd2::format::rename_user(device, 1024, log, [old, bytes(UUID)]).unwrap());
    folder.good(&format!("tune -U {UUID} --journal log.img disk.img"));
    check_with_log(&folder);
    // The volume has no journal any more, but is its user.
    folder.good("tune -f -O ^has_journal disk.img");
    folder.good("tune -J device=log.img disk.img");
    check_with_log(&folder);
    folder.good("tune -O ^has_journal -J device=log.img disk.img");
    // The journal has a user that has not come yet.
    on_log(&|device| jbd2::format::add_user(device, 1024, bytes(UUID)).unwrap());
    folder.good("tune -J device=log.img disk.img");
    check_with_log(&folder);
    folder.good("cp --journal log.img hello disk.img:/again");
    check_with_log(&folder);
}

/// A journal with a user, or one that was never replayed, is not given to another file system;
/// nothing is lost by trying.
#[test]
fn a_journal_of_somebody_else_is_left_alone() {
    let folder = with_external_journal();
    folder.good("mkfs -q -t ext2 -b 1024 -L precious other.img 16M");
    let user = folder.json("info --json disk.img")["uuid"].clone();
    for line in [
        "tune -J device=log.img other.img",
        "mkfs -F -J device=log.img other.img",
    ] {
        let error = folder.bad(line);
        assert!(error.contains(user.as_str().unwrap()), "{line}: {error}");
        assert_eq!(folder.json("info --json other.img")["label"], "precious");
    }
    check_with_log(&folder);
}

#[test]
fn the_index_of_directories_comes_and_goes() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    std::fs::create_dir_all(folder.path().join("tree/many")).unwrap();
    for number in 0..400 {
        folder.write(&format!("tree/many/a-name-of-some-length-{number}"), b"");
    }
    folder.good("mkfs -q -t ext3 -b 1024 -d tree disk.img 16M");
    let stat = |folder: &Folder| {
        let image = folder.path().join("disk.img").display().to_string();
        tool::run_well("debugfs", &["-R", "stat /many", &image])
    };
    assert!(stat(&folder).contains("Flags: 0x1000"), "it is indexed");
    folder.good("tune -O ^dir_index disk.img");
    assert!(!told(&folder, "Filesystem features").contains("dir_index"));
    assert!(stat(&folder).contains("Flags: 0x0"), "{}", stat(&folder));
    folder.check("disk.img");
    assert_eq!(folder.good("ls disk.img:/many").lines().count(), 400);
    folder.good("cp hello disk.img:/many/hello");
    folder.good("rm disk.img:/many/a-name-of-some-length-7");
    folder.check("disk.img");
    if privilege::is_granted() {
        let mount = Mount::new(&folder.path().join("disk.img"), None, "ext4", "rw").unwrap();
        assert_eq!(std::fs::read_dir(mount.at("/many")).unwrap().count(), 400);
        std::fs::write(mount.at("/many/by-the-kernel"), "").unwrap();
        std::fs::remove_file(mount.at("/many/hello")).unwrap();
    }
    folder.check("disk.img");
    folder.good("tune -O dir_index disk.img");
    folder.good("rm disk.img:/many/a-name-of-some-length-8");
    assert!(folder.good("ls disk.img:/many").lines().count() >= 399);
    folder.check("disk.img");
}

/// Changes that both can make have the same effect; features that tune2fs refuses to remove, tune
/// refuses, too.
#[test]
fn features_are_those_of_tune2fs() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext3 -b 1024 disk.img 16M");
    let path = folder.path().join("disk.img").display().to_string();
    let fresh = folder.read("disk.img");
    for feature in [
        "^dir_index",
        "^large_file",
        "^dir_index,^large_file",
        "^has_journal",
        "^ext_attr",
        "^sparse_super",
        "^encrypt",
    ] {
        let mut found = Vec::new();
        for is_theirs in [true, false] {
            folder.write("disk.img", &fresh);
            let is_done = if is_theirs {
                tool::run("tune2fs", &["-O", feature, &path])
                    .status
                    .success()
            } else {
                let line = format!("tune -O {feature} disk.img");
                folder.command(&line).output().unwrap().status.success()
            };
            folder.check("disk.img");
            found.push((is_done, told(&folder, "Filesystem features")));
        }
        if feature == "^ext_attr" {
            assert!(found[1].0 && !found[0].0, "only here it can be taken away");
        } else {
            assert_eq!(found[0], found[1], "{feature}");
        }
    }
}

#[test]
fn features_go_only_where_nothing_uses_them() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext3 -b 1024 disk.img 16M");
    folder.good("tune -O ^ext_attr,^large_file disk.img");
    folder.check("disk.img");
    let features = told(&folder, "Filesystem features");
    assert!(
        !features.contains("ext_attr") && !features.contains("large_file"),
        "{features}"
    );
    folder.good("tune -O ext_attr,large_file,^large_file disk.img");
    folder.check("disk.img");
    folder.good("mkfs -q -F -t ext3 -b 4096 -O ^resize_inode disk.img");
    let device = jext::FileDevice::open(
        folder.path().join("disk.img"),
        &jext::OpenOptions::default(),
    );
    let volume = jext::Volume::open(
        std::sync::Arc::new(device.unwrap()),
        None,
        jext::MountOptions::default(),
    );
    let volume = volume.unwrap();
    let mut nodes = Vec::new();
    for (path, value_bytes, size) in [
        ("/inside", 4, 0),
        ("/block", 900, 0),
        ("/large", 0, 1 << 31),
    ] {
        let file = volume.create_file(path, &Default::default()).unwrap();
        file.set_len(size).unwrap();
        file.close().unwrap();
        let node = volume.resolve(path, true).unwrap();
        if value_bytes > 0 {
            let value = vec![9; value_bytes];
            let mode = jext::volume::SetMode::default();
            volume.set_attribute(node, b"user.x", &value, mode).unwrap();
        }
        nodes.push(node);
    }
    volume.close().unwrap();
    folder.renew("disk.img");
    for (feature, node) in [("ext_attr", nodes[0]), ("large_file", nodes[2])] {
        let error = folder.bad(&format!("tune -O ^{feature} disk.img"));
        let said = format!("the feature {feature} has to stay: inode {node} has ");
        assert!(error.contains(&said), "{error}");
    }
    folder.good("rm disk.img:/inside disk.img:/large");
    let error = folder.bad("tune -O ^ext_attr disk.img");
    assert!(
        error.contains(&format!("inode {} has", nodes[1])),
        "{error}"
    );
    folder.good("tune -O ^large_file disk.img");
    folder.check("disk.img");
}

/// Layouts of ext4, and what each must keep.
const EXT4: [&str; 4] = [
    "",
    "-O orphan_file,metadata_csum_seed",
    "-O ^metadata_csum,uninit_bg",
    "-O ^metadata_csum,^64bit -I 128",
];

#[test]
fn ext4_is_tuned() {
    for options in EXT4 {
        let folder = Folder::new();
        folder.write("hello", b"world");
        folder.good(&format!("mkfs -q -t ext4 -b 1024 {options} disk.img 64M"));
        folder.good("cp hello disk.img:/hello");
        folder.good(
            "tune -L crowns -m 10 -c 30 -C 7 -i 26w -T 1000000000 -u 12 -g 34 -M /old -o nodelalloc \
             -E stride=16,stripe_width=64,hash_alg=tea disk.img",
        );
        folder.check("disk.img");
        for (label, value) in [
            ("Filesystem volume name", "crowns"),
            ("Reserved block count", "6553"),
            ("Maximum mount count", "30"),
            ("Mount count", "7"),
            ("Check interval", "15724800 (6 months, 2 days)"),
            ("Last checked", "Sun Sep  9 01:46:40 2001"),
            ("Reserved blocks uid", "12"),
            ("Reserved blocks gid", "34"),
            ("Last mounted on", "/old"),
            ("Default mount options", "user_xattr acl nodelalloc"),
            ("RAID stride", "16"),
            ("RAID stripe width", "64"),
            ("Default directory hash", "tea"),
        ] {
            let found = told(&folder, label);
            assert!(found.starts_with(value), "{options}: {label}: {found}");
        }
        assert_eq!(folder.good("cat disk.img:/hello"), "world");
    }
}

#[test]
fn journals_of_ext4_come_and_go() {
    for options in EXT4 {
        let folder = Folder::new();
        folder.write("hello", b"world");
        folder.good(&format!("mkfs -q -t ext4 -b 1024 {options} disk.img 64M"));
        let mut command = "tune -O ^has_journal disk.img";
        if options.contains("orphan_file") {
            let error = folder.bad(command);
            assert!(error.contains("^has_journal,^orphan_file"), "{error}");
            command = "tune -O ^has_journal,^orphan_file disk.img";
        }
        folder.good(command);
        folder.check("disk.img");
        let features = told(&folder, "Filesystem features");
        assert!(
            !features.contains("has_journal") && !features.contains("orphan"),
            "{features}"
        );
        folder.good("cp hello disk.img:/hello");
        folder.good("tune -J size=4 disk.img");
        folder.check("disk.img");
        folder.good("cp hello disk.img:/again");
        folder.check("disk.img");
        if privilege::is_granted() {
            let mount = Mount::new(&folder.path().join("disk.img"), None, "ext4", "rw").unwrap();
            assert_eq!(std::fs::read(mount.at("/again")).unwrap(), b"world");
        }
    }
}

#[test]
fn an_orphan_file_goes_and_the_journal_stays() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 -O orphan_file disk.img 64M");
    let before = folder.json("info --json disk.img");
    folder.good("tune -O ^orphan_file disk.img");
    folder.check("disk.img");
    let after = folder.json("info --json disk.img");
    for count in ["free_blocks", "free_inodes"] {
        assert!(after[count].as_u64() > before[count].as_u64(), "{count}");
    }
    folder.good("cp hello disk.img:/hello");
    folder.check("disk.img");
}

/// The checksums of ext4 are of its UUID, unless their seed is kept.
#[test]
fn an_ext4_gets_another_uuid() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    for (options, also, refused) in [
        ("", "", Some("-O metadata_csum_seed")),
        ("", "-O metadata_csum_seed", None),
        ("-O metadata_csum_seed", "", None),
        ("-O ^metadata_csum,uninit_bg", "", Some("group descriptors")),
        ("-O ^metadata_csum", "", None),
    ] {
        folder.good(&format!("mkfs -q -F -t ext4 {options} disk.img 64M"));
        folder.good("cp hello disk.img:/hello");
        let line = format!("tune -U {UUID} {also} disk.img");
        match refused {
            Some(text) => {
                let error = folder.bad(&line);
                assert!(error.contains(text), "{error}");
            }
            None => {
                folder.good(&line);
                assert_eq!(told(&folder, "Filesystem UUID"), UUID);
            }
        }
        folder.check("disk.img");
        folder.good("rm disk.img:/hello");
        folder.check("disk.img");
    }
    folder.good("mkfs -q -F -t ext4 disk.img 64M");
    folder.good("tune -O metadata_csum_seed disk.img");
    folder.check("disk.img");
    folder.good("tune -O ^metadata_csum_seed disk.img");
    folder.check("disk.img");
    assert!(!told(&folder, "Filesystem features").contains("seed"));
    folder.good(&format!("tune -O metadata_csum_seed -U {UUID} disk.img"));
    let error = folder.bad("tune -O ^metadata_csum_seed disk.img");
    assert!(error.contains("of an earlier UUID"), "{error}");
    // The last word counts: without the seed there is no other UUID.
    folder.good("mkfs -q -F -t ext4 disk.img 64M");
    let both = format!("tune -U {UUID} -O metadata_csum_seed,^metadata_csum_seed disk.img");
    let error = folder.bad(&both);
    assert!(error.contains("all checksums"), "{error}");
    folder.check("disk.img");
    folder.good("mkfs -q -F -t ext3 disk.img 64M");
    let error = folder.bad("tune -O metadata_csum_seed disk.img");
    assert!(error.contains("with metadata_csum only"), "{error}");
}

#[test]
fn an_ext3_becomes_an_ext4() {
    let folder = Folder::new();
    folder.write("hello", &[7; 300_000]);
    folder.good("mkfs -q -t ext3 -b 1024 disk.img 64M");
    folder.good("cp hello disk.img:/old");
    folder.good("tune -O extent,huge_file,dir_nlink,large_dir disk.img");
    folder.check("disk.img");
    folder.good("cp hello disk.img:/new");
    folder.check("disk.img");
    let extents = folder.bad("tune -O ^extent disk.img");
    assert!(extents.contains("has extents"), "{extents}");
    for name in ["old", "new"] {
        folder.good(&format!("cp disk.img:/{name} {name}"));
        assert_eq!(folder.read(name), [7; 300_000], "{name}");
    }
    folder.good("rm disk.img:/new");
    folder.good("tune -O ^extent,^huge_file,^dir_nlink disk.img");
    folder.check("disk.img");
    let error = folder.bad("tune -O ^large_dir disk.img");
    assert!(error.contains("cannot be taken away"), "{error}");
}

/// What is refused has changed nothing.
#[test]
fn what_is_refused_has_changed_nothing() {
    let folder = Folder::new();
    folder.write("empty", b"");
    folder.good("mkfs -q -t ext4 -O ^has_journal,^metadata_csum disk.img 16M");
    folder.good("mkdir disk.img:/d");
    for number in 0..300 {
        folder.good(&format!("cp empty disk.img:/d/a-long-name-{number:04}"));
    }
    folder.good("journal create -q -b 1024 small.img 4M");
    folder.good("journal create -q -b 4096 taken.img 8M");
    folder.good("mkfs -q -b 4096 -J device=taken.img other.img 16M");
    let before = folder.read("disk.img");
    for (line, said) in [
        ("tune -O ^dir_index -J size=1 disk.img", "1024 to 10240000"),
        ("tune -O ^dir_index -J size=12 disk.img", "more than half"),
        (
            "tune -O ^extent -J size=4 disk.img",
            "with a second command",
        ),
        (
            "tune -O ^dir_index -J device=small.img disk.img",
            "another size",
        ),
        ("tune -O ^dir_index -J device=taken.img disk.img", "user"),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(said), "{line}: {error}");
        assert!(folder.read("disk.img") == before, "{line}");
    }
}

/// Blocks of an index have checksums that a linear directory has at other places.
#[test]
fn an_index_with_checksums_stays() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext4 -b 1024 disk.img 64M");
    folder.good("tune -O ^dir_index disk.img");
    folder.good("tune -O dir_index disk.img");
    folder.check("disk.img");
    folder.write("empty", b"");
    folder.good("mkdir disk.img:/d");
    let names = (0..80).map(|number| format!("disk.img:/d/a-long-name-{number:04}"));
    for name in names {
        folder.good(&format!("cp empty {name}"));
    }
    let error = folder.bad("tune -O ^dir_index disk.img");
    assert!(error.contains("the index of directory"), "{error}");
    folder.check("disk.img");
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let folder = Folder::with_image();
    for (line, said) in [
        ("tune disk.img", "nothing to change"),
        ("tune -L seventeen-letters disk.img", "at most 16 bytes"),
        ("tune -m 60 disk.img", "from 0 to 50 percent"),
        ("tune -O flex_bg disk.img", "cannot be given"),
        ("tune -O ^filetype disk.img", "tune2fs -O ^filetype does"),
        ("tune -O ^resize_inode disk.img", "and then e2fsck -f"),
        ("tune -O ^sparse_super disk.img", "cannot be taken away"),
        ("tune -O ^nonsense disk.img", "there is no feature nonsense"),
        (
            "tune -J size=1,device=x disk.img",
            "leave out size= or device=",
        ),
        ("tune -O ^has_journal -j disk.img", "with a second command"),
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
