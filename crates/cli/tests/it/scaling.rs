//! docs/how-to/scale-out.md: its lines, run as they stand there with small work; and the driver for
//! Ray, without Ray.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Folder;

const PAGE: &str = include_str!("../../../../docs/how-to/scale-out.md");
/// Texts of the page that take minutes, and their replacements.
const SMALL: [(&str, &str); 3] = [
    ("plan=external-journal ", "plan=tiny.toml "),
    ("lab-results/external-journal", "lab-results/tiny"),
    (
        "--all --generator exhaustive --length 2",
        "--cell ordered,internal --generator exhaustive --length 1 --states 30",
    ),
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_path_buf()
}

/// Returns the blocks of a kind.
fn blocks(kind: &str) -> Vec<String> {
    let start = format!("```{kind}\n");
    let blocks = PAGE.split(&start).skip(1);
    let texts = blocks.map(|rest| rest.split("```").next().unwrap());
    texts
        .map(|text| {
            SMALL.iter().fold(text.to_owned(), |text, (large, small)| {
                text.replace(large, small)
            })
        })
        .collect()
}

/// A folder with the small plan.
fn with_plan() -> Folder {
    let folder = Folder::new();
    let plan = std::fs::read(root().join("python/tests/tiny.toml")).unwrap();
    folder.write("tiny.toml", &plan);
    folder
}

/// Runs lines of bash, and returns their output.
fn bash(folder: &Folder, lines: &str) -> String {
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_jext"));
    let others = env::var("PATH").unwrap();
    let path = format!("{}:{others}", programs.parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", lines])
        .current_dir(folder.path())
        .env("PATH", path)
        .env_remove("JEXT_LOG")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{lines}\n{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the canonical records of the only merged file.
fn canonical(folder: &Folder, results: &str) -> String {
    let records = std::fs::read_dir(folder.path().join(results)).unwrap();
    let mut paths = records.map(|entry| entry.unwrap().path());
    let path = paths.find(|path| !path.to_str().unwrap().contains("-of-"));
    folder.good(&format!("lab canonical {}", path.unwrap().display()))
}

#[test]
fn the_lines_of_the_page_give_what_one_run_gives() {
    let single = with_plan();
    single.good("lab run tiny.toml");
    let expected = canonical(&single, "lab-results/tiny");
    assert_eq!(expected.lines().count(), 30);
    assert!(!expected.contains("real_seconds") && !expected.contains("\"machine\""));
    let blocks = blocks("sh");
    let (settings, blocks) = blocks.split_first().unwrap();
    assert_eq!(blocks.len(), 3, "xargs, parallel, and crash");
    for (large, small) in SMALL {
        assert!(settings.contains(small), "{large} is not on the page");
    }
    for block in blocks {
        let folder = with_plan();
        let said = bash(&folder, &format!("{settings}\n{block}"));
        if block.contains("lab run") {
            assert!(said.contains("30 trials of 8 files; "), "{said}");
            assert_eq!(canonical(&folder, "lab-results/tiny"), expected, "{block}");
        } else {
            for number in 1..=8 {
                let first = format!("seed 1, shard {number}/8\n");
                assert!(said.contains(&first), "{first}{said}");
            }
        }
    }
}

#[test]
fn the_command_that_hyperqueue_is_given_runs_a_shard() {
    let console = blocks("console").into_iter();
    let mut queue = console.filter(|block| block.contains("hq submit"));
    let block = queue.next().unwrap();
    let submit = block.lines().find(|line| line.contains("--array 1-8"));
    let command = submit.unwrap().split('\'').nth(1).unwrap();
    let command = command.replace("external-journal", "tiny.toml");
    assert!(command.contains("--shard $HQ_TASK_ID/8"), "{command}");
    let folder = with_plan();
    let each = format!("for HQ_TASK_ID in {{1..8}}; do {command}; done");
    let said = bash(
        &folder,
        &format!("{each}\njext lab merge lab-results/tiny/*-of-8.jsonl"),
    );
    assert!(said.contains("30 trials of 8 files; "), "{said}");
}

#[test]
fn the_driver_for_ray_runs_and_resumes_plans() {
    let python = root().join("python");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-s", "tests"])
        .current_dir(&python)
        .env("PYTHONPATH", "src:tests")
        .env("JEXT", env!("CARGO_BIN_EXE_jext"))
        .env_remove("JEXT_LOG")
        .output()
        .expect("python3 is needed: run scripts/install-test-tools");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.trim_end().ends_with("OK"),
        "nothing is left out: {said}"
    );
}
