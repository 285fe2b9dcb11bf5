//! Output of the commands: errors in one line, JSON, times and modes as `ls` shows them.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use ext::volume::{Attributes, FileKind};
use layout::time::InodeTime;
use serde_json::Value;

use crate::advice;

const SECONDS_PER_DAY: i64 = 86_400;

/// Prints an error in one line.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let advice = advice::of_damage(error).unwrap_or_default();
    let text = without_numbers(&format!("{}\n{advice}", advice::text(error)));
    let line: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    // A closed standard error leaves no reader to report to.
    let _ = writeln!(io::stderr(), "jext: {}", without_controls(&line.join("; ")));
    ExitCode::FAILURE
}

/// Prints an error in one line without ending the command.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "jext: {}", without_controls(text));
}

/// Prints a note in one line.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "jext: note: {}", without_controls(text));
}

/// Prints a warning in one line.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "jext: warning: {}", without_controls(text));
}

/// Removes the numbers that Rust appends to system errors, as in "(os error 2)".
fn without_numbers(text: &str) -> String {
    const BEGINNING: &str = " (os error ";
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(BEGINNING) {
        plain.push_str(before);
        let digits = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
        rest = match digits.strip_prefix(')') {
            Some(rest) => rest,
            None => {
                plain.push_str(BEGINNING);
                behind
            }
        };
    }
    plain + rest
}

/// Returns true if the reader of standard output has closed it, which is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints lines of text to standard output. A terminal gets them without control characters, which
/// it would obey: names, labels and targets of links may contain them.
pub(crate) fn print(text: &str) -> Result<()> {
    if io::stdout().is_terminal() {
        return print_bytes(shown_lines(text).as_bytes());
    }
    print_bytes(text.as_bytes())
}

/// Prints text to standard output; names in it may hold any bytes.
pub(crate) fn print_bytes(text: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text).and_then(|()| out.flush());
    written.context("standard output")
}

/// Prints one JSON document to standard output.
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print(&format!("{value:#}\n"))
}

/// Returns the mode as in `drwxr-xr-x`.
pub(crate) fn mode_text(kind: FileKind, permissions: u16) -> String {
    let letter = match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharacterDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    };
    let mut text = String::from(letter);
    for (shift, special, set) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = permissions >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, permissions & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => set,
            (false, true) => set.to_ascii_uppercase(),
        });
    }
    text
}

/// Returns the file type in words.
pub(crate) fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::CharacterDevice => "character device",
        FileKind::BlockDevice => "block device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// Returns the time as in `2003-01-01 00:00:00 UTC`.
pub(crate) fn time_text(seconds: i64) -> String {
    let (year, month, day) = rt::WallTime { seconds, nanos: 0 }.date();
    let rest = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Returns the time as in `2003-01-01T00:00:00.000000000Z`.
pub(crate) fn time_iso(time: InodeTime) -> String {
    let text = time_text(time.seconds);
    let plain = text.trim_end_matches(" UTC").replace(' ', "T");
    format!("{plain}.{:09}Z", time.nanos)
}

/// Returns a name as text, with replacement characters for invalid UTF-8.
pub(crate) fn name_text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns a name as it is printed: its bytes for programs; text without control characters for a
/// terminal, which would obey them.
pub(crate) fn printed_name(name: &[u8]) -> Vec<u8> {
    if io::stdout().is_terminal() {
        without_controls(&name_text(name)).into_bytes()
    } else {
        name.to_vec()
    }
}

/// Replaces control characters other than line feeds and tabs by `?`.
fn shown_lines(text: &str) -> String {
    let is_harmless = |letter: &char| matches!(letter, '\n' | '\t') || !letter.is_control();
    let shown = text.chars();
    shown
        .map(|letter| Some(letter).filter(is_harmless).unwrap_or('?'))
        .collect()
}

/// Replaces control characters by `?`.
pub(crate) fn without_controls(text: &str) -> String {
    let shown = text.chars();
    shown
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// Returns a name's bytes in hexadecimal digits if they are not valid UTF-8.
pub(crate) fn name_hex(name: &[u8]) -> Option<String> {
    let is_text = std::str::from_utf8(name).is_ok();
    (!is_text).then(|| name.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns attributes as JSON.
pub(crate) fn attributes_json(attributes: &Attributes) -> Value {
    let flags: String = layout::inode_flags::LETTERS
        .iter()
        .filter(|(_, flag)| attributes.flags.contains(*flag))
        .map(|(letter, _)| letter)
        .collect();
    serde_json::json!({
        "inode": attributes.inode.get(),
        "generation": attributes.generation,
        "kind": kind_text(attributes.kind),
        "mode": format!("{:04o}", attributes.permissions),
        "uid": attributes.uid,
        "gid": attributes.gid,
        "size": attributes.size,
        "sectors": attributes.sectors,
        "links": attributes.links,
        "atime": time_iso(attributes.atime),
        "mtime": time_iso(attributes.mtime),
        "ctime": time_iso(attributes.ctime),
        "crtime": attributes.crtime.map(time_iso),
        "flags": flags,
        "device": attributes.device.map(|device| vec![device.major, device.minor]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        assert_eq!(mode_text(FileKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(mode_text(FileKind::Regular, 0o4711), "-rws--x--x");
        assert_eq!(mode_text(FileKind::Regular, 0o2644), "-rw-r-Sr--");
        assert_eq!(mode_text(FileKind::Directory, 0o1777), "drwxrwxrwt");
    }

    #[test]
    fn numbers_of_errors_are_left_out() {
        let text = "a: No such file or directory (os error 2); b (os error x)";
        let plain = "a: No such file or directory; b (os error x)";
        assert_eq!(without_numbers(text), plain);
    }

    #[test]
    fn names_are_shown_harmlessly() {
        assert_eq!(without_controls("a\u{1b}[2Jb\nü"), "a?[2Jb?ü");
        assert_eq!(shown_lines("a\u{9b}2Jb\n\tü\u{1b}\r"), "a?2Jb\n\tü??");
        assert_eq!(name_hex("ü".as_bytes()), None);
        assert_eq!(name_hex(b"a\xFF"), Some("61ff".to_owned()));
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(time_text(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time_text(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(time_text(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(
            time_iso(InodeTime::new(1_041_379_200, 5)),
            "2003-01-01T00:00:00.000000005Z"
        );
    }
}
