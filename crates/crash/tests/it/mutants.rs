//! The table of mutants names what the engine's sources name; a few are caught in builds that can break rules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crash::mutant::MUTANTS;

/// The crates with mutants.
const CRATES: [&str; 2] = ["jbd2", "ext"];
const BEGIN: &str = "rt::mutant!(\"";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_table_names_what_the_sources_name() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in CRATES {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let mut named = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let pieces = text.split(BEGIN).skip(1);
        named.extend(pieces.map(|piece| piece.split('"').next().unwrap().to_owned()));
    }
    let names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert!(names.is_sorted(), "the table is sorted by name");
    let listed: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(listed.len(), names.len(), "no name is listed twice");
    assert_eq!(listed, named);
}

/// Mutants that are caught within seconds, one of each kind.
#[cfg(jext_mutants)]
#[test]
fn a_few_are_caught() {
    use crash::mutant::{hunt, named};
    for name in [
        "commit/no-flush-before-record",
        "data/not-ordered",
        "fsync/transaction-not-committed",
        "log-start/not-noted",
        "names/create-in-two-steps",
        "names/parent-not-changed",
        "names/rename-in-two-steps",
        "recovery/oldest-image-wins",
        "sync/mount-option-ignored",
    ] {
        let mutant = named(name).unwrap();
        let hunt = hunt(mutant, 1, 5000);
        assert!(hunt.is_caught(), "{name}: {hunt:?}");
    }
}
