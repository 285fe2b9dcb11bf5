//! tune: what e2fsprogs reads of it, and what e2fsck says.

mod checksums;
mod ext4;

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

/// The time of the last check is that of tune2fs, given the same text.
#[test]
fn the_time_of_a_check_is_that_of_tune2fs() {
    let folder = Folder::new();
    folder.good("mkfs -q disk.img 8M");
    let image = folder.path().join("disk.img");
    for time in ["20260101", "202602281530", "20240229235958"] {
        let texts = ["-T", time, image.to_str().unwrap()];
        let command = std::process::Command::new("tune2fs")
            .env("TZ", "UTC")
            .args(texts)
            .output();
        assert!(command.expect("tune2fs runs").status.success());
        let theirs = told(&folder, "Last checked");
        folder.good("tune -T @1 disk.img");
        assert_ne!(told(&folder, "Last checked"), theirs, "{time}");
        folder.good(&format!("tune -T {time} disk.img"));
        assert_eq!(told(&folder, "Last checked"), theirs, "{time}");
    }
    for time in ["2026", "20260230", "202601012460", "1234567890", "@x"] {
        let refused = folder.command(&format!("tune -T {time} disk.img")).output();
        let refused = String::from_utf8(refused.unwrap().stderr).unwrap();
        assert!(refused.contains("YYYYMMDD"), "{refused}");
    }
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
    folder.good("mkfs -q -t ext3 -b 1024 -J device=log.img disk.img 16M");
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

/// The superblock is that of tune2fs, but for the time of the write.
#[test]
fn superblocks_are_those_of_tune2fs() {
    let folder = Folder::new();
    let path = folder.path().join("disk.img").display().to_string();
    for (format, options) in [
        ("-t ext4", "-O ea_inode"),
        ("-t ext4", "-O stable_inodes"),
        ("-t ext4", "-O verity"),
        ("-t ext4", "-O encrypt"),
        ("-t ext4 -O ^extra_isize", "-O extra_isize"),
        ("-t ext4", "-E force_fsck"),
        ("-t ext3", "-E force_fsck,stride=4 -L crowns"),
        ("-t ext4", "-E mount_opts=data=writeback"),
        ("-t ext3", "-u daemon -g adm"),
        ("-t ext4", "-U clear"),
    ] {
        folder.good(&format!("mkfs -q -F {format} disk.img 32M"));
        let fresh = folder.read("disk.img");
        let options: Vec<&str> = options.split(' ').collect();
        tool::run_well("tune2fs", &[&options[..], &[&path]].concat());
        let theirs = folder.read("disk.img");
        folder.write("disk.img", &fresh);
        folder.good(&format!("tune {} disk.img", options.join(" ")));
        let ours = folder.read("disk.img");
        let block = |image: &[u8]| {
            let mut block = image[1024..2048].to_vec();
            // The time of the write and its high byte, the count of writes, the checksum.
            for range in [0x30..0x34, 0x178..0x180, 0x274..0x275, 0x3FC..0x400] {
                block[range].fill(0);
            }
            block
        };
        let (ours, theirs) = (block(&ours), block(&theirs));
        let differ = |at: &usize| ours[*at] != theirs[*at];
        let differing: Vec<usize> = (0..1024).filter(differ).collect();
        assert!(differing.is_empty(), "{options:?}: at {differing:x?}");
        tool::run_well("e2fsck", &["-fn", &path]);
    }
}

#[test]
fn mount_options_keep_their_commas_and_a_time_makes_a_uuid() {
    let folder = Folder::new();
    folder.good("mkfs -q disk.img 16M");
    folder.good("tune -E stride=8,mount_opts=data=journal,commit=7 -U time disk.img");
    assert_eq!(told(&folder, "RAID stride"), "8");
    assert_eq!(told(&folder, "Mount options"), "data=journal,commit=7");
    let uuid = told(&folder, "Filesystem UUID");
    assert_eq!(&uuid[14..15], "1", "{uuid}");
    folder.check("disk.img");
    let long = "x".repeat(64);
    let refused = folder.bad(&format!("tune -E mount_opts={long} disk.img"));
    assert!(refused.contains("63 bytes"), "{refused}");
    for (user, reason) in [
        ("nobody-of-this-name", "no user of this name"),
        ("65536", "at most 65535"),
    ] {
        let refused = folder
            .command(&format!("tune -u {user} disk.img"))
            .assert()
            .code(2);
        let refused = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(refused.contains(reason), "{refused}");
    }
}

/// A volume that needs a check is not tuned, so that the mark of `force_fsck` comes last.
#[test]
fn a_forced_check_comes_after_all_other_changes() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext4 disk.img 64M");
    folder.good("tune -E force_fsck -O quota,^metadata_csum -L crowns disk.img");
    assert_eq!(told(&folder, "Filesystem state"), "clean with errors");
    assert_eq!(told(&folder, "Filesystem volume name"), "crowns");
    assert!(told(&folder, "Filesystem features").contains("quota"));
    let refused = folder.bad("tune -L other disk.img");
    assert!(refused.contains("fsck"), "{refused}");
    let path = folder.path().join("disk.img").display().to_string();
    tool::run_well("e2fsck", &["-p", &path]);
    folder.good("tune -L other disk.img");
    folder.check("disk.img");
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
