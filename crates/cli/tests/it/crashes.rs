//! crash and replay: flags, exit statuses, what is printed.

use serde_json::Value;

use crate::support::Folder;

/// A run that is over soon.
const SHORT: &str =
    "crash --cell ordered,internal --generator exhaustive --length 1 --states 300 --threads 1";

/// The exit status of a command and what it printed.
fn status(line: &str) -> (i32, String, String) {
    let output = Folder::new().command(line).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn a_short_exploration_finds_nothing() {
    let folder = Folder::new();
    let text = folder.good(SHORT);
    for said in [
        "orbits of length 1",
        "ordered,internal (exhaustive, length 1)",
        "no violation",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let document = folder.json(&format!("{SHORT} --json"));
    let session = &document["sessions"][0];
    assert_eq!(session["generator"], "exhaustive, length 1");
    assert_eq!(session["violation"], Value::Null);
    assert_eq!(session["cells"][0]["cell"], "ordered,internal");
    let total = &session["total"];
    assert!(total["recovered"].as_u64().unwrap() >= 300, "{total}");
    assert!(total["rules"]["U3"].as_u64().unwrap() > 0, "{total}");
    let parts = total["silent"].as_object().unwrap();
    let fates = parts.values().flat_map(|part| part.as_object().unwrap());
    let damaged: u64 = fates.filter_map(|(_, count)| count.as_u64()).sum();
    assert_eq!(Some(damaged), total["rules"]["E7"].as_u64(), "{total}");
}

/// Shards of a run to its end have every workload once and find together what it finds.
#[test]
fn shards_are_parts_of_one_run() {
    const RUN: &str = "crash --cell ordered,internal --generator exhaustive --length 1 --json";
    let folder = Folder::new();
    let counts = |line: &str| -> Vec<u64> {
        let document = folder.json(line);
        assert_eq!(document["seed"], 1);
        let session = &document["sessions"][0];
        assert_eq!(session["complete"], true, "{line}");
        let total = session["total"].as_object().unwrap();
        total.values().filter_map(Value::as_u64).collect()
    };
    let mut sum = counts(&format!("{RUN} --shard 1/2"));
    let second = counts(&format!("{RUN} --shard 2/2"));
    sum.iter_mut()
        .zip(&second)
        .for_each(|(sum, own)| *sum += own);
    assert_eq!(sum, counts(RUN));

    let text = folder.good(&format!("{SHORT} --shard 3/200 --seed 7"));
    assert!(text.starts_with("seed 7, shard 3/200\n"), "{text}");
    assert!(
        text.contains("exhaustive, length 1: shard 3/200 complete"),
        "{text}"
    );
    let random = "crash --cell ordered,internal --generator stress --shard 2/2";
    for limit in ["--states 20", "--minutes 0.01", "--states 20 --minutes 1"] {
        let document = folder.json(&format!("{random} {limit} --json"));
        assert_eq!(document["shard"], "2/2");
        let session = &document["sessions"][0];
        assert!(
            session["total"]["recovered"].as_u64().unwrap() >= 20,
            "{limit}"
        );
    }
}

#[test]
fn wrong_flags_are_named() {
    for (line, code, said) in [
        ("crash", 1, "which cells?"),
        (
            "crash --all --generator stress",
            1,
            "no end: give --minutes or --states",
        ),
        (
            "crash --cell ordered,nowhere",
            2,
            "is not a cell; the cells are ordered,internal ",
        ),
        (
            "crash --all --cell ordered,internal",
            2,
            "cannot be used with",
        ),
        ("crash --all --length 9", 2, "9 is not in 1..=6"),
        ("crash --all --generator all", 2, "invalid value"),
        ("crash --compare --minutes 1", 2, "cannot be used with"),
        ("crash --all --recovered 5", 2, "--compare"),
        ("crash --real", 1, "no end: give --minutes"),
        ("crash --real --threads 40 --minutes 1", 1, "at most 36"),
        ("crash --all --threads 0", 2, "--threads"),
        ("crash --all --states 5 --seed 1,2", 2, "invalid value"),
        ("crash --all --states 5 --shard 3/2", 2, "is not a shard"),
        (
            "crash --all --states 5 --shard 1-2/3",
            1,
            "one shard at a time",
        ),
        ("crash --compare --shard 1/2", 2, "cannot be used with"),
        ("crash --recording r --all", 2, "cannot be used with"),
        ("crash --all --one-in 2", 1, "are for --recording FILE"),
        ("crash --recording r --one-in 0", 2, "--one-in"),
        ("crash --recording r --replay 5", 2, "look like 57-kept"),
        ("crash --recording r --output cut.img", 2, "--replay"),
        ("crash --recording r --minutes inf", 2, "minutes up to"),
        ("crash --real --minutes 1e300", 2, "minutes up to"),
        ("crash --all --minutes NaN", 2, "minutes up to"),
        ("replay crash1:nonsense", 2, "is not a replay id"),
        ("replay", 2, "<ID>"),
    ] {
        let (found, _, error) = status(line);
        assert_eq!(found, code, "jext {line}: {error}");
        assert!(error.contains(said), "jext {line}: {error}");
    }
}

#[test]
fn a_replay_shows_what_led_to_it() {
    let id = "crash2:ordered,internal:1:mkdir(d0);create(d0/f0);fsync(d0/f0):5-lost";
    let (code, text, _) = status(&format!("replay {id}"));
    assert_eq!(code, 0, "{text}");
    for said in [
        "on ordered,internal",
        "lane 0:   0 mkdir(d0)  (before the recording)",
        "fsync(d0/f0)  (makes durable)",
        "the power fails in the run: 5-lost",
        "after the recovery: block ",
        ") has changed silently: ",
        "no violation",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_comparison_and_real_threads() {
    let folder = Folder::new();
    let document = folder
        .json("crash --compare --recovered 4 --unrecovered 0 --unjournaled 2 --threads 1 --json");
    assert_eq!(document["recovered"], 4);
    assert_eq!(document["difference"], Value::Null);
    let document = folder.json("crash --real --minutes 0.01 --threads 4 --json");
    assert!(document["operations"].as_u64().unwrap() > 0, "{document}");
    assert_eq!(document["violation"], Value::Null);
}
