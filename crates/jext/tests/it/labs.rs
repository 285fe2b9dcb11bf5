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
