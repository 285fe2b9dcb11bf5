//! The rules that violations name are those that the document promises.

use std::path::Path;

use crash::rule::RULES;

/// The rows of the document's tables that begin with a rule: its name, and what it says in a line.
fn promised(document: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let name = cells.next()?;
        let number = name.strip_prefix(|letter: char| letter.is_ascii_uppercase());
        let is_rule = number.is_some_and(|number| number.parse::<u8>().is_ok());
        is_rule.then_some((name.to_owned(), cells.next()?.to_owned()))
    };
    document.lines().filter_map(row).collect()
}

#[test]
fn every_rule_is_promised_in_its_own_words() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-model.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let rules = RULES
        .iter()
        .map(|rule| (rule.to_string(), rule.text().to_owned()));
    assert_eq!(promised(&document), rules.collect::<Vec<_>>());
}
