//! The plan format: every error names its line.

mod causes;
mod presets;

use super::*;

/// Lines 1 to 8; the text under test starts on line 9.
const HEAD: &str = "\
[plan]
name = \"test\"
question = \"Does it parse?\"
seed = 7

[fixed]
device = \"sim:atlas-v-18\"

";

fn parse(rest: &str) -> Result<Plan, PlanError> {
    Plan::parse("test.toml", &format!("{HEAD}{rest}"))
}

fn good(rest: &str) -> Plan {
    parse(rest).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn errors_have_their_line() {
    let check = |rest: &str, expected: &str| {
        let error = parse(rest).expect_err(rest).to_string();
        assert!(
            error.starts_with(expected),
            "{rest:?}\n found: {error}\nwanted: {expected}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    check(
        "fs.comit = 5",
        "test.toml:9: unknown key `fs.comit` (did you mean `fs.commit`?)",
    );
    check(
        "postmark.number = 0",
        "test.toml:9: postmark.number: expected a whole number from 1 to",
    );
    check(
        "fs.type = \"ext5\"",
        "test.toml:9: fs.type: expected \"ext2\", \"ext3\" or \"ext4\", found \"ext5\"",
    );
    check(
        "[fs]\ntype = 1",
        "test.toml:9: unknown key `fs` in the plan",
    );
    check(
        "[factor]\n",
        "test.toml:9: unknown key `factor` in the plan",
    );
    check(
        "[factors]\njournal = \"internal\"",
        "test.toml:10: journal: expected an array of levels",
    );
    check(
        "[factors]\njournal = []",
        "test.toml:10: journal: expected an array of levels",
    );
    check(
        "[factors]\nfs.commit = [1,\n 5,\n 1]",
        "test.toml:12: fs.commit: the level 1s is listed twice",
    );
    check(
        "[factors]\ndevice = [\"sim:atlas-v-9\"]",
        "test.toml:7: device is both fixed and a factor",
    );
    check(
        "[baseline]\njournal = \"internal\"",
        "test.toml:10: baseline: journal is not a factor",
    );
    check(
        "[factors]\njournal = [\"internal\"]\n[baseline]\njournal = \"nvram:4MiB\"",
        "test.toml:12: journal: \"nvram:4MiB\" is not one of its levels: internal",
    );
    check(
        "[factors]\nfs.commit = [{ label = \"x\", valu = 1 }]",
        "test.toml:10: a level needs `value`",
    );
    check(
        "[factors]\njournal = [\"internal\"]\nfs.commit = [{ label = \"x\", value = 1, with = { journal = \"nvram:4MiB\" } }]",
        "test.toml:11: journal is both a factor and set with a level",
    );
    check(
        "[factors]\nfs.data = [\"ordered\"]\n[[block]]\nname = \"b\"\n[block.factors]\nfs.commit = [{ label = \"x\", value = 1, with = { fs.data = \"journal\" } }]",
        "test.toml:14: fs.data is both a factor and set with a level",
    );
    check(
        "[factors]\nfs.data = [{ label = \"o\", value = \"ordered\", with = { memory.host = \"1GiB\" } }]\nfs.commit = [{ label = \"x\", value = 1, with = { memory.host = \"2GiB\" } }]",
        "test.toml:11: memory.host is set with levels of two factors",
    );
    check(
        "journal = \"nvram(\"",
        "test.toml:9: journal: device \"nvram(\": column",
    );
    check("fs.commit = ", "test.toml:9: ");
}

#[test]
fn settings_that_do_not_go_together_have_the_line_of_the_last() {
    let error = parse("fs.type = \"ext2\"\n[factors]\njournal = [\n \"none\",\n \"internal\",\n]");
    let error = error.expect_err("ext2 has no journal").to_string();
    assert_eq!(
        error,
        "test.toml:13: journal: ext2 has none; set \"none\" (internal)"
    );
    let error = parse("cache.dirty_background = 70")
        .expect_err("more than dirty")
        .to_string();
    assert!(
        error.starts_with("test.toml:9: cache.dirty_background: 70 % is more"),
        "{error}"
    );
}

#[test]
fn the_head_is_closed_too() {
    let check = |text: &str, expected: &str| {
        let error = Plan::parse("p.toml", text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check("", "p.toml:1: the plan needs `plan`");
    check("[plan]\nname = \"a\"", "p.toml:1: [plan] needs `question`");
    check(
        "[plan]\nname = \"A b\"\nquestion = \"?\"",
        "p.toml:2: name: expected lower-case letters",
    );
    check(
        "[plan]\nname = \"a\"\nquestion = \"?\"\nsed = 1",
        "p.toml:4: unknown key `sed` in [plan]",
    );
    check(
        "[plan]\nname = \"a\"\nquestion = \"?\"\nrepetitions = 0",
        "p.toml:4: repetitions: expected a whole number from 1 to",
    );
    check(
        "[plan]\nname = \"a\"\nquestion = \"?\"\nwarmup = 1\n[fixed]\ndevice = \"sim:atlas-v-18\"",
        "p.toml:1: warmup: a simulated trial",
    );
}

#[test]
fn published_figures_are_checked_and_scaled() {
    let of = |lines: &str| {
        parse(&format!(
            "[factors]\nfs.commit = [1, 5]\n[[published]]\nat = {{ fs.commit = 5 }}\n{lines}"
        ))
    };
    let plan =
        of("metric = \"read_rate\"\nvalue = 2.5\nunit = \"MiB/s\"\nsource = \"s\"").expect("right");
    assert_eq!(plan.published[0].value, 2.5 * 1_048_576.0);
    let trials = plan.trials();
    assert!(!plan.published[0].is_at(&trials[0]));
    assert!(plan.published[0].is_at(&trials[1]));
    let error = |lines: &str| of(lines).expect_err(lines).to_string();
    let unit = error("metric = \"read_rate\"\nvalue = 2\nunit = \"s\"\nsource = \"s\"");
    assert_eq!(unit, "test.toml:15: unit: \"s\" does not measure read_rate");
    let metric = error("metric = \"speed\"\nvalue = 2\nunit = \"s\"\nsource = \"s\"");
    assert_eq!(metric, "test.toml:13: unknown metric \"speed\"");
    let block =
        error("block = \"x\"\nmetric = \"elapsed\"\nvalue = 2\nunit = \"s\"\nsource = \"s\"");
    assert!(block.ends_with("there is no block \"x\""), "{block}");
}

#[test]
fn trials_are_the_product_in_the_plans_order() {
    let plan = good("[factors]\nmemory.host = [\"256MiB\", \"512MiB\"]\nfs.commit = [1, 5, 30]");
    let names: Vec<String> = plan.trials().iter().map(Trial::name).collect();
    let expected = [
        "256MiB, 1s",
        "256MiB, 5s",
        "256MiB, 30s",
        "512MiB, 1s",
        "512MiB, 5s",
        "512MiB, 30s",
    ];
    assert_eq!(names, expected);
    let repeated = Plan {
        repetitions: 2,
        ..plan
    };
    let trials = repeated.trials();
    assert_eq!(trials.len(), 12);
    assert_eq!((trials[0].repetition, trials[1].repetition), (0, 1));
    assert_eq!(trials[0].levels, trials[1].levels);
}

#[test]
fn a_level_may_set_other_keys() {
    let alone = good("[factors]\nfs.commit = [1, 5]");
    let plan = good(
        "[factors]\nfs.commit = [1, { label = \"5s\", value = 5, with = { memory.host = \"256MiB\" } }]",
    );
    let memory = |plan: &Plan, index: usize| {
        let settings = &plan.trials()[index].settings;
        settings.get("memory.host").map(ToString::to_string)
    };
    assert_eq!(memory(&plan, 0), memory(&alone, 0));
    assert_eq!(memory(&plan, 1).as_deref(), Some("256MiB"));
    assert_eq!(plan.trials()[1].id(), alone.trials()[1].id());
    assert_ne!(plan.hash(), alone.hash());
}

#[test]
fn a_repetition_meets_the_same_chance_in_every_combination() {
    let rest = "[factors]\nfs.commit = [1, 5]\n[[block]]\nname = \"x\"\n[[block]]\nname = \"y\"";
    let chances = |vary: &str, seed: u64| {
        let plan = good(&format!("vary = \"{vary}\"\n{rest}"));
        let plan = Plan {
            repetitions: 3,
            seed,
            ..plan
        };
        let trials = plan.trials();
        assert_eq!(trials.len(), 4 * 3);
        let first: Vec<Replica> = trials[..3].iter().map(|trial| trial.replica).collect();
        for own in trials.chunks(3) {
            let own: Vec<Replica> = own.iter().map(|trial| trial.replica).collect();
            assert_eq!(own, first);
        }
        first
    };
    let both = chances("both", 1);
    assert!(both[1].is_perturbed && both[1].workload_seed.is_some());
    assert_ne!(both[1], both[2]);
    let world = chances("world", 1);
    assert_eq!(
        (world[1].seed, world[1].workload_seed),
        (both[1].seed, None)
    );
    assert_ne!(chances("world", 2)[1], world[1], "another plan's seed");
    // Pinned: records of earlier versions name it.
    assert_eq!(format!("{:016x}", world[1].seed), SEED_OF_REPETITION_1);
}

const SEED_OF_REPETITION_1: &str = "2a94c67c1b94bd20";

#[test]
fn the_hash_is_over_what_decides_results() {
    let hash = |rest: &str| good(rest).hash();
    let base = hash("[factors]\nfs.commit = [1, 5]");
    assert_eq!(
        base,
        hash("# a remark\n[factors]\nfs.commit = [\"1s\", { label = \"x\", value = 5 }]")
    );
    assert_eq!(
        base,
        hash("fs.barrier = true\n[factors]\nfs.commit = [1, 5]"),
        "the default"
    );
    assert_ne!(
        base,
        hash("fs.barrier = false\n[factors]\nfs.commit = [1, 5]")
    );
    assert_ne!(base, hash("[factors]\nfs.commit = [5, 1]"));
    assert_ne!(
        base,
        hash("[factors]\nfs.commit = [1, 5]\n[[block]]\nname = \"x\"")
    );
}

#[test]
fn blocks_replace_fix_and_add() {
    let plan = good(
        "fs.barrier = false\n[factors]\nfs.commit = [1, 5]\nmemory.host = [\"256MiB\"]\n\
         [baseline]\nfs.commit = 1\n\
         [[block]]\nname = \"a\"\n\
         [[block]]\nname = \"b\"\ntitle = \"B\"\nwhy = \"because\"\n\
         [block.fixed]\nfs.barrier = true\nmemory.host = \"1GiB\"\n\
         [block.factors]\nfs.commit = [1, 10, 20]\npostmark.number = [600]\n",
    );
    let [a, b] = &plan.blocks[..] else {
        panic!("two blocks")
    };
    let names = |block: &Block| block.factors.iter().map(|f| f.key.name).collect::<Vec<_>>();
    assert_eq!(names(a), ["fs.commit", "memory.host"]);
    assert_eq!(names(b), ["fs.commit", "postmark.number"]);
    assert_eq!(b.factors[0].levels.len(), 3);
    assert_eq!(a.fixed.get("fs.barrier"), Some(&Value::Switch(false)));
    assert_eq!(b.fixed.get("fs.barrier"), Some(&Value::Switch(true)));
    assert_eq!(b.fixed.get("memory.host"), Some(&Value::Bytes(1 << 30)));
    assert_eq!((a.baseline.len(), b.baseline.len()), (1, 1));
    assert_eq!(
        (b.title.as_str(), b.why.as_str(), a.title.as_str()),
        ("B", "because", "a")
    );
    assert_eq!(plan.trials().len(), 2 + 3);
}

#[test]
fn what_was_rounded_is_noted() {
    let plan = good("memory.host = \"100000000\"");
    assert_eq!(
        plan.notes,
        ["100000000 is 100000000 bytes, rounded down to 99999744 (24414 x 4096)"]
    );
}

/// Parses a plan that is based on another; `rest` starts on line 6.
fn based(rest: &str) -> Result<Plan, PlanError> {
    let head = "[plan]\nname = \"own\"\nquestion = \"?\"\n\n";
    Plan::parse("own.toml", &format!("{head}{rest}"))
}

#[test]
fn a_plan_takes_from_its_base_what_it_does_not_say() {
    let base = builtin::named("external-journal").expect("built in");
    let base = base.plan().expect("right");
    let same = based("base = \"external-journal\"").expect("right");
    assert_eq!(same.hash(), base.hash());
    assert!(same.published.is_empty(), "figures are the base's own");
    let plan = based(
        "base = \"external-journal\"\n[fixed]\nfs.data = \"journal\"\n\
         [factors]\njournal = [\"internal\", \"nvram:8MiB\"]\nfs.commit = [1, 5]\n",
    );
    let plan = plan.expect("right");
    assert_eq!(plan.blocks.len(), 2);
    for block in &plan.blocks {
        assert_eq!(
            block.fixed.get("fs.data"),
            Some(&Value::Text("journal".into())),
            "{}",
            block.name
        );
        let factors = block
            .factors
            .iter()
            .map(|factor| (factor.key.name, factor.levels.len()));
        assert_eq!(
            factors.collect::<Vec<_>>(),
            [("journal", 2), ("fs.commit", 2)]
        );
        assert_eq!(block.baseline.len(), 1);
    }
    let barriers = |plan: &Plan| plan.blocks[0].fixed.get("fs.barrier").cloned();
    assert_eq!(barriers(&plan), Some(Value::Switch(false)));
}

#[test]
fn a_block_of_the_base_becomes_what_is_fixed() {
    let plan = based(
        "base = \"external-journal\"\nbase_block = \"linux-2.4\"\n[fixed]\nfs.commit = 1\njournal = \"internal\"\n",
    );
    let plan = plan.expect("right");
    let [block] = &plan.blocks[..] else {
        panic!("one block")
    };
    assert!(block.name.is_empty() && block.factors.is_empty() && block.baseline.is_empty());
    assert_eq!(block.fixed.get("fs.barrier"), Some(&Value::Switch(false)));
    assert_eq!(
        block.fixed.get("fs.commit"),
        Some(&Value::Time(1_000_000_000))
    );
    let other =
        based("base = \"external-journal\"\n[fixed]\nworkload = \"synctest\"\n").expect("right");
    let said = other.blocks[0].fixed.said().collect::<Vec<_>>();
    assert!(
        said.iter().all(|key| !key.starts_with("postmark.")),
        "{said:?}"
    );
}

#[test]
fn errors_of_a_base_have_their_file() {
    let check = |rest: &str, expected: &str| {
        let error = based(rest).expect_err(rest).to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(
        "base = \"nobody\"",
        "own.toml:5: base: there is no built-in plan \"nobody\"",
    );
    check(
        "base_block = \"x\"",
        "own.toml:5: base_block: has no effect without base",
    );
    check(
        "base = \"external-journal\"\nbase_block = \"x\"",
        "own.toml:6: base_block: external-journal has no block \"x\"",
    );
    check(
        "base = \"external-journal\"\n[fixed]\nfs.type = \"ext2\"",
        "own.toml:7: journal: ext2 has none",
    );
    // The conflicting setting is in the base only.
    check(
        "base = \"external-journal\"\n[fixed]\nmemory.host = \"128MiB\"",
        "own.toml:7: memory: 0 of 128MiB",
    );
    let line = builtin::named("external-journal")
        .expect("built in")
        .text
        .lines();
    let line = 1 + line
        .take_while(|line| !line.starts_with("journal = \"internal\""))
        .count();
    check(
        "base = \"external-journal\"\n[factors]\njournal = [\"nvram:8MiB\"]",
        &format!(
            "plans/external-journal.toml:{line}: journal: \"internal\" is not one of its levels"
        ),
    );
}

#[test]
fn published_rows_and_claims_are_checked() {
    let check = |lines: &str, expected: &str| {
        let text = format!("[factors]\nfs.commit = [1, 5]\n{lines}");
        let error = parse(&text).expect_err(lines).to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    let rest = "metric = \"elapsed\"\nunit = \"s\"\nsource = \"s\"";
    check(
        &format!("[[published]]\nvalue = 3\n{rest}"),
        "test.toml:11: 2 trials match this; set `block` and the level of each factor",
    );
    check(
        &format!("[[published]]\nby = \"fs.commit\"\nvalues = {{ 1s = 3, 7s = 4 }}\n{rest}"),
        "test.toml:13: fs.commit: \"7s\" is not one of its levels: 1s, 5s",
    );
    check(
        &format!("[[published]]\nby = \"fs.commit\"\n{rest}"),
        "test.toml:11: [[published]] needs `values`",
    );
    check(
        &format!("[[published]]\nby = \"fs.data\"\nvalues = {{ ordered = 3 }}\n{rest}"),
        "test.toml:13: at: fs.data is not a factor",
    );
    let claim = "[[claim]]\ntext = \"t\"\nsource = \"s\"\n";
    check(
        claim,
        "test.toml:11: [[claim]] needs a metric and a condition",
    );
    check(
        &format!("{claim}metric = \"elapsed\"\nhigher = {{ fs.commit = 1 }}"),
        "test.toml:11: [[claim]] needs `lower`",
    );
    check(
        &format!(
            "{claim}metric = \"elapsed\"\nat = {{ fs.commit = 1 }}\nunit = \"s\"\nbetween = [2, 1]"
        ),
        "test.toml:17: between: expected two numbers, the lower first",
    );
    check(
        &format!(
            "{claim}metric = \"elapsed\"\nhigher = {{ fs.commit = 1 }}\nlower = {{ fs.commit = 5 }}\nas = {{}}"
        ),
        "test.toml:17: unknown key `as` in [[claim]]",
    );
    let two = format!(
        "{claim}metric = \"elapsed\"\nLOW = {{ fs.commit = 1 }}\nHIGH = {{ fs.commit = 5 }}\n"
    );
    let higher = two.replace("LOW", "lower").replace("HIGH", "higher");
    check(
        &format!("{higher}ratio = 0.5"),
        "test.toml:17: ratio: expected a number above 1, or two, the lower first",
    );
    check(
        &format!(
            "{}ratio = 2",
            two.replace("LOW", "like").replace("HIGH", "as")
        ),
        "test.toml:11: ratio: needs `higher` and `lower`",
    );
    check(
        &format!("{higher}limit = \"network\""),
        "test.toml:17: limit: expected \"disk\" or \"host\", found",
    );
    check(
        &format!(
            "{higher}explained = {{ blocks = {{ one = \"two\" }}, input = \"i\", source = \"s\" }}"
        ),
        "test.toml:17: blocks: there is no block \"one\" or \"two\"",
    );
}

/// Parses a plan with the blocks of `tree-copy`, and JFS; `claims_of` is on line 4.
fn with_claims_of(claims_of: &str) -> Result<Plan, PlanError> {
    let names = ["ext2", "ext3", "ext3-journal", "jfs"];
    let blocks: String = names
        .map(|name| format!("[[block]]\nname = \"{name}\"\n"))
        .concat();
    let text = format!(
        "[plan]\nname = \"own\"\nquestion = \"whose?\"\nclaims_of = {claims_of}\n[fixed]\n\
         workload = \"tree-copy\"\ndevice = \"sim:atlas-v-18\"\n{blocks}"
    );
    Plan::parse("own.toml", &text)
}

#[test]
fn results_of_another_plan_are_taken_for_blocks_of_the_same_names() {
    let plan = with_claims_of("[\"tree-copy\"]").unwrap_or_else(|error| panic!("{error}"));
    let figures = plan.published.iter();
    let figures = figures.map(|own| {
        (
            own.cell.label.as_str(),
            own.cell.block.as_deref(),
            own.value,
        )
    });
    assert_eq!(
        figures.collect::<Vec<_>>(),
        [
            ("ext2", Some("ext2"), 147.0),
            ("ext3", Some("ext3"), 170.0),
            ("ext3-journal", Some("ext3-journal"), 203.0),
            ("JFS", Some("jfs"), 135.0),
        ]
    );
    let absent = plan.published_sets[0].absent.iter();
    assert_eq!(
        absent.map(|own| own.label.as_str()).collect::<Vec<_>>(),
        ["ReiserFS"]
    );
    for (claims_of, expected) in [
        (
            "[\"none\"]",
            "own.toml:4: claims_of: there is no built-in plan \"none\"",
        ),
        (
            "\"tree-copy\"",
            "own.toml:4: claims_of: expected an array of plans",
        ),
        (
            "[{ plan = \"tree-copy\", block = 1 }]",
            "own.toml:4: block: expected a text",
        ),
        ("[\"synctest\"]", "plans/synctest.toml:"),
        (
            "[{ plan = \"tree-copy\", blocks = { ext3 = \"xfs\" } }]",
            "plans/tree-copy.toml:",
        ),
    ] {
        let error = with_claims_of(claims_of).expect_err(claims_of).to_string();
        assert!(error.starts_with(expected), "{claims_of}: {error}");
    }
}

#[test]
fn blocks_may_stand_for_others() {
    let blocks = |name: &str, what: &str| -> Vec<Option<String>> {
        let plan = builtin::named(name)
            .expect("built in")
            .plan()
            .expect("right");
        let own = plan.published.iter();
        let own = own.filter(|own| plan.published_sets[own.set].what == what);
        own.map(|own| own.cell.block.clone()).collect()
    };
    let renamed = blocks("external-journal-kernel-6.1", "linux-2.4");
    assert!(!renamed.is_empty());
    assert!(
        renamed.iter().all(|own| own.as_deref() == Some("as-2002")),
        "{renamed:?}"
    );
    let supplied = blocks("mongo-kernel-6.1", "");
    assert!(!supplied.is_empty());
    assert!(
        supplied.iter().all(|own| own.as_deref() == Some("ext3")),
        "{supplied:?}"
    );
}
