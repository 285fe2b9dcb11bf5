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

/// Returns text and target of all links of a document to pages of results.
fn figures(text: &str) -> Vec<(&str, &str)> {
    let links = text.match_indices("](").filter_map(|(at, _)| {
        let shown = text[..at].rfind('[').map(|start| &text[start + 1..at])?;
        let target = text[at + 2..].split([')', '#']).next()?;
        Some((shown, target))
    });
    links
        .filter(|(_, target)| target.contains("results/"))
        .collect()
}

#[test]
fn linked_figures_are_on_their_page() {
    for path in super::files(".md") {
        let name = super::relative(&path);
        if Path::new(&name).starts_with("docs/results") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let folder = path.parent().expect("a file lies in a folder");
        for (shown, target) in figures(&text) {
            if !shown.contains(|letter: char| letter.is_ascii_digit()) || target.ends_with(shown) {
                continue;
            }
            let page = std::fs::read_to_string(folder.join(target)).expect("the page is there");
            assert!(
                page.contains(shown),
                "{name}: {shown} is not on {target}: take the figure from there"
            );
        }
    }
}
