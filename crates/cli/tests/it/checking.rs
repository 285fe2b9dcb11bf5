//! fsck: what it says and its exit statuses.

use testkit::tool;

use crate::support::Folder;

/// Offset of the superblock in an image in bytes.
const SUPERBLOCK: usize = 1024;

/// The exit status of a command and what it printed.
fn status(folder: &Folder, line: &str) -> (i32, String, String) {
    let output = folder.command(line).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn a_clean_image_is_clean_and_stays_as_it_is() {
    let folder = Folder::with_image();
    folder.good("mkdir disk.img:/a");
    let before = folder.read("disk.img");
    let text = folder.good("fsck -n -f disk.img");
    assert!(text.starts_with("disk.img: clean, "), "{text}");
    let document = folder.json("fsck --json disk.img");
    assert_eq!(document["clean"], true);
    assert_eq!(document["directories"], 3);
    assert_eq!(document["problems"], serde_json::json!([]));
    assert!(folder.read("disk.img") == before, "nothing is written");
}

/// A command that meets damage reports in one line the fault, its place, and the next step.
#[test]
fn damage_that_a_command_meets_is_told_in_one_line() {
    let folder = Folder::with_image_of_ext3();
    let image = folder.path().join("disk.img");
    folder.write("letter", b"Dear all,");
    let request = "set_bg 0 free_inodes_count 5";
    let image = image.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", request, image]);
    let error = folder.bad("cp letter disk.img:/letter");
    assert!(error.contains("group 0: bitmap disagrees"), "{error}");
    assert!(
        error.ends_with("; e2fsck -f repairs what is damaged"),
        "{error}"
    );
}

#[test]
fn problems_are_named_and_left() {
    let folder = Folder::with_image_of_ext3();
    let mut image = folder.read("disk.img");
    // The link count of the root, which is the second inode of the first group's table.
    let block_bytes = 1024 << image[SUPERBLOCK + 24];
    let descriptors = if block_bytes == 1024 {
        2048
    } else {
        block_bytes
    };
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let root = word(descriptors + 8) * block_bytes
        + usize::from(image[SUPERBLOCK + 88])
        + usize::from(image[SUPERBLOCK + 89]) * 256;
    image[root + 26] = 9;
    folder.write("disk.img", &image);
    let (code, text, _) = status(&folder, "fsck disk.img");
    assert_eq!(code, 4, "{text}");
    let line =
        "706 inode 2: inode's count of links is not the number of its entries (9, should be 3)";
    assert_eq!(text.lines().next(), Some(line));
    assert!(text.contains("disk.img: NOT CLEAN"), "{text}");
    let (code, text, _) = status(&folder, "fsck --json disk.img");
    assert_eq!(code, 4);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let problem = &document["problems"][0];
    assert_eq!(problem["name"], "LinkCountWrong");
    assert_eq!(
        (&problem["inode"], &problem["found"]),
        (&2.into(), &9.into())
    );
    assert!(folder.read("disk.img") == image, "nothing is written");
}

#[test]
fn what_cannot_be_checked_has_status_8_and_a_wrong_command_line_16() {
    let folder = Folder::new();
    folder.write("text", &[b'x'; 8192]);
    for (line, expected, said) in [
        (
            "fsck text",
            8,
            "jext: text: holds no ext file system (magic is",
        ),
        ("fsck nowhere", 8, "jext: nowhere: "),
        ("fsck mem:1MiB", 8, "lives for one process only"),
        ("fsck", 16, "IMAGE"),
        ("fsck --repair text", 16, "--repair"),
        ("-v fsck --repair text", 16, "--repair"),
        ("info", 2, "DEVICE"),
    ] {
        let (code, _, error) = status(&folder, line);
        assert_eq!(code, expected, "jext {line}: {error}");
        assert!(error.contains(said), "jext {line}: {error}");
    }
    let (code, text, _) = status(&folder, "fsck --help");
    assert_eq!(code, 0);
    assert!(text.contains("--journal-device"), "{text}");
}

#[test]
fn an_external_journal_has_to_be_given() {
    let folder = Folder::new();
    folder.write("log.img", &[0; 2 << 20]);
    folder.good("journal create -b 1024 log.img");
    folder.good("mkfs -q -b 1024 -J device=log.img disk.img 8M");
    let (code, _, error) = status(&folder, "fsck disk.img");
    assert_eq!(code, 8);
    assert!(
        error.contains("the journal is on another device"),
        "{error}"
    );
    folder.good("fsck --journal-device log.img disk.img");
}
