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
    let text = std::fs::read_to_string(super::root().join("README.md")).expect("README.md");
    let linked = links(&text);
    for path in super::files(".md") {
        let name = super::relative(&path);
        if Path::new(&name).starts_with("docs") {
            assert!(linked.contains(&name.as_str()), "README.md lacks {name}");
        }
    }
}
