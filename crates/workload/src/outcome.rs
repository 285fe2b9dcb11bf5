//! [`Outcome`]: what a run has found out, in the form that all workloads share.

use rt::Nanos;

use crate::figure::Figure;
use crate::latency::Latencies;
use crate::metric::Metric;

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What followed what, and how long it took; a phase that was repeated is there as often.
    pub phases: Vec<Phase>,
    /// The figures, all of [`FIGURES`](crate::FIGURES).
    pub metrics: Vec<Metric>,
    /// How long each kind of call took, by the labels of [`Call`](crate::Call), if it was asked for.
    pub latencies: Option<Latencies>,
    /// Reports in forms of the originals.
    pub documents: Vec<Document>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// When it began, by the world's clock.
    pub began: Nanos,
    /// How long it took.
    pub took: Nanos,
}

/// A report in the form of an original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What it is: `csv-1.03`.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

impl Outcome {
    /// Adds a figure in the SI base unit of its row in [`FIGURES`](crate::FIGURES).
    ///
    /// # Panics
    /// If it has no row.
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

    /// Adds a time.
    pub fn seconds(&mut self, name: &str, span: Nanos) {
        self.figure(name, span.as_secs_f64());
    }

    /// Adds a number of things or bytes.
    pub fn count(&mut self, name: &str, count: u64) {
        self.figure(name, count as f64);
    }

    /// Adds things or bytes a second; nothing over no time at all.
    pub fn rate(&mut self, name: &str, count: u64, span: Nanos) {
        self.figure(name, count as f64 / span.as_secs_f64());
    }

    /// Adds the time of all phases, and of the longest call if latencies were measured.
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

    /// A figure, if it is there.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.map(|metric| metric.value)
    }
}
