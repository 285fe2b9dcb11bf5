//! Causes of claims, and the reasons that are not taken from another plan.

use super::*;

const PLAN: &str = r#"
[plan]
name = "p"
question = "which?"
[fixed]
device = "sim:atlas-v-18"
[factors]
fs.commit = [1, 5, 30]
[[published]]
by = "fs.commit"
values = { 1s = 300, 5s = 200, 30s = 199 }
metric = "elapsed"
unit = "s"
source = "a test"
[[claim]]
text = "It is all the same."
source = "a test"
metric = "elapsed"
like = { fs.commit = 5 }
as = { fs.commit = 30 }
"#;

fn with(cause: &str) -> Result<Plan, PlanError> {
    Plan::parse(
        "p.toml",
        &format!("{PLAN}[[cause]]\ntext = \"Because.\"\n{cause}\n"),
    )
}

#[test]
fn a_cause_names_claims_of_its_plan() {
    let plan = with(r#"claims = ["It is all the same.", "elapsed: 1s > 30s"]"#)
        .unwrap_or_else(|error| panic!("{error}"));
    for claim in ["It is all the same.", "elapsed: 1s > 30s"] {
        assert_eq!(plan.cause_of(claim), Some("Because."));
    }
    assert_eq!(plan.cause_of("elapsed: 1s > 5s"), None);
    let without = Plan::parse("p.toml", PLAN).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.hash(), without.hash(), "records stay valid");
}

#[test]
fn a_cause_of_an_unknown_claim_is_an_error_with_its_line() {
    for (cause, part) in [
        (r#"claims = ["elapsed: 5s > 1s"]"#, "there is no claim"),
        // A pair without the first figure is no claim, nor is a tie.
        (r#"claims = ["elapsed: 5s > 30s"]"#, "there is no claim"),
        (
            r#"claims = ["It is all the same.", "It is all the same."]"#,
            "two causes",
        ),
        ("claims = []", "expected texts or names of claims"),
        ("claims = [5]", "expected texts or names of claims"),
        ("", "needs `claims`"),
        (
            "claims = [\"It is all the same.\"]\nwhy = 1",
            "unknown key `why`",
        ),
    ] {
        let error = with(cause).expect_err(cause).to_string();
        assert!(error.contains(part), "{cause}: {error}");
        assert!(error.contains("p.toml:2"), "{cause}: {error}");
    }
}

#[test]
fn reasons_of_another_plan_are_not_taken() {
    let mut count = 0;
    for builtin in builtin::ALL {
        let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
        for taken in &plan.taken {
            let theirs = taken.plan.plan().unwrap_or_else(|error| panic!("{error}"));
            let reasons = theirs
                .published_sets
                .iter()
                .filter_map(|set| set.why.as_ref());
            let reasons = reasons.chain(theirs.claims.iter().filter_map(|own| own.why.as_ref()));
            let own_sets = plan
                .published_sets
                .iter()
                .filter_map(|set| set.why.as_ref());
            let own = own_sets.chain(plan.claims.iter().filter_map(|own| own.why.as_ref()));
            let own: Vec<&String> = own.collect();
            for reason in reasons {
                assert!(!own.contains(&reason), "{}: {reason}", plan.name);
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}");
}
