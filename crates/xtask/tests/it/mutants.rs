//! Hunts for mutants.

use crate::support::Folder;

#[test]
fn a_mutant_is_caught_with_every_seed_by_a_build_that_breaks_rules() {
    let folder = Folder::new();
    let hunt = "mutants --names commit/no-flush-before-record --seed 1,2 --out mutants.md";
    let output = folder.command(hunt).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    if !crash::mutant::is_possible() {
        assert_eq!((output.status.code(), text.as_str()), (Some(1), ""));
        assert!(error.contains("this build breaks no rules"), "{error}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{text}{error}");
    assert!(text.contains("with every seed: 1 of 1"), "{text}");
    let document = std::fs::read_to_string(folder.path().join("mutants.md")).unwrap();
    assert!(document.ends_with(&text), "{document}");
}
