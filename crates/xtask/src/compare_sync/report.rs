//! The comparison as a table and as JSON.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use lab::statistics::paired::ByRepetition;
use serde_json::{Value, json};

use super::load::Load;
use super::sides::{Counts, MOUNT_OPTIONS, Measured, Side};
use super::{Comparison, Form};
use crate::machine::Machine;
use crate::ratio::Ratio;
use crate::spans::Spans;

const HEADS: [&str; 9] = [
    "fast commits",
    "directories",
    "threads",
    "",
    "files/s",
    "/ kernel",
    "flushes/file",
    "writes/file",
    "commits, fast commits",
];
/// Columns with text.
const WORDS: [usize; 4] = [0, 1, 2, 3];

/// The figures of one side.
struct Figures {
    side: Side,
    /// Files per second.
    rates: Spans,
    flushes: Spans,
    writes: Spans,
    commits: Spans,
    fast_commits: Spans,
    /// The rates of pairs of runs over the kernel's.
    ratio: Option<Ratio>,
}

impl Comparison {
    fn figures(&self) -> Vec<Figures> {
        let kernel = rates(&self.load, &self.runs[0]);
        let sides = Side::ALL.into_iter().zip(&self.runs);
        sides
            .map(|(side, runs)| {
                let own = rates(&self.load, runs);
                let counts = |of: fn(&Counts) -> u64, each: f64| {
                    Spans::new(
                        runs.iter()
                            .map(|run| of(&run.counts) as f64 / each)
                            .collect(),
                    )
                };
                let files = f64::from(self.load.file_count());
                Figures {
                    side,
                    rates: Spans::new(own.values().copied().collect()),
                    flushes: counts(|counts| counts.flushes, files),
                    writes: counts(|counts| counts.writes, files),
                    commits: counts(|counts| counts.commits, 1.0),
                    fast_commits: counts(|counts| counts.fast_commits, 1.0),
                    ratio: (side != Side::Kernel)
                        .then(|| Ratio::of(&own, &kernel))
                        .flatten(),
                }
            })
            .collect()
    }
}

fn rates(load: &Load, runs: &[Measured]) -> ByRepetition {
    let rates = runs
        .iter()
        .map(|run| f64::from(load.file_count()) / run.seconds);
    (0..).zip(rates).collect()
}

impl Figures {
    const fn title(&self) -> &'static str {
        match self.side {
            Side::Kernel => "kernel, loop device",
            Side::Looped => "jext, loop device",
            Side::Jext => "jext, file",
        }
    }

    fn to_json(&self) -> Value {
        let interval = self.ratio.and_then(Ratio::interval);
        json!({
            "side": self.side.name(),
            "files_per_second": self.rates.values(),
            "median_files_per_second": self.rates.median(),
            "flushes_per_file": self.flushes.median(),
            "writes_per_file": self.writes.median(),
            "commits": self.commits.median(),
            "fast_commits": self.fast_commits.median(),
            "ratio": self.ratio.map(Ratio::mean),
            "ratio_interval": interval.map(|own| [own.low, own.high]),
        })
    }
}

pub(super) fn text(machine: &Machine, form: Form, comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(HEADS);
    for comparison in comparisons {
        let fast = match comparison.has_fast_commits {
            true => "on",
            false => "off",
        };
        let mut names = [
            fast.to_owned(),
            comparison.load.directories.name().to_owned(),
            comparison.load.threads.to_string(),
        ];
        for figures in comparison.figures() {
            let rates = &figures.rates;
            let cells = std::mem::take(&mut names).into_iter().chain([
                figures.title().to_owned(),
                format!(
                    "{:.0} ({:.0} to {:.0})",
                    rates.median(),
                    rates.least(),
                    rates.greatest()
                ),
                figures.ratio.map_or_else(String::new, Ratio::shown),
                format!("{:.2}", figures.flushes.median()),
                format!("{:.2}", figures.writes.median()),
                format!(
                    "{:.0}, {:.0}",
                    figures.commits.median(),
                    figures.fast_commits.median()
                ),
            ]);
            table.add_row(cells.enumerate().map(|(column, text)| {
                let cell = Cell::new(text);
                match WORDS.contains(&column) {
                    true => cell,
                    false => cell.set_alignment(CellAlignment::Right),
                }
            }));
        }
    }
    let runs = comparisons.first().map_or(0, |first| first.runs[0].len());
    let load = comparisons.first().map(|first| first.load);
    let (files, bytes) = load.map_or((0, 0), |load| (load.files, load.bytes));
    format!(
        "{table}\nMedians of {runs} runs, with the least and the greatest; ratios of rates are means over pairs of runs, with 95 % intervals.\n\
         {files} files of {bytes} bytes in each run; {} bytes of image, {} MB of log, {MOUNT_OPTIONS}. e2fsck finds every image clean.\n{}\n",
        form.size_bytes,
        form.journal_megabytes,
        machine.text()
    )
}

pub(super) fn json(machine: &Machine, form: Form, comparisons: &[Comparison]) -> Value {
    let all: Vec<Value> = comparisons
        .iter()
        .map(|comparison| {
            let sides = comparison.figures();
            json!({
                "fast_commit": comparison.has_fast_commits,
                "directories": comparison.load.directories.name(),
                "threads": comparison.load.threads,
                "files": comparison.load.file_count(),
                "sides": sides.iter().map(Figures::to_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "machine": machine.to_json(),
        "size_bytes": form.size_bytes,
        "journal_megabytes": form.journal_megabytes,
        "mount_options": MOUNT_OPTIONS,
        "comparisons": all,
    })
}
