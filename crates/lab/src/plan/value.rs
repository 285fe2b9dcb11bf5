//! [`Value`]: the value of a key, and [`Kind`]: the kinds of values.

use std::fmt;
use std::str::FromStr;

use block::DeviceText;
use block::text::Size;
use rt::Nanos;
use sim::HostProfile;
use toml::de::{DeInteger, DeValue};

use crate::system::makers::GUEST_KINDS;

/// A checked value of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A word, a device text, or a host profile.
    Text(String),
    /// A boolean.
    Switch(bool),
    /// A number.
    Number(i64),
    /// A number of bytes.
    Bytes(u64),
    /// A time in nanoseconds.
    Time(u64),
    /// Two numbers; the first is not greater than the second.
    Range(u32, u32),
}

/// The kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or the word after them.
    WordOr(&'static [&'static str], &'static str),
    /// `true` or `false`.
    Switch,
    /// An integer within these limits.
    Number(i64, i64),
    /// A number of bytes: a number, or a text such as `"512MiB"`.
    Bytes,
    /// The same as `Bytes`, or one of these words.
    BytesOr(&'static [&'static str]),
    /// A time: a number of seconds, or a text such as `"5s"` or `"250ms"`.
    Time,
    /// Two numbers from 1 to this limit: `"1000 100000"` or `[1000, 100000]`.
    Range(u32),
    /// Any text.
    Text,
    /// A device text.
    Device,
    /// The location of a journal: `internal`, `internal:SIZE`, `none`, or a device text.
    Journal,
    /// A host profile.
    Host,
    /// `simulated`, `process`, `directory:PATH`, `kernel:TYPE`, `uml:TYPE`, `fuse:fuse2fs`,
    /// `fuse:jext`, or `fuse:passthrough`.
    Target,
}

/// A journal inside the file system.
pub(crate) const INTERNAL: &str = "internal";
/// The prefix of a journal inside the file system, followed by its size.
pub(crate) const INTERNAL_PREFIX: &str = "internal:";
/// No journal.
pub(crate) const NONE: &str = "none";
/// The prefix of a target that is a directory, followed by its path.
pub(crate) const DIRECTORY_PREFIX: &str = "directory:";
/// The target that is jext's engine in a simulated world.
pub(crate) const SIMULATED: &str = "simulated";
/// The prefix of a target that the kernel mounts, followed by the type.
pub(crate) const KERNEL_PREFIX: &str = "kernel:";
/// The prefix of a target that the kernel of a guest mounts, followed by the type.
pub(crate) const GUEST_PREFIX: &str = "uml:";
/// The prefix of a target that a FUSE program mounts, followed by its name.
pub(crate) const FUSE_PREFIX: &str = "fuse:";
/// The FUSE programs.
const FUSE_PROGRAMS: &[&str] = &["fuse2fs", "jext", "passthrough"];

impl Kind {
    /// Returns the syntax of a value of this kind, for messages.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Word(words) => one_of(words),
            Self::WordOr(words, other) => format!("{}, or \"{other}\"", one_of(words)),
            Self::Switch => "true or false".to_owned(),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Bytes => "a size such as \"512MiB\"".to_owned(),
            Self::BytesOr(words) => format!("a size such as \"512MiB\", or {}", one_of(words)),
            Self::Time => "a time such as \"5s\" or \"250ms\"".to_owned(),
            Self::Range(_) => "two numbers such as [1000, 100000]".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Device => "a device text such as \"sim:atlas-v-18\"".to_owned(),
            Self::Journal => {
                "internal, internal:SIZE, none, or a device text such as \"nvram:32MiB\"".to_owned()
            }
            Self::Host => format!(
                "a host profile: {}",
                HostProfile::names().collect::<Vec<_>>().join(", ")
            ),
            Self::Target => {
                "\"simulated\", \"process\", \"directory:PATH\", \"kernel:TYPE\" such as \"kernel:ext3\", \"uml:TYPE\" of ext2, ext3, ext4, reiserfs, jfs, xfs and btrfs, \"fuse:fuse2fs\", \"fuse:jext\", or \"fuse:passthrough\""
                    .to_owned()
            }
        }
    }

    /// Parses a value from the command line: in the syntax of a plan, or a word or size without
    /// quotes. A word such as 2.00 is a number in TOML.
    ///
    /// # Errors
    /// Fails with a description of the expected value.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let quoted = DeValue::String(text.into());
        let parsed = DeValue::parse(text).map(toml::Spanned::into_inner);
        let is_word = matches!(self, Self::Word(_) | Self::WordOr(..));
        match parsed {
            Ok(given) if self != Self::Text && !(is_word && given.as_str().is_none()) => {
                self.check(&given, &mut Vec::new())
            }
            _ => self.check(&quoted, &mut Vec::new()),
        }
    }

    /// Checks the text that a value prints. A word such as 2.00 is a number in TOML.
    ///
    /// # Errors
    /// Fails with a description of the expected value.
    pub fn check_text(self, text: &str) -> Result<Value, String> {
        let quoted = || self.check(&DeValue::String(text.into()), &mut Vec::new());
        self.parse(text).or_else(|_| quoted())
    }

    /// Checks a value; fails with its fault. Notes on rounding are added to `notes`.
    pub(super) fn check(
        self,
        given: &DeValue<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Value, String> {
        let wrong = || format!("expected {}, found {}", self.expected(), describe(given));
        let text = given.as_str();
        match self {
            Self::Word(words) => match text {
                Some(text) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
                _ => Err(wrong()),
            },
            Self::WordOr(words, other) => match text {
                Some(text) if words.contains(&text) || text == other => {
                    Ok(Value::Text(text.to_owned()))
                }
                _ => Err(wrong()),
            },
            Self::Switch => given.as_bool().map(Value::Switch).ok_or_else(wrong),
            Self::Number(least, most) => whole(given)
                .filter(|number| (least..=most).contains(number))
                .map(Value::Number)
                .ok_or_else(wrong),
            Self::Bytes => bytes(given, notes).map_err(|cause| cause.unwrap_or_else(wrong)),
            Self::BytesOr(words) => match text {
                Some(text) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
                _ => bytes(given, notes).map_err(|cause| cause.unwrap_or_else(wrong)),
            },
            Self::Time => time(given)
                .map(|time| Value::Time(time.get()))
                .ok_or_else(wrong),
            Self::Range(most) => range(given, most).ok_or_else(wrong),
            Self::Text => text
                .map(|text| Value::Text(text.to_owned()))
                .ok_or_else(wrong),
            Self::Device => device(text.ok_or_else(wrong)?, notes),
            Self::Journal => match text {
                Some(text @ (INTERNAL | NONE)) => Ok(Value::Text(text.to_owned())),
                Some(text) => match text.strip_prefix(INTERNAL_PREFIX) {
                    Some(size) => {
                        let bytes = bytes(&DeValue::String(size.into()), notes)
                            .map_err(|cause| cause.unwrap_or_else(wrong))?;
                        Ok(Value::Text(format!("{INTERNAL_PREFIX}{bytes}")))
                    }
                    None => device(text, notes),
                },
                None => Err(wrong()),
            },
            Self::Host => match text.map(HostProfile::from_str) {
                Some(Ok(profile)) => Ok(Value::Text(profile.to_string())),
                Some(Err(error)) => Err(error.to_string()),
                None => Err(wrong()),
            },
            Self::Target => match text {
                Some(text) if is_target(text) => Ok(Value::Text(text.to_owned())),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "{}", Size::from(*bytes)),
            Self::Time(nanos) => f.write_str(&time_text(Nanos::new(*nanos))),
            Self::Range(low, high) => write!(f, "{low} {high}"),
        }
    }
}

fn is_target(text: &str) -> bool {
    let is_type = |kind: &str| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    matches!(text, SIMULATED | "process")
        || text
            .strip_prefix(DIRECTORY_PREFIX)
            .is_some_and(|path| !path.is_empty())
        || text.strip_prefix(KERNEL_PREFIX).is_some_and(is_type)
        || text
            .strip_prefix(GUEST_PREFIX)
            .is_some_and(|kind| GUEST_KINDS.iter().any(|(known, _)| *known == kind))
        || text
            .strip_prefix(FUSE_PREFIX)
            .is_some_and(|program| FUSE_PROGRAMS.contains(&program))
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Describes a value of a plan, for messages.
pub(super) fn describe(given: &DeValue<'_>) -> String {
    match given {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Returns an integer of a plan; `None` if the value is not one.
pub(super) fn whole(given: &DeValue<'_>) -> Option<i64> {
    let integer: &DeInteger<'_> = given.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Returns a number of a plan, integer or float; `None` if the value is neither.
pub(super) fn number(given: &DeValue<'_>) -> Option<f64> {
    match given {
        DeValue::Float(number) => number.as_str().parse().ok(),
        other => whole(other).map(|number| number as f64),
    }
}

fn bytes(given: &DeValue<'_>, notes: &mut Vec<String>) -> Result<Value, Option<String>> {
    if let Some(number) = whole(given) {
        return u64::try_from(number).map(Value::Bytes).map_err(|_| None);
    }
    let text = given.as_str().ok_or(None)?;
    let size = Size::parse(text)
        .map_err(|expected| Some(format!("expected {expected}, found {text:?}")))?;
    notes.extend(size.note());
    Ok(Value::Bytes(size.bytes()))
}

fn time(given: &DeValue<'_>) -> Option<Nanos> {
    if let Some(seconds) = whole(given) {
        return u64::try_from(seconds)
            .ok()?
            .checked_mul(NANOS_PER_SECOND)
            .map(Nanos::new);
    }
    let text = given.as_str()?;
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let nanos = match unit.trim_start() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "min" => 60 * NANOS_PER_SECOND,
        _ => return None,
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(nanos)
        .map(Nanos::new)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

fn time_text(time: Nanos) -> String {
    let units = [
        (NANOS_PER_SECOND, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let fits = units
        .iter()
        .find(|(nanos, _)| time.get().is_multiple_of(*nanos));
    let (nanos, unit) = fits.unwrap_or(&(1, "ns"));
    format!("{}{unit}", time.get() / nanos)
}

fn range(given: &DeValue<'_>, most: u32) -> Option<Value> {
    let numbers: Vec<u32> = match given {
        DeValue::String(text) => text
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?,
        DeValue::Array(array) => array
            .iter()
            .map(|item| u32::try_from(whole(item.get_ref())?).ok())
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let &[low, high] = numbers.as_slice() else {
        return None;
    };
    let is_valid = (1..=high).contains(&low) && high <= most;
    is_valid.then_some(Value::Range(low, high))
}

fn device(text: &str, notes: &mut Vec<String>) -> Result<Value, String> {
    let device: DeviceText = text
        .parse()
        .map_err(|error| format!("device {text:?}: {error}"))?;
    notes.extend(device.notes());
    Ok(Value::Text(device.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, text: &str) -> Result<String, String> {
        let value = DeValue::parse(text).expect("it is TOML");
        kind.check(value.get_ref(), &mut Vec::new())
            .map(|value| value.to_string())
    }

    #[test]
    fn values_are_read_and_written() {
        let ok = |kind, text, canonical: &str| {
            assert_eq!(check(kind, text).as_deref(), Ok(canonical), "{text}");
        };
        ok(Kind::Word(&["ext2", "ext3"]), "\"ext3\"", "ext3");
        ok(Kind::WordOr(&["early"], "policy"), "\"early\"", "early");
        ok(Kind::WordOr(&["early"], "policy"), "\"policy\"", "policy");
        ok(Kind::Switch, "true", "true");
        ok(Kind::Number(0, 100), "0x10", "16");
        ok(Kind::Bytes, "\"512MiB\"", "512MiB");
        ok(Kind::Bytes, "4096", "4KiB");
        ok(Kind::BytesOr(&["journal"]), "\"journal\"", "journal");
        ok(Kind::Time, "5", "5s");
        ok(Kind::Time, "\"250ms\"", "250ms");
        ok(Kind::Range(100_000), "[1000, 100000]", "1000 100000");
        ok(Kind::Range(100_000), "\"1 1000\"", "1 1000");
        ok(
            Kind::Device,
            "\"slice(sim:atlas-v-18,1GiB..2GiB)\"",
            "slice(sim:atlas-v-18,1GiB..2GiB)",
        );
        ok(Kind::Journal, "\"internal\"", "internal");
        ok(Kind::Journal, "\"internal:1048576KiB\"", "internal:1GiB");
        ok(Kind::Journal, "\"nvram:32MiB\"", "nvram:32MiB");
        ok(Kind::Host, "\"p4-2.66-2003\"", "p4-2.66-2003");
        ok(Kind::Target, "\"directory:/mnt\"", "directory:/mnt");
        ok(Kind::Target, "\"kernel:xfs\"", "kernel:xfs");
        ok(Kind::Target, "\"uml:reiserfs\"", "uml:reiserfs");
        ok(Kind::Target, "\"fuse:fuse2fs\"", "fuse:fuse2fs");
        ok(Kind::Target, "\"fuse:jext\"", "fuse:jext");
    }

    #[test]
    fn values_of_a_command_need_no_quotation_marks() {
        for (kind, text, canonical) in [
            (Kind::Bytes, "64KiB", "64KiB"),
            (Kind::Bytes, "4096", "4KiB"),
            (Kind::Number(0, 9), "7", "7"),
            (Kind::Time, "250ms", "250ms"),
            (Kind::Switch, "false", "false"),
            (Kind::Word(&["a"]), "a", "a"),
            (Kind::Word(&["a", "2.00"]), "2.00", "2.00"),
            (Kind::Word(&["a", "2.00"]), "\"2.00\"", "2.00"),
            (Kind::Text, "0", "0"),
            (Kind::Text, "0 1", "0 1"),
        ] {
            let value = kind.parse(text).map(|value| value.to_string());
            assert_eq!(value.as_deref(), Ok(canonical), "{text}");
        }
        let error = Kind::Number(0, 9)
            .parse("ten")
            .expect_err("it is no number");
        assert!(error.contains("from 0 to 9"), "{error}");
    }

    #[test]
    fn wrong_values_say_what_was_expected() {
        let bad = |kind, text, expected: &str| {
            let error = check(kind, text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        };
        bad(
            Kind::Word(&["ext2", "ext3"]),
            "\"ext5\"",
            "expected \"ext2\" or \"ext3\", found \"ext5\"",
        );
        bad(
            Kind::WordOr(&["early", "full"], "policy"),
            "\"late\"",
            "expected \"early\" or \"full\", or \"policy\", found \"late\"",
        );
        bad(Kind::Switch, "1", "expected true or false, found 1");
        bad(Kind::Number(0, 100), "101", "from 0 to 100");
        bad(Kind::Bytes, "\"12 parsecs\"", "a unit");
        bad(Kind::Bytes, "-1", "a size");
        bad(Kind::Time, "\"5 lightyears\"", "a time");
        bad(Kind::Range(100_000), "[5, 4]", "two numbers");
        bad(Kind::Device, "\"disc:9\"", "column 1");
        bad(Kind::Host, "\"p5\"", "not a host profile");
        let not_targets = [
            "\"directory:\"",
            "\"kernel:\"",
            "\"uml:ntfs\"",
            "\"kernel:ext3,sync\"",
            "\"fuse:sshfs\"",
            "\"moon\"",
        ];
        for target in not_targets {
            bad(Kind::Target, target, "\"directory:PATH\"");
        }
    }
}
