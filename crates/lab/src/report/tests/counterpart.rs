//! Figures of the engine beside those of a guest.

use std::convert::Infallible;

use super::*;

const GUEST: &str = r#"
[plan]
name = "guest"
question = "How large on a kernel?"
claims_of = [{ plan = "external-journal", blocks = { "linux-2.4" = "old" } }]
[fixed]
target = "uml:ext3"
workload = "postmark"
device = "sim:atlas-v-18"
postmark.size = [1000, 100000]
postmark.number = 4000
postmark.transactions = 50000
[factors]
journal = ["internal", { label = "4 MB", value = "sim(ramdisk,capacity=4100KiB)" },
           { label = "8 MB", value = "sim(ramdisk,capacity=8MiB)" },
           { label = "16 MB", value = "sim(ramdisk,capacity=16MiB)" },
           { label = "32 MB", value = "sim(ramdisk,capacity=32MiB)" },
           { label = "64 MB", value = "sim(ramdisk,capacity=64MiB)" },
           { label = "128 MB", value = "sim(ramdisk,capacity=128MiB)" }, { label = "5 MB", value = "nvram:5MiB" }]
[baseline]
journal = "internal"
[[block]]
name = "old"
[[block]]
name = "new"
"#;

/// Returns a report whose rows are `text`'s, with the engine at 200 s in every cell of the
/// block `linux-2.4`.
fn beside(text: &str) -> Report {
    beside_engine(text, &[200.0])
}

/// The same; the engine has these times in turn.
fn beside_engine(text: &str, times: &[f64]) -> Report {
    let plan = Plan::parse("p.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let trials = vec![100.0; plan.trials().len()];
    let briefs: Vec<Brief> = records(&plan, &trials).iter().map(Brief::from).collect();
    let counterparts = Counterparts::of(&plan, |theirs| -> Result<Vec<Brief>, Infallible> {
        assert_eq!(theirs.name, "external-journal");
        let theirs = theirs.clone().repeated(times.len() as u32);
        let times = times.iter().copied().cycle();
        let times: Vec<f64> = times.take(theirs.trials().len()).collect();
        let all = records(&theirs, &times);
        let old = all
            .iter()
            .filter(|record| record.context.combination.contains("linux-2.4"));
        Ok(old.map(Brief::from).collect())
    });
    let counterparts = counterparts.unwrap_or_else(|never| match never {});
    Report::of(&plan, &briefs, &counterparts)
}

fn engine(report: &Report, block: usize) -> Vec<Option<f64>> {
    let rows = report.blocks[block].groups[0].rows.iter();
    rows.map(|row| row.engine.map(|mean| mean.value)).collect()
}

#[test]
fn the_engine_stands_beside_the_kernel_in_cells_that_are_alike() {
    let report = beside(GUEST);
    let alike = Some(200.0);
    assert_eq!(
        engine(&report, 0),
        [alike, alike, alike, alike, alike, alike, alike, None]
    );
    assert_eq!(engine(&report, 1), [None; 8]);
    assert_eq!(
        report.blocks[0].groups[0].rows[1].against_engine("elapsed"),
        Some(-0.5)
    );
    assert_eq!(report.counterparts, ["external-journal"]);
    let text = report.text(false);
    assert!(
        text.contains("-50.0 %") && text.contains("external-journal; without an interval"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn another_workload_is_no_counterpart() {
    let report = beside(&GUEST.replace("50000", "5000"));
    assert_eq!(engine(&report, 0), [None; 8]);
    assert!(report.counterparts.is_empty());
    assert!(!report.text(false).contains("engine"));
}

#[test]
fn only_a_guest_has_counterparts() {
    let text = GUEST.replace("uml:ext3", "simulated");
    let plan = Plan::parse("p.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let none = Counterparts::of(&plan, |_| -> Result<Vec<Brief>, ()> { Err(()) });
    assert!(none.is_ok());
}

#[test]
fn the_engines_figure_has_its_interval() {
    let report = beside_engine(GUEST, &[198.0, 200.0, 202.0]);
    let text = report.text(false);
    // Student's t of two degrees of freedom: 4.303 * 2 / sqrt(3).
    assert!(text.contains("200.0 ± 5.0"), "{text}");
    let row = &report.json()["blocks"][0]["groups"][0]["rows"][0];
    assert_eq!(row["engine"], 200.0);
    let half = row["engine_half_interval_95"].as_f64();
    assert!(
        half.is_some_and(|half| (half - 4.968).abs() < 0.01),
        "{row}"
    );
    let text = beside(GUEST).text(false);
    assert!(
        !text.contains("200.0 ±"),
        "one trial has no interval: {text}"
    );
}
