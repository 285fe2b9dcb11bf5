//! The advice of several plans on one page.

use super::*;
use crate::report::summary::Summary;

/// Returns a report whose rows have these figures of a power cut.
fn losses(lost: &[f64]) -> Report {
    let text = PLAN.replace("\"sizes\"", "\"cuts\"");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let mut records = records(&plan, &[1.0; 4]);
    for (record, lost) in records.iter_mut().zip(lost) {
        let metrics = &mut record.measured.metrics;
        metrics.insert("lost_bytes".to_owned(), lost * 1_048_576.0);
        metrics.insert("lost_age".to_owned(), 3.0);
    }
    Report::new(&plan, &records)
}

/// Returns a report in which 16 MB has the highest mean, and is not certain to beat 8 MB.
fn nearly_equal() -> Report {
    let text = PLAN.replace("question", "repetitions = 5\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let around = |time: f64| [-1.0, 0.4, 0.2, -0.6, 1.0].map(|off| time + off);
    let nearly = [78.0, 81.0, 79.0, 80.0, 79.5];
    let times = [around(100.0), around(110.0), around(80.0), nearly];
    Report::new(&plan, &records(&plan, &times.concat()))
}

#[test]
fn each_group_has_a_line_with_the_smallest_that_is_as_good() {
    let reports = [nearly_equal()];
    let said = Summary::of(&reports, None).text();
    assert!(said.starts_with("sizes: How large?\n"), "{said}");
    assert!(said.contains("┆ 8 MB ┆ +25.0 % [24."), "{said}");
    assert!(said.contains("┆ 8 MB         │"), "{said}");
    assert!(said.contains("│ sizes ┆"), "{said}");
    assert!(
        said.contains("Gains are over internal; 5 of each row."),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn rows_without_an_order_have_the_best_and_the_first_that_is_as_good() {
    let mut report = nearly_equal();
    for row in &mut report.blocks[0].groups[0].rows {
        row.position = None;
    }
    let said = Summary::of(&[report], None).text();
    let line = said.lines().find(|line| line.contains('%')).expect("a row");
    let cells: Vec<&str> = line.split('┆').map(str::trim).collect();
    assert_eq!(cells[1], "16 MB");
    assert_eq!(cells[3].trim_end_matches([' ', '│']), "8 MB");
}

#[test]
fn no_gain_and_no_repetition_are_said() {
    let reports = [report(&[100.0, 110.0, 120.0, 130.0])];
    let said = Summary::of(&reports, None).text();
    assert!(said.contains("┆ internal ┆ -    ┆ internal"), "{said}");
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

#[test]
fn what_a_power_cut_costs_is_said_of_the_rows_that_are_named() {
    let reports = [nearly_equal()];
    let loss = losses(&[1.0, 2.0, 3.0, 4.0]);
    let said = Summary::of(&reports, Some(&loss)).text();
    let (_, costs) = said
        .split_once("What a power cut costs them, by cuts")
        .expect("its part");
    assert!(costs.contains("┆ internal"), "{costs}");
    assert!(costs.contains("3.00") && !costs.contains("4.00"), "{costs}");
    let mut few = losses(&[1.0; 4]);
    few.blocks[0].groups[0].rows.truncate(1);
    let said = Summary::of(&reports, Some(&few)).text();
    assert!(said.contains("cuts has no row for 8 MB."), "{said}");
}
