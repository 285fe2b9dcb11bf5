//! The data for the page's script.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::view::View;
use crate::metric::{self, METRICS, MetricKind};
use crate::report::{Group, Row};
use crate::timeline::{COUNTED, Timeline};

/// Maximum number of single trials in a chart that remains readable.
const TRIALS_MAX: usize = 60;
/// The quantiles of a latency curve.
const QUANTILES: [f64; 18] = [
    0.0, 0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998,
    0.9999, 1.0,
];

/// Returns the figures of a page: those of [`METRICS`] that a row has, and its groups in order.
pub(super) fn of(views: &[View<'_>]) -> Value {
    let metrics: Map<String, Value> = METRICS
        .iter()
        .map(|kind| {
            let unit = kind.display.unit;
            let described = json!({
                "title": kind.title,
                "unit": unit,
                "scale": metric::scale_of(unit).unwrap_or(1.0),
            });
            (kind.name.to_owned(), described)
        })
        .collect();
    let groups = views.iter().map(|view| group(&view.group));
    json!({
        "metrics": metrics,
        "groups": groups.collect::<Vec<_>>(),
    })
}

fn group(group: &Group) -> Value {
    json!({
        "factors": group.factors,
        "primary": group.primary.name,
        "calls": calls(group),
        "rows": group.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Returns the kinds of calls whose latencies the rows have, each with its share of the time of all
/// calls, the largest first.
fn calls(group: &Group) -> Vec<Value> {
    let mut times: BTreeMap<&str, f64> = BTreeMap::new();
    for (kind, buckets) in group.rows.iter().flat_map(|row| &row.latencies) {
        let time = buckets
            .iter()
            .map(|(nanos, count)| *nanos as f64 * *count as f64);
        *times.entry(kind).or_default() += time.sum::<f64>();
    }
    let all: f64 = times.values().sum();
    let mut calls: Vec<(&str, f64)> = times.into_iter().collect();
    calls.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let share = |time: f64| if all > 0.0 { time / all } else { 0.0 };
    calls
        .into_iter()
        .map(|(kind, time)| json!([kind, share(time)]))
        .collect()
}

fn row(row: &Row) -> Value {
    let figures: Map<String, Value> = row
        .figures
        .iter()
        .map(|(name, mean)| {
            let value = json!([mean.value, mean.half_interval, mean.count]);
            ((*name).to_owned(), value)
        })
        .collect();
    let trials: Vec<f64> = row.trials.values().copied().take(TRIALS_MAX).collect();
    let latencies: Map<String, Value> = row
        .latencies
        .iter()
        .map(|(kind, buckets)| (kind.clone(), quantiles(buckets).into()))
        .collect();
    json!({
        "label": row.label(),
        "position": row.position,
        "baseline": row.is_baseline,
        "figures": figures,
        "published": row.published,
        "trials": trials,
        "runs": row.runs.map(|runs| [runs.low, runs.high]),
        "latencies": latencies,
        "timeline": row.timeline.as_ref().map(timeline),
    })
}

/// Returns a timeline with its counters in the order of an engine's work, each with its title;
/// waits are in seconds.
fn timeline(timeline: &Timeline) -> Value {
    let counted = COUNTED.iter().filter_map(|(name, _)| {
        let counts = timeline.counters.get(*name)?;
        let figure = name.trim_end_matches("_ns");
        let title = MetricKind::named(figure).map_or(figure, |kind| kind.title);
        let is_time = figure != *name;
        Some(json!({ "title": title, "isTime": is_time, "counts": counts }))
    });
    let phases = timeline.phases.iter().filter(|phase| phase.took_ns > 0);
    json!({
        "interval": timeline.interval_ns,
        "calls": timeline.calls,
        "counted": counted.collect::<Vec<_>>(),
        "phases": phases
            .map(|phase| json!([phase.name, phase.began_ns, phase.took_ns]))
            .collect::<Vec<_>>(),
    })
}

/// Returns the latency at each of [`QUANTILES`].
fn quantiles(buckets: &[(u64, u64)]) -> Vec<Value> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut at = 0;
    let mut seen = 0;
    let mut found = Vec::with_capacity(QUANTILES.len());
    for share in QUANTILES {
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        while at < buckets.len() && seen + buckets[at].1 < wanted {
            seen += buckets[at].1;
            at += 1;
        }
        found.extend(buckets.get(at).map(|(nanos, _)| json!([share, nanos])));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_buckets() {
        let found = quantiles(&[(10, 90), (20, 9), (1000, 1)]);
        let at = |share: f64| {
            let mut all = found.iter();
            all.find(|pair| pair[0] == share)
                .map(|pair| pair[1].clone())
        };
        assert_eq!(at(0.0), Some(10.into()));
        assert_eq!(at(0.9), Some(10.into()));
        assert_eq!(at(0.95), Some(20.into()));
        assert_eq!(at(0.99), Some(20.into()));
        assert_eq!(at(1.0), Some(1000.into()));
        assert!(quantiles(&[]).is_empty());
    }
}
