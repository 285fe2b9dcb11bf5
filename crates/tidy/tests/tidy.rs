//! Rules for every file and crate of the repository.

#[path = "tidy/comments.rs"]
mod comments;
#[path = "tidy/field_names.rs"]
mod field_names;
#[path = "tidy/links.rs"]
mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum length of a file in lines; a longer file probably has two subjects.
const FILE_LINES_MAX: usize = 600;
/// Crates that may contain unsafe code.
const UNSAFE_CRATES: &[&str] = &["rt", "sim", "block", "fuse", "capi"];
/// Words that mark unfinished code, each split in two so that this file does not contain them.
const LEFTOVERS: &[(&str, &str)] = &[
    ("todo", "!("),
    ("unimplemented", "!("),
    ("#[ign", "ore"),
    ("dbg", "!("),
    ("FIX", "ME"),
    ("XX", "X"),
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies in crates/")
        .to_path_buf()
}

/// Returns all files with an ending that git tracks or would add, below the root.
fn files(ending: &str) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is needed: apt-get install git");
    assert!(
        listed.status.success(),
        "git ls-files failed: is this a git checkout?"
    );
    let text = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let all = text.lines().filter(|line| line.ends_with(ending));
    all.map(|line| root().join(line))
        .filter(|path| path.exists())
        .collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .expect("below the root")
        .display()
        .to_string()
}

/// Returns the table of allowed edges in ARCHITECTURE.md: `| crate | ... | edges |` rows between
/// two markers.
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let table = text
        .split("<!-- edges -->")
        .nth(1)
        .expect("ARCHITECTURE.md has its table of edges between <!-- edges --> markers");
    let mut edges = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        let uses = cells[2]
            .split_whitespace()
            .map(|word| word.trim_matches('`').to_owned());
        edges.insert(name, uses.filter(|word| word != "-").collect());
    }
    edges
}

/// The engine behaves the same in every world: what a simulated one needs is a setting.
#[test]
fn the_engine_does_not_ask_whether_it_is_simulated() {
    let asked = concat!("rt::is_", "simulated");
    let sources =
        ["block", "ext", "fsck", "jbd2", "layout"].map(|name| format!("crates/{name}/src/"));
    let found = files(".rs").into_iter().filter(|path| {
        let name = relative(path);
        let is_engine = sources.iter().any(|folder| name.starts_with(folder));
        is_engine
            && std::fs::read_to_string(path)
                .expect("readable")
                .contains(asked)
    });
    assert_eq!(found.collect::<Vec<PathBuf>>(), Vec::<PathBuf>::new());
}

fn folder_name(folder: &Path) -> &str {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.expect("a folder with a name")
}

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let allowed = allowed_edges();
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let name = folder_name(manifest.parent().expect("a folder"));
        let edges = allowed.get(name).unwrap_or_else(|| {
            panic!("crate {name} has no row in ARCHITECTURE.md's table of edges")
        });
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // Those of the workspace are found by their paths.
            let Some(path) = dependency["path"].as_str() else {
                continue;
            };
            let target = folder_name(Path::new(path));
            let is_test_only = dependency["kind"].as_str() == Some("dev");
            if !is_test_only {
                assert!(edges.contains(target), "{name} must not use {target}");
            }
        }
    }
}

#[test]
fn files_hold_one_noun() {
    for path in files(".rs") {
        let name = relative(&path);
        let lines = std::fs::read_to_string(&path)
            .expect("readable")
            .lines()
            .count();
        assert!(
            lines <= FILE_LINES_MAX,
            "{name} has {lines} lines: does it still hold one noun?"
        );
    }
}

#[test]
fn files_say_what_they_are() {
    for path in files(".rs") {
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(
            text.starts_with("//!"),
            "{} does not begin with what it is",
            relative(&path)
        );
    }
}

#[test]
fn nothing_is_left_over() {
    for path in files(".rs") {
        let text = std::fs::read_to_string(&path).expect("readable");
        for (first, second) in LEFTOVERS {
            let word = format!("{first}{second}");
            assert!(!text.contains(&word), "{}: {word}", relative(&path));
        }
    }
}

#[test]
fn unsafe_code_stays_in_its_crates() {
    for path in files(".rs") {
        let name = relative(&path);
        let is_allowed = UNSAFE_CRATES
            .iter()
            .any(|c| name.starts_with(&format!("crates/{c}/")));
        if is_allowed || name.starts_with("crates/tidy/") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        for word in ["unsafe {", "unsafe fn", "unsafe impl"] {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn modules_are_not_called_mod() {
    for path in files("mod.rs") {
        assert!(
            !path.ends_with("mod.rs"),
            "{}: name it after its noun",
            relative(&path)
        );
    }
}
