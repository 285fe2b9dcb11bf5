//! The plan format: every error names its line.

use super::*;

/// Lines 1 to 8; what is tested follows on line 9.
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
        "test.toml:9: fs.type: expected \"ext2\" or \"ext3\", found \"ext5\"",
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
        "test.toml:12: fs.commit: the level 1s is there twice",
    );
    check(
        "[factors]\ndevice = [\"sim:atlas-v-9\"]",
        "test.toml:7: device is fixed and a factor as well",
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
        "test.toml:13: journal: ext2 has none; say \"none\" (internal)"
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
fn seeds_depend_on_plan_levels_and_repetition_only() {
    let plan = |rest: &str| good(rest).trials();
    let a = plan("[factors]\nfs.commit = [1, 5]");
    let b = plan("postmark.number = 600\n[factors]\nfs.commit = [5, 1]");
    assert_eq!(a[0].seed, b[1].seed, "the same level");
    assert_ne!(a[0].seed, a[1].seed, "another level");
    let more =
        plan("[factors]\nfs.commit = [1, 5]\n[[block]]\nname = \"x\"\n[[block]]\nname = \"y\"");
    assert_eq!(more.len(), 4);
    assert_eq!(
        more[0].seed, more[2].seed,
        "the same level of another block"
    );
    assert_eq!(more[0].seed, a[0].seed);
    let other = Plan {
        seed: 8,
        ..good("[factors]\nfs.commit = [1, 5]")
    }
    .trials();
    assert_ne!(other[0].seed, a[0].seed, "another plan's seed");
    // Pinned: records of earlier versions name these.
    assert_eq!(format!("{:016x}", a[0].seed), SEED_OF_ONE_SECOND);
}

const SEED_OF_ONE_SECOND: &str = "ba7ef055f8bbbc44";

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
