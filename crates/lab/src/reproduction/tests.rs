//! Decisions on claims.

use super::*;
use crate::record::Measured;

const PLAN: &str = r#"
[plan]
name = "test"
question = "which is faster?"
repetitions = REPETITIONS
[fixed]
device = "sim:atlas-v-18"
[factors]
fs.commit = [1, 5, 30]
[[published]]
by = "fs.commit"
values = { 1s = 300, 5s = 200, 30s = 199 }
absent = { never = 100 }
metric = "elapsed"
unit = "s"
source = "A. Author"
why = "Because."
[[claim]]
text = "From 5 s on it is all the same."
source = "A. Author"
metric = "elapsed"
like = { fs.commit = 5 }
as = { fs.commit = 30 }
[[claim]]
text = "It takes about two minutes."
source = "A. Author"
at = { fs.commit = 5 }
metric = "elapsed"
between = [100, 150]
unit = "s"
[[claim]]
text = "Nobody can tell."
source = "B. Author"
why = "There was no such machine."
"#;

/// Returns a reproduction with these elapsed times for each level, one per repetition.
fn reproduction(times: [&[f64]; 3]) -> Reproduction {
    let text = PLAN.replace("REPETITIONS", &times[0].len().max(1).to_string());
    let plan = Plan::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let trials = plan.trials();
    let of_level = |index: usize| times[index / times[0].len().max(1)];
    let records = trials.iter().enumerate().filter_map(|(index, trial)| {
        let time = of_level(index).get(trial.repetition as usize)?;
        let mut measured = Measured::default();
        measured.metrics.insert("elapsed".to_owned(), *time);
        Some(Record::new(&plan, trial, 0, 1.0, measured))
    });
    let records = records.collect();
    Reproduction::of(plan, records)
}

fn verdicts(reproduction: &Reproduction) -> Vec<(String, Verdict)> {
    let orders = reproduction.orders.iter();
    orders
        .map(|order| (format!("{} > {}", order.higher, order.lower), order.verdict))
        .collect()
}

#[test]
fn orders_follow_from_published_figures_and_are_decided_by_ours() {
    use Verdict::{DirectionOnly, NotReproduced, NotRun, Reproduced, Undecided};
    let check = |times: [&[f64]; 3], expected: [Verdict; 2]| {
        let found = verdicts(&reproduction(times));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        // 5 s and 30 s are a tie.
        let all = [
            "1s > 5s",
            "1s > 30s",
            "1s > never",
            "5s > never",
            "30s > never",
        ];
        assert_eq!(names, all);
        assert_eq!([found[0].1, found[1].1], expected, "{times:?}");
        assert!(found[2..].iter().all(|(_, verdict)| *verdict == NotRun));
    };
    check(
        [&[30.0, 31.0], &[20.0, 20.6], &[31.2, 32.3]],
        [Reproduced, NotReproduced],
    );
    check([&[30.0], &[20.0], &[20.0]], [Undecided, Undecided]);
    // The means differ, within the noise; or by much more than was published.
    check(
        [&[10.0, 30.0, 50.0], &[12.0, 28.0, 47.0], &[1.0, 3.1, 5.2]],
        [Undecided, DirectionOnly],
    );
    check([&[], &[], &[]], [NotRun, NotRun]);
}

#[test]
fn claims_are_decided_by_their_own_rule() {
    let check = |times: [&[f64]; 3], expected: [&str; 3]| {
        let reproduction = reproduction(times);
        let found = reproduction.claims.iter().map(|own| own.verdict.name());
        assert_eq!(found.collect::<Vec<_>>(), expected, "{times:?}");
    };
    check(
        [&[1.0, 1.0], &[120.0, 121.0], &[124.0, 125.1]],
        ["reproduced", "reproduced", "not run here"],
    );
    check(
        [&[1.0, 1.0], &[160.0, 161.0], &[120.0, 121.0]],
        ["not reproduced", "not reproduced", "not run here"],
    );
    check(
        [&[1.0], &[120.0], &[120.0]],
        ["undecided", "undecided", "not run here"],
    );
    check([&[], &[], &[]], ["not run here"; 3]);
}

#[test]
fn the_document_has_the_sum_every_figure_and_every_reason() {
    let times: [&[f64]; 3] = [&[30.0, 30.3], &[20.0, 20.2], &[20.5, 20.7]];
    let reproduction = reproduction(times);
    let tally = reproduction.tally();
    assert_eq!(
        (tally.reproduced, tally.not_reproduced, tally.not_run),
        (3, 1, 4)
    );
    let document = document(&[reproduction]);
    for part in [
        "**3 of the 4 claims that were run here are reproduced**, 0 more in their direction only;",
        "| [test](#test) | A. Author; B. Author | 3 | 0 | 1 | 0 | 4 | +1.00 |",
        "| elapsed, s | 1s | 300 | 30.1 ± 1.91 | 0.10 |",
        "| elapsed, s | never | 100 | not run here |  |",
        "| elapsed, s | 1s > 5s (1.50; 1.50); 1s > 30s (1.51; 1.46) |  |  |  | 1s > never; 5s > never; 30s > never |",
        "- *From 5 s on it is all the same.* **reproduced**: elapsed s: 20.1 ± 1.27 (5s) and 20.6 ± 1.27 (30s)",
        "- *It takes about two minutes.* **not reproduced**: elapsed s: 20.1 ± 1.27 (5s), claimed 100 to 150",
        "- *Nobody can tell.* **not run here**. There was no such machine.",
        "Why: Because.",
        "| test | 6 | 6 | 6 | Which is faster? |",
    ] {
        assert!(document.contains(part), "{part}\n{document}");
    }
}
