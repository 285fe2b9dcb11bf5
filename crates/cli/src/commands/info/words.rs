//! Text forms of single facts.

use layout::feature::{Compatible, Features, Incompatible};
use layout::superblock::{ErrorPolicy, State, Superblock};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::output;

/// Returns the name of a number, or the number if it is unknown.
pub(super) fn known(names: &[&str], number: u32) -> String {
    let found = names.get(number as usize).copied().map(str::to_owned);
    found.unwrap_or_else(|| format!("unknown ({number})"))
}

pub(super) fn uuid(bytes: [u8; 16]) -> String {
    Uuid::from_bytes(bytes).to_string()
}

pub(super) fn hex(number: u32) -> String {
    format!("{number:#010x}")
}

/// Returns a NUL-terminated name.
pub(super) fn name(bytes: &[u8]) -> String {
    output::name_text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

pub(super) fn seconds(low: u32, high: u8) -> i64 {
    i64::from(high) << 32 | i64::from(low)
}

pub(super) fn time(seconds: i64) -> Value {
    match seconds {
        0 => Value::Null,
        seconds => json!(output::time_text(seconds)),
    }
}

pub(super) fn error_policy(raw: &Superblock) -> String {
    match ErrorPolicy::from_raw(raw.error_policy.get()) {
        Some(ErrorPolicy::Continue) => "continue".to_owned(),
        Some(ErrorPolicy::RemountReadOnly) => "remount-ro".to_owned(),
        Some(ErrorPolicy::Panic) => "panic".to_owned(),
        None => format!("unknown ({})", raw.error_policy.get()),
    }
}

pub(super) fn kind(features: Features) -> &'static str {
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        "journal device"
    } else if features
        .incompatible
        .intersects(Incompatible::EXTENTS | Incompatible::IS_64BIT)
    {
        "ext4"
    } else if features.compatible.contains(Compatible::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    }
}

pub(super) fn state(raw: &Superblock, features: Features) -> String {
    let state = raw.state();
    let mut words = vec![if state.contains(State::VALID) {
        "clean"
    } else {
        "in use or not closed"
    }];
    if state.contains(State::ERROR) {
        words.push("with errors");
    }
    if features.incompatible.contains(Incompatible::NEEDS_RECOVERY) {
        words.push("the journal has to be replayed");
    }
    words.join(", ")
}
