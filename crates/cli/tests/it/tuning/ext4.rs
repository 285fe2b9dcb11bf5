//! tune on ext4: its checksums, journals and features.

use testkit::{Mount, privilege, tool};

use super::{UUID, told};
use crate::support::Folder;

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
            "tune -L crowns -m 10 -c 30 -C 7 -i 26w -T @1000000000 -u 12 -g 34 -M /old -o nodelalloc \
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

/// The checksums of ext4 are of its UUID, and are computed anew unless their seed is kept.
#[test]
fn an_ext4_gets_another_uuid() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    for (options, also) in [
        ("", ""),
        ("-O orphan_file", ""),
        ("", "-O metadata_csum_seed"),
        ("-O metadata_csum_seed", ""),
        ("-O metadata_csum_seed", "-O ^metadata_csum_seed"),
        ("-O ^metadata_csum,uninit_bg", ""),
        ("-O ^metadata_csum", ""),
        ("-O ea_inode", "-O metadata_csum_seed"),
    ] {
        folder.good(&format!("mkfs -q -F -t ext4 {options} disk.img 64M"));
        folder.good("cp hello disk.img:/hello");
        folder.good(&format!("tune -U {UUID} {also} disk.img"));
        assert_eq!(told(&folder, "Filesystem UUID"), UUID);
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
    // The seed is of an earlier UUID: without it all checksums are of the new one.
    folder.good(&format!("tune -O metadata_csum_seed -U {UUID} disk.img"));
    folder.check("disk.img");
    folder.good("tune -O ^metadata_csum_seed disk.img");
    folder.check("disk.img");
    folder.good("mkfs -q -F -t ext4 -O ea_inode disk.img 64M");
    let error = folder.bad(&format!("tune -U {UUID} disk.img"));
    assert!(error.contains("-O metadata_csum_seed"), "{error}");
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

#[test]
fn fast_commits_are_allowed_and_forbidden() {
    let folder = Folder::new();
    folder.write("hello", &[7; 3000]);
    folder.good("mkfs -q -t ext4 -b 1024 -O fast_commit disk.img 64M");
    let facts = folder.json("info --json disk.img");
    assert_eq!(facts["journal_fast_commit_blocks"], 64);
    assert_eq!(facts["journal_blocks"], 4096 + 64);
    let has = || {
        let facts = folder.json("info --json disk.img");
        let features = facts["features"].as_array().unwrap().clone();
        features.iter().any(|name| name == "fast_commit")
    };
    for (feature, is_set) in [("fast_commit", true), ("^fast_commit", false)] {
        folder.good(&format!("tune -O {feature} disk.img"));
        assert_eq!(has(), is_set);
        folder.good(&format!("cp hello disk.img:/{is_set}"));
        folder.check("disk.img");
    }
}

#[test]
fn quotas_come_and_go() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 disk.img 64M");
    folder.good("cp hello disk.img:/hello");
    let kinds = |folder: &Folder| {
        let labels = ["User", "Group", "Project"];
        let told = labels.map(|label| told(folder, &format!("{label} quota inode")));
        folder.check("disk.img");
        told.map(|inode| !inode.is_empty())
    };
    for (options, counted) in [
        ("-O quota", [true, true, false]),
        ("-O project", [true, true, true]),
        ("-Q ^usrquota -L counted", [false, true, true]),
        ("-Q usrquota,^grpquota,prjquota", [true, false, true]),
        ("-O ^project", [true, false, false]),
        ("-Q ^usrquota", [false, false, false]),
        ("-Q prjquota", [false, false, true]),
        ("-O ^quota", [false, false, false]),
    ] {
        folder.good(&format!("tune {options} disk.img"));
        assert_eq!(kinds(&folder), counted, "{options}");
    }
    assert_eq!(folder.good("cat disk.img:/hello"), "world");
    let features = told(&folder, "Filesystem features");
    assert!(!features.contains("quota") && !features.contains("project"));
    folder.good("tune -O quota disk.img");
    folder.good("quota set -u 0 disk.img 0 90 0 80");
    folder.good("tune -Q usrquota disk.img");
    let report = folder.good("quota report disk.img");
    assert!(report.contains("90") && report.contains("80"), "{report}");
    let error = folder.bad("tune -Q quota disk.img");
    assert!(error.contains("usrquota, grpquota or prjquota"), "{error}");
    folder.good("mkfs -q -t ext4 -b 1024 -I 128 old.img 16M");
    let error = folder.bad("tune -O project old.img");
    assert!(error.contains("128 bytes"), "{error}");
}

#[test]
fn what_is_refused_has_changed_nothing() {
    let folder = Folder::new();
    folder.write("empty", b"");
    folder.good("mkfs -q -t ext4 -b 4096 -O ^has_journal,^metadata_csum disk.img 16M");
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
        (
            "tune -O ^dir_index -J device=taken.img disk.img",
            "belongs to the file system",
        ),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(said), "{line}: {error}");
        assert!(folder.read("disk.img") == before, "{line}");
    }
}

/// Inodes become larger, and then have room for what needs it.
#[test]
fn inodes_become_larger() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 -I 128 disk.img 24M");
    folder.good("cp hello disk.img:/hello");
    for (line, said) in [
        (
            "tune -I 192 disk.img",
            "a power of two from 128 to that of a block, 1024",
        ),
        ("tune -I 128 disk.img", "128 bytes already"),
        ("tune -O inline_data disk.img", "more than 128 bytes"),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(said), "{line}: {error}");
    }
    folder.good("tune -I 256 -O inline_data -L larger disk.img");
    folder.check("disk.img");
    assert_eq!(told(&folder, "Inode size"), "256");
    assert_eq!(told(&folder, "Filesystem volume name"), "larger");
    assert_eq!(folder.good("cat disk.img:/hello"), "world");
    assert_eq!(folder.json("info --json disk.img")["inode_bytes"], 256);
    let error = folder.bad("tune -I 128 disk.img");
    assert!(error.contains("cannot become smaller"), "{error}");
    folder.good("tune -O ^has_journal disk.img");
    let error = folder.bad("tune -I 512 disk.img");
    assert!(error.contains("add one with tune -j"), "{error}");
    folder.good("journal create -q -b 1024 log.img 4M");
    folder.good("tune -J device=log.img disk.img");
    let error = folder.bad("tune -I 512 disk.img");
    assert!(error.contains("name it with --journal"), "{error}");
    folder.good("tune -I 512 --journal log.img disk.img");
    assert_eq!(told(&folder, "Inode size"), "512");
    folder.good("tune -O ^has_journal --journal log.img disk.img");
    folder.check("disk.img");
    assert_eq!(folder.good("cat disk.img:/hello"), "world");
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

/// Returns what dumpe2fs prints of the superblock, but for times and what they change.
fn header(folder: &Folder, name: &str) -> String {
    let image = folder.path().join(name).display().to_string();
    let all = tool::run_well("dumpe2fs", &["-h", &image]);
    let is_of_time = |line: &&str| {
        let labels = ["Last write time", "Lifetime writes", "Checksum:"];
        labels.iter().any(|label| line.starts_with(label))
    };
    let lines = all.lines().filter(|line| !is_of_time(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The superblock with an orphan file is that of tune2fs, but for times and what they change.
#[test]
fn an_orphan_file_comes() {
    for options in [
        "-b 1024",
        "-b 4096 -O metadata_csum_seed,64bit",
        "-b 1024 -O ^metadata_csum,uninit_bg",
        "-b 1024 -O ^extent,^64bit,^metadata_csum,^flex_bg",
        "-b 1024 -O bigalloc -C 16384",
        "-b 1024 -O quota",
    ] {
        let folder = Folder::new();
        folder.write("hello", b"world");
        folder.good(&format!("mkfs -q -t ext4 {options} disk.img 64M"));
        folder.good("cp hello disk.img:/hello");
        std::fs::copy(
            folder.path().join("disk.img"),
            folder.path().join("theirs.img"),
        )
        .unwrap();
        folder.good("tune -O orphan_file disk.img");
        folder.check("disk.img");
        let theirs = folder.path().join("theirs.img").display().to_string();
        tool::run_well("tune2fs", &["-O", "orphan_file", &theirs]);
        let (ours, theirs) = (header(&folder, "disk.img"), header(&folder, "theirs.img"));
        assert_eq!(ours, theirs, "{options}");
        assert!(told(&folder, "Filesystem features").contains("orphan_file"));
        folder.good("cp hello disk.img:/again");
        folder.check("disk.img");
        folder.good("tune -O ^orphan_file disk.img");
        folder.check("disk.img");
    }
}

#[test]
fn an_orphan_file_comes_with_a_journal() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext4 -b 1024 -O ^has_journal disk.img 64M");
    let error = folder.bad("tune -O orphan_file disk.img");
    assert!(error.contains("needs a journal"), "{error}");
    folder.good("tune -O has_journal,orphan_file disk.img");
    folder.check("disk.img");
    let features = told(&folder, "Filesystem features");
    assert!(
        features.contains("has_journal") && features.contains("orphan_file"),
        "{features}"
    );
    let error = folder.bad("tune -O ^has_journal disk.img");
    assert!(error.contains("^has_journal,^orphan_file"), "{error}");
}

/// Directories that ignore case can be made on Linux then, and the feature stays while there are.
#[test]
fn names_may_ignore_case_and_no_longer() {
    let folder = Folder::new();
    folder.write("hello", b"world");
    folder.good("mkfs -q -t ext4 -b 1024 disk.img 64M");
    folder.good("mkdir disk.img:/d");
    let ours = folder.path().join("disk.img");
    let theirs = folder.path().join("theirs.img");
    std::fs::copy(&ours, &theirs).unwrap();
    for feature in ["casefold", "^casefold"] {
        folder.good(&format!("tune -O {feature} disk.img"));
        folder.check("disk.img");
        let theirs = theirs.display().to_string();
        tool::run_well("tune2fs", &["-O", feature, &theirs]);
        assert_eq!(header(&folder, "disk.img"), header(&folder, "theirs.img"));
    }
    folder.good("tune -O casefold disk.img");
    let image = ours.display().to_string();
    tool::run_well("debugfs", &["-w", "-R", "sif /d flags 0x40080000", &image]);
    let error = folder.bad("tune -O ^casefold disk.img");
    assert!(error.contains("ignores case"), "{error}");
    folder.good("cp hello disk.img:/hello");
}
