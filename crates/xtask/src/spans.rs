//! Durations of several runs: median, least and greatest; and the counts of a run.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use workload::Outcome;

/// Duration and counts of one run.
pub(crate) struct Run {
    pub(crate) seconds: f64,
    pub(crate) counts: Work,
}

/// Number of files that a run has handled, by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    created: u64,
    read: u64,
    appended: u64,
    deleted: u64,
}

/// Seconds of several runs, at least one, sorted.
pub(crate) struct Spans(Vec<f64>);

impl Work {
    /// Returns the counts of an outcome of PostMark.
    pub(super) fn of(outcome: &Outcome) -> Result<Self> {
        let count = |name: &str| {
            let value = outcome.value(name);
            let value = value.with_context(|| format!("the run has no figure {name}"))?;
            anyhow::Ok(value as u64)
        };
        Ok(Self {
            created: count("created")?,
            read: count("read")?,
            appended: count("appended")?,
            deleted: count("deleted")?,
        })
    }

    /// Parses the counts from PostMark's verbose report.
    pub(crate) fn parse(report: &str) -> Result<Self> {
        let count = |what: &str| {
            let line = report
                .lines()
                .map(str::trim)
                .find(|line| line.contains(&format!(" {what} (")));
            let number = line.and_then(|line| line.split(' ').next());
            number.and_then(|text| text.parse().ok()).with_context(|| {
                format!("postmark's report does not say how many files were {what}: {report}")
            })
        };
        Ok(Self {
            created: count("created")?,
            read: count("read")?,
            appended: count("appended")?,
            deleted: count("deleted")?,
        })
    }
}

impl Spans {
    pub(crate) fn new(mut seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "there is at least one run");
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// Returns the median and the range, in seconds.
    pub(crate) fn shown(&self) -> String {
        format!(
            "{:.2} ({:.2} to {:.2})",
            self.median(),
            self.least(),
            self.greatest()
        )
    }

    pub(crate) fn median(&self) -> f64 {
        let (half, is_odd) = (self.0.len() / 2, self.0.len() % 2 == 1);
        if is_odd {
            self.0[half]
        } else {
            f64::midpoint(self.0[half - 1], self.0[half])
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0[0]
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Returns all of them, sorted.
    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "median_seconds": self.median(),
            "least_seconds": self.least(),
            "greatest_seconds": self.greatest(),
            "seconds": self.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spans = Spans::new(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            (spans.least(), spans.median(), spans.greatest()),
            (1.0, 2.0, 3.0)
        );
        assert_eq!(Spans::new(vec![4.0, 2.0]).median(), 3.0);
    }

    #[test]
    fn reports_are_read() {
        let report = "Files:\n\t764 created (764 per second)\n\t\tCreation alone: 500 files (500 per second)\n\
            \t243 read (243 per second)\n\t257 appended (257 per second)\n\t764 deleted (764 per second)\n\n\
            Data:\n\t1.36 megabytes read (1.36 megabytes per second)\n";
        let work = Work::parse(report).expect("it is one");
        assert_eq!(
            work,
            Work {
                created: 764,
                read: 243,
                appended: 257,
                deleted: 764
            }
        );
        assert!(Work::parse("").is_err());
    }
}
