//! [`Settings`]: a value for every key, with the position of each definition.

use std::collections::BTreeMap;

use super::Spot;
use super::key::{
    CUT_MEASURES, CUT_PREFIX, EXT4, EXT4_PREFIX, GUEST_KEY_PREFIX, KEYS, NOTHING, concerns,
};
use super::value::{GUEST_PREFIX, SIMULATED, Value};

/// A value for every key that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, Said>,
}

/// A value and the position of its definition; a default has no position.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    value: Value,
    spot: Option<Spot>,
}

impl Settings {
    /// Returns the default of every key that has one.
    #[must_use]
    pub fn defaults() -> Self {
        let said = KEYS.iter().filter_map(|key| {
            let value = key.default_value()?;
            Some((key.name, Said { value, spot: None }))
        });
        Self {
            values: said.collect(),
        }
    }

    /// Sets a key.
    pub fn set(&mut self, key: &'static str, value: Value, spot: Option<Spot>) {
        self.values.insert(key, Said { value, spot });
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|said| &said.value)
    }

    /// Returns the position of a key's definition.
    #[must_use]
    pub fn spot(&self, key: &str) -> Option<&Spot> {
        self.values.get(key).and_then(|said| said.spot.as_ref())
    }

    /// Returns the keys that the plan sets, sorted.
    pub fn said(&self) -> impl Iterator<Item = &'static str> + '_ {
        let said = self.values.iter().filter(|(_, said)| said.spot.is_some());
        said.map(|(key, _)| *key)
    }

    /// Returns the name of the workload.
    ///
    /// # Panics
    /// Panics if the key was set to a value that is not a text.
    #[must_use]
    pub fn workload(&self) -> &str {
        match self.get("workload") {
            Some(Value::Text(name)) => name,
            other => unreachable!("the workload is {other:?}, not a text"),
        }
    }

    /// Returns true if the power is cut.
    #[must_use]
    pub fn has_cut(&self) -> bool {
        !matches!(self.get(CUT_MEASURES), Some(Value::Text(word)) if word == NOTHING)
    }

    /// Returns true if the kernel of a guest mounts the file system.
    #[must_use]
    pub fn has_guest(&self) -> bool {
        matches!(self.get("target"), Some(Value::Text(target)) if target.starts_with(GUEST_PREFIX))
    }

    /// Returns true if jext's engine runs in a simulated world.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.get("target"), Some(Value::Text(target)) if target == SIMULATED)
    }

    /// Returns true if the key of the type says ext4.
    fn is_ext4(&self) -> bool {
        matches!(self.get("fs.type"), Some(Value::Text(kind)) if kind == EXT4)
    }

    /// Returns the keys and values that apply: those that the plan sets, and the defaults of all
    /// keys that belong neither to another workload, nor to a power cut that does not take place,
    /// nor to a guest that there is not, nor to ext4 where the type is another.
    /// Sorted by key.
    pub fn concerned(&self) -> impl Iterator<Item = (&'static str, &Value)> + '_ {
        let workload = self.workload();
        let has_cut = self.has_cut();
        let has_guest = self.has_guest();
        let is_ext4 = self.is_ext4();
        let applies = move |key: &str| {
            concerns(key, workload)
                && (has_cut || !key.starts_with(CUT_PREFIX))
                && (has_guest || !key.starts_with(GUEST_KEY_PREFIX))
                && (is_ext4 || !key.starts_with(EXT4_PREFIX))
        };
        self.values
            .iter()
            .filter(move |(key, said)| said.spot.is_some() || applies(key))
            .map(|(key, said)| (*key, &said.value))
    }

    /// Returns all keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> + '_ {
        self.values.iter().map(|(key, said)| (*key, &said.value))
    }
}
