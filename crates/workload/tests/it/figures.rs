//! Counts of a run of PostMark, from its figures and its report.

use workload::Outcome;

/// Returns a figure that is a count.
pub(crate) fn count(outcome: &Outcome, name: &str) -> u64 {
    let value = outcome.value(name);
    value.unwrap_or_else(|| panic!("no figure {name}")) as u64
}

/// Returns the number of files in a line of the verbose report, such as `Deletion alone`.
pub(crate) fn reported(outcome: &Outcome, line: &str) -> u64 {
    let mut documents = outcome.documents.iter();
    let report = documents.find(|document| document.name == "verbose");
    let text = &report.expect("a report for people").text;
    let found = text
        .lines()
        .find_map(|own| own.trim().strip_prefix(line)?.strip_prefix(": "));
    let number = found.and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number of {line} in {text}"))
}
