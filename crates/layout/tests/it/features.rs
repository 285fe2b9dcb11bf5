//! `docs/features.md` against the table of features.

use std::fmt::Write;
use std::path::Path;

use layout::feature::Word;
use layout::feature::table::{FEATURES, Feature, Oracles, Outcome, Uses};
use layout::feature::target::TARGETS;

const DOCUMENT: &str = include_str!("../../../../docs/features.md");

fn outcome(feature: &Feature) -> &'static str {
    match feature.outcome {
        Outcome::Written => "written",
        Outcome::Ignored => "no effect",
        Outcome::ReadOnly => "read only",
        Outcome::Refused => "refused",
    }
}

fn uses(feature: &Feature) -> String {
    let names = [
        (Uses::MADE, "`mkfs`"),
        (Uses::CHECKED, "`fsck`"),
        (Uses::SET, "`tune -O`"),
        (Uses::CLEARED, "`tune -O ^`"),
    ];
    let names = names.iter().filter(|(bit, _)| feature.uses.contains(*bit));
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    names.join(", ")
}

fn oracles(feature: &Feature) -> String {
    let linux = match (
        feature.oracles.contains(Oracles::LINUX_WRITES),
        feature.oracles.contains(Oracles::LINUX_READS),
    ) {
        (true, _) => Some("Linux"),
        (false, true) => Some("Linux, read only"),
        (false, false) => None,
    };
    let has = |bit, name| feature.oracles.contains(bit).then_some(name);
    let names = [
        has(Oracles::E2FSCK_1_47_0, "e2fsck 1.47.0"),
        has(Oracles::E2FSCK_1_47_2, "1.47.2"),
        linux,
        has(Oracles::EXT4_VIEW, "ext4-view"),
    ];
    names.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the rows of the document's table.
fn rows() -> String {
    let mut text = String::new();
    for feature in FEATURES {
        let word = match feature.word {
            Word::Compatible => "compat",
            Word::Incompatible => "incompat",
            Word::ReadOnlyCompatible => "ro_compat",
        };
        writeln!(
            text,
            "| `{}` | {word} {:#x} | {} | {} | {} | `{}` | {} |",
            feature.name,
            feature.bit,
            outcome(feature),
            uses(feature),
            oracles(feature),
            feature.test,
            feature.note
        )
        .unwrap();
    }
    text
}

#[test]
fn the_document_has_the_rows_of_the_table() {
    let rows = rows();
    let is_row = |line: &&str| line.starts_with("| `");
    let (features, targets) = DOCUMENT.split_once("## Targets").unwrap();
    for target in TARGETS {
        let row = format!("| `{}` | {} |", target.name, target.what);
        assert!(targets.contains(&row), "{row}");
    }
    let document: Vec<&str> = features.lines().filter(is_row).collect();
    let expected: Vec<&str> = rows.lines().collect();
    assert_eq!(document, expected, "the rows of docs/features.md:\n{rows}");
}

#[test]
fn tests_exist() {
    for feature in FEATURES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(feature.test);
        assert!(path.is_file(), "{}: {}", feature.name, feature.test);
    }
}

#[test]
fn a_feature_without_two_programs_says_why() {
    for feature in FEATURES {
        let is_compared = feature.oracles.bits().count_ones() > 1;
        assert!(is_compared || !feature.note.is_empty(), "{}", feature.name);
        let is_supported = matches!(feature.outcome, Outcome::Written);
        assert!(is_supported || !feature.note.is_empty(), "{}", feature.name);
        let is_checked = feature.uses.contains(Uses::CHECKED);
        assert!(!is_supported || is_checked, "{}", feature.name);
        let is_changed = feature.uses.intersects(Uses::MADE | Uses::SET);
        assert!(!is_changed || is_supported, "{}", feature.name);
    }
}

#[test]
fn rows_are_in_order_and_have_one_bit_each() {
    let keys = FEATURES.iter().map(|row| (row.word as u8, row.bit));
    let keys: Vec<_> = keys.collect();
    assert!(keys.is_sorted_by(|one, next| one < next), "{keys:x?}");
    assert!(FEATURES.iter().all(|row| row.bit.is_power_of_two()));
}
