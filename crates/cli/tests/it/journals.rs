//! journal show, replay and create.

use std::ffi::OsStr;

use testkit::tool;

use crate::support::Folder;

#[test]
fn an_external_journal_is_made_used_and_shown() {
    let folder = Folder::new();
    std::fs::File::create(folder.path().join("log.img"))
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    let made = folder.json("journal create --json -b 1024 log.img");
    assert_eq!(made["blocks"], 8192);
    assert!(
        folder
            .bad("journal create log.img")
            .ends_with("-F replaces it")
    );
    folder.good("mkfs -q -b 1024 -J device=log.img disk.img 16M");
    let error = folder.bad("ls disk.img");
    assert!(error.contains("journal_path="), "{error}");
    folder.good("mkdir --journal log.img disk.img:/a");
    folder.good("mkdir -o journal_path=log.img disk.img:/b");
    assert_eq!(
        folder.good("ls --journal log.img disk.img"),
        "a\nb\nlost+found\n"
    );
    let shown = folder.json("journal show --json log.img");
    assert_eq!(shown["place"], "external");
    assert_eq!(shown["uuid"], made["uuid"]);
    assert_eq!(
        shown["users"][0],
        folder.json("info --json disk.img")["uuid"]
    );
    assert!(
        folder
            .bad("journal show disk.img")
            .contains("on another device")
    );
    assert!(
        folder
            .good("info log.img")
            .contains("Kind:                     journal device")
    );
}

/// The way of mke2fs, which makes the file as well.
#[test]
fn mkfs_makes_a_journal_device() {
    let folder = Folder::new();
    let made = folder.json("mkfs --json -O journal_dev -b 1024 log.img 4M");
    assert_eq!(made["blocks"], 4096);
    folder.good("mkfs -q -b 1024 -J device=log.img disk.img 16M");
    folder.good("mkdir --journal log.img disk.img:/a");
    for (wrong, why) in [
        (
            "-O journal_dev -N 100 a.img 4M",
            "only -b, -U, -L and a size",
        ),
        (
            "-O journal_dev,dir_index a.img 4M",
            "only -b, -U, -L and a size",
        ),
        ("-O journal_dev -F log.img 2M", "at least 1024 blocks"),
        ("-O journal_dev -F log.img 8M", "less than 8388608"),
        ("-O journal_dev a.img", "give a size"),
        ("-O journal_dev log.img", "-F replaces it"),
    ] {
        let error = folder.bad(&format!("mkfs {wrong}"));
        assert!(error.contains(why), "{wrong}: {error}");
    }
    assert!(!folder.path().join("a.img").exists());
}

/// A journal that debugfs wrote and that was never replayed.
#[test]
fn a_dirty_journal_is_shown_and_replayed() {
    let folder = Folder::with_image();
    folder.write("block", &[b'j'; 2048]);
    let at = |name| folder.path().join(name);
    let script = format!("jo\njw -b 5000,5001 {}\njc\n", at("block").display());
    folder.write("script", script.as_bytes());
    let (script, image) = (at("script"), at("disk.img"));
    let arguments = [
        "-w".as_ref(),
        "-f".as_ref(),
        script.as_os_str(),
        image.as_os_str(),
    ];
    let said = tool::run_well("debugfs", &arguments);
    let shown = folder.json("journal show --json disk.img");
    assert_eq!(
        shown["transactions"].as_array().unwrap().len(),
        1,
        "{shown}\n{said}"
    );
    assert_eq!(shown["transactions"][0]["blocks"][0]["home"], 5000);
    let text = folder.good("journal show --blocks disk.img");
    assert!(
        text.contains("it has to be replayed") && text.contains(" of 5001: free now\n"),
        "{text}"
    );
    assert!(
        folder.json("info --json disk.img")["state"]
            .as_str()
            .unwrap()
            .contains("has to be replayed")
    );
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    assert_eq!(folder.good("ls -o noload disk.img"), "lost+found\n");
    assert_eq!(
        folder.json("journal replay --json disk.img")["replayed_transactions"],
        1
    );
    assert_eq!(
        folder.json("journal show --json disk.img")["start"],
        serde_json::Value::Null
    );
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    let bytes = folder.read("disk.img");
    assert_eq!(&bytes[5001 * 1024..5002 * 1024], &[b'j'; 1024]);
}

#[test]
fn a_volume_without_a_journal_says_so() {
    let folder = Folder::new();
    folder.good("mkfs -q -t ext2 disk.img 8M");
    assert_eq!(
        folder.bad("journal show disk.img"),
        "disk.img: has no journal"
    );
}

/// Fields without meaning if there are no inodes: mke2fs writes them all the same.
const OF_INODES: [&str; 5] = [
    "Default mount options",
    "Required extra isize",
    "Desired extra isize",
    "Default directory hash",
    "Directory Hash Seed",
];

/// A size smaller than the device makes a journal of its first blocks, as with mke2fs.
#[test]
fn a_journal_takes_less_than_its_device() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    for size in ["4096", "4M"] {
        for name in ["ours.img", "theirs.img"] {
            folder.write(name, &[0xAA; 8 << 20]);
        }
        let theirs = at("theirs.img");
        let theirs = theirs.to_str().unwrap();
        let line = format!("-q -F -O journal_dev -b 1024 {theirs} {size}");
        let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        tool::run_well("mke2fs", &words);
        folder.good(&format!("mkfs -q -O journal_dev -b 1024 ours.img {size}"));
        let blocks = |name: &str| {
            let image = at(name);
            let said = tool::run_well("dumpe2fs", &["-h".as_ref(), image.as_os_str()]);
            let line = said.lines().find(|line| line.starts_with("Block count"));
            line.unwrap().to_owned()
        };
        assert_eq!(blocks("ours.img"), "Block count:              4096");
        assert_eq!(blocks("ours.img"), blocks("theirs.img"));
        let behind = &folder.read("ours.img")[4 << 20..];
        assert!(behind.iter().all(|byte| *byte == 0xAA) && behind.len() == 4 << 20);
    }
    folder.good("mkfs -q -b 1024 -J device=ours.img disk.img 16M");
    folder.good("mkdir --journal ours.img disk.img:/a");
    folder.good("fsck --journal ours.img disk.img");
}

/// A journal device is what mke2fs makes, its label and its times included.
#[test]
fn a_journal_device_says_what_that_of_mke2fs_says() {
    const SECONDS: &str = "1700000000";
    let uuid = "11111111-2222-3333-4444-555555555555";
    for block_bytes in ["1024", "4096"] {
        let folder = Folder::new();
        let line = format!("-O journal_dev -b {block_bytes} -U {uuid} -L mail-log");
        let theirs = std::fs::File::create(folder.path().join("theirs.img")).unwrap();
        theirs.set_len(8 << 20).unwrap();
        let made = std::process::Command::new("mke2fs")
            .current_dir(folder.path())
            .env("E2FSPROGS_FAKE_TIME", SECONDS)
            .args(line.split(' '))
            .args(["-q", "theirs.img"])
            .status();
        assert!(made.unwrap().success());
        let mut command = folder.command(&format!("mkfs -q {line} ours.img 8M"));
        command.env("SOURCE_DATE_EPOCH", SECONDS).assert().success();
        let facts = |name: &str| {
            let image = folder.path().join(name);
            let said = tool::run_well("dumpe2fs", &["-h".as_ref(), image.as_os_str()]);
            let lines = said.lines().map(str::to_owned);
            lines
                .filter(|line| !OF_INODES.iter().any(|label| line.starts_with(label)))
                .collect::<Vec<_>>()
        };
        assert_eq!(facts("ours.img"), facts("theirs.img"));
        assert!(facts("ours.img").iter().any(|line| line.contains("2023")));
        let label = folder.json("info --json ours.img")["label"].clone();
        assert_eq!(label, "mail-log");
    }
}
