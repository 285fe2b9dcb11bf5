//! info beside dumpe2fs, fact by fact: what dumpe2fs tells, info tells too, and the same.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::tool;

use crate::support::Folder;

/// The form in which dumpe2fs writes a value of ours.
#[derive(Clone, Copy)]
enum Form {
    /// As it is; empty is this word.
    Text(&'static str),
    /// As it is, before a blank and an explanation.
    First,
    /// Words, in any order.
    Words,
    /// A date.
    Time,
    /// `0x0000002a`.
    Hex,
    /// In KiB or MiB.
    Size,
    /// In other words: ours, theirs.
    Called(&'static [(&'static str, &'static str)]),
    /// A rounded number of a unit that is not told; that it is told is enough.
    Rounded,
}

use Form::{Called, First, Hex, Rounded, Size, Text, Time, Words};

const TEXT: Form = Text("");
/// dumpe2fs's label, our key, and how the two compare.
const FACTS: &[(&str, &str, Form)] = &[
    ("Filesystem volume name", "label", Text("<none>")),
    ("Last mounted on", "mounted_on", Text("<not available>")),
    ("Filesystem UUID", "uuid", TEXT),
    (
        "Filesystem magic number",
        "magic",
        Called(&[("0xef53", "0xEF53")]),
    ),
    ("Filesystem revision #", "revision", First),
    ("Filesystem features", "features", Words),
    ("Filesystem flags", "flags", Words),
    ("Default mount options", "default_mount_options", Words),
    ("Mount options", "mount_options", TEXT),
    (
        "Filesystem state",
        "state",
        Called(&[
            ("clean", "clean"),
            ("clean, with errors", "clean with errors"),
            ("in use or not closed", "not clean"),
            ("clean, the journal has to be replayed", "clean"),
        ]),
    ),
    (
        "Errors behavior",
        "errors",
        Called(&[
            ("continue", "Continue"),
            ("remount-ro", "Remount read-only"),
            ("panic", "Panic"),
        ]),
    ),
    ("Filesystem OS type", "os", TEXT),
    ("Inode count", "inodes", TEXT),
    ("Block count", "blocks", TEXT),
    ("Reserved block count", "reserved_blocks", TEXT),
    ("Overhead clusters", "overhead_clusters", TEXT),
    ("Free blocks", "free_blocks", TEXT),
    ("Free inodes", "free_inodes", TEXT),
    ("First block", "first_block", TEXT),
    ("Block size", "block_bytes", TEXT),
    ("Fragment size", "block_bytes", TEXT),
    ("Cluster size", "cluster_bytes", TEXT),
    ("Group descriptor size", "descriptor_bytes", TEXT),
    ("Reserved GDT blocks", "reserved_descriptor_blocks", TEXT),
    ("Blocks per group", "blocks_per_group", TEXT),
    ("Fragments per group", "blocks_per_group", TEXT),
    ("Clusters per group", "clusters_per_group", TEXT),
    ("Inodes per group", "inodes_per_group", TEXT),
    ("Inode blocks per group", "inode_blocks_per_group", TEXT),
    ("RAID stride", "raid_stride_blocks", TEXT),
    ("RAID stripe width", "raid_stripe_blocks", TEXT),
    ("First meta block group", "first_meta_group", TEXT),
    ("Flex block group size", "groups_per_flexible_group", TEXT),
    ("Filesystem created", "made", Time),
    ("Last mount time", "mounted", Time),
    ("Last write time", "written", Time),
    ("Mount count", "mounts", TEXT),
    (
        "Maximum mount count",
        "mounts_max",
        Called(&[("unlimited", "-1"), ("30", "30")]),
    ),
    ("Last checked", "checked", Time),
    ("Check interval", "check_interval_seconds", First),
    ("Next check after", "check_due", Time),
    ("Lifetime writes", "lifetime_written_kib", Rounded),
    ("Reserved blocks uid", "reserved_uid", First),
    ("Reserved blocks gid", "reserved_gid", First),
    ("First inode", "first_inode", TEXT),
    ("Inode size", "inode_bytes", TEXT),
    ("Required extra isize", "extra_bytes_required", TEXT),
    ("Desired extra isize", "extra_bytes_wanted", TEXT),
    ("Journal UUID", "journal_uuid", TEXT),
    ("Journal inode", "journal_inode", TEXT),
    ("First orphan inode", "first_orphan", TEXT),
    ("Default directory hash", "hash", TEXT),
    ("Directory Hash Seed", "hash_seed", TEXT),
    ("Journal backup", "journal_backup", TEXT),
    ("Backup block groups", "backup_groups", Words),
    ("Checksum type", "checksum_type", TEXT),
    ("Checksum", "checksum", TEXT),
    ("Checksum seed", "checksum_seed", TEXT),
    ("Character encoding", "encoding", TEXT),
    ("Journal features", "journal_features", Words),
    ("Total journal size", "journal_bytes", Size),
    ("Total journal blocks", "journal_blocks", TEXT),
    (
        "Max transaction length",
        "journal_transaction_blocks_max",
        TEXT,
    ),
    ("Fast commit length", "journal_fast_commit_blocks", TEXT),
    ("Journal first block", "journal_first", TEXT),
    ("Journal sequence", "journal_sequence", Hex),
    ("Journal start", "journal_start", TEXT),
    ("Journal checksum type", "journal_checksum_type", TEXT),
    ("Journal checksum", "journal_checksum", TEXT),
    ("Journal errno", "journal_error", TEXT),
    ("Journal number of users", "journal_user_count", TEXT),
    ("Journal users", "journal_users", Words),
];

impl Form {
    fn agrees(self, ours: &Value, theirs: &str) -> bool {
        let plain = match ours {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self {
            Text(empty) if plain.is_empty() => theirs == empty,
            Text(_) => theirs == plain,
            First => theirs.split(' ').next() == Some(plain.as_str()),
            Words => words(ours) == sorted(theirs),
            // Where nothing was noted, it tells the beginning of time.
            Time if ours.is_null() => ["n/a", "Jan  1 00:00:00 1970"].contains(&theirs),
            Time => theirs == date(ours),
            Hex => Some(theirs.to_owned()) == ours.as_u64().map(|number| format!("{number:#010x}")),
            Size => {
                let kib = ours.as_u64().unwrap() >> 10;
                theirs == format!("{kib}k") || theirs == format!("{}M", kib >> 10)
            }
            Called(names) => names.contains(&(plain.as_str(), theirs)),
            Rounded => ours.is_u64(),
        }
    }
}

fn sorted(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| *word != "(none)");
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort();
    words
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().unwrap().iter();
    let text: Vec<String> = words
        .map(|word| word.to_string().trim_matches('"').to_owned())
        .collect();
    sorted(&text.join(" "))
}

/// `Sun Nov 22 11:32:34 2026` for `2026-11-22 11:32:34 UTC`, without the day of the week.
fn date(ours: &Value) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let text = ours.as_str().unwrap();
    let (day, time) = text.trim_end_matches(" UTC").split_once(' ').unwrap();
    let parts: Vec<usize> = day.split('-').map(|part| part.parse().unwrap()).collect();
    let month = &MONTHS[(parts[1] - 1) * 3..parts[1] * 3];
    format!("{month} {:2} {time} {}", parts[2], parts[0])
}

pub(crate) fn dumpe2fs(folder: &Folder, options: &[&str]) -> String {
    let mut arguments = vec!["TZ=UTC", "dumpe2fs"];
    arguments.extend(options);
    let at: Vec<String> = arguments
        .iter()
        .map(|argument| match argument.ends_with(".img") {
            true => folder.path().join(argument).display().to_string(),
            false => (*argument).to_owned(),
        })
        .collect();
    tool::run_well("env", &at)
}

/// Each line of dumpe2fs's header is told by info, with the same value; how many there were.
fn compare(folder: &Folder, image: &str) -> usize {
    let ours = folder.json(&format!("info --json {image}"));
    let theirs = dumpe2fs(folder, &["-h", image]);
    let mut count = 0;
    let mut last = "";
    for line in theirs.lines().filter(|line| !line.trim().is_empty()) {
        let Some((label, value)) = line.split_once(':').filter(|_| !line.starts_with(' ')) else {
            // Further users of a journal stand below the first.
            assert_eq!(last, "Journal users", "{line}");
            continue;
        };
        last = label;
        let known = FACTS.iter().find(|(theirs, ..)| *theirs == label);
        let (_, key, form) = known.unwrap_or_else(|| panic!("{image}: info lacks {line}"));
        let value = value.trim();
        let value = match form {
            // Without the day of the week.
            Time => value.split_once(' ').map_or(value, |(_, rest)| rest),
            _ => value,
        };
        let found = &ours[*key];
        assert!(form.agrees(found, value), "{image}: {line}: {found}");
        count += 1;
    }
    count
}

/// Returns the groups of dumpe2fs in our form.
pub(crate) fn groups(text: &str) -> Vec<Value> {
    let mut groups: Vec<Value> = Vec::new();
    for line in text
        .lines()
        .skip_while(|line| !line.starts_with("Group 0:"))
    {
        if let Some(rest) = line.strip_prefix("Group ") {
            let (number, rest) = rest.split_once(": (Blocks ").unwrap();
            let (blocks, rest) = rest.split_once(')').unwrap();
            let checksum = rest.split_once("csum 0x").map(|(_, sum)| &sum[..4]);
            let flags = rest
                .split_once('[')
                .map(|(_, flags)| flags.trim_end_matches(']'));
            let flags: Vec<&str> = flags
                .map(|all| all.split(", ").collect())
                .unwrap_or_default();
            groups.push(serde_json::json!({
                "group": number.parse::<u32>().unwrap(),
                "blocks": range(blocks),
                "checksum": checksum.map(|sum| u16::from_str_radix(sum, 16).unwrap()),
                "flags": flags,
                "superblock": null, "descriptors": null, "reserved_descriptors": null,
                // Told where it is not 0, and meant where there are checksums.
                "unused_inodes": checksum.map(|_| 0),
            }));
            continue;
        }
        let group = groups.last_mut().unwrap();
        for part in line.trim().split(", ") {
            let last_word = part.split(' ').next_back().unwrap();
            if part.contains(" superblock at ") {
                group["superblock"] = last_word.parse::<u64>().unwrap().into();
            } else if part.starts_with("Group descriptor") {
                group["descriptors"] = range(last_word);
            } else if part.starts_with("Reserved GDT blocks at ") {
                group["reserved_descriptors"] = range(last_word);
            }
        }
        let place = |label: &str| line.trim().strip_prefix(label)?.split([' ', ',']).next();
        if let Some(block) = place("Block bitmap at ") {
            group["block_bitmap"] = block.parse::<u64>().unwrap().into();
        } else if let Some(block) = place("Inode bitmap at ") {
            group["inode_bitmap"] = block.parse::<u64>().unwrap().into();
        } else if let Some(blocks) = place("Inode table at ") {
            group["inode_table"] = range(blocks);
        } else if line.contains(" free inodes, ") {
            let keys = ["free_blocks", "free_inodes", "directories", "unused_inodes"];
            for (part, key) in line.trim().split(", ").zip(keys) {
                let number = part.split(' ').next().unwrap();
                group[key] = number.parse::<u64>().unwrap().into();
            }
        } else if let Some(all) = line.trim().strip_prefix("Free blocks:") {
            group["free_block_ranges"] = ranges(all);
        } else if let Some(all) = line.trim().strip_prefix("Free inodes:") {
            group["free_inode_ranges"] = ranges(all);
        }
    }
    groups
}

fn range(text: &str) -> Value {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().unwrap();
    serde_json::json!([number(first), number(last)])
}

fn ranges(text: &str) -> Value {
    let all = text.trim().split(", ").filter(|text| !text.is_empty());
    all.map(range).collect()
}

fn compare_groups(folder: &Folder, image: &str) {
    let ours = folder.json(&format!("info --groups --json {image}"));
    let mut theirs = groups(&dumpe2fs(folder, &[image]));
    if let Some(cluster) = ours["cluster_bytes"].as_u64() {
        // It tells where the last cluster begins, we where it ends.
        let ratio = cluster / ours["block_bytes"].as_u64().unwrap();
        let ranges = theirs
            .iter_mut()
            .flat_map(|group| group["free_block_ranges"].as_array_mut().unwrap());
        for range in ranges {
            range[1] = (range[1].as_u64().unwrap() + ratio - 1).into();
        }
    }
    let ours = ours["groups"].as_array().unwrap();
    assert_eq!(ours.len(), theirs.len(), "{image}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{image}");
    }
    let text = folder.good(&format!("info --groups {image}"));
    let lines = text.lines().filter(|line| line.starts_with("Group "));
    assert_eq!(lines.count(), ours.len(), "{text}");
}

/// Images of the kinds that jext makes, with something in them.
#[test]
fn what_dumpe2fs_tells_of_our_images_is_told() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    for (image, made) in [
        ("ext2.img", "-t ext2 -b 1024 -m 0 -L crowns"),
        ("ext3.img", "-t ext3 -b 1024 -m 10 -J size=4"),
        ("large.img", "-t ext3 -b 4096 -I 128 -N 5000"),
        (
            "old.img",
            "-t ext2 -b 2048 -O ^sparse_super,^resize_inode,^dir_index",
        ),
    ] {
        folder.good(&format!("mkfs -q {made} {image} 70M"));
        folder.good(&format!("mkdir {image}:/a"));
        folder.good(&format!("cp hello {image}:/a/hello"));
        assert!(compare(&folder, image) >= 30, "{image}");
        compare_groups(&folder, image);
    }
    folder.good("tune -e remount-ro -c 30 -o journal_data_writeback,^acl ext3.img");
    compare(&folder, "ext3.img");
}

#[test]
fn what_dumpe2fs_tells_of_external_journals_is_told() {
    let folder = Folder::new();
    folder.good("journal create -q -b 1024 log.img 4M");
    assert!(compare(&folder, "log.img") >= 30);
    folder.good("mkfs -q -b 1024 -J device=log.img disk.img 16M");
    folder.good("mkdir --journal log.img disk.img:/a");
    compare(&folder, "log.img");
    compare(&folder, "disk.img");
    compare_groups(&folder, "disk.img");
}

/// Of images that are not ours as much is told as can be seen without mounting them.
#[test]
fn what_dumpe2fs_tells_of_its_own_images_is_told() {
    let folder = Folder::new();
    for (image, size, options) in [
        ("ext4.img", "70M", "-t ext4 -E stride=4,stripe_width=8"),
        (
            "small.img",
            "70M",
            "-t ext4 -b 1024 -O ^64bit,metadata_csum_seed -G 4",
        ),
        (
            "meta.img",
            "70M",
            "-t ext4 -b 1024 -O meta_bg,^resize_inode",
        ),
        (
            "group.img",
            "70M",
            "-t ext4 -O uninit_bg,^metadata_csum -g 8192",
        ),
        (
            "two.img",
            "70M",
            "-t ext4 -b 1024 -O sparse_super2,^resize_inode",
        ),
        ("cluster.img", "70M", "-t ext4 -O bigalloc -C 16384"),
        ("fast.img", "70M", "-t ext4 -O fast_commit"),
        ("folded.img", "70M", "-t ext4 -O casefold,encrypt,verity"),
        ("ext3.img", "70M", "-t ext3 -i 8192 -r 1 -e panic -M /home"),
        ("ext2.img", "4M", "-t ext2"),
    ] {
        let path = folder.path().join(image);
        let mut arguments = vec!["-q", "-F"];
        arguments.extend(options.split(' '));
        arguments.extend([path.to_str().unwrap(), size]);
        tool::run_well("mke2fs", &arguments);
        assert!(compare(&folder, image) >= 30, "{image}");
        compare_groups(&folder, image);
    }
}

/// A journal that is damaged does not keep the rest from being told.
#[test]
fn damage_of_a_journal_is_a_fact_among_others() {
    let folder = Folder::with_image();
    let arguments = ["-R", "blocks <8>"].map(str::to_owned);
    let image = folder.path().join("disk.img").display().to_string();
    let blocks = tool::run_well("debugfs", &[&arguments[..], &[image]].concat());
    let first: usize = blocks.split_whitespace().next().unwrap().parse().unwrap();
    let mut bytes = folder.read("disk.img");
    let block_bytes = folder.json("info --json disk.img")["block_bytes"]
        .as_u64()
        .unwrap();
    let at = first * usize::try_from(block_bytes).unwrap();
    bytes[at..at + 4].fill(0);
    folder.write("disk.img", &bytes);
    let info = folder.json("info --json disk.img");
    assert_eq!(info["journal"], "internal, inode 8");
    let damage = info["journal_damage"].as_str().unwrap();
    assert!(damage.contains("no magic number"), "{damage}");
}

/// `mkfs --for` chooses the features of the target's own mke2fs, and `info --for` judges them.
#[test]
fn targets_get_the_features_of_their_mke2fs() {
    let folder = Folder::new();
    let built = std::env::var("HOME").map(|home| home + "/.cache/jext/e2fsprogs");
    let built = std::env::var("JEXT_E2FSPROGS")
        .or(built)
        .unwrap_or_default();
    let newer = format!("{built}/trixie/sbin/mke2fs");
    // Its defaults are those of mke2fs 1.47.0 with two more features.
    let newer = match Path::new(&newer).exists() {
        true => (&*newer, ""),
        false => ("mke2fs", "orphan_file,metadata_csum_seed"),
    };
    let present = ("mke2fs", "");
    for (target, (mke2fs, edits)) in [
        ("debian-12", present),
        ("debian-13", newer),
        ("ubuntu-24.04", present),
        ("ubuntu-26.04", newer),
        ("fedora-43", newer),
        ("yocto-5.0", newer),
        // The features of its own configuration, none of which is left to mke2fs.
        (
            "android-16",
            (
                "mke2fs",
                "none,has_journal,sparse_super,large_file,filetype,dir_index,ext_attr,extent,huge_file,dir_nlink,extra_isize,uninit_bg",
            ),
        ),
    ] {
        let (ours, theirs) = (format!("{target}.img"), format!("{target}-theirs.img"));
        folder.good(&format!("mkfs -q -t ext4 --for {target} {ours} 64M"));
        let said = folder.good(&format!("info --for {target} {ours}"));
        assert!(said.ends_with("reads and writes it\n"), "{said}");
        tool::run_well(
            "e2fsck",
            &["-fn", folder.path().join(&ours).to_str().unwrap()],
        );
        let path = folder.path().join(&theirs);
        fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let path = path.to_str().unwrap();
        let options: &[&str] = match edits {
            "" => &[],
            edits => &["-O", edits],
        };
        let options = [&["-q", "-F", "-t", "ext4"], options, &[path]].concat();
        tool::run_well(mke2fs, &options);
        let features = |image: &str| {
            let facts = folder.good(&format!("info {image}"));
            let line = facts.lines().find(|line| line.starts_with("Features:"));
            line.unwrap().to_owned()
        };
        assert_eq!(features(&ours), features(&theirs), "{target}");
    }
    let refused = folder
        .command("info --for grub-2.06 debian-13.img")
        .assert()
        .code(1);
    let refused = String::from_utf8_lossy(&refused.get_output().stdout).into_owned();
    assert!(refused.contains("refuses metadata_csum_seed"), "{refused}");
    let reads = folder.good("info --for grub-2.12 debian-13.img");
    assert!(reads.ends_with(": reads it\n"), "{reads}");
    let path = folder.path().join("8k.img");
    fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let path = path.to_str().unwrap();
    tool::run_well("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "8192", path]);
    let large = folder.command("info --for debian-13 8k.img").assert();
    let large = String::from_utf8_lossy(&large.code(1).get_output().stdout).into_owned();
    assert!(large.ends_with("refuses blocks of 8192 bytes\n"), "{large}");
}

/// The size of a volume, not that of its device, decides how many inodes it has.
#[test]
fn a_volume_smaller_than_its_device_has_the_inodes_of_its_size() {
    let folder = Folder::new();
    for (device, size) in [("8T", "1G"), ("1G", "100M"), ("600M", "2M")] {
        let inodes = |image: &str| {
            let facts = dumpe2fs(&folder, &["-h", image]);
            let line = facts.lines().find(|line| line.starts_with("Inode count:"));
            line.unwrap().to_owned()
        };
        for image in ["ours.img", "theirs.img"] {
            let path = folder.path().join(image);
            let path = path.to_str().unwrap();
            tool::run_well("truncate", &["-s", "0", path]);
            tool::run_well("truncate", &["-s", device, path]);
        }
        folder.good(&format!("mkfs -q ours.img {size}"));
        let theirs = folder.path().join("theirs.img");
        let theirs = theirs.to_str().unwrap();
        tool::run_well("mke2fs", &["-q", "-F", "-t", "ext4", theirs, size]);
        assert_eq!(
            inodes("ours.img"),
            inodes("theirs.img"),
            "{size} of {device}"
        );
    }
}
