//! Messages of e2fsck as kinds of problems of the checker: the table `e2fsck/messages.txt`.

use std::collections::BTreeSet;

/// Bit of e2fsck's exit status for remaining problems.
pub const LEFT: i32 = 4;
/// Bit of e2fsck's exit status for an aborted check.
pub const GAVE_UP: i32 = 8;
/// Kind of a file system that cannot be checked.
pub const ERROR: &str = "error";

/// A message, and the kinds that it may mean.
#[derive(Debug)]
pub struct Message {
    /// A part of the line.
    pub text: &'static str,
    /// The kinds.
    pub kinds: Vec<&'static str>,
}

/// Lines that continue a message, ask a question or report progress.
const ASIDES: [&str; 79] = [
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
    "Restarting e2fsck",
    "This doesn't bode well",
    "e2fsck: Cannot proceed",
    "filesystem.  If the device",
    "filesystem (and not swap",
    "is corrupt, and you might",
    "    e2fsck -b",
    " or",
    "MMP_block:",
    "    mmp_",
    "e2fsck: MMP: e2fsck being run",
    "JBD2: Invalid checksum",
    "FIXED.",
    "CLEARED.",
    "*** journal has been",
    "Creating journal",
    "\t(i.e., without",
    "Signal (",
    "e2fsck(",
    "/lib/x86_64",
    "ext2fs_write_inode: Attempt",
];

/// Texts within lines that are no problems, or whose next line says more.
const WITHIN: [&str; 6] = [
    " extent tree (at level ",
    "extent tree could be more shallow",
    " has an invalid extent",
    ": ********** WARNING: Filesystem still has errors",
    "% non-contiguous), ",
    "are likely pre-1970",
];

/// Returns the table.
pub fn messages() -> Vec<Message> {
    let lines = include_str!("e2fsck/messages.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|row| {
        let (text, kinds) = row.split_once(" => ").expect("a row says its kinds");
        Message {
            text,
            kinds: kinds.split(' ').collect(),
        }
    })
    .collect()
}

/// Returns the messages in an output.
pub fn said<'m>(messages: &'m [Message], output: &str) -> Vec<&'m Message> {
    let found = messages.iter();
    found
        .filter(|message| output.contains(message.text))
        .collect()
}

/// Returns lines that are not in the table.
pub fn unknown<'o>(messages: &[Message], output: &'o str, image: &str) -> Vec<&'o str> {
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

/// True if e2fsck is content: its status is 0, and it names no problem that is an error. What it
/// finds before the first pass does not change its status.
pub fn is_content(status: i32, said: &[&Message], is_note: impl Fn(&str) -> bool) -> bool {
    let mut named = said.iter().map(|message| &message.kinds);
    status & (LEFT | GAVE_UP) == 0 && !named.any(|kinds| kinds.iter().all(|kind| !is_note(kind)))
}

/// Returns the messages of which no kind was found, and the kinds that were found, are errors and
/// are in no message. Two checks that could not run have no differences.
pub fn differences<'m, 'k>(
    kinds: &'k BTreeSet<String>,
    status: i32,
    said: &[&'m Message],
    is_note: impl Fn(&str) -> bool,
) -> (Vec<&'m Message>, Vec<&'k str>) {
    if status & GAVE_UP != 0 && kinds.contains(ERROR) {
        return (Vec::new(), Vec::new());
    }
    let is_found = |message: &Message| message.kinds.iter().any(|kind| kinds.contains(*kind));
    let is_said = |kind: &str| said.iter().any(|message| message.kinds.contains(&kind));
    let missing = said.iter().copied().filter(|message| !is_found(message));
    let beyond = kinds.iter().map(String::as_str);
    let beyond = beyond.filter(|kind| !is_note(kind) && !is_said(kind));
    (missing.collect(), beyond.collect())
}
