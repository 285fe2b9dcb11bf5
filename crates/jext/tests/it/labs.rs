//! lab run, list and report.

use crate::support::Folder;

const PLAN: &str = "\
[plan]
name = \"tiny\"
question = \"Does it run?\"
[fixed]
device = \"slice(sim:atlas-v-18,1GiB..1056MiB)\"
memory.host = \"32MiB\"
postmark.number = 50
postmark.transactions = 100
postmark.final_sync = \"end\"
[factors]
journal = [\"internal\", { label = \"NVRAM\", value = \"nvram:4MiB\" }]
[baseline]
journal = \"internal\"
";

#[test]
fn a_plan_is_run_once_and_reported_again() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    assert!(
        folder
            .bad("lab report tiny.toml")
            .contains("`jext lab run tiny.toml` makes them")
    );
    let first = folder.good("lab run tiny.toml");
    assert!(
        first.contains("tiny: Does it run?") && first.contains("NVRAM"),
        "{first}"
    );
    assert!(
        first.contains("2 trials run; records in lab-results/tiny/"),
        "{first}"
    );
    let again = folder.good("lab run tiny.toml --jobs 1");
    assert!(again.contains("0 trials run, 2 recorded before"), "{again}");
    let table = |text: &str| {
        text.split("\n\n")
            .filter(|part| !part.contains("trials run"))
            .collect::<String>()
    };
    assert_eq!(table(&first), table(&again), "to the digit");
    let report = folder.good("lab report tiny.toml");
    assert!(first.starts_with(report.trim_end()), "{report}");
    let fresh = folder.good("lab run tiny.toml --fresh");
    assert_eq!(table(&first), table(&fresh));
    let json = folder.json("lab report --json tiny.toml");
    assert_eq!(
        json["blocks"][0]["groups"][0]["rows"][1]["labels"][0],
        "NVRAM"
    );
}

#[test]
fn plans_are_listed_and_errors_have_their_line() {
    let folder = Folder::new();
    let list = folder.json("lab list --json");
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| &plan["name"])
        .collect();
    assert_eq!(names[0], "external-journal");
    assert!(
        folder
            .good("lab list")
            .contains("external-journal-confounded")
    );
    assert!(
        folder
            .bad("lab run external-jurnal")
            .contains("`jext lab list` shows them")
    );
    folder.write(
        "bad.toml",
        PLAN.replace("postmark.number", "postmark.nunber")
            .as_bytes(),
    );
    let error = folder.bad("lab run bad.toml");
    assert_eq!(
        error,
        "bad.toml:7: unknown key `postmark.nunber` (did you mean `postmark.number`?)"
    );
    assert!(
        !folder.path().join("lab-results").exists(),
        "nothing was touched"
    );
}

#[test]
fn a_run_is_resumed_only_where_there_is_one() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    let error = folder.bad("lab run tiny.toml --resume");
    assert!(error.contains("nothing to resume"), "{error}");
    folder.good("lab run tiny.toml");
    let again = folder.good("lab run tiny.toml --resume");
    assert!(again.contains("0 trials run, 2 recorded before"), "{again}");
    assert!(
        folder
            .bad("lab run tiny.toml --resume --fresh")
            .contains("cannot be used with")
    );
}

#[test]
fn records_become_a_page_a_table_and_a_comparison() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    folder.good("lab run tiny.toml");
    let csv = folder.good("lab report tiny.toml --csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("plan,plan_hash,block,repetition,"), "{csv}");
    assert_eq!(
        folder.good("lab report tiny.toml --html page.html"),
        "page.html\n"
    );
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<h1>Does it run?</h1>") && page.contains("jext lab run tiny.toml"));
    let records = std::fs::read_dir(folder.path().join("lab-results/tiny")).unwrap();
    let path = records.last().unwrap().unwrap().path();
    std::fs::copy(&path, folder.path().join("first.jsonl")).unwrap();
    folder.good("lab run tiny.toml --fresh");
    std::fs::copy(&path, folder.path().join("second.jsonl")).unwrap();
    let same = folder.good("lab compare first.jsonl second.jsonl");
    assert!(
        same.contains("0 of 2 trials differ: 0 better, 0 worse."),
        "{same}"
    );
    let json = folder.json("lab compare first.jsonl second.jsonl --metric read_rate --json");
    assert_eq!(json["rows"][0]["gain"]["share"], 0.0);
    assert!(
        folder
            .bad("lab compare first.jsonl third.jsonl")
            .contains("no such file")
    );
    assert!(
        folder
            .bad("lab compare first.jsonl second.jsonl --metric sped")
            .contains("no figure")
    );
}

#[test]
fn what_the_machine_lacks_is_said_before_anything_is_touched() {
    let folder = Folder::new();
    let text = PLAN.replace("slice(sim:atlas-v-18,1GiB..1056MiB)", "sim:atlas-v-19");
    folder.write("bad.toml", text.as_bytes());
    let error = folder.bad("lab run bad.toml");
    assert!(error.starts_with("bad.toml:5: device: "), "{error}");
    assert_eq!(error.lines().count(), 1);
    assert!(!folder.path().join("lab-results").exists());
}

#[test]
fn many_records_are_measured_and_removed() {
    let folder = Folder::new();
    let json = folder.json("lab measure . --records 1000 --json");
    assert_eq!(json["records"], 1000);
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(
        folder
            .bad("lab measure . --records 150")
            .contains("not a multiple of 100")
    );
}
