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
    let count = |verdict| tally.of(verdict);
    assert_eq!(
        [Verdict::Reproduced, Verdict::NotReproduced, Verdict::NotRun].map(count),
        [3, 1, 2],
        "of 5 pairs 3 are with the first figure"
    );
    let document = document(&[reproduction]);
    for part in [
        "**Of 4 claims that were run on simulated machines of the period, 3 (75 %) are reproduced, 3 (75 %) reproduced or explained.**",
        "| simulated, of the period | 4 | 3 | 0 | 0 | 1 | 0 | 0 | 2 |",
        "| [test](#test) | A. Author; B. Author | 3 | 0 | 0 | 1 | 0 | 0 | 2 | +1.00 |",
        "### A. Author",
        "| elapsed: 1s > 5s | 1.5 | reproduced | 1.5 [1.5, 1.5] |",
        "| It takes about two minutes. |  | not reproduced | 20.1 s |",
        "| elapsed, s | 1s | 300 | 30.1 ± 1.91 | 0.10 |",
        "| elapsed, s | never | 100 | not run here |  |",
        "| elapsed, s | 1s > 5s (1.50; 1.50); 1s > 30s (1.51; 1.46) |  |  |  |  |  | 1s > never; 5s > never; 30s > never |",
        "- *From 5 s on it is all the same.* **reproduced**: elapsed s: 20.1 ± 1.27 (5s) and 20.6 ± 1.27 (30s)",
        "- *It takes about two minutes.* **not reproduced**: elapsed s: 20.1 ± 1.27 (5s), claimed 100 to 150",
        "- *Nobody can tell.* **not run here**. There was no such machine.",
        "Why: Because.",
        "| test | 6 | 6 | 6 | Which is faster? |",
    ] {
        assert!(document.contains(part), "{part}\n{document}");
    }
}

/// Two blocks that differ in the data mode, a third that does so in one setting more.
const BLOCKS: &str = r#"
[plan]
name = "NAME"
question = "which is faster?"
repetitions = 2
[fixed]
TARGET
[[block]]
name = "often"
[block.fixed]
fs.commit = 1
[[block]]
name = "rarely"
[block.fixed]
fs.commit = 5
[[block]]
name = "logged"
[block.fixed]
fs.commit = 5
fs.data = "journal"
[[claim]]
text = "Rare commits take twice to three times as long."
source = "SOURCE"
metric = "elapsed"
higher = { block = "rarely" }
lower = { block = "often" }
ratio = [2, 3]
LIMIT
[claim.explained]
blocks = { BLOCK = "logged" }
input = "All data were logged."
source = "C. Author"
"#;

fn blocks(replaced: &[(&str, &str)], times: [f64; 3]) -> Reproduction {
    let defaults = [
        ("NAME", "test"),
        ("TARGET", "device = \"sim:atlas-v-18\""),
        ("SOURCE", "A. Author"),
        ("LIMIT", ""),
        ("BLOCK", "rarely"),
    ];
    let text = replaced
        .iter()
        .chain(&defaults)
        .fold(BLOCKS.to_owned(), |text, (from, to)| text.replace(from, to));
    let plan = Plan::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let trials = plan.trials();
    let records = trials.iter().map(|trial| {
        let mut measured = Measured::default();
        let time = times[trial.block] * f64::from(trial.repetition + 1);
        measured.metrics.insert("elapsed".to_owned(), time);
        Record::new(&plan, trial, 0, 1.0, measured)
    });
    let records = records.collect();
    Reproduction::of(plan, records)
}

#[test]
fn one_sourced_input_explains_a_claim() {
    for (times, expected) in [
        ([10.0, 25.0, 10.0], Verdict::Reproduced),
        ([10.0, 11.0, 25.0], Verdict::Explained),
        ([10.0, 9.0, 15.0], Verdict::Explained),
        ([10.0, 11.0, 12.0], Verdict::DirectionOnly),
        ([10.0, 9.0, 90.1], Verdict::NotReproduced),
    ] {
        let verdict = blocks(&[], times).claims[0].verdict;
        assert_eq!(verdict, expected, "{times:?}");
    }
    let document = document(&[blocks(&[], [10.0, 11.0, 25.0])]);
    for part in [
        "0 (0 %) are reproduced, 1 (100 %) reproduced or explained",
        "Also run (logged for rarely): All data were logged. (C. Author).",
        "| 2 to 3 | explained | 1.1 [1.1, 1.1] |",
    ] {
        assert!(document.contains(part), "{part}\n{document}");
    }
}

#[test]
fn an_explanation_changes_one_setting_only() {
    let text = BLOCKS
        .replace("NAME", "test")
        .replace("TARGET", "device = \"sim:atlas-v-18\"");
    let text = text.replace("LIMIT", "").replace("BLOCK", "often");
    let error = Plan::parse("test.toml", &text).expect_err("commit interval and data mode differ");
    assert!(error.to_string().contains("one setting"), "{error}");
}

#[test]
fn a_run_in_memory_decides_nothing_about_a_disk() {
    let memory = ("TARGET", "target = \"process\"\ndevice = \"mem:64MiB\"");
    let times = [10.0, 25.0, 10.0];
    let verdict = |limit| blocks(&[memory, ("LIMIT", limit)], times).claims[0].verdict;
    assert_eq!(verdict(""), Verdict::InMemory);
    assert_eq!(verdict("limit = \"host\""), Verdict::Reproduced);
    let tally = blocks(&[memory], times).tally();
    assert_eq!((tally.run(), tally.of(Verdict::InMemory)), (0, 1));
}

#[test]
fn a_claim_of_two_plans_and_sources_counts_once() {
    let times = [10.0, 25.0, 10.0];
    let all = [
        blocks(&[], times),
        blocks(&[("NAME", "other"), ("SOURCE", "B. Author")], times),
        blocks(
            &[
                ("NAME", "mounted"),
                ("TARGET", "target = \"kernel:ext4\"\ndevice = \"mem:64MiB\""),
            ],
            times,
        ),
        blocks(
            &[
                ("NAME", "guest"),
                (
                    "TARGET",
                    "target = \"uml:ext3\"\ndevice = \"sim:atlas-v-18\"",
                ),
            ],
            [10.0, 9.0, 10.0],
        ),
    ];
    let claims = distinct(&all);
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].sources, ["A. Author", "B. Author"]);
    assert_eq!(
        claims[0].on(Machines::Simulated).verdict,
        Verdict::Reproduced
    );
    assert_eq!(claims[0].on(Machines::Kernel).verdict, Verdict::InMemory);
    assert_eq!(
        claims[0].on(Machines::Guest).verdict,
        Verdict::NotReproduced
    );
    let text = table(&all);
    assert!(
        text.contains("On simulated machines: 1 claims run, 1 reproduced"),
        "{text}"
    );
    assert!(
        text.contains("On kernel 6.1 with simulated disks: 1 claims run, 0 reproduced"),
        "{text}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|columns| columns <= 100), "{text}");
}

#[test]
fn the_stamp_follows_the_claims() {
    let first = blocks(&[], [1.0; 3]);
    let other = blocks(&[("SOURCE", "B. Author")], [1.0; 3]);
    assert_eq!(
        stamp([&first.plan]),
        stamp::of(std::slice::from_ref(&first))
    );
    assert_ne!(stamp([&first.plan]), stamp([&other.plan]));
    let document = document(std::slice::from_ref(&first));
    assert!(document.contains(&format!("Plans and claims: {}.", stamp([&first.plan]))));
}

#[test]
fn plans_of_guests_have_a_document_and_a_stamp_of_their_own() {
    let guest = [
        ("NAME", "guest"),
        (
            "TARGET",
            "target = \"uml:ext3\"\ndevice = \"sim:atlas-v-18\"",
        ),
    ];
    let times = [10.0, 25.0, 10.0];
    let all = [blocks(&[], times), blocks(&guest, times)];
    let [others, guests] = stamps(all.iter().map(|own| &own.plan));
    let (others, guests) = (others.expect("there is one"), guests.expect("there is one"));
    let text = document(&all);
    for part in [
        others.as_str(),
        &guests,
        "were run by kernel 6.1 on simulated disks",
        "| claim | published | simulated | ours | kernel 6.1, simulated disk | ours |",
        "| 2 to 3 | reproduced | 2.5 [2.5, 2.5] | reproduced | 2.5 [2.5, 2.5] |",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let text = document(&all[1..]);
    assert!(
        text.contains(&guests) && text.contains("--guests"),
        "{text}"
    );
    assert!(
        !text.contains(&others) && !text.contains("| simulated |"),
        "{text}"
    );
}

#[test]
fn claims_that_are_not_reproduced_are_grouped_by_cause() {
    let causes = r#"
[[cause]]
text = "The disk is another one."
claims = ["It takes about two minutes.", "elapsed: 1s > 30s", "elapsed: 1s > 5s"]
[[cause]]
text = "There was no such machine."
claims = ["Nobody can tell."]
[[cause]]
text = "Nothing has this cause."
claims = ["elapsed: 1s > never"]
"#;
    let text = PLAN.replace("REPETITIONS", "2") + causes;
    let plan = Plan::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let times = [[30.0, 30.3], [31.0, 31.2], [40.0, 40.3]];
    let records = plan.trials().into_iter().enumerate().map(|(index, trial)| {
        let mut measured = Measured::default();
        let time = times[index / 2][index % 2];
        measured.metrics.insert("elapsed".to_owned(), time);
        Record::new(&plan, &trial, 0, 1.0, measured)
    });
    let own = Reproduction::of(plan.clone(), records.collect());
    let text = document(std::slice::from_ref(&own));
    for part in [
        "\n## Not reproduced, by cause: simulated\n",
        "| cause | not reproduced | not run here |",
        "| The disk is another one. | 3: elapsed: 1s > 5s; elapsed: 1s > 30s; It takes about two minutes |  |",
        "| There was no such machine. |  | Nobody can tell |",
        "| Nothing has this cause. |  | elapsed: 1s > never |",
        "| not found out | From 5 s on it is all the same |  |",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_ne!(
        stamp([&own.plan]),
        stamp([&Plan {
            causes: Vec::new(),
            ..plan
        }])
    );
    // Plans without causes have no table.
    let text = document(&[reproduction([&[30.0], &[31.0], &[40.0]])]);
    assert!(!text.contains("by cause"), "{text}");
}
