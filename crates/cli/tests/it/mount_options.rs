//! The page of mount options beside the parsers: every option is on it, and every default is one.

use std::collections::BTreeSet;

use jext::mount_options::{ParsedOptions, table};

use crate::support::Folder;

const PAGE: &str = include_str!("../../../../docs/how-to/mount-options.md");
/// The parsers of the options of a volume and of a mount. An option is an arm of a `match`, at one
/// of these depths; deeper arms are values.
const PARSERS: [&str; 2] = [
    include_str!("../../../jext/src/mount_options.rs"),
    include_str!("../../src/commands/mount/options.rs"),
];
const DEPTHS: [usize; 2] = [8, 12];

/// Returns the texts between pairs of a mark.
fn marked(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// Returns the rows of the tables of options in a section, as cells.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(heading).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| line.split('|').skip(1).map(str::trim).collect())
        .collect()
}

fn name(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// Returns the names of all options on the page.
fn documented() -> BTreeSet<&'static str> {
    let lines = PAGE.lines().filter(|line| line.starts_with("| `"));
    let cells = lines.filter_map(|line| line.split('|').nth(1));
    cells.flat_map(|cell| marked(cell, '`')).map(name).collect()
}

/// Returns the names of the options that a parser takes.
fn parsed(source: &str) -> BTreeSet<&str> {
    let (source, _) = source.split_once("#[cfg(test)]").unwrap();
    let arms = source.lines().filter_map(|line| {
        let depth = line.len() - line.trim_start().len();
        let (names, _) = line.split_once(" =>")?;
        let is_arm = DEPTHS.contains(&depth) && names.trim_start().starts_with('"');
        is_arm.then_some(names)
    });
    let lists = source.split("const IGNORED").skip(1);
    let lists = lists.filter_map(|rest| rest.split_once("];").map(|(list, _)| list));
    arms.chain(lists)
        .flat_map(|text| marked(text, '"'))
        .map(name)
        .collect()
}

#[test]
fn the_page_has_every_option_of_the_parsers() {
    let mut known = BTreeSet::from(["remount"]);
    for source in PARSERS {
        let names = parsed(source);
        assert!(names.len() > 15, "{names:?}");
        known.extend(names);
    }
    let options = table::OPTIONS.iter().flat_map(|row| row.options);
    known.extend(options.map(|option| name(option)));
    let error = ParsedOptions::default().add("frobnicate").unwrap_err();
    let error = error.to_string();
    let (_, expected) = error.split_once("expected one of ").unwrap();
    known.extend(expected.split(", "));

    let documented = documented();
    let missing: Vec<_> = known.difference(&documented).collect();
    assert!(missing.is_empty(), "the page lacks {missing:?}");
    // The other way round; the bits of the superblock have names of their own.
    let bits: BTreeSet<_> = rows("## Options in the superblock")
        .iter()
        .flat_map(|cells| marked(cells[0], '`'))
        .collect();
    let invented: Vec<_> = documented
        .difference(&known)
        .filter(|name| !bits.contains(*name))
        .collect();
    assert!(invented.is_empty(), "no parser knows {invented:?}");
}

#[test]
fn an_option_of_another_command_is_told() {
    let folder = Folder::with_image();
    let error = folder.bad("ls -o uid=3 disk.img");
    let start = "mount option \"uid=3\": is for `jext mount` alone; expected one of ro, noload, ";
    assert!(error.starts_with(start), "{error}");
    let error = folder.bad("ls -o frobnicate disk.img");
    let start = "mount option \"frobnicate\": expected one of ro, noload, ";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn the_defaults_of_the_page_change_nothing() {
    let mut count = 0;
    for cells in rows("## Options of a volume") {
        for default in marked(cells[1], '`') {
            let mut expected = ParsedOptions::default();
            if default.starts_with("init_itable") {
                expected.init_tables_by_default();
            }
            let mut parsed = ParsedOptions::default();
            parsed.add(default).unwrap();
            assert_eq!(parsed.options, expected.options, "{default}");
            count += 1;
        }
    }
    assert!(count >= 20, "{count} defaults");
    let threads = format!("`threads={}`", fuse::Settings::default().threads);
    let mount = rows("## Options of a mount");
    assert!(mount.iter().any(|cells| cells[1] == threads), "{threads}");
}
