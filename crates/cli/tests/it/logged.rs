//! journal show: which blocks a log holds, and what they are, beside what debugfs and dumpe2fs say
//! of the same image.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use jext::options::DataMode;
use jext::volume::SetMode;
use jext::{BlockDevice, FileDevice, MountOptions, OpenOptions, Volume};
use serde_json::Value;
use testkit::{Mount, Shutdown, privilege, tool};

use crate::facts::{dumpe2fs, groups};
use crate::support::Folder;

const KIB: u64 = 1024;
/// First blocks of the single, double and triple indirect trees of a map, with blocks of 1 KiB.
const TREES: [u64; 3] = [12, 12 + 256, 12 + 256 + 65536];

fn device(folder: &Folder, name: &str) -> Arc<dyn BlockDevice> {
    let path = folder.path().join(name);
    Arc::new(FileDevice::open(&path, &OpenOptions::default()).unwrap())
}

/// Two transactions with blocks of every sort, and then the power is cut.
fn fill(folder: &Folder, journal_name: Option<&str>) {
    let journal = journal_name.map(|name| device(folder, name));
    let options = MountOptions {
        data: DataMode::Journal,
        ..MountOptions::default()
    };
    let volume = Volume::open(device(folder, "disk.img"), journal, options).unwrap();
    volume.create_directory_all("/a/b c").unwrap();
    volume.create_directory("/gone").unwrap();
    for number in 0..60 {
        let name = format!("/a/a-name-of-some-length-{number}");
        volume.write_file(&name, b"").unwrap();
    }
    let mut file = volume.create_file("/large", &Default::default()).unwrap();
    for block in [0].into_iter().chain(TREES) {
        file.set_position(block * KIB);
        file.write_all(b"here").unwrap();
    }
    file.close().unwrap();
    let large = volume.resolve("/large", true).unwrap();
    let mode = SetMode::default();
    volume
        .set_attribute(large, b"user.long", &[9; 600], mode)
        .unwrap();
    let root = layout::InodeNr::ROOT;
    let target = "t".repeat(300);
    volume
        .symlink(root, b"link", target.as_bytes(), &Default::default())
        .unwrap();
    volume.sync().unwrap();
    volume.remove_directory_at("/gone").unwrap();
    volume.write_file("/small", &[7; 3000]).unwrap();
    volume.sync().unwrap();
    // The power is cut: nothing else is written.
    drop(volume);
    folder.renew("disk.img");
    journal_name.into_iter().for_each(|name| folder.renew(name));
}

fn debugfs(folder: &Folder, image: &str, request: &str) -> String {
    let image = folder.path().join(image).display().to_string();
    tool::run_well("debugfs", &["-R", request, &image])
}

/// `(block of the log, block of the file system)` of every image, as debugfs finds them.
fn logdump(folder: &Folder, journal: Option<&str>) -> BTreeSet<(u64, u64)> {
    let request = match journal {
        Some(name) => format!("logdump -a -f {}", folder.path().join(name).display()),
        None => "logdump -a".to_owned(),
    };
    let text = debugfs(folder, "disk.img", &request);
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("FS block "));
    let found = lines.map(|line| {
        let (home, rest) = line.split_once(' ').unwrap();
        let at = rest.split_once("journal block ").unwrap().1;
        let at = at.split_once(' ').map_or(at, |(at, _)| at);
        (at.parse().unwrap(), home.parse().unwrap())
    });
    found.collect()
}

fn images(shown: &Value) -> Vec<&Value> {
    let transactions = shown["transactions"].as_array().unwrap().iter();
    transactions
        .flat_map(|transaction| transaction["blocks"].as_array().unwrap())
        .collect()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The image as it is when e2fsck has replayed its log, in `replayed.img`.
fn replay(folder: &Folder, journal: Option<&str>) {
    let copy = |name: &str, to: &str| {
        let to = folder.path().join(to);
        std::fs::copy(folder.path().join(name), &to).unwrap();
        to.display().to_string()
    };
    let image = copy("disk.img", "replayed.img");
    let mut arguments = vec!["-fy".to_owned()];
    if let Some(journal) = journal {
        arguments.extend(["-j".to_owned(), copy(journal, "replayed-log.img")]);
    }
    arguments.push(image);
    let output = tool::run("e2fsck", &arguments);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        tool::said(&output)
    );
}

/// The inodes that have blocks, by debugfs.
fn owners(folder: &Folder, blocks: &[u64]) -> BTreeMap<u64, u64> {
    let mut owners = BTreeMap::new();
    for some in blocks.chunks(50) {
        let words: Vec<String> = some.iter().map(u64::to_string).collect();
        let request = format!("icheck {}", words.join(" "));
        let text = debugfs(folder, "replayed.img", &request);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), some.len(), "{text}");
        for (block, inode) in lines.iter().filter_map(|line| line.split_once('\t')) {
            if let Ok(inode) = inode.trim().parse::<u64>() {
                owners.insert(block.parse::<u64>().unwrap(), inode);
            }
        }
    }
    owners
}

/// The map blocks of an inode: what debugfs calls them.
fn map_blocks(folder: &Folder, inode: u64) -> BTreeMap<u64, String> {
    let text = debugfs(folder, "replayed.img", &format!("stat <{inode}>"));
    let (_, blocks) = text.split_once("BLOCKS:").unwrap();
    let parts = blocks
        .split(", ")
        .filter_map(|part| part.trim().split_once("IND):"));
    parts
        .filter_map(|(kind, block)| {
            let block = block.split_whitespace().next()?.parse().ok()?;
            Some((block, kind.trim_start_matches('(').to_owned()))
        })
        .collect()
}

/// Returns the use of a block at a fixed place, by dumpe2fs.
fn fixed(groups: &[Value], block: u64) -> Option<(&'static str, u64)> {
    let within = |range: &Value| {
        range.is_array() && (number(&range[0])..=number(&range[1])).contains(&block)
    };
    groups.iter().find_map(|group| {
        let is = |key: &str| group[key] == block;
        let kind = if is("superblock") {
            "superblock"
        } else if within(&group["descriptors"]) {
            "group_descriptors"
        } else if within(&group["reserved_descriptors"]) {
            "descriptor_room"
        } else if is("block_bitmap") {
            "block_bitmap"
        } else if is("inode_bitmap") {
            "inode_bitmap"
        } else if within(&group["inode_table"]) {
            "inode_table"
        } else {
            return None;
        };
        Some((kind, number(&group["group"])))
    })
}

/// Checks that each image is as the outside tools show it; returns the kinds that there were.
fn check(folder: &Folder, shown: &Value) -> BTreeSet<String> {
    let groups = groups(&dumpe2fs(folder, &["replayed.img"]));
    let homes: BTreeSet<u64> = images(shown)
        .into_iter()
        .map(|image| number(&image["home"]))
        .collect();
    let owners = owners(folder, &Vec::from_iter(homes));
    let mut kinds = BTreeSet::new();
    for image in images(shown) {
        let (home, what) = (number(&image["home"]), &image["what"]);
        let kind = what["kind"].as_str().unwrap();
        kinds.insert(kind.to_owned());
        let inode = what["inode"].as_u64();
        if let Some(fixed) = fixed(&groups, home) {
            assert_eq!((kind, number(&what["group"])), fixed, "{image}");
            continue;
        }
        assert_eq!(owners.get(&home).copied(), inode, "{image}");
        match kind {
            "free" => {
                let text = debugfs(folder, "replayed.img", &format!("testb {home}"));
                assert!(text.contains("not in use"), "{image}: {text}");
            }
            "map" if what["extent_depth"].is_number() => {
                let request = format!("stat <{}>", inode.unwrap());
                let text = debugfs(folder, "replayed.img", &request);
                let is_node = text.contains("(ETB") && text.contains(&format!("):{home}"));
                assert!(is_node, "{image}: {text}");
            }
            "map" => {
                let depth = ["IND", "DIND", "TIND"][number(&what["depth"]) as usize - 1];
                let found = map_blocks(folder, inode.unwrap());
                let found = found.get(&home).map(|prefix| format!("{prefix}IND"));
                assert_eq!(found.as_deref(), Some(depth), "{image}");
            }
            "directory" => {
                let request = format!("ncheck {}", inode.unwrap());
                let text = debugfs(folder, "replayed.img", &request);
                let path = text.lines().nth(1).and_then(|line| line.split_once('\t'));
                let path = path.map_or("", |(_, path)| path.trim_start_matches('/'));
                assert_eq!(what["path"], format!("/{path}"), "{image}: {text}");
            }
            _ => {}
        }
    }
    kinds
}

const KINDS: [&str; 9] = [
    "attributes",
    "block_bitmap",
    "data",
    "directory",
    "free",
    "group_descriptors",
    "inode_bitmap",
    "inode_table",
    "link_target",
];

#[test]
fn what_each_block_of_a_log_is_agrees_with_debugfs() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext3 -b 1024 -J size=4 disk.img 32M");
    fill(&folder, None);
    let shown = folder.json("journal show --json disk.img");
    let found: BTreeSet<(u64, u64)> = images(&shown)
        .into_iter()
        .map(|image| (number(&image["log_block"]), number(&image["home"])))
        .collect();
    assert_eq!(found, logdump(&folder, None));
    replay(&folder, None);
    let kinds = check(&folder, &shown);
    for kind in KINDS.into_iter().chain(["map", "superblock"]) {
        assert!(kinds.contains(kind), "{kind} is missing: {kinds:?}");
    }
    let text = folder.good("journal show disk.img");
    assert!(
        text.contains(" directory blocks") && !text.contains(" of directory "),
        "{text}"
    );
    let text = folder.good("journal show --blocks disk.img");
    for what in [
        ", /a/b c\n",
        ", /a\n",
        ": triple indirect block of inode ",
        ": block bitmap of group 0\n",
        ": inode table of group 0, inodes 1 to 4\n",
        ": superblock\n",
        ": free now\n",
    ] {
        assert!(text.contains(what), "{what} is missing: {text}");
    }
    let summed: u64 = shown["transactions"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|transaction| transaction["summary"].as_object().unwrap().values())
        .map(number)
        .sum();
    assert_eq!(summed, found.len() as u64);
}

/// Checks what is said of the kernel's log of a file system, which has other blocks in another
/// order.
fn check_log_of_the_kernel(kind: &str, kinds: &[&str]) {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    folder.good(&format!("mkfs -q -t {kind} -b 1024 -J size=4 disk.img 32M"));
    let image = folder.path().join("disk.img");
    let mount = Mount::new(&image, None, kind, "data=journal,commit=300").unwrap();
    std::fs::create_dir_all(mount.at("/a/b c")).unwrap();
    std::fs::create_dir(mount.at("/gone")).unwrap();
    for number in 0..60 {
        std::fs::write(mount.at(&format!("/a/name-{number}")), vec![7; 20_000]).unwrap();
    }
    let holes = std::fs::File::create(mount.at("/holes")).unwrap();
    for number in 0..20 {
        holes.write_all_at(b"x", number * 4096).unwrap();
    }
    std::os::unix::fs::symlink("t".repeat(300), mount.at("/link")).unwrap();
    mount.sync();
    std::fs::remove_dir(mount.at("/gone")).unwrap();
    std::fs::remove_file(mount.at("/a/name-7")).unwrap();
    drop(holes);
    mount.shut_down(Shutdown::FlushesLog);
    drop(mount);
    let shown = folder.json("journal show --json disk.img");
    let found: BTreeSet<(u64, u64)> = images(&shown)
        .into_iter()
        .map(|image| (number(&image["log_block"]), number(&image["home"])))
        .collect();
    assert_eq!(found, logdump(&folder, None));
    replay(&folder, None);
    let told = check(&folder, &shown);
    for kind in kinds {
        assert!(told.contains(*kind), "{kind} is missing: {told:?}");
    }
    let text = folder.good("journal show --blocks disk.img");
    let words = if kind == "ext4" {
        "extents of inode"
    } else {
        "indirect block of"
    };
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_log_of_the_kernel_is_told() {
    let kinds = [
        "block_bitmap",
        "data",
        "directory",
        "free",
        "inode_table",
        "link_target",
        "map",
    ];
    check_log_of_the_kernel("ext3", &kinds);
}

/// The kernel allocates the target of a link later, so that it is in no transaction here.
#[test]
fn a_log_of_ext4_is_told() {
    let kinds = ["block_bitmap", "data", "directory", "inode_table", "map"];
    check_log_of_the_kernel("ext4", &kinds);
}

#[test]
fn an_external_journal_is_told_with_its_file_system() {
    let folder = Folder::new();
    folder.good("journal create -q -b 1024 log.img 4M");
    folder.good("journal create -q -b 1024 other.img 4M");
    folder.good("mkfs -q -t ext3 -b 1024 -J device=log.img disk.img 32M");
    fill(&folder, Some("log.img"));
    let alone = folder.json("journal show --json log.img");
    assert!(images(&alone).iter().all(|image| image["what"].is_null()));
    let shown = folder.json("journal show --json --filesystem disk.img log.img");
    assert_eq!(
        shown,
        folder.json("journal show --json --journal log.img disk.img")
    );
    assert_eq!(
        shown,
        folder.json("journal show --json -o journal_path=log.img disk.img")
    );
    let found: BTreeSet<(u64, u64)> = images(&shown)
        .into_iter()
        .map(|image| (number(&image["log_block"]), number(&image["home"])))
        .collect();
    assert_eq!(found, logdump(&folder, Some("log.img")));
    replay(&folder, Some("log.img"));
    let kinds = check(&folder, &shown);
    assert!(KINDS.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    let uuid = |image: &str| folder.json(&format!("info --json {image}"))["uuid"].clone();
    let (log, other) = (uuid("log.img"), uuid("other.img"));
    let (log, other) = (log.as_str().unwrap(), other.as_str().unwrap());
    for line in [
        "journal show --filesystem disk.img other.img",
        "journal show --journal other.img disk.img",
        "ls --journal other.img disk.img",
        "tune -L name -O ^has_journal --journal other.img disk.img",
    ] {
        let error = folder.bad(line);
        let is_clean = error.contains("not closed cleanly");
        assert!(
            is_clean || error.contains(log) && error.contains(other),
            "{line}: {error}"
        );
    }
}
