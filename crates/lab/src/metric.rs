//! The figures of a trial: their names, units, and printed forms.
//!
//! The workload's own figures are defined in `workload`; the others are counted by the engine and
//! its devices while the workload runs.

use workload::{FIGURES, Figure, Unit};

pub use workload::Better;

/// A figure of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricKind {
    /// Its name in records and plans.
    pub name: &'static str,
    /// A short description.
    pub title: &'static str,
    /// The SI unit in which it is recorded.
    pub unit: &'static str,
    /// The form in which it is printed.
    pub display: Display,
    /// The direction of better figures, if there is one.
    pub better: Option<Better>,
}

/// The form in which a figure is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Display {
    /// The unit in a table's head.
    pub unit: &'static str,
    /// Digits after the point.
    pub decimals: usize,
}

const SECONDS: Display = Display {
    unit: "s",
    decimals: 1,
};
/// Seconds of which fractions matter.
const SHORT: Display = Display {
    unit: "s",
    decimals: 3,
};
const MILLISECONDS: Display = Display {
    unit: "ms",
    decimals: 2,
};
const MEBIBYTES: Display = Display {
    unit: "MiB/s",
    decimals: 2,
};
const PER_SECOND: Display = Display {
    unit: "/s",
    decimals: 1,
};
const COUNT: Display = Display {
    unit: "",
    decimals: 0,
};
const RATIO: Display = Display {
    unit: "",
    decimals: 2,
};
const PERCENT: Display = Display {
    unit: "%",
    decimals: 0,
};
const BYTES: Display = Display {
    unit: "MiB",
    decimals: 2,
};

use Better::Lower;

/// All metrics, in the order of a report.
pub const METRICS: [MetricKind; COUNT_ALL] = join();

/// Their number.
const COUNT_ALL: usize = FIGURES.len() + COUNTED.len() + AFTER_CUT.len();

/// The figures that are counted while a workload runs.
const COUNTED: [MetricKind; 34] = [
    kind("close_time", "close", "s", SECONDS, Some(Lower)),
    kind("cpu_time", "host busy", "s", SECONDS, Some(Lower)),
    kind("disk_time", "disk busy", "s", SECONDS, None),
    kind(
        "controller_read_hits",
        "controller read hits",
        "",
        COUNT,
        None,
    ),
    kind(
        "controller_throttled_writes",
        "controller full",
        "",
        COUNT,
        Some(Lower),
    ),
    kind(
        "controller_bytes_replaced",
        "controller rewrote",
        "B",
        BYTES,
        None,
    ),
    kind(
        "controller_bytes_destaged",
        "controller destaged",
        "B",
        BYTES,
        None,
    ),
    kind(
        "controller_destages",
        "controller destages",
        "",
        COUNT,
        None,
    ),
    kind("commits", "commits", "", COUNT, None),
    kind("fast_commits", "fast commits", "", COUNT, None),
    kind("log_blocks", "log blocks", "", COUNT, None),
    kind("log_share", "log of all written", "", PERCENT, Some(Lower)),
    kind("checkpoint_blocks", "checkpointed", "", COUNT, None),
    kind("superseded_blocks", "superseded", "", COUNT, None),
    kind("tail_moves", "tail moves", "", COUNT, None),
    kind("flushes", "flushes", "", COUNT, Some(Lower)),
    kind("forced_writes", "forced writes", "", COUNT, Some(Lower)),
    kind("home_reads", "fs device reads", "", COUNT, None),
    kind("home_writes", "fs device writes", "", COUNT, None),
    kind("home_bytes_read", "fs device read", "B", BYTES, None),
    kind("home_bytes_written", "fs device written", "B", BYTES, None),
    kind("log_writes", "log writes", "", COUNT, None),
    kind("log_bytes_written", "log written", "B", BYTES, None),
    kind(
        "stalled_closing",
        "closing transaction",
        "s",
        SECONDS,
        Some(Lower),
    ),
    kind("stalled_log_space", "log space", "s", SECONDS, Some(Lower)),
    kind(
        "stalled_log_io",
        "block in log I/O",
        "s",
        SECONDS,
        Some(Lower),
    ),
    kind("stalled_commit", "commit", "s", SECONDS, Some(Lower)),
    kind(
        "stalled_dirty_limit",
        "dirty limit",
        "s",
        SECONDS,
        Some(Lower),
    ),
    kind("stalled_memory", "memory", "s", SECONDS, Some(Lower)),
    kind(
        "stalled_rewrite",
        "page in commit",
        "s",
        SECONDS,
        Some(Lower),
    ),
    kind("committing", "committing", "s", SECONDS, None),
    kind("waited_for_handles", "open handles", "s", SECONDS, None),
    kind("memory_left", "memory for caching", "B", BYTES, None),
    kind("virtual_time", "whole trial", "s", SECONDS, None),
];

/// The figures that are measured after a power cut.
const AFTER_CUT: [MetricKind; 23] = [
    kind("cut_time", "cut after", "s", SECONDS, None),
    kind("usable", "until usable", "s", SHORT, Some(Lower)),
    kind("replay", "replay", "s", SHORT, Some(Lower)),
    kind("check", "full check", "s", SHORT, Some(Lower)),
    kind("replayed", "replayed", "", COUNT, None),
    kind("files_found", "files", "", COUNT, None),
    kind("checked_bytes", "check read", "B", BYTES, None),
    kind("problems", "problems", "", COUNT, Some(Lower)),
    kind("lost_bytes", "lost", "B", BYTES, Some(Lower)),
    kind("lost_files", "files lost", "", COUNT, Some(Lower)),
    kind("lost_of_1s", "of 1 s", "", PERCENT, Some(Lower)),
    kind("lost_of_5s", "of 5 s", "", PERCENT, Some(Lower)),
    kind("lost_of_30s", "of 30 s", "", PERCENT, Some(Lower)),
    kind("lost_age", "oldest lost", "s", SECONDS, Some(Lower)),
    kind("torn_files", "of them torn", "", COUNT, Some(Lower)),
    kind("wrong_bytes", "wrong", "B", BYTES, Some(Lower)),
    kind("zero_bytes", "zeroes", "B", BYTES, Some(Lower)),
    kind("old_bytes", "old", "B", BYTES, Some(Lower)),
    kind("foreign_bytes", "foreign", "B", BYTES, Some(Lower)),
    kind("synced_lost_bytes", "synced, lost", "B", BYTES, Some(Lower)),
    kind("returned_files", "removed, back", "", COUNT, Some(Lower)),
    kind("files_judged", "files judged", "", COUNT, None),
    kind("calls", "calls", "", COUNT, None),
];

/// Returns the workloads' figures, then the counted ones, then those of a power cut.
const fn join() -> [MetricKind; COUNT_ALL] {
    let mut all = [COUNTED[0]; COUNT_ALL];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < FIGURES.len() {
            of_workload(&FIGURES[at])
        } else if at < FIGURES.len() + COUNTED.len() {
            COUNTED[at - FIGURES.len()]
        } else {
            AFTER_CUT[at - FIGURES.len() - COUNTED.len()]
        };
        at += 1;
    }
    all
}

const fn of_workload(figure: &Figure) -> MetricKind {
    MetricKind {
        name: figure.name,
        title: figure.title,
        unit: figure.unit.symbol(),
        display: match figure.unit {
            Unit::Seconds if figure.is_call => MILLISECONDS,
            Unit::Seconds => SECONDS,
            Unit::Count => COUNT,
            Unit::PerSecond => PER_SECOND,
            Unit::Bytes => BYTES,
            Unit::BytesPerSecond => MEBIBYTES,
            Unit::Ratio => RATIO,
        },
        better: figure.better,
    }
}

const fn kind(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    display: Display,
    better: Option<Better>,
) -> MetricKind {
    MetricKind {
        name,
        title,
        unit,
        display,
        better,
    }
}

impl MetricKind {
    /// Returns the metric with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|kind| kind.name == name)
    }

    /// Returns a recorded value in the unit in which it is printed.
    #[must_use]
    pub fn in_display_unit(&self, value: f64) -> f64 {
        value / scale_of(self.display.unit).unwrap_or(1.0)
    }

    /// Returns a recorded value as text, without its unit.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        format!("{:.*}", self.display.decimals, self.in_display_unit(value))
    }

    /// Returns the head of a table's column.
    #[must_use]
    pub fn head(&self) -> String {
        match self.display.unit {
            "" => self.title.to_owned(),
            unit => format!("{} {unit}", self.title),
        }
    }
}

/// Returns the number of SI base units in a unit; `None` for an unknown unit.
#[must_use]
pub fn scale_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "s" | "/s" | "B" | "B/s" => 1.0,
        "ms" => 1e-3,
        "%" => 1e-2,
        "KiB" | "KiB/s" => 1024.0,
        "MiB" | "MiB/s" => 1_048_576.0,
        "kB" | "kB/s" => 1e3,
        "MB" | "MB/s" => 1e6,
        _ => return None,
    })
}

/// Returns true if a unit measures the same quantity as an SI unit of [`MetricKind::unit`].
#[must_use]
pub fn measures(unit: &str, si: &str) -> bool {
    match si {
        "" => matches!(unit, "" | "%"),
        "s" => matches!(unit, "s" | "ms"),
        "B" => matches!(unit, "B" | "KiB" | "MiB" | "kB" | "MB"),
        "B/s" => matches!(unit, "B/s" | "KiB/s" | "MiB/s" | "kB/s" | "MB/s"),
        other => unit == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_units_are_known() {
        for (index, kind) in METRICS.iter().enumerate() {
            assert!(
                METRICS[..index].iter().all(|other| other.name != kind.name),
                "{}",
                kind.name
            );
            assert!(scale_of(kind.display.unit).is_some(), "{}", kind.name);
            assert!(measures(kind.display.unit, kind.unit), "{}", kind.name);
        }
    }

    #[test]
    fn figures_are_printed_in_their_unit() {
        let rate = MetricKind::named("read_rate").expect("it is listed");
        assert_eq!(
            (rate.text(2.64 * 1_048_576.0), rate.head()),
            ("2.64".into(), "read MiB/s".into())
        );
        assert_eq!(
            MetricKind::named("commits")
                .expect("it is listed")
                .text(1234.0),
            "1234"
        );
        let longest = MetricKind::named("longest_call").expect("it is listed");
        assert_eq!(
            (longest.text(0.0125), longest.head()),
            ("12.50".into(), "longest call ms".into())
        );
        assert!(!measures("s", "B/s"));
    }
}
