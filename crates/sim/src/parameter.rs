//! [`Parameter`]: one number of a model, for lists of models.

use std::fmt;

/// A parameter of a device or a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name, with its unit at the end.
    pub name: &'static str,
    /// Value.
    pub value: ParameterValue,
    /// True if it distinguishes the model from others of its kind.
    pub is_main: bool,
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterValue {
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Decimal(f64),
    /// A flag.
    Switch(bool),
    /// One of a few names.
    Word(&'static str),
}

impl Parameter {
    /// Creates a parameter that distinguishes the model from others.
    pub fn main(name: &'static str, value: impl Into<ParameterValue>) -> Self {
        Self {
            is_main: true,
            ..Self::new(name, value)
        }
    }

    /// Creates a parameter that is listed only with the model.
    pub fn new(name: &'static str, value: impl Into<ParameterValue>) -> Self {
        Self {
            name,
            value: value.into(),
            is_main: false,
        }
    }
}

impl From<u64> for ParameterValue {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for ParameterValue {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for ParameterValue {
    fn from(number: f64) -> Self {
        Self::Decimal(number)
    }
}

impl From<bool> for ParameterValue {
    fn from(is_so: bool) -> Self {
        Self::Switch(is_so)
    }
}

impl From<&'static str> for ParameterValue {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(out, "{number}"),
            Self::Decimal(number) => write!(out, "{}", (number * 1e3).round() / 1e3),
            Self::Switch(true) => out.write_str("yes"),
            Self::Switch(false) => out.write_str("no"),
            Self::Word(word) => out.write_str(word),
        }
    }
}
