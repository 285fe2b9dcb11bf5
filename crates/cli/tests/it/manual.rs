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
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(section), "{command}: {section}");
        }
        let first = command.split('-').next().unwrap();
        assert!(whole.contains(&format!("jext\\-{first}")), "{command}");
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
        for word in ["mkfs", "fs_mark", "reproductions"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
}
