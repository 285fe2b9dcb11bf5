//! Latency histograms, one per kind of call, with a relative error of at most 1 in 1000.
//!
//! Counts are exact; a value above [`LIMIT`] is counted as the limit.

use std::borrow::Cow;

use hdrhistogram::Histogram;
use rt::Nanos;

/// The longest latency that is recorded exactly.
pub const LIMIT: Nanos = Nanos::from_secs(3600);
/// Number of significant decimal digits of every value.
const DIGITS: u8 = 3;
/// Number of values that are kept as they are. They take 2 KiB; a histogram takes up to 256 KiB,
/// which a thousand users of a guest do not have.
const FEW: usize = 256;

/// Histograms of a workload, one per label.
#[derive(Debug, Clone)]
pub struct Latencies {
    labels: &'static [&'static str],
    counts: Vec<Counts>,
}

/// The values of one label.
#[derive(Debug, Clone)]
enum Counts {
    Few(Vec<u64>),
    Many(Box<Histogram<u64>>),
}

impl Counts {
    const NONE: Self = Self::Few(Vec::new());

    fn record(&mut self, value: u64) {
        match self {
            Self::Few(values) if values.len() < FEW => values.push(value),
            Self::Few(_) => add(self.grown(), value),
            Self::Many(histogram) => add(histogram, value),
        }
    }

    fn merge(&mut self, other: &Self) {
        match other {
            Self::Few(values) => values.iter().for_each(|value| self.record(*value)),
            Self::Many(theirs) => self
                .grown()
                .add(&**theirs)
                .expect("it grows up to the limit"),
        }
    }

    /// Makes this a histogram, and returns it.
    fn grown(&mut self) -> &mut Histogram<u64> {
        if let Self::Few(values) = self {
            *self = Self::Many(Box::new(histogram_of(values)));
        }
        match self {
            Self::Many(histogram) => histogram,
            Self::Few(_) => unreachable!("few values have become a histogram"),
        }
    }

    /// Returns the histogram, if there are values.
    fn histogram(&self) -> Option<Cow<'_, Histogram<u64>>> {
        match self {
            Self::Few(values) if values.is_empty() => None,
            Self::Few(values) => Some(Cow::Owned(histogram_of(values))),
            Self::Many(histogram) => Some(Cow::Borrowed(histogram)),
        }
    }
}

fn histogram_of(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(DIGITS).expect("3 digits are at most 5");
    values.iter().for_each(|value| add(&mut histogram, *value));
    histogram
}

fn add(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("it grows up to the limit");
}

impl Latencies {
    /// Returns empty histograms with these labels.
    #[must_use]
    pub fn new(labels: &'static [&'static str]) -> Self {
        Self {
            labels,
            counts: vec![Counts::NONE; labels.len()],
        }
    }

    /// Adds one latency to the histogram `index`.
    ///
    /// # Panics
    /// Panics if there is no such label.
    pub fn record(&mut self, index: usize, latency: Nanos) {
        let value = latency.max(Nanos::new(1)).min(LIMIT);
        self.counts[index].record(value.get());
    }

    /// Adds the latencies of another thread of the same workload.
    ///
    /// # Panics
    /// Panics if the labels differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.labels, other.labels,
            "histograms of different workloads"
        );
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine.merge(theirs);
        }
    }

    /// Merges the latencies of one thread, if it has any, into those of all threads.
    pub fn merge_into(all: &mut Option<Self>, more: Option<Self>) {
        match (all, more) {
            (Some(all), Some(more)) => all.merge(&more),
            (empty @ None, more) => *empty = more,
            (Some(_), None) => {}
        }
    }

    /// Returns the summary of every label that has values.
    pub fn summaries(&self) -> impl Iterator<Item = (&'static str, LatencySummary)> + '_ {
        let pairs = self.labels.iter().zip(&self.counts);
        pairs.filter_map(|(label, counts)| {
            let histogram = counts.histogram()?;
            Some((*label, LatencySummary::of(&histogram)))
        })
    }

    /// Returns the summary of one label, if it has values.
    #[must_use]
    pub fn summary(&self, label: &str) -> Option<LatencySummary> {
        self.summaries()
            .find(|(name, _)| *name == label)
            .map(|(_, summary)| summary)
    }

    /// Returns the latency that this share of one label's values does not exceed, if it has values.
    #[must_use]
    pub fn quantile(&self, label: &str, share: f64) -> Option<Nanos> {
        let histogram = self.histogram(label)?;
        Some(Nanos::new(histogram.value_at_quantile(share)))
    }

    /// Returns the non-empty buckets of one label: the highest value of each, and its count.
    #[must_use]
    pub fn buckets(&self, label: &str) -> Vec<(Nanos, u64)> {
        let Some(histogram) = self.histogram(label) else {
            return Vec::new();
        };
        let recorded = histogram.iter_recorded();
        let bucket = recorded.map(|step| {
            (
                Nanos::new(step.value_iterated_to()),
                step.count_since_last_iteration(),
            )
        });
        bucket.collect()
    }

    fn histogram(&self, label: &str) -> Option<Cow<'_, Histogram<u64>>> {
        let index = self.labels.iter().position(|name| *name == label)?;
        self.counts[index].histogram()
    }
}

/// Summary of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySummary {
    /// Number of calls.
    pub count: u64,
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation in nanoseconds.
    pub deviation_ns: f64,
    /// Shortest latency.
    pub min: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p999: Nanos,
    /// Longest latency.
    pub max: Nanos,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>) -> Self {
        let quantile = |q| Nanos::new(histogram.value_at_quantile(q));
        Self {
            count: histogram.len(),
            mean_ns: histogram.mean(),
            deviation_ns: histogram.stdev(),
            min: Nanos::new(histogram.min()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: Nanos::new(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: &[&str] = &["open", "read"];

    #[test]
    fn quantiles_are_within_one_in_a_thousand() {
        let mut latencies = Latencies::new(LABELS);
        for value in 1..=100_000 {
            latencies.record(1, Nanos::new(value * 1000));
        }
        let summary = latencies.summary("read").expect("it has values");
        assert_eq!(summary.count, 100_000);
        for (found, exact) in [
            (summary.p50, 50_000_000.0),
            (summary.p99, 99_000_000.0),
            (summary.max, 100_000_000.0),
        ] {
            assert!(
                (found.get() as f64 / exact - 1.0).abs() < 1e-3,
                "{found} is not {exact}"
            );
        }
        assert_eq!(latencies.summary("open"), None);
        assert_eq!(
            latencies
                .buckets("read")
                .iter()
                .map(|(_, count)| count)
                .sum::<u64>(),
            100_000
        );
    }

    #[test]
    fn merging_adds_counts_and_extremes_are_kept() {
        let (mut a, mut b) = (Latencies::new(LABELS), Latencies::new(LABELS));
        a.record(0, Nanos::new(0));
        b.record(0, LIMIT + LIMIT);
        a.merge(&b);
        let summary = a.summary("open").expect("it has values");
        assert_eq!((summary.count, summary.min), (2, Nanos::new(1)));
        assert!(summary.max >= LIMIT);
    }

    #[test]
    fn few_values_give_the_figures_of_a_histogram_in_less_memory() {
        let last = FEW as u64 + 10;
        let (mut all, mut merged) = (Latencies::new(LABELS), Latencies::new(LABELS));
        for value in 1..=last {
            let latency = Nanos::new(value * value * 977);
            all.record(0, latency);
            let mut one = Latencies::new(LABELS);
            one.record(0, latency);
            merged.merge(&one);
            let is_few = |latencies: &Latencies| matches!(latencies.counts[0], Counts::Few(_));
            assert_eq!(is_few(&all), value <= FEW as u64);
            assert_eq!(is_few(&merged), is_few(&all));
            assert_eq!(merged.summary("open"), all.summary("open"));
        }
        let mut grown = all.clone();
        grown.merge(&all);
        assert_eq!(
            grown.summary("open").expect("it has values").count,
            2 * last
        );
        let mut small = Latencies::new(LABELS);
        small.record(0, Nanos::new(5_000_000));
        let of_few = small.summary("open");
        small.counts[0].grown();
        assert_eq!(small.summary("open"), of_few);
    }
}
