//! Messages of e2fsck as kinds of problems: the table `tests/corpus/messages.txt`.

/// A message, and the kinds that it may mean.
pub(crate) struct Message {
    pub(crate) text: &'static str,
    pub(crate) kinds: Vec<&'static str>,
}

/// Lines that continue a message, ask a question or report progress.
const ASIDES: [&str; 58] = [
    "Pass ",
    "e2fsck 1.",
    "Fix?",
    "Clear",
    "Relocate?",
    "Salvage?",
    "Split?",
    "Connect",
    "\tMarking",
    "Rename to",
    "Allocate",
    "e2fsck: aborted",
    "Run journal",
    "Abort?",
    "\tnow =",
    "or append-only",
    "Running additional",
    "(There are",
    "File ",
    "  has ",
    "\t/",
    "\t<",
    "Clone",
    "Delete",
    "Note: if several",
    "of the inode table",
    "running e2fsck",
    "Error writing block ",
    "may lie only",
    "the backup block",
    "Either the superblock",
    "The physical size",
    "Recreate",
    " Fix?",
    "WARNING: SEVERE",
    "Inodes that were part",
    "Continue",
    "Suppress",
    "Invalid HTREE directory",
    "Warning: skipping journal recovery",
    "Illegal block number passed",
    "Group descriptor ",
    "IGNORED.",
    " +(",
    " -(",
    "Error reading block",
    "e2fsck: Trying to load superblock",
    "\t(logical block",
    "\t(invalid logical block",
    "\t(op EXT2_EXTENT_DOWN",
    "Logical start ",
    "e2fsck: Group descriptors look bad",
    "(inode #",
    "If the block is really bad",
    "You can remove this block",
    "that the block is really OK",
    "Programming error?",
    "is 1; should be zero",
];

/// Texts within lines that are no problems, or whose next line says more.
const WITHIN: [&str; 3] = [
    " extent tree (at level ",
    "extent tree could be more shallow",
    " has an invalid extent",
];

/// Returns the table.
pub(crate) fn messages() -> Vec<Message> {
    let lines = include_str!("../corpus/messages.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|row| {
        let (text, kinds) = row.split_once(" => ").unwrap();
        Message {
            text,
            kinds: kinds.split(' ').collect(),
        }
    })
    .collect()
}

/// Returns the messages in an output.
pub(crate) fn said<'m>(messages: &'m [Message], output: &str) -> Vec<&'m Message> {
    let found = messages.iter();
    found
        .filter(|message| output.contains(message.text))
        .collect()
}

/// Returns lines that are not in the table.
pub(crate) fn unknown<'o>(messages: &[Message], output: &'o str, image: &str) -> Vec<&'o str> {
    let is_aside = |line: &str| {
        ASIDES.iter().any(|aside| line.starts_with(aside))
            || WITHIN.iter().any(|text| line.contains(text))
    };
    let is_message = |line: &str| messages.iter().any(|m| line.contains(m.text));
    output
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.contains(image))
        .filter(|line| !is_aside(line) && !is_message(line))
        .collect()
}
