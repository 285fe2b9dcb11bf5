//! Compares our results with those of SciPy and statsmodels. See `tests/statistics/vectors.py`.

use serde_json::Value;

use super::rank::{holm, mann_whitney};
use super::{CONFIDENCE, Sample, bootstrap, mean, normal, series, student_quantile};

const TEXT: &str = include_str!("../../tests/statistics/vectors.json");

/// Returns the rows of one kind.
fn rows(kind: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(TEXT).expect("the vectors are JSON");
    let rows = all[kind].as_array().expect("rows of this kind").clone();
    assert!(!rows.is_empty());
    rows
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().expect("a number")
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("an array");
    values
        .iter()
        .map(|v| v.as_f64().expect("a number"))
        .collect()
}

fn sample(value: &Value) -> Sample {
    Sample::new(numbers(value)).expect("a sample")
}

fn near(found: f64, wanted: f64, what: &Value) {
    let error = (found - wanted).abs() / wanted.abs().max(1e-6);
    assert!(error < 1e-8, "{found} is not {wanted}: {what}");
}

#[test]
fn the_normal_distribution() {
    for row in rows("normal") {
        let (x, p) = (number(&row, "x"), number(&row, "cumulative"));
        assert!((normal::cumulative(x) - p).abs() < 1e-15, "{row}");
        if x.abs() < 5.0 {
            near(normal::quantile(p), x, &row);
        }
    }
}

#[test]
fn intervals_of_means() {
    for row in rows("student") {
        near(
            student_quantile(number(&row, "freedom") as u32),
            number(&row, "quantile"),
            &row,
        );
    }
    for row in rows("means") {
        let mean = sample(&row["sample"]).describe();
        let half = mean.half_interval.expect("two values");
        near(mean.value - half, number(&row, "low"), &row);
        near(mean.value + half, number(&row, "high"), &row);
    }
}

#[test]
fn bca_intervals_of_the_same_resamples() {
    for row in rows("bootstrap") {
        let samples: Vec<Vec<f64>> = row["samples"]
            .as_array()
            .expect("samples")
            .iter()
            .map(numbers)
            .collect();
        let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let statistic = |samples: &[&[f64]]| match samples {
            [only] => mean(only),
            [first, second] => mean(first) / mean(second) - 1.0,
            other => panic!("{} samples", other.len()),
        };
        let mut replicates = numbers(&row["replicates"]);
        let found = bootstrap::bca(&samples, statistic, &mut replicates, CONFIDENCE);
        let found = found.expect("there is an interval");
        near(found.low, number(&row, "low"), &row["statistic"]);
        near(found.high, number(&row, "high"), &row["statistic"]);
    }
}

#[test]
fn rank_tests() {
    for row in rows("mann_whitney") {
        let found = mann_whitney(&sample(&row["first"]), &sample(&row["second"]));
        near(found.u, number(&row, "u"), &row);
        near(found.p, number(&row, "p"), &row);
    }
    for row in rows("holm") {
        let wanted = numbers(&row["corrected"]);
        for (found, wanted) in holm(&numbers(&row["p"])).into_iter().zip(wanted) {
            near(found, wanted, &row);
        }
    }
}

#[test]
fn trends() {
    for row in rows("trend") {
        let found = series::trend(&numbers(&row["values"])).expect("enough values");
        near(found.tau, number(&row, "tau"), &row);
        near(found.p, number(&row, "p"), &row);
    }
}
