//! The README's tour, typed as it stands there: what it prints is what the README says.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use testkit::privilege;

use crate::support::Folder;

const README: &str = include_str!("../../../../README.md");

/// A command, and the lines that it prints.
struct Step<'a> {
    command: &'a str,
    printed: Vec<&'a str>,
}

/// Returns the steps in the first block of a console.
fn steps(text: &str) -> Vec<Step<'_>> {
    let (_, block) = text.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step {
                command,
                printed: Vec::new(),
            }),
            None => steps.last_mut().unwrap().printed.push(line),
        }
    }
    steps
}

/// A line without what is another time: dates, times of day, UUIDs that were not given.
fn words(line: &str) -> Vec<String> {
    let digits_only = |word: &str, shape: &[usize], between: char| {
        let parts: Vec<&str> = word.split(between).collect();
        parts.len() == shape.len()
            && parts.iter().zip(shape).all(|(part, length)| {
                part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };
    let kind = |word: &str| {
        let shapes = [
            (&[4, 2, 2][..], '-', "DATE"),
            (&[2, 2, 2][..], ':', "TIME"),
            (&[8, 4, 4, 4, 12][..], '-', "UUID"),
        ];
        let found = shapes
            .into_iter()
            .find(|(shape, between, _)| digits_only(word.trim_end_matches(','), shape, *between));
        found.map_or_else(|| word.to_owned(), |(_, _, name)| name.to_owned())
    };
    line.split_whitespace().map(kind).collect()
}

#[test]
fn the_tour_prints_what_the_readme_says() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_jext"));
    let others = env::var("PATH").unwrap();
    let path = format!("{}:{others}", programs.parent().unwrap().display());
    let steps = steps(README);
    assert!(steps.len() >= 12, "{} commands", steps.len());
    for Step { command, printed } in steps {
        let output = Command::new("bash")
            .args(["-c", &format!("{{ {command}; }} 2>&1")])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env_remove("JEXT_LOG")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {text}");
        let found: Vec<_> = text.lines().map(words).collect();
        let expected: Vec<_> = printed.into_iter().map(words).collect();
        assert_eq!(found, expected, "{command} prints:\n{text}");
    }
}
