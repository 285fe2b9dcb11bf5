//! Every link between documents leads to a file, and every document is linked from README.md.

use std::path::Path;

/// Returns the targets of all relative links of a document, without their anchors.
fn links(text: &str) -> Vec<&str> {
    let starts = text.match_indices("](").map(|(at, _)| &text[at + 2..]);
    starts
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn links_lead_to_files() {
    for path in super::files(".md") {
        let text = std::fs::read_to_string(&path).expect("readable");
        let folder = path.parent().expect("a file lies in a folder");
        for target in links(&text) {
            assert!(
                folder.join(target).exists(),
                "{}: no file {target}",
                super::relative(&path)
            );
        }
    }
}

#[test]
fn the_readme_links_every_document() {
    let root = super::root();
    for (index, folder, rest) in [
        ("README.md", "docs", Some("docs/results")),
        ("docs/results/README.md", "docs/results", None),
    ] {
        let text = std::fs::read_to_string(root.join(index)).expect("the index is there");
        let linked = links(&text);
        for path in super::files(".md") {
            let name = super::relative(&path);
            let is_below = |folder: &str| Path::new(&name).starts_with(folder);
            if !is_below(folder) || rest.is_some_and(is_below) || name == index {
                continue;
            }
            let own = name.strip_prefix("docs/results/").unwrap_or(&name);
            assert!(linked.contains(&own), "{index} lacks {own}");
        }
    }
    let text = std::fs::read_to_string(root.join("README.md")).expect("README.md");
    assert!(links(&text).contains(&"docs/results/README.md"));
}
