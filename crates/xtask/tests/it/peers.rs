//! Tests compare-programs with the real programs and minimal amounts of work.

use testkit::tool;

use crate::support::Folder;

#[test]
fn every_program_is_compared_on_a_small_load() {
    for program in ["postmark", "fs_mark", "bonnie++", "dbench"] {
        assert!(
            tool::is_there(program),
            "{program} is missing: run scripts/install-test-tools"
        );
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("place")).unwrap();
    let json = folder.json(
        "compare-programs --dir place --rounds 2 --json --transactions 500 --files 20 \
         --megabytes 16 --clients 1 --seconds 2",
    );
    let programs = json["programs"].as_array().unwrap();
    let names: Vec<&str> = programs
        .iter()
        .map(|own| own["program"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["PostMark", "fs_mark", "Bonnie++", "dbench"]);
    for (program, figure) in
        programs
            .iter()
            .zip(["elapsed", "files_rate", "processor_time", "throughput"])
    {
        let figures = program["figures"].as_array().unwrap();
        let found = figures.iter().find(|own| own["figure"] == figure);
        let found = found.unwrap_or_else(|| panic!("no {figure}: {program}"));
        for side in ["debian", "jext"] {
            let values = found[side].as_array().unwrap();
            assert_eq!(values.len(), 2, "{program}");
            assert!(
                values.iter().all(|value| value.as_f64().unwrap() > 0.0),
                "{program}"
            );
        }
    }
    let left = std::fs::read_dir(folder.path().join("place")).unwrap();
    assert_eq!(left.count(), 0, "nothing is left behind");
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    let folder = Folder::new();
    let mut command = folder.command("compare-programs --dir . --programs fs_mark");
    let output = command.env("PATH", folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, "xtask: fs_mark is missing; apt-get install fsmark\n");
}
