//! Latency histograms, one per kind of call, with a relative error of at most 1 in 1000.
//!
//! Counts are exact; a value above [`LIMIT`] is counted as the limit.

use hdrhistogram::Histogram;
use rt::Nanos;

/// The longest latency that is recorded exactly.
pub const LIMIT: Nanos = Nanos::from_secs(3600);
/// Number of significant decimal digits of every value.
const DIGITS: u8 = 3;

/// Histograms of a workload, one per label.
#[derive(Debug, Clone)]
pub struct Latencies {
    labels: &'static [&'static str],
    // Allocated on the first value, because an empty histogram takes memory for its whole range.
    histograms: Vec<Option<Histogram<u64>>>,
}

impl Latencies {
    /// Returns empty histograms with these labels.
    #[must_use]
    pub fn new(labels: &'static [&'static str]) -> Self {
        Self {
            labels,
            histograms: vec![None; labels.len()],
        }
    }

    /// Returns a histogram that grows with its values.
    fn empty() -> Histogram<u64> {
        Histogram::new(DIGITS).expect("3 digits are at most 5")
    }

    /// Adds one latency to the histogram `index`.
    ///
    /// # Panics
    /// Panics if there is no such label.
    pub fn record(&mut self, index: usize, latency: Nanos) {
        let value = latency.max(Nanos::new(1)).min(LIMIT);
        let histogram = self.histograms[index].get_or_insert_with(Self::empty);
        histogram
            .record(value.get())
            .expect("it grows up to the limit");
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
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            if let Some(theirs) = theirs {
                let mine = mine.get_or_insert_with(Self::empty);
                mine.add(theirs).expect("it grows up to the limit");
            }
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
        let pairs = self.labels.iter().zip(&self.histograms);
        pairs.filter_map(|(label, h)| Some((*label, LatencySummary::of(h.as_ref()?))))
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
        let index = self.labels.iter().position(|name| *name == label)?;
        let histogram = self.histograms[index].as_ref()?;
        Some(Nanos::new(histogram.value_at_quantile(share)))
    }

    /// Returns the non-empty buckets of one label: the highest value of each, and its count.
    pub fn buckets(&self, label: &str) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let index = self.labels.iter().position(|name| *name == label);
        let histogram = index.and_then(|index| self.histograms[index].as_ref());
        histogram.into_iter().flat_map(|histogram| {
            let recorded = histogram.iter_recorded();
            recorded.map(|step| {
                (
                    Nanos::new(step.value_iterated_to()),
                    step.count_since_last_iteration(),
                )
            })
        })
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
}
