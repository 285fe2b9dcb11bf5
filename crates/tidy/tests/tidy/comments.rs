//! Rules for the comments of all sources.
//!
//! - A doc comment starts with a verb (functions) or a noun phrase (types, fields), and not with a
//!   question word.
//! - Threads, callers and blocks are things: no personal pronoun stands for them.
//! - Comment lines have at most [`COLUMNS_MAX`] columns.

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

/// Returns a line for each fault of a source.
fn faults(name: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for (index, line) in source.lines().enumerate() {
        let Some((marker, text)) = comment(line) else {
            before = "";
            continue;
        };
        let mut report = |fault: &str| found.push(format!("{name}:{}: {fault}", index + 1));
        if line.chars().count() > COLUMNS_MAX {
            report("a comment line is too long");
        }
        if words(text).any(|word| PERSONS.contains(&word.as_str())) {
            report("a comment names a person");
        }
        let first = text.split(|letter: char| !letter.is_alphabetic()).next();
        let is_start = marker != "//" && marker != before;
        if is_start && first.is_some_and(|word| QUESTION_WORDS.contains(&word)) {
            report("a doc comment starts with a question word");
        }
        before = marker;
    }
    found
}

#[test]
fn comments_are_field_english() {
    let mut found = Vec::new();
    for path in super::files(".rs") {
        let source = std::fs::read_to_string(&path).expect("readable");
        found.extend(faults(&super::relative(&path), &source));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn faults_are_found() {
    let check = |source: &str, expect: &[&str]| {
        let found = faults("a.rs", source);
        let ends = found
            .iter()
            .zip(expect)
            .all(|(line, end)| line.ends_with(end));
        assert!(found.len() == expect.len() && ends, "{source}: {found:?}");
    };
    let (question, person, long) = ("a question word", "a person", "too long");
    check("/// The size.\n/// What follows is a second line.", &[]);
    check("/// Whether it is full.\nfn is_full() {}", &[question]);
    check("//! How it works.\n\n    /// Which.", &[question, question]);
    check("// What a plain comment says.", &[]);
    check("let x = 1; // he", &[]);
    check("    // Wakes who waits.", &[person]);
    check("/// The header and the whole.", &[]);
    check(&format!("//! {}", "a".repeat(COLUMNS_MAX)), &[long]);
    check(&format!("//! {}", "a".repeat(COLUMNS_MAX - 4)), &[]);
}
