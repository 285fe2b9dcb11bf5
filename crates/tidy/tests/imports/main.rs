//! The files of a crate do not import each other in circles.
//!
//! # Rule
//!
//! File A *uses* file B of the same crate if a path in A refers to an item that B defines: in a
//! `use`, a type, an expression, a pattern, an `impl` or the body of a macro. A re-export is
//! followed to the file that defines the item: the re-exporting module uses that file, and files
//! that import the item from there do not use the module. Importing a module is no use by itself. A
//! glob import uses the file of the module or enum that it names. Methods, associated functions and
//! variants belong to their type. Method calls are not resolved, since that would require types, so
//! `impl` blocks of one type in several files may call each other. Items under `#[cfg(test)]`,
//! `tests/`, attributes and documentation do not count.
//!
//! A *circle* is a chain of uses through two or more files that returns to the first. It is allowed
//! if and only if one of its files is an ancestor module of all its others: a parent declares and
//! uses its children, they use its items and each other. So `a` and `a/b`, or `a`, `a/b` and `a/c`,
//! may form a circle. `a/b` and `a/c` without `a` may not, nor may a circle that leaves `a` and its
//! descendants and returns to any of them.
//!
//! The *size* of disallowed circles is the number of files that reach each other: those of a
//! strongly connected component of the uses, after common ancestors have been removed
//! ([`circles`]).
//!
//! # Printing the circles
//!
//! ```sh
//! JEXT_TIDY_CIRCLES=jbd2 cargo test -p tidy --test imports -- --nocapture    # or: all
//! ```
//!
//! prints each set of files that reach each other, its shortest circle with its lines, and all uses
//! within the set.

mod circles;
mod resolve;
mod source;
mod tests;
mod uses;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::circles::{Knot, knots};
use crate::source::{Crate, FileId, Sources};
use crate::uses::Uses;

/// A crate with its uses and circles.
struct Report {
    tree: Crate,
    uses: Uses,
    knots: Vec<Knot>,
}

impl Report {
    fn of(root: &str, sources: &Sources) -> Self {
        let tree = Crate::parse(root, sources);
        let uses = Uses::of(&tree);
        let knots = knots(&tree.files, &uses.graph());
        Self { tree, uses, knots }
    }

    fn largest(&self) -> usize {
        self.knots.first().map_or(0, |knot| knot.files.len())
    }

    /// Returns one use, as `a.rs:12 uses b.rs: the line`.
    fn line(&self, from: FileId, to: FileId) -> String {
        let file = &self.tree.files[from];
        let lines = &self.uses.lines[&(from, to)];
        let (line, _) = lines.first_key_value().expect("a use has a line");
        let text = file.text.lines().nth(line - 1).unwrap_or_default().trim();
        let more = match lines.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let target = &self.tree.files[to].name;
        format!("{}:{line} uses {target}: {text}{more}", file.name)
    }

    fn shortest(&self, knot: &Knot) -> String {
        let count = knot.shortest.len();
        let mut text = String::new();
        for at in 0..count {
            let line = self.line(knot.shortest[at], knot.shortest[(at + 1) % count]);
            writeln!(text, "    {line}").expect("a string takes it");
        }
        text
    }

    /// Prints the circles, each with all uses among its files.
    fn print(&self, name: &str) {
        for knot in &self.knots {
            println!(
                "{name}: {} files use each other in circles",
                knot.files.len()
            );
            println!("  the shortest:\n{}", self.shortest(knot));
            println!("  all uses among them:");
            for (from, to) in self.uses.lines.keys() {
                if knot.files.contains(from) && knot.files.contains(to) {
                    let paths = self.uses.lines[&(*from, *to)].values().flatten();
                    let mut paths: Vec<&str> = paths.map(String::as_str).collect();
                    paths.sort_unstable();
                    paths.dedup();
                    let files = &self.tree.files;
                    let (from, to) = (&files[*from].name, &files[*to].name);
                    println!("    {from} -> {to}: {}", paths.join(", "));
                }
            }
            println!();
        }
    }
}

fn crates_folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the crate lies in crates/")
        .to_path_buf()
}

fn read(folder: &Path, prefix: &str, sources: &mut Sources) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        if entry.file_type().expect("a type").is_dir() {
            read(&entry.path(), &format!("{prefix}{name}/"), sources);
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).expect("readable");
            sources.insert(format!("{prefix}{name}"), text);
        }
    }
}

/// Returns all crates by name; a binary beside a library counts as a separate crate.
fn reports() -> BTreeMap<String, Report> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(crates_folder()).expect("crates/") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().expect("a name").display().to_string();
        let mut sources = Sources::new();
        read(&folder.join("src"), "", &mut sources);
        for (root, suffix) in [("lib.rs", ""), ("main.rs", " (main.rs)")] {
            if sources.contains_key(root) {
                found.insert(format!("{name}{suffix}"), Report::of(root, &sources));
            }
        }
    }
    found
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable only asks for more output"
)]
fn files_do_not_import_each_other_in_circles() {
    let wanted = std::env::var("JEXT_TIDY_CIRCLES").unwrap_or_default();
    let mut wrong = String::new();
    let reports = reports();
    for (name, report) in &reports {
        if wanted == "all" || wanted == *name {
            report.print(name);
        }
        let largest = report.largest();
        if let Some(knot) = report.knots.first() {
            let shortest = report.shortest(knot);
            writeln!(
                wrong,
                "{name}: {largest} files use each other in circles\n{shortest}"
            )
            .expect("a string takes it");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
