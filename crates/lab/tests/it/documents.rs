//! Checks what documents say of plans.

use lab::Plan;

/// Returns the code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn every_spelling_of_a_journal_in_the_documents_is_a_plan() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plans.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("## The journal: place and size").nth(1).unwrap();
    let rows = section.split("\n## ").next().unwrap().lines();
    let mut count = 0;
    for row in rows.filter(|line| line.starts_with("| ")) {
        let settings: Vec<&str> = spans(row).filter(|span| span.contains(" = ")).collect();
        if settings.is_empty() {
            continue;
        }
        let device = match row.contains("mem:") {
            true => "target = \"kernel:ext3\"\ndevice = \"mem:1GiB\"",
            false => "device = \"slice(disk(sim:atlas-10k),0..4GiB)\"",
        };
        let settings = settings.join("\n");
        let plan =
            format!("[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\n{device}\n{settings}\n");
        Plan::parse("docs/plans.md", &plan).unwrap_or_else(|error| panic!("{error}\n{plan}"));
        count += 1;
    }
    assert!(count >= 8, "{count}");
}
