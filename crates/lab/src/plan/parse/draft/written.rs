//! Writes a plan out with everything taken from its bases, as a plan without a base.
//!
//! The text can be parsed again and gives the same plan: the same hash, the same trials. It omits
//! published figures and claims, which a plan never takes from another. A comment gives the source
//! of each line that comes from a base.

use std::fmt::Write;

use toml::de::DeValue;

use super::super::{Head, Setting};
use super::{Draft, DraftBlock};
use crate::plan::value::{Value, describe};
use crate::plan::{Factor, Level, Spot};

/// Sizes in texts are whole multiples of this.
const SIZE_UNIT_BYTES: u64 = 4096;
const INFALLIBLE: &str = "writing to a string does not fail";

/// Writes a plan; a line from another file gets a comment with its source.
struct Writer<'f> {
    text: String,
    file: &'f str,
}

impl Draft<'_> {
    /// Returns the plan with this head as text; `file` is the plan's own file.
    pub(in crate::plan::parse) fn written(&self, head: &Head, file: &str) -> String {
        let text = String::new();
        let mut writer = Writer { text, file };
        writer.head(head);
        writer.settings("\n[fixed]", &self.fixed);
        writer.factors("\n[factors]", &self.factors);
        if !self.baseline.is_empty() {
            writer.line("\n[baseline]");
        }
        for (entry, _) in &self.baseline {
            writer.line(&format!("{} = {}", entry.key, said(&entry.value)));
        }
        for block in &self.blocks {
            writer.block(block);
        }
        writer.text
    }
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect(INFALLIBLE);
    }

    /// Writes a line, with a comment if it comes from another file.
    fn taken(&mut self, line: &str, spot: &Spot) {
        if *spot.file == *self.file {
            self.line(line);
        } else {
            self.line(&format!("{line}  # {}:{}", spot.file, spot.line));
        }
    }

    fn head(&mut self, head: &Head) {
        self.line("[plan]");
        self.line(&format!("name = {}", quoted(&head.name)));
        self.line(&format!("question = {}", quoted(&head.question)));
        self.line(&format!("seed = {}", head.seed));
        self.line(&format!("repetitions = {}", head.repetitions));
        if let Some(precision) = head.precision {
            self.line(&format!("precision = {precision}"));
            self.line(&format!("repetitions_max = {}", head.repetitions_max));
        }
        self.line(&format!("warmup = {}", head.warmup));
    }

    fn settings(&mut self, title: &str, settings: &[Setting]) {
        if !settings.is_empty() {
            self.line(title);
        }
        for (index, (key, value, spot)) in settings.iter().enumerate() {
            // If a key is set twice, the last setting applies.
            let mut later = settings[index + 1..].iter();
            if later.all(|(other, ..)| other != key) {
                self.taken(&format!("{} = {}", key.name, literal(value)), spot);
            }
        }
    }

    fn factors(&mut self, title: &str, factors: &[Factor]) {
        if !factors.is_empty() {
            self.line(title);
        }
        for factor in factors {
            self.line(&format!("{} = [", factor.key.name));
            for level in &factor.levels {
                self.taken(&format!("    {},", level_text(level)), &level.spot);
            }
            self.line("]");
        }
    }

    fn block(&mut self, block: &DraftBlock) {
        self.line("\n[[block]]");
        let texts = [
            ("name", &block.name),
            ("title", &block.title),
            ("why", &block.why),
        ];
        for (key, text) in texts {
            if !text.is_empty() {
                self.line(&format!("{key} = {}", quoted(text)));
            }
        }
        self.settings("[block.fixed]", &block.fixed);
        self.factors("[block.factors]", &block.factors);
    }
}

fn level_text(level: &Level) -> String {
    let value = literal(&level.value);
    if level.label == level.value.to_string() && level.with.is_empty() {
        return value;
    }
    let label = quoted(&level.label);
    let with = level.with.iter();
    let with: Vec<String> = with
        .map(|(key, value)| format!("{} = {}", key.name, literal(value)))
        .collect();
    let with = match with.is_empty() {
        true => String::new(),
        false => format!(", with = {{ {} }}", with.join(", ")),
    };
    format!("{{ label = {label}, value = {value}{with} }}")
}

/// Returns a checked value in the syntax of a plan.
fn literal(value: &Value) -> String {
    match value {
        Value::Switch(_) | Value::Number(_) => value.to_string(),
        // Sizes given as text are rounded when they are parsed.
        Value::Bytes(bytes) if !bytes.is_multiple_of(SIZE_UNIT_BYTES) => bytes.to_string(),
        other => quoted(&other.to_string()),
    }
}

/// Returns an unchecked value in the syntax of a plan.
fn said(given: &DeValue<'_>) -> String {
    match given {
        DeValue::String(text) => quoted(text),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| said(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        other => describe(other),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
