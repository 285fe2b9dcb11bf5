//! The advice of several plans on one page.

use super::*;
use crate::report::summary::{Summary, has_losses, has_times};

/// Returns a report whose rows have these figures of a power cut: MiB lost, and MiB wrong.
fn losses(rows: &[(f64, f64)]) -> Report {
    let text = PLAN.replace("\"sizes\"", "\"cuts\"");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let mut records = records(&plan, &[1.0; 4]);
    for (record, (lost, wrong)) in records.iter_mut().zip(rows) {
        let metrics = &mut record.measured.metrics;
        metrics.insert("lost_bytes".to_owned(), lost * 1_048_576.0);
        metrics.insert("wrong_bytes".to_owned(), wrong * 1_048_576.0);
        metrics.insert("lost_age".to_owned(), 3.0);
    }
    Report::new(&plan, &records)
}

/// Returns five times around a mean.
fn around(time: f64) -> [f64; 5] {
    [-1.0, 0.4, 0.2, -0.6, 1.0].map(|off| time + off)
}

/// Returns a report of five trials of each row: internal, 4 MB, 8 MB, 16 MB.
fn of_five(times: [[f64; 5]; 4]) -> Report {
    let text = PLAN.replace("question", "repetitions = 5\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    Report::new(&plan, &records(&plan, &times.concat()))
}

/// Returns a report in which 16 MB has the highest mean, and is hardly better than 8 MB.
fn nearly_equal() -> Report {
    let nearly = [78.0, 81.0, 79.0, 80.0, 79.5];
    of_five([around(100.0), around(110.0), around(80.0), nearly])
}

#[test]
fn each_group_has_a_line_with_the_first_row_that_is_as_good() {
    let reports = [nearly_equal()];
    let said = Summary::of(&reports, None).text();
    assert!(said.starts_with("sizes: How large?\n"), "{said}");
    assert!(said.contains("┆ 8 MB ┆ +25.0 % [24."), "{said}");
    assert!(said.contains("Gains are over internal,"), "{said}");
    assert!(said.contains("trials: 5 of each row."), "{said}");
    let json = Summary::of(&reports, None).json();
    let line = &json["plans"][0]["lines"][0];
    assert_eq!(
        (&line["take"], &line["baseline"]),
        (&"8 MB".into(), &"internal".into())
    );
    assert!(
        line["gain"]
            .as_f64()
            .is_some_and(|gain| (gain - 0.25).abs() < 0.01)
    );
}

/// A row that is not certain to be close behind the best is not as good.
#[test]
fn a_row_that_may_be_far_behind_is_not_taken() {
    let wide = [70.0, 92.0, 75.0, 88.0, 80.0];
    let reports = [of_five([around(100.0), around(110.0), wide, around(79.0)])];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("┆ 16 MB ┆ +26"), "{said}");
}

/// A baseline is not advised if it has wrong data itself, nor if all others have.
#[test]
fn advice_without_wrong_data_needs_rows_without() {
    let reports = [of_five([100.0, 90.0, 80.0, 70.0].map(around))];
    for rows in [
        [(1.0, 1.0), (2.0, 0.0), (3.0, 0.0), (4.0, 1.0)],
        [(1.0, 0.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)],
    ] {
        let loss = losses(&rows);
        let said = Summary::of(&reports, Some(&loss)).text();
        assert!(said.contains("┆ after a cut ┆ 16 MB ┆ +42"), "{said}");
        assert!(!said.contains("┆ none "), "{said}");
    }
}

#[test]
fn what_is_not_decided_is_no_advice() {
    let open = [40.0, 160.0, 70.0, 130.0, 50.0];
    let reports = [of_five([around(100.0), around(110.0), around(120.0), open])];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("┆ undecided ┆ 16 MB: +"), "{said}");
    let json = Summary::of(&reports, None).json();
    let line = &json["plans"][0]["lines"][0];
    assert!(
        line["take"].is_null() && line["highest_mean"] == "16 MB",
        "{line}"
    );
}

/// No row is certain to beat the baseline, and none can beat it by much.
#[test]
fn a_baseline_that_is_as_good_is_taken() {
    let alike = [99.5, 100.9, 99.9, 99.8, 100.4];
    let reports = [of_five([
        around(100.0),
        around(110.0),
        around(120.0),
        alike,
    ])];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("┆ internal ┆ -"), "{said}");
}

#[test]
fn no_gain_and_no_repetition_are_said() {
    let reports = [of_five([100.0, 110.0, 120.0, 130.0].map(around))];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("┆ internal ┆ -"), "{said}");
    let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
    let reports = [Report::new(
        &plan,
        &records(&plan, &[100.0, 90.0, 80.0, 70.0]),
    )];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("One trial each decides nothing"), "{said}");
    let reports = [Report::new(&plan, &records(&plan, &[100.0, 90.0]))];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("  2 trials are missing."), "{said}");
}

/// One row without records does not hide the others.
#[test]
fn a_row_without_records_is_named() {
    let mut report = nearly_equal();
    let row = &mut report.blocks[0].groups[0].rows[1];
    (row.effect, row.count) = (None, 0);
    let said = Summary::of(&[report], None).text();
    assert!(said.contains("┆ 8 MB ┆ +25.0 %"), "{said}");
    assert!(said.contains("sizes: too few trials of 4 MB."), "{said}");
}

#[test]
fn what_a_power_cut_costs_is_said_of_the_rows_that_are_named() {
    let reports = [nearly_equal()];
    let loss = losses(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)]);
    assert!(has_times(&reports[0]) && !has_losses(&reports[0]));
    let said = Summary::of(&reports, Some(&loss)).text();
    let (_, costs) = said
        .split_once("What a power cut costs them, by cuts")
        .expect("its part");
    assert!(costs.contains("┆ internal"), "{costs}");
    assert!(costs.contains("3.00") && !costs.contains("4.00"), "{costs}");
    let mut few = loss;
    few.blocks[0].groups[0].rows.truncate(1);
    let said = Summary::of(&reports, Some(&few)).text();
    assert!(said.contains("cuts has no row for 8 MB."), "{said}");
}

#[test]
fn a_row_with_wrong_data_has_one_without_beside_it() {
    let reports = [of_five([100.0, 90.0, 80.0, 70.0].map(around))];
    let loss = losses(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 1.0)]);
    let said = Summary::of(&reports, Some(&loss)).text();
    assert!(said.contains("┆ after a cut ┆ 16 MB ┆ +42"), "{said}");
    assert!(said.contains("┆ none        ┆ 8 MB  ┆ +25"), "{said}");
}

/// A plan without a baseline has no advice; its figures stand there.
#[test]
fn without_a_baseline_the_figures_are_said() {
    let text = PLAN.replace("[baseline]\njournal = \"internal\"\n", "");
    let text = text.replace("question", "repetitions = 5\nquestion");
    let (text, _) = text.split_once("[[published]]").expect("figures");
    let plan = Plan::parse("p.toml", text).expect("the plan is right");
    let times = [100.0, 110.0, 80.0, 70.0].map(around).concat();
    let reports = [Report::new(&plan, &records(&plan, &times))];
    let summary = Summary::of(&reports, None);
    let said = summary.text();
    assert!(said.contains("┆ 8 MB     ┆  80.0 ± "), "{said}");
    assert!(!said.contains("take"), "{said}");
    assert!(said.contains("trials: 5 of each row."), "{said}");
    let plans = &summary.json()["plans"][0];
    assert!(plans["lines"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(plans["figures"][2]["row"], "8 MB");
    assert_eq!(plans["figures"][2]["trials"], 5);
}
