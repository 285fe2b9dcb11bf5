//! Recommendations, and what single trials and equal rows say.

use super::*;

/// Returns the recommendation for these times of five repetitions each.
fn recommended(times: [[f64; 5]; 4]) -> recommendation::Recommendation {
    let text = PLAN.replace("question", "repetitions = 5\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let report = Report::new(&plan, &records(&plan, &times.concat()));
    let group = &report.blocks[0].groups[0];
    recommendation::Recommendation::of(group).expect("there is a baseline")
}

#[test]
fn the_recommendation_agrees_with_the_p_values() {
    let around = |time: f64| [-1.0, 0.4, 0.2, -0.6, 1.0].map(|off| time + off);
    let noisy = [60.0, 140.0, 90.0, 70.0, 120.0];
    // 16 MB has the better mean, and is not certain to beat 8 MB: the smaller one is enough.
    let own = recommended([
        around(100.0),
        around(110.0),
        around(80.0),
        [78.0, 81.0, 79.0, 80.0, 79.5],
    ]);
    assert!(own.advice.starts_with("Take 8 MB: +25.0 % [24."), "{own:?}");
    assert!(
        own.advice
            .ends_with("over internal. Not certain to differ from it: 16 MB."),
        "{own:?}"
    );
    assert_eq!(own.basis, "It rests on 20 trials, 5 of each row.");
    assert_eq!(
        own.distance.as_deref(),
        Some(
            "The means here differ from the published figures by -11 % to 0 % (median -8 %); 1 of 4 published runs \
             lie within 95 % of runs here."
        )
    );
    let own = recommended([around(100.0), around(110.0), noisy, around(120.0)]);
    assert!(
        own.advice.starts_with(
            "Stay with internal: none is certain to beat it. The highest mean is that of 8 MB: "
        ),
        "{own:?}"
    );
    let own = recommended([around(100.0), around(110.0), around(111.0), around(120.0)]);
    assert_eq!(
        own.advice,
        "Stay with internal: every other is certain to be worse."
    );
    let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
    let report = Report::new(&plan, &records(&plan, &[100.0, 50.0, 95.0, 200.0]));
    let single = recommendation::Recommendation::of(&report.blocks[0].groups[0]);
    assert_eq!(
        single.expect("there is a baseline").advice,
        "No recommendation: one trial of each decides nothing."
    );
}

#[test]
fn where_all_are_alike_that_is_all_there_is_to_say() {
    let report = report(&[100.0, 100.0, 100.0, 100.0]);
    let said = answer::sentences(&report.blocks[0].groups[0]);
    assert_eq!(said, ["No journal is distinguishable from internal."]);
}

#[test]
fn single_trials_name_no_winner() {
    let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
    let report = Report::new(&plan, &records(&plan, &[100.0, 50.0, 95.0, 200.0]));
    let group = &report.blocks[0].groups[0];
    assert_eq!(group.findings.ours.first_gain, None);
    assert_eq!(
        answer::sentences(group),
        [
            "One trial each decides nothing; the gains over internal in it are 4 MB +100.0 %, 8 MB +5.3 %, 16 MB -50.0 %."
        ]
    );
    assert_eq!(report.warnings, [Warning::NotRepeated]);
    let text = report.text(false);
    assert!(
        text.contains("+100.0 % ?") && text.contains("?  may be chance"),
        "{text}"
    );
}
