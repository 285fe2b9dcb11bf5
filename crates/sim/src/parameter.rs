//! [`Parameter`]: one number of a model, for those who list models.

use std::fmt;

/// A parameter of a device or a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// What it is called, with its unit at the end.
    pub name: &'static str,
    /// What it is.
    pub value: ParameterValue,
    /// Whether it tells the model from others of its kind at a glance.
    pub is_main: bool,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterValue {
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Decimal(f64),
    /// Yes or no.
    Switch(bool),
}

impl Parameter {
    /// Returns a parameter that tells the model from others of its kind.
    pub fn main(name: &'static str, value: impl Into<ParameterValue>) -> Self {
        Self {
            is_main: true,
            ..Self::new(name, value)
        }
    }

    /// Returns a parameter that is listed with the model only.
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

impl fmt::Display for ParameterValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(out, "{number}"),
            Self::Decimal(number) => write!(out, "{}", (number * 1e3).round() / 1e3),
            Self::Switch(true) => out.write_str("yes"),
            Self::Switch(false) => out.write_str("no"),
        }
    }
}
