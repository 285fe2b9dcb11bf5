//! Parameters of workloads: tables of typed, named values, from which plans take their keys and
//! commands their options.
//!
//! A table is the only place for a parameter's name, limits, default and meaning. Parsers check
//! their input against the [`ParameterKind`]; a workload reads the typed form from [`Values`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use rt::Nanos;

/// A parameter of a workload.
#[derive(Debug)]
pub struct Parameter {
    /// Name, prefixed with the workload's: `synctest.tasks`.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: ParameterKind,
    /// Default value.
    pub default: Setting,
    /// Meaning, in one line.
    pub meaning: &'static str,
}

/// Kind and limits of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// True or false.
    Switch,
    /// A whole number within these limits.
    Number(i64, i64),
    /// A number of bytes.
    Bytes,
    /// A duration.
    Time,
    /// Two numbers from 1 to this limit, the first not above the second.
    Range(u32),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// True or false.
    Switch(bool),
    /// A whole number.
    Number(i64),
    /// A number of bytes.
    Bytes(u64),
    /// A duration.
    Time(Nanos),
    /// Two numbers, the first not above the second.
    Range(u32, u32),
    /// A word or a text.
    Text(Cow<'static, str>),
}

/// The text that a plan and a command take.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Time(span) => f.write_str(&time_text(span.get())),
            Self::Range(low, high) => write!(f, "{low} {high}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Returns a duration in the largest unit that gives a whole number.
fn time_text(nanos: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    let whole = units
        .into_iter()
        .find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (unit, length) = whole.unwrap_or(("ns", 1));
    format!("{}{unit}", nanos / length)
}

/// Error for an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ParameterError {
    /// Name of the parameter.
    pub name: &'static str,
    /// Description of the error.
    pub message: String,
}

/// Values for all parameters of some tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values(BTreeMap<&'static str, Setting>);

impl Parameter {
    /// Returns a switch.
    #[must_use]
    pub const fn switch(name: &'static str, default: bool, meaning: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::Switch,
            default: Setting::Switch(default),
            meaning,
        }
    }

    /// Returns a whole number within limits.
    #[must_use]
    pub const fn number(
        name: &'static str,
        limits: (i64, i64),
        default: i64,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            kind: ParameterKind::Number(limits.0, limits.1),
            default: Setting::Number(default),
            meaning,
        }
    }

    /// Returns a number of bytes.
    #[must_use]
    pub const fn bytes(name: &'static str, default: u64, meaning: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::Bytes,
            default: Setting::Bytes(default),
            meaning,
        }
    }

    /// Returns a duration.
    #[must_use]
    pub const fn time(name: &'static str, default: Nanos, meaning: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::Time,
            default: Setting::Time(default),
            meaning,
        }
    }

    /// Returns a range: two numbers from 1 to `most`, the first not above the second.
    #[must_use]
    pub const fn range(
        name: &'static str,
        most: u32,
        default: (u32, u32),
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            kind: ParameterKind::Range(most),
            default: Setting::Range(default.0, default.1),
            meaning,
        }
    }

    /// Returns a choice of words; the first is the default.
    #[must_use]
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            kind: ParameterKind::Word(words),
            default: Setting::Text(Cow::Borrowed(words[0])),
            meaning,
        }
    }

    /// Returns a free text.
    #[must_use]
    pub const fn text(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::Text,
            default: Setting::Text(Cow::Borrowed(default)),
            meaning,
        }
    }
}

impl Values {
    /// Returns the defaults of some tables.
    pub fn defaults<'t>(tables: impl IntoIterator<Item = &'t [Parameter]>) -> Self {
        let parameters = tables.into_iter().flatten();
        Self(
            parameters
                .map(|parameter| (parameter.name, parameter.default.clone()))
                .collect(),
        )
    }

    /// Sets a value whose kind was checked.
    ///
    /// # Panics
    /// Panics if there is no such parameter, or if it has another type: the caller must check the
    /// table.
    pub fn set(&mut self, name: &str, setting: Setting) {
        let value = self.0.get_mut(name).expect("a parameter of the tables");
        assert_eq!(
            std::mem::discriminant(value),
            std::mem::discriminant(&setting),
            "{name} is of another type"
        );
        *value = setting;
    }

    /// Returns these values with one of them set, as by [`set`](Self::set).
    #[must_use]
    pub fn with(mut self, name: &str, setting: Setting) -> Self {
        self.set(name, setting);
        self
    }

    /// Returns all names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> + '_ {
        self.0.iter().map(|(name, setting)| (*name, setting))
    }

    fn get(&self, name: &str) -> &Setting {
        self.0.get(name).expect("a parameter of the tables")
    }

    /// Returns a switch of the tables.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        *self.get(name) == Setting::Switch(true)
    }

    /// Returns a number of the tables whose limits are within 0 and 2^32 - 1.
    ///
    /// # Panics
    /// Panics if the table allows it to be negative or larger than 32 bits.
    #[must_use]
    pub fn number(&self, name: &str) -> u32 {
        u32::try_from(self.signed(name)).expect("its limits are within 32 bits")
    }

    /// Returns a number of the tables.
    #[must_use]
    pub fn signed(&self, name: &str) -> i64 {
        match self.get(name) {
            Setting::Number(number) => *number,
            other => unreachable!("{name} is {other:?}, not a number"),
        }
    }

    /// Returns the two numbers of a range of the tables.
    #[must_use]
    pub fn range(&self, name: &str) -> (u32, u32) {
        match self.get(name) {
            Setting::Range(low, high) => (*low, *high),
            other => unreachable!("{name} is {other:?}, not a range"),
        }
    }

    /// Returns a number of bytes of the tables.
    #[must_use]
    pub fn bytes(&self, name: &str) -> u64 {
        match self.get(name) {
            Setting::Bytes(bytes) => *bytes,
            other => unreachable!("{name} is {other:?}, not a size"),
        }
    }

    /// Returns a number of bytes as a buffer size: from 1 to `most`.
    ///
    /// # Errors
    /// Fails if the number is outside these limits.
    pub fn buffer(&self, name: &'static str, most: u64) -> Result<usize, ParameterError> {
        let bytes = self.bytes(name);
        match usize::try_from(bytes) {
            Ok(size) if (1..=most).contains(&bytes) => Ok(size),
            _ => Err(ParameterError {
                name,
                message: format!("{bytes} bytes are not from 1 to {most}"),
            }),
        }
    }

    /// Returns a duration of the tables.
    #[must_use]
    pub fn time(&self, name: &str) -> Nanos {
        match self.get(name) {
            Setting::Time(span) => *span,
            other => unreachable!("{name} is {other:?}, not a time"),
        }
    }

    /// Returns a word or a text of the tables.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Setting::Text(text) => text,
            other => unreachable!("{name} is {other:?}, not a text"),
        }
    }
}

impl ParameterError {
    /// Returns an error from its parts.
    pub fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Parameter] = &[
        Parameter::number("x.count", (0, 9), 3, "how many"),
        Parameter::bytes("x.size", 4096, "how large"),
    ];

    #[test]
    fn times_are_printed_as_they_are_set() {
        for (nanos, expected) in [
            (0, "0s"),
            (30_000_000_000, "30s"),
            (100_000_000, "100ms"),
            (1_500_000, "1500us"),
            (1_500_000_001, "1500000001ns"),
        ] {
            assert_eq!(Setting::Time(Nanos::new(nanos)).to_string(), expected);
        }
    }

    #[test]
    fn values_are_the_defaults_until_they_are_set() {
        let values = Values::defaults([TABLE]);
        assert_eq!(
            (values.number("x.count"), values.bytes("x.size")),
            (3, 4096)
        );
        let values = values.with("x.count", Setting::Number(7));
        assert_eq!(values.number("x.count"), 7);
        assert_eq!(values.buffer("x.size", 4096), Ok(4096));
        let error = values.buffer("x.size", 4095).expect_err("it is too large");
        assert_eq!(
            error.to_string(),
            "x.size: 4096 bytes are not from 1 to 4095"
        );
    }
}
