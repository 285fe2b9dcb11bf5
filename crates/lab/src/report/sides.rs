//! [`Sides`]: two blocks of a plan side by side, such as a kernel and the engine on one disk: every
//! figure of time and of work, for each combination of levels that both have.
//!
//! A figure is marked if the means differ by more than [`TOLERANCE`].

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::table;
use crate::metric::MetricKind;
use crate::record::{Measured, Record};
use crate::statistics::{Mean, Sample};

/// Relative difference above which a figure is marked.
pub const TOLERANCE: f64 = 0.1;
/// Figures that are compared, by their names in records.
const METRICS: [&str; 12] = [
    "elapsed",
    "memory_left",
    "commits",
    "flushes",
    "home_reads",
    "home_bytes_read",
    "home_writes",
    "home_bytes_written",
    "log_writes",
    "log_bytes_written",
    "disk_time",
    "close_time",
];
/// Quotients of counters: title, component, dividend, divisor, and a factor.
const QUOTIENTS: [(&str, &str, &str, &str, f64); 7] = [
    ("KiB a read", "home", "read_sectors", "reads", 0.5),
    ("KiB a write", "home", "write_sectors", "writes", 0.5),
    ("KiB a log write", "log", "write_sectors", "writes", 0.5),
    ("cylinders a seek", "disk", "seek_cylinders", "seeks", 1.0),
    ("seek ms an access", "disk", "seek_ns", "accesses", 1e-6),
    (
        "rotation ms an access",
        "disk",
        "rotation_ns",
        "accesses",
        1e-6,
    ),
    (
        "transfer ms an access",
        "disk",
        "transfer_ns",
        "accesses",
        1e-6,
    ),
];
/// Components whose counters are compared as they are, and the words before them.
const COMPONENTS: [(&str, &str); 2] = [("disk", "disk: "), ("uses", "")];
/// Counters of these that are no counts of work.
const PARTS_OF_QUOTIENTS: [&str; 4] = ["seek_cylinders", "seek_ns", "rotation_ns", "transfer_ns"];
const INFALLIBLE: &str = "writing to a string does not fail";

/// Two blocks of a plan side by side.
#[derive(Debug, Clone)]
pub struct Sides {
    /// The names of the blocks.
    pub blocks: [String; 2],
    /// The combinations of levels that both have, by name.
    pub combinations: Vec<(String, Vec<SidesRow>)>,
}

/// A figure of both blocks.
#[derive(Debug, Clone)]
pub struct SidesRow {
    /// Its title, with its unit.
    pub title: String,
    /// The figures.
    pub figures: [Mean; 2],
    decimals: usize,
}

impl SidesRow {
    /// Returns the second figure over the first, minus one; `None` if the first is zero.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        let [first, second] = self.figures.map(|mean| mean.value);
        (first != 0.0).then(|| second / first - 1.0)
    }
}

/// Figures by title, in the order of a table, with their decimals.
type Figures = Vec<(String, usize, f64)>;

impl Sides {
    /// Compares two blocks.
    #[must_use]
    pub fn of(blocks: [&str; 2], records: &[Record]) -> Self {
        let mut levels: Vec<&BTreeMap<String, String>> = Vec::new();
        for record in records {
            if record.context.block == blocks[0] && !levels.contains(&&record.context.levels) {
                levels.push(&record.context.levels);
            }
        }
        let combination = |levels: &BTreeMap<String, String>| {
            let sides = blocks.map(|block| samples(records, block, levels));
            let rows = rows(&sides);
            let parts = levels.iter().map(|(key, level)| format!("{key} {level}"));
            (!rows.is_empty()).then(|| (parts.collect::<Vec<_>>().join(", "), rows))
        };
        Self {
            blocks: blocks.map(str::to_owned),
            combinations: levels.into_iter().filter_map(combination).collect(),
        }
    }

    /// Returns a table for each combination of levels.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, rows) in &self.combinations {
            let [first, second] = &self.blocks;
            let head = ["", first, second, "difference"].map(str::to_owned);
            let mut table = table::table(head.to_vec(), 1);
            for row in rows {
                let figures = row.figures.map(|mean| shown(mean, row.decimals));
                let difference = row.difference().map_or_else(table::absent, |share| {
                    let mark = if share.abs() > TOLERANCE { " *" } else { "" };
                    format!("{:+.1} %{mark}", 100.0 * share)
                });
                let [first, second] = figures;
                table::add(
                    &mut table,
                    vec![row.title.clone(), first, second, difference],
                    1,
                );
            }
            writeln!(text, "{name}\n{table}").expect(INFALLIBLE);
        }
        let percent = 100.0 * TOLERANCE;
        writeln!(text, "\n*  the means differ by more than {percent:.0} %").expect(INFALLIBLE);
        text
    }

    /// Returns JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &SidesRow| {
            let [first, second] = row.figures.map(|mean| mean.value);
            json!({
                "figure": row.title,
                "first": first,
                "second": second,
                "difference": row.difference(),
            })
        };
        let combinations = self.combinations.iter().map(|(name, rows)| {
            json!({ "levels": name, "figures": rows.iter().map(row).collect::<Vec<_>>() })
        });
        json!({
            "first": self.blocks[0],
            "second": self.blocks[1],
            "combinations": combinations.collect::<Vec<_>>(),
        })
    }
}

/// Returns the figures of each repetition; of several records of a trial the last counts.
fn samples(records: &[Record], block: &str, levels: &BTreeMap<String, String>) -> Vec<Figures> {
    let own = records.iter().filter(|record| {
        let context = &record.context;
        !record.is_warmup && context.block == block && context.levels == *levels
    });
    let by_repetition: BTreeMap<u32, Figures> = own
        .map(|record| (record.repetition, figures(&record.measured)))
        .collect();
    by_repetition.into_values().collect()
}

fn figures(measured: &Measured) -> Figures {
    let mut all = Figures::new();
    for name in METRICS {
        let kind = MetricKind::named(name).expect("a metric");
        if let Some(value) = measured.metrics.get(name) {
            let value = kind.in_display_unit(*value);
            all.push((kind.head(), kind.display.decimals, value));
        }
    }
    let counter = |component: &str, name: &str| {
        let own = measured.counters.get(component)?;
        own.get(name).map(|count| *count as f64)
    };
    for (title, component, dividend, divisor, factor) in QUOTIENTS {
        let parts = counter(component, dividend).zip(counter(component, divisor));
        if let Some((dividend, divisor)) = parts.filter(|(_, divisor)| *divisor > 0.0) {
            all.push((title.to_owned(), 2, factor * dividend / divisor));
        }
    }
    for (component, before) in COMPONENTS {
        for (name, count) in measured.counters.get(component).into_iter().flatten() {
            if !PARTS_OF_QUOTIENTS.contains(&name.as_str()) {
                all.push((
                    format!("{before}{}", name.replace('_', " ")),
                    0,
                    *count as f64,
                ));
            }
        }
    }
    all
}

fn rows(sides: &[Vec<Figures>; 2]) -> Vec<SidesRow> {
    let [first, second] = sides;
    let Some(titles) = first.first() else {
        return Vec::new();
    };
    let mean = |side: &[Figures], title: &str| {
        let find = |figures: &Figures| {
            let found = figures.iter().find(|(own, ..)| own == title);
            found.map(|(_, _, value)| *value)
        };
        Some(Sample::new(side.iter().filter_map(find).collect())?.describe())
    };
    let row = |(title, decimals, _): &(String, usize, f64)| {
        let figures = [mean(first, title)?, mean(second, title)?];
        // What neither side has done is no result.
        let is_any = figures.iter().any(|mean| mean.value != 0.0);
        is_any.then(|| SidesRow {
            title: title.clone(),
            figures,
            decimals: *decimals,
        })
    };
    titles.iter().filter_map(row).collect()
}

fn shown(mean: Mean, decimals: usize) -> String {
    let value = format!("{:.decimals$}", mean.value);
    match mean.half_interval {
        Some(half) => format!("{value} ± {half:.decimals$}"),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    const PLAN: &str = r#"
[plan]
name = "test"
question = "are they alike?"
repetitions = 2
[fixed]
device = "sim:atlas-v-18"
[factors]
fs.commit = [1, 5]
[[block]]
name = "one"
[[block]]
name = "other"
[block.fixed]
fs.data = "journal"
"#;

    #[test]
    fn what_differs_by_more_than_a_tenth_is_marked() {
        let plan = Plan::parse("test.toml", PLAN).expect("it is right");
        let record = |trial: &crate::plan::Trial| {
            let is_other = trial.block_name == "other";
            let mut measured = Measured::default();
            let elapsed = if is_other { 105.0 } else { 100.0 };
            measured.metrics.insert("elapsed".to_owned(), elapsed);
            let seeks = if is_other { 50 } else { 100 };
            let disk = [("seeks", seeks), ("seek_cylinders", 1000), ("merged", 0)];
            let disk = disk.map(|(name, count)| (name.to_owned(), count));
            measured.counters.insert("disk".to_owned(), disk.into());
            Record::new(&plan, trial, 0, 1.0, measured)
        };
        let records: Vec<Record> = plan.trials().iter().map(record).collect();
        let sides = Sides::of(["one", "other"], &records);
        assert_eq!(sides.combinations.len(), 2);
        let text = sides.text();
        for part in [
            "fs.commit 1s\n",
            "elapsed s",
            "105.0 ± 0.0 ┆     +5.0 % │",
            "cylinders a seek",
            "20.00 ± 0.00 ┆ +100.0 % * │",
            "disk: seeks",
            "50 ± 0 ┆  -50.0 % * │",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("merged"), "{text}");
        assert!(Sides::of(["one", "none"], &records).combinations.is_empty());
    }
}
