//! [`Comparison`]: the trials that two record files have in common: of two machines, versions or
//! days.
//!
//! Trials match by block and levels; the plans may differ otherwise. The gain is the second file's
//! over the first, positive if the second is better; p-values are corrected for the number of rows.

use std::collections::BTreeMap;

use comfy_table::Table;
use serde_json::{Value, json};

use super::{answer, json, table};
use crate::metric::{METRICS, MetricKind};
use crate::statistics::effect::{Effect, Ratio};
use crate::statistics::{Mean, Sample};
use crate::store::Brief;

/// The seed of the intervals, fixed so that the same files give the same text.
const SEED: u64 = 1;

/// Two record files compared.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The figure that is compared.
    pub metric: &'static MetricKind,
    /// The trials that both have, sorted by name.
    pub rows: Vec<ComparedRow>,
    /// Numbers of combinations in the first file only, and in the second only.
    pub alone: (usize, usize),
}

/// One combination of levels in both files.
#[derive(Debug, Clone)]
pub struct ComparedRow {
    /// Its block and levels.
    pub label: String,
    /// The figure in the first file.
    pub first: Mean,
    /// The figure in the second file.
    pub second: Mean,
    /// The gain of the second; `None` if the figure is zero.
    pub gain: Option<Effect>,
}

impl Comparison {
    /// Compares a figure of two files.
    #[must_use]
    pub fn of(metric: &'static MetricKind, first: &[Brief], second: &[Brief]) -> Self {
        let (first, mut second) = (samples(metric, first), samples(metric, second));
        let ratio = Ratio::of(metric.better);
        let mut rows = Vec::new();
        let mut alone = 0;
        for (id, own) in &first {
            let Some(other) = second.remove(id) else {
                alone += 1;
                continue;
            };
            rows.push(ComparedRow {
                label: id.trim_start_matches("block=\"\" ").to_owned(),
                first: own.describe(),
                second: other.describe(),
                gain: Effect::of(own, &other, ratio, SEED),
            });
        }
        Effect::correct(
            rows.iter_mut()
                .filter_map(|row: &mut ComparedRow| row.gain.as_mut()),
        );
        Self {
            metric,
            rows,
            alone: (alone, second.len()),
        }
    }

    /// Returns a table for a terminal of any width.
    #[must_use]
    pub fn text(&self) -> String {
        let head = ["trial", &self.metric.head(), "in the second", "gain"];
        let mut table: Table = table::table(head.map(str::to_owned).to_vec(), 1);
        for row in &self.rows {
            let gain = row
                .gain
                .as_ref()
                .map_or_else(table::absent, answer::gain_text);
            let cells = vec![
                row.label.clone(),
                table::mean_text(self.metric, row.first),
                table::mean_text(self.metric, row.second),
                gain,
            ];
            table::add(&mut table, cells, 1);
        }
        let mut text = format!("{table}\n");
        let certain = self.rows.iter().filter_map(|row| row.gain);
        let certain: Vec<Effect> = certain.filter(Effect::is_certain).collect();
        let better = certain.iter().filter(|gain| gain.share > 0.0).count();
        text.push_str(&format!(
            "{} of {} trials differ: {better} better, {} worse.\n",
            certain.len(),
            self.rows.len(),
            certain.len() - better
        ));
        if self.alone != (0, 0) {
            let (first, second) = self.alone;
            text.push_str(&format!(
                "Only in the first: {first}; only in the second: {second}.\n"
            ));
        }
        text
    }

    /// Returns JSON, in SI base units.
    #[must_use]
    pub fn json(&self) -> Value {
        let mean = |mean: &Mean| {
            json!({
                "mean": mean.value,
                "half_interval_95": mean.half_interval,
                "count": mean.count,
            })
        };
        let rows = self.rows.iter().map(|row| {
            json!({
                "trial": row.label,
                "first": mean(&row.first),
                "second": mean(&row.second),
                "gain": row.gain.as_ref().map(json::effect),
            })
        });
        json!({
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "rows": rows.collect::<Vec<_>>(),
            "only_in_first": self.alone.0,
            "only_in_second": self.alone.1,
        })
    }
}

/// Collects a figure's values by block and levels, without warm-ups; of several records of a trial
/// the last counts.
fn samples(metric: &MetricKind, records: &[Brief]) -> BTreeMap<String, Sample> {
    let index = METRICS.iter().position(|kind| kind.name == metric.name);
    let mut values: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
    for record in records {
        let value = index.and_then(|index| record.measured.metrics.get(index));
        if let (false, Some(value)) = (record.is_warmup, value) {
            let own = values.entry(&record.context.combination).or_default();
            own.insert(record.repetition, value);
        }
    }
    values
        .into_iter()
        .filter_map(|(id, values)| {
            Some((id.to_owned(), Sample::new(values.into_values().collect())?))
        })
        .collect()
}
