//! The table of mutants names what the engine's sources name; a few are caught.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crash::mutant::{MUTANTS, NAMED};

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
    let others: Vec<&str> = NAMED.iter().map(|mutant| mutant.name).collect();
    assert!(others.is_sorted(), "the second table is sorted by name");
    let all = names.iter().chain(&others);
    let listed: BTreeSet<String> = all.map(ToString::to_string).collect();
    let count = names.len() + others.len();
    assert_eq!(listed.len(), count, "no name is listed twice");
    assert_eq!(listed, named);
}

#[test]
fn named_tests_name_their_mutants() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for mutant in NAMED {
        let text = std::fs::read_to_string(crates.join(mutant.test)).unwrap();
        let quoted = format!("\"{}\"", mutant.name);
        assert!(text.contains(&quoted), "{} in {}", quoted, mutant.test);
    }
}

/// The table of pitfalls of ext4 in `docs/testing.md` names mutants that there are.
#[test]
fn pitfalls_name_their_mutants() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let page = std::fs::read_to_string(root.unwrap().join("docs/testing.md")).unwrap();
    let (_, table) = page.split_once("### Pitfalls of ext4").unwrap();
    let (table, _) = table.split_once("\n###").unwrap();
    let quoted = table.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> = quoted
        .filter(|text| text.contains('/') && !text.contains('.'))
        .collect();
    assert!(named.len() > 40);
    let mutants = MUTANTS.iter().map(|mutant| mutant.name);
    let all: BTreeSet<&str> = mutants
        .chain(NAMED.iter().map(|mutant| mutant.name))
        .collect();
    let unknown: Vec<_> = named.difference(&all).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Mutants that are caught within a second: of each generator, and of most families of rules.
/// `cargo run -p xtask -- mutants` hunts all.
#[cfg(debug_assertions)]
const A_FEW: [&str; 35] = [
    "abort/log-error-ignored",
    "checkpoint/error-ignored",
    "checksums/bitmap-not-stored",
    "clusters/free-counted-in-blocks",
    "clusters/freed-with-blocks-in-use",
    "commit/async-before-superblock",
    "commit/async-with-revokes",
    "commit/data-after-record",
    "commit/no-flush-before-record",
    "commit/refused-write-aborts",
    "directory/one-block-by-offset",
    "discard/before-commit",
    "error/failed-page-marked-clean",
    "error/ordered-pin-lost",
    "fast-commit/area-not-reset",
    "fast-commit/ineligible-change-taken",
    "fast-commit/no-flush-before-tail",
    "fast-commit/tail-not-forced",
    "fdatasync/size-not-committed",
    "free/metadata-not-forgotten",
    "fsync/transaction-not-committed",
    "names/children-locked-by-number",
    "names/create-in-two-steps",
    "needs-recovery/not-set",
    "orphan/slot-not-cleared",
    "quota/counts-in-another-step",
    "quota/owner-without-entry",
    "recovery/log-emptied-first",
    "revoke/dropped",
    "sequence/number-of-dropped-reused",
    "superblock/marked-with-times",
    "tail/past-unwritten-blocks",
    "truncate/kept-revoke-used",
    "unwritten/read-as-data",
    "write/size-before-blocks",
];
/// The seed of `docs/mutants.md` with which these are caught first.
#[cfg(debug_assertions)]
const SEED: u64 = 1;
/// States after which a hunt for one of them is given up.
#[cfg(debug_assertions)]
const STATES_MAX: u64 = 1000;

/// Builds without debug assertions break no rules.
#[cfg(debug_assertions)]
#[test]
fn a_few_are_caught() {
    for name in A_FEW {
        let mutant = crash::mutant::named(name).unwrap();
        let hunt = crash::hunt::hunt(mutant, SEED, STATES_MAX);
        assert!(hunt.is_caught(), "{name}: {hunt:?}");
        println!("{name}: {} states, {:?}", hunt.states, hunt.elapsed);
    }
}
