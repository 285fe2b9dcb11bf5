//! [`Outcome`]: the result of a run, in the form that all workloads share.

use rt::Nanos;

use crate::figure::Figure;
use crate::latency::Latencies;
use crate::metric::Metric;

/// Result of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Phases in order, with their times; a repeated phase appears repeatedly.
    pub phases: Vec<Phase>,
    /// Figures, all of [`FIGURES`](crate::FIGURES).
    pub metrics: Vec<Metric>,
    /// Latencies by the labels of [`Call`](crate::Call), if they were measured.
    pub latencies: Option<Latencies>,
    /// Reports in the formats of the originals.
    pub documents: Vec<Document>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase.
    pub name: &'static str,
    /// Start of the phase, by the world's clock.
    pub began: Nanos,
    /// Duration of the phase.
    pub took: Nanos,
}

/// A report in the format of an original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Name of the format: `csv-1.03`.
    pub name: &'static str,
    /// Text of the report.
    pub text: String,
}

impl Outcome {
    /// Adds a figure in the SI base unit of its row in [`FIGURES`](crate::FIGURES). Omits a value
    /// that is not finite.
    ///
    /// # Panics
    /// Panics if the figure has no row.
    pub fn figure(&mut self, name: &str, value: f64) {
        let figure = Figure::named(name).expect("every figure has its row");
        if value.is_finite() {
            self.metrics.push(Metric {
                name: figure.name,
                value,
                unit: figure.unit,
            });
        }
    }

    /// Adds a duration.
    pub fn seconds(&mut self, name: &str, span: Nanos) {
        self.figure(name, span.as_secs_f64());
    }

    /// Adds a count.
    pub fn count(&mut self, name: &str, count: u64) {
        self.figure(name, count as f64);
    }

    /// Adds a count per second; omits it if the duration is zero.
    pub fn rate(&mut self, name: &str, count: u64, span: Nanos) {
        self.figure(name, count as f64 / span.as_secs_f64());
    }

    /// Adds the duration of all phases, and that of the longest call if latencies were measured.
    pub fn totals(&mut self) {
        let elapsed = self.phases.iter().map(|phase| phase.took).sum();
        self.seconds("elapsed", elapsed);
        let longest = self
            .latencies
            .iter()
            .flat_map(Latencies::summaries)
            .map(|(_, summary)| summary.max);
        if let Some(longest) = longest.max() {
            self.seconds("longest_call", longest);
        }
    }

    /// Returns the value of a figure, if it exists.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.map(|metric| metric.value)
    }
}
