//! Rules for the comments of all sources.
//!
//! - A doc comment starts with a verb (functions) or a noun phrase (types, fields), and not with a
//!   question word.
//! - Threads, callers and blocks are things: no personal pronoun stands for them.
//! - Comment lines have at most [`COLUMNS_MAX`] columns.
//!
//! The rules hold for every crate in [`DONE`]. The other crates together may break each rule as
//! often as [`Faults`] in [`REMAINING`] allow; these numbers only go down.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

/// Maximum number of columns of a comment line.
const COLUMNS_MAX: usize = 100;
/// Words that no doc comment starts with.
const QUESTION_WORDS: &[&str] = &[
    "What", "How", "Whether", "Where", "When", "Which", "That", "Who",
];
/// Words for persons, which no comment uses for threads, callers or blocks.
const PERSONS: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "he",
    "him",
    "his",
    "she",
    "somebody",
    "someone",
    "anybody",
    "anyone",
    "nobody",
    "everybody",
    "everyone",
];
/// Folders in which every comment keeps the rules.
const DONE: &[&str] = &[
    "crates/block",
    "crates/diskmodel",
    "crates/ext",
    "crates/fsck",
    "crates/fuse",
    "crates/fuzzing",
    "crates/layout",
    "crates/rt",
    "crates/sim",
    "crates/testkit",
    "crates/tidy",
    "crates/transfer",
    "crates/workload",
    "crates/xtask",
    "fuzz",
];
/// The faults that remain in the other crates.
const REMAINING: Faults = Faults {
    question_words: 891,
    persons: 211,
    long_lines: 844,
};

/// Numbers of broken rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Faults {
    question_words: usize,
    persons: usize,
    long_lines: usize,
}

impl AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        self.question_words += other.question_words;
        self.persons += other.persons;
        self.long_lines += other.long_lines;
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "question words {}, persons {}, long lines {}",
            self.question_words, self.persons, self.long_lines
        )
    }
}

/// Splits a comment line into its marker and its text.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["///", "//!", "//"]
        .into_iter()
        .find_map(|marker| Some((marker, line.strip_prefix(marker)?.trim_start())))
}

/// Returns the words of a text, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .map(str::to_lowercase)
}

/// Returns the faults of a source, and a line for each of them.
fn faults(name: &str, source: &str) -> (Faults, Vec<String>) {
    let (mut faults, mut found) = (Faults::default(), Vec::new());
    let mut before = "";
    for (index, line) in source.lines().enumerate() {
        let Some((marker, text)) = comment(line) else {
            before = "";
            continue;
        };
        let mut report = |fault: &str| found.push(format!("{name}:{}: {fault}", index + 1));
        if line.chars().count() > COLUMNS_MAX {
            faults.long_lines += 1;
            report("a comment line is too long");
        }
        if words(text).any(|word| PERSONS.contains(&word.as_str())) {
            faults.persons += 1;
            report("a comment names a person");
        }
        let first = text.split(|letter: char| !letter.is_alphabetic()).next();
        let is_start = marker != "//" && marker != before;
        if is_start && first.is_some_and(|word| QUESTION_WORDS.contains(&word)) {
            faults.question_words += 1;
            report("a doc comment starts with a question word");
        }
        before = marker;
    }
    (faults, found)
}

/// Returns the folder of a crate (`crates/ext`), or the first folder of another path.
fn folder(name: &str) -> String {
    let depth = if name.starts_with("crates/") { 2 } else { 1 };
    let parts: Vec<&str> = name.split('/').take(depth).collect();
    parts.join("/")
}

#[test]
fn comments_are_field_english() {
    let mut remaining: BTreeMap<String, Faults> = BTreeMap::new();
    let mut sum = Faults::default();
    for path in super::files(".rs") {
        let name = super::relative(&path);
        let source = std::fs::read_to_string(&path).expect("readable");
        let (faults, found) = faults(&name, &source);
        if DONE.contains(&folder(&name).as_str()) {
            assert!(found.is_empty(), "{}", found.join("\n"));
        } else {
            *remaining.entry(folder(&name)).or_default() += faults;
            sum += faults;
        }
    }
    let is_within = sum.question_words <= REMAINING.question_words
        && sum.persons <= REMAINING.persons
        && sum.long_lines <= REMAINING.long_lines;
    let table: String = remaining
        .iter()
        .map(|(folder, faults)| format!("{folder}: {faults}\n"))
        .collect();
    assert!(is_within, "{table}sum: {sum}\nallowed: {REMAINING}");
}

#[test]
fn faults_are_found() {
    let check = |source: &str, expect: [usize; 3]| {
        let (faults, found) = faults("a.rs", source);
        let counts = [faults.question_words, faults.persons, faults.long_lines];
        assert_eq!(counts, expect, "{source}");
        assert_eq!(found.len(), expect.iter().sum::<usize>());
    };
    check(
        "/// The size.\n/// What follows is a second line.",
        [0, 0, 0],
    );
    check("/// Whether it is full.\nfn is_full() {}", [1, 0, 0]);
    check("//! How it works.\n\n    /// Which.", [2, 0, 0]);
    check("// What a plain comment says.", [0, 0, 0]);
    check("let x = 1; // he", [0, 0, 0]);
    check("    // Wakes who waits.", [0, 1, 0]);
    check("/// The header and the whole.", [0, 0, 0]);
    check(&format!("//! {}", "a".repeat(COLUMNS_MAX)), [0, 0, 1]);
    check(&format!("//! {}", "a".repeat(COLUMNS_MAX - 4)), [0, 0, 0]);
}
