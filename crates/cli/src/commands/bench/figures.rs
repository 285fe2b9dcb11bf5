//! Figures of a benchmark as JSON.

use serde_json::{Map, Value, json};
use workload::{Latencies, Metric};

pub(super) fn metrics_json(metrics: &[Metric]) -> Map<String, Value> {
    metrics
        .iter()
        .map(|metric| {
            let value = json!({ "value": metric.value, "unit": metric.unit.symbol() });
            (metric.name.to_owned(), value)
        })
        .collect()
}

pub(super) fn latencies_json(latencies: Option<&Latencies>) -> Map<String, Value> {
    latencies
        .into_iter()
        .flat_map(Latencies::summaries)
        .map(|(label, s)| {
            let value = json!({
                "count": s.count,
                "mean_ns": s.mean_ns,
                "p50_ns": s.p50.get(),
                "p90_ns": s.p90.get(),
                "p99_ns": s.p99.get(),
                "p999_ns": s.p999.get(),
                "max_ns": s.max.get(),
            });
            (label.to_owned(), value)
        })
        .collect()
}
