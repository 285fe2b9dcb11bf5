//! Labels of SELinux from `file_contexts`, as refpolicy and Android have them.
//!
//! A line is `REGEX [TYPE] CONTEXT`: the regular expression matches a whole path, the type is `--`,
//! `-d`, `-l`, `-c`, `-b`, `-p` or `-s`, and the context `<<none>>` leaves the label of a file as
//! the source has it. As in libselinux, the last line that matches decides, and lines without
//! special characters come after all others, in whatever order the file has them.
//!
//! Source: file_contexts(5), selabel_file(5).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;
use regex::bytes::{Regex, RegexBuilder};

use super::Node;

/// The attribute that holds a label.
const LABEL: &[u8] = b"security.selinux";
/// Context of files that are not labelled.
const NONE: &str = "<<none>>";
/// Characters that make a regular expression match more than itself.
const SPECIAL: &[u8] = b".^$?*+|[({";
/// Characters behind a character that may make it optional.
const REPEATS: &[u8] = b"?*{";

/// The lines of `file_contexts` files.
#[derive(Clone, Default)]
pub struct FileContexts {
    specs: Vec<Spec>,
    /// Lines without special characters, by their path.
    exact: BTreeMap<Vec<u8>, Vec<usize>>,
    /// Other lines whose paths start with a literal name, such as `/usr/`, by that name.
    below: BTreeMap<Vec<u8>, Vec<usize>>,
    /// All other lines.
    others: Vec<usize>,
}

/// A line.
#[derive(Debug, Clone)]
struct Spec {
    regex: String,
    /// Literal start of all paths that match.
    prefix: Vec<u8>,
    kind: Option<FileKind>,
    context: String,
    compiled: OnceLock<Option<Regex>>,
}

impl std::fmt::Debug for FileContexts {
    /// Writes what decides about labels, for a digest.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = self.specs.iter();
        let lines = lines.map(|spec| (&spec.regex, spec.kind, &spec.context));
        to.debug_list().entries(lines).finish()
    }
}

impl FileContexts {
    /// Adds the lines of a file.
    ///
    /// # Errors
    /// Fails with the number of the first line that has another form.
    pub fn add(&mut self, text: &str) -> Result<()> {
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if words.first().is_none_or(|word| word.starts_with('#')) {
                continue;
            }
            let spec = Spec::parse(&words);
            self.take(spec.with_context(|| format!("line {}", number + 1))?);
        }
        Ok(())
    }

    fn take(&mut self, spec: Spec) {
        let number = self.specs.len();
        if !has_special(spec.regex.as_bytes()) {
            let place = self.exact.entry(unescaped(spec.regex.as_bytes()));
            place.or_default().push(number);
        } else {
            match stem(&spec.prefix) {
                Some(stem) => self.below.entry(stem.to_vec()).or_default().push(number),
                None => self.others.push(number),
            }
        }
        self.specs.push(spec);
    }

    /// Returns the context of a path, if it gets one.
    #[must_use]
    pub fn lookup(&self, path: &[u8], kind: FileKind) -> Option<&str> {
        let suits = |number: &&usize| self.specs[**number].suits(path, kind);
        let exact = self.exact.get(path).map_or(&[][..], Vec::as_slice);
        let is_kind = |number: &&usize| self.specs[**number].is_for(kind);
        let found = exact.iter().rev().find(is_kind).or_else(|| {
            let below = stem(path).and_then(|stem| self.below.get(stem));
            let below = below.map_or(&[][..], Vec::as_slice);
            last_of(below, &self.others).find(suits)
        });
        let context = found.map(|number| self.specs[*number].context.as_str());
        context.filter(|context| *context != NONE)
    }

    /// Labels a node.
    pub(super) fn label(&self, node: &mut Node) {
        let path = [b"/", node.path.as_slice()].concat();
        let Some(context) = self.lookup(&path, node.kind) else {
            return;
        };
        // The kernel, too, stores the zero byte behind a label.
        let value = [context.as_bytes(), &[0]].concat();
        let attributes = &mut node.attributes;
        attributes.retain(|(name, _)| name != LABEL);
        let place = attributes.partition_point(|(name, _)| name.as_slice() < LABEL);
        attributes.insert(place, (LABEL.to_vec(), value));
    }
}

impl Spec {
    fn parse(words: &[&str]) -> Result<Self> {
        let (regex, kind, context) = match words {
            [regex, context] => (regex, None, context),
            [regex, kind, context] => (regex, Some(parse_kind(kind)?), context),
            _ => bail!("expected REGEX [TYPE] CONTEXT"),
        };
        let spec = Self {
            regex: (*regex).to_owned(),
            prefix: prefix(regex.as_bytes()),
            kind,
            context: (*context).to_owned(),
            compiled: OnceLock::new(),
        };
        // Compiling is slow, and most lines of a policy match nothing in a tree; so they are only
        // parsed, unless they count repetitions, of which there may be too many.
        match regex.contains('{') {
            true => drop(spec.compile().map_err(|error| short(regex, &error))?),
            false => {
                for text in [*regex, anchored(regex).as_str()] {
                    let mut parser = regex_syntax::ParserBuilder::new();
                    let mut parser = parser.unicode(false).utf8(false).build();
                    drop(parser.parse(text).map_err(|error| short(regex, &error))?);
                }
            }
        }
        Ok(spec)
    }

    fn compile(&self) -> Result<Regex, regex::Error> {
        let mut regex = RegexBuilder::new(&anchored(&self.regex));
        regex.unicode(false).dot_matches_new_line(true).build()
    }

    fn is_for(&self, kind: FileKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }

    fn suits(&self, path: &[u8], kind: FileKind) -> bool {
        if !self.is_for(kind) || !path.starts_with(&self.prefix) {
            return false;
        }
        let compiled = self.compiled.get_or_init(|| self.compile().ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(path))
    }
}

/// Returns an expression that matches whole paths only.
fn anchored(regex: &str) -> String {
    format!(r"\A(?:{regex})\z")
}

/// Returns an error with the last line of a message that quotes the regular expression on several.
fn short(regex: &str, error: &dyn std::error::Error) -> anyhow::Error {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    anyhow::anyhow!("{regex}: {}", last.trim_start_matches("error: "))
}

/// Returns the numbers of two ascending lists together, the largest first.
fn last_of<'l>(one: &'l [usize], other: &'l [usize]) -> impl Iterator<Item = &'l usize> {
    let (mut one, mut other) = (one.iter().rev().peekable(), other.iter().rev().peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if first < second => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

fn parse_kind(word: &str) -> Result<FileKind> {
    Ok(match word {
        "--" => FileKind::Regular,
        "-d" => FileKind::Directory,
        "-l" => FileKind::Symlink,
        "-c" => FileKind::CharacterDevice,
        "-b" => FileKind::BlockDevice,
        "-p" => FileKind::Fifo,
        "-s" => FileKind::Socket,
        _ => bail!("{word}: expected --, -d, -l, -c, -b, -p or -s"),
    })
}

/// Returns true if a regular expression has special characters that are not escaped.
fn has_special(regex: &[u8]) -> bool {
    let mut bytes = regex.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            byte if SPECIAL.contains(byte) => return true,
            _ => {}
        }
    }
    false
}

/// Removes the backslashes of a regular expression without special characters.
fn unescaped(regex: &[u8]) -> Vec<u8> {
    let mut bytes = regex.iter();
    let mut plain = Vec::with_capacity(regex.len());
    while let Some(byte) = bytes.next() {
        plain.extend(match byte {
            b'\\' => bytes.next(),
            byte => Some(byte),
        });
    }
    plain
}

/// Returns the literal start of all paths that a regular expression matches.
fn prefix(regex: &[u8]) -> Vec<u8> {
    if has_outer_bar(regex) {
        return Vec::new();
    }
    let mut plain = Vec::new();
    let mut rest = regex;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            // A letter behind a backslash is a class or an assertion.
            (b'\\', [escaped, behind @ ..]) if !escaped.is_ascii_alphanumeric() => {
                (*escaped, behind)
            }
            (b'\\', _) => break,
            (byte, _) if SPECIAL.contains(byte) => break,
            (byte, behind) => (*byte, behind),
        };
        if behind.first().is_some_and(|next| REPEATS.contains(next)) {
            break;
        }
        plain.push(byte);
        rest = behind;
    }
    plain
}

/// Returns true if a bar outside of brackets separates paths with different starts.
fn has_outer_bar(regex: &[u8]) -> bool {
    let (mut bytes, mut depth, mut is_class) = (regex.iter(), 0_u32, false);
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b']' => is_class = false,
            _ if is_class => {}
            b'[' => is_class = true,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Returns the first name of a path with both of its slashes, if more follows.
fn stem(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().skip(1).position(|byte| *byte == b'/')?;
    Some(&path[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(text: &str) -> FileContexts {
        let mut contexts = FileContexts::default();
        contexts.add(text).expect("they are contexts");
        contexts
    }

    #[test]
    fn the_last_line_that_matches_decides() {
        let contexts = contexts(
            "# A comment.\n/.*  any\n/usr/bin/exact\\.so  exact\n/usr(/.*)?  usr\n\
             /usr/bin/.* -- program\n/usr/bin/.*\\.so library\n/tmp/.* <<none>>\n\
             /dev/[^/]+ -c device\n/a|/b two\n/home/(one|two)/x? -d home\n/dir/? -d dir\n",
        );
        let regular = FileKind::Regular;
        for (path, kind, context) in [
            ("/", FileKind::Directory, Some("any")),
            ("/etc/fstab", regular, Some("any")),
            ("/usr", FileKind::Directory, Some("usr")),
            ("/usr/bin", FileKind::Directory, Some("usr")),
            ("/usr/bin/ls", regular, Some("program")),
            ("/usr/bin/ls", FileKind::Symlink, Some("usr")),
            ("/usr/bin/exact.so", regular, Some("exact")),
            ("/usr/bin/exactxso", regular, Some("program")),
            ("/usr/bin/other.so", FileKind::Symlink, Some("library")),
            ("/tmp/file", regular, None),
            ("/dev/null", FileKind::CharacterDevice, Some("device")),
            ("/dev/null", regular, Some("any")),
            ("/a", regular, Some("two")),
            ("/b", regular, Some("two")),
            ("/home/two/", FileKind::Directory, Some("home")),
            ("/home/three/x", FileKind::Directory, Some("any")),
            ("/dir", FileKind::Directory, Some("dir")),
        ] {
            assert_eq!(contexts.lookup(path.as_bytes(), kind), context, "{path}");
        }
    }

    #[test]
    fn lines_that_are_none_are_told() {
        for (line, wanted) in [
            ("/a", "line 2: expected REGEX [TYPE] CONTEXT"),
            (
                "/a -x b",
                "line 2: -x: expected --, -d, -l, -c, -b, -p or -s",
            ),
            ("/( b", "line 2: /(: unclosed group"),
            ("(a{1000}){1000}{100} b", "line 2: (a{1000}){1000}{100}: "),
        ] {
            let added = FileContexts::default().add(&format!("/ok b\n{line}\n"));
            let error = format!("{:#}", added.expect_err("it is none"));
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
