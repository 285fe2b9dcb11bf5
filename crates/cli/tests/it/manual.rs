//! Man pages and completions.

use crate::support::Folder;

#[test]
fn every_command_has_a_man_page() {
    let folder = Folder::new();
    folder.good("manual man1");
    let read = |name: &str| String::from_utf8(folder.read(&format!("man1/{name}.1"))).unwrap();
    let whole = read("jext");
    for command in ["mkfs", "journal-show", "lab-run", "bench-postmark", "crash"] {
        let page = read(&format!("jext-{command}"));
        let sections = [
            ".SH NAME",
            ".SH SYNOPSIS",
            ".SH OPTIONS",
            ".SH \"EXIT STATUS\"",
            ".SH EXAMPLES",
            ".SH VERSION",
        ];
        let places = sections.map(|section| page.find(section).expect(section));
        assert!(places.is_sorted(), "{command}: {places:?}");
        assert!(page.contains("jext 0."), "{command} names the program");
        let first = command.split('-').next().unwrap();
        assert!(whole.contains(&format!("jext\\-{first}")), "{command}");
    }
}

/// Exit statuses of the pages are those that the commands have.
#[test]
fn man_pages_have_the_exit_statuses() {
    let folder = Folder::with_image();
    folder.good("manual man1");
    for (line, status) in [
        ("fsck disk.img", 0),
        ("fsck missing.img", 8),
        ("fsck --nonsense disk.img", 16),
        ("ls missing.img", 1),
        ("ls --nonsense disk.img", 2),
        ("info --for debian-12 disk.img", 0),
        ("info --for nothing disk.img", 2),
    ] {
        let output = folder.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "jext {line}");
        let command = line.split(' ').next().unwrap();
        let page = folder.read(&format!("man1/jext-{command}.1"));
        let page = String::from_utf8(page).unwrap();
        let row = format!(".TP\n\\fB{status}\\fR\n");
        assert!(page.contains(&row), "{command}: {row}");
    }
}

#[test]
fn man_pages_need_a_directory() {
    let folder = Folder::new();
    folder.write("file", b"");
    let said = folder.bad("manual file/man1");
    assert!(said.contains("file/man1: cannot be made"), "{said}");
}

#[test]
fn shells_are_told_of_every_command() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = folder.good(&format!("completions {shell}"));
        for word in ["mkfs", "fs_mark", "reproductions", "journal-fast-commit"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
}
