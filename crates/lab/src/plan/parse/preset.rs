//! `preset` in `[fixed]` and `[block.fixed]`: a name for several settings.
//!
//! A preset is its settings: the hash of a plan, its records and its written-out form have them,
//! and not the name. Settings beside it replace them, wherever they stand.

use super::{Parser, Setting};
use crate::plan::PlanError;
use crate::plan::key::Key;
use crate::plan::reader::Entry;
use crate::plan::value::describe;

/// The key that names a preset.
pub(super) const PRESET: &str = "preset";
/// The presets with their settings.
const PRESETS: [(&str, &[(&str, &str)]); 1] = [(
    // The engine's journal as JBD2 of Linux 6.1 works, part by part from its sources: see the plan
    // calibration-kernel-6.1.
    "kernel-6.1",
    &[
        ("fs.ordered", "allocated"),
        ("fs.log_policy", "linux24"),
        ("fs.log.data", "beside"),
        ("fs.log.extent", "oldest"),
        ("fs.log.rewrite", "share"),
        ("fs.log.tick", "age"),
        ("fs.log.credits", "exact"),
    ],
)];

impl Parser<'_, '_> {
    /// Returns the settings of the preset that an entry names.
    pub(super) fn preset(&self, entry: &Entry<'_>) -> Result<Vec<Setting>, PlanError> {
        let named = entry.value.as_str();
        let found = PRESETS.iter().find(|(name, _)| Some(*name) == named);
        let Some((_, settings)) = found else {
            let names = PRESETS.map(|(name, _)| format!("{name:?}")).join(", ");
            let found = describe(&entry.value);
            let message = format!("{PRESET}: expected {names}, found {found}");
            return Err(self.source.error(&entry.span, message));
        };
        let setting = |(key, value): &(&str, &str)| {
            let key = Key::named(key).expect("a preset has known keys");
            let value = key.kind.check_text(value).expect("a preset is right");
            (key, value, self.source.spot(&entry.span))
        };
        Ok(settings.iter().map(setting).collect())
    }
}
