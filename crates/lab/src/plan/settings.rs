//! [`Settings`]: a value for every key, and where each was said.

use std::collections::BTreeMap;

use super::key::{KEYS, POSTMARK, concerns};
use super::value::Value;

/// A value for every key that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, Said>,
}

/// A value, and the line of the plan that says it; a default has none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    value: Value,
    line: Option<usize>,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub fn defaults() -> Self {
        let said = KEYS.iter().filter_map(|key| {
            let value = key.default_value()?;
            Some((key.name, Said { value, line: None }))
        });
        Self {
            values: said.collect(),
        }
    }

    /// Sets a key.
    pub fn set(&mut self, key: &'static str, value: Value, line: Option<usize>) {
        self.values.insert(key, Said { value, line });
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|said| &said.value)
    }

    /// The line that says a key's value.
    #[must_use]
    pub fn line(&self, key: &str) -> Option<usize> {
        self.values.get(key).and_then(|said| said.line)
    }

    /// The keys that the plan says, sorted.
    pub fn said(&self) -> impl Iterator<Item = &'static str> + '_ {
        let said = self.values.iter().filter(|(_, said)| said.line.is_some());
        said.map(|(key, _)| *key)
    }

    /// The name of the workload.
    #[must_use]
    pub fn workload(&self) -> &str {
        match self.get("workload") {
            Some(Value::Text(name)) => name,
            _ => POSTMARK,
        }
    }

    /// The keys and values that mean something: those that a plan says, and the defaults of all that does not belong to
    /// another workload. Sorted by key.
    pub fn concerned(&self) -> impl Iterator<Item = (&'static str, &Value)> + '_ {
        let workload = self.workload();
        self.values
            .iter()
            .filter(move |(key, said)| said.line.is_some() || concerns(key, workload))
            .map(|(key, said)| (*key, &said.value))
    }

    /// All keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> + '_ {
        self.values.iter().map(|(key, said)| (*key, &said.value))
    }
}
