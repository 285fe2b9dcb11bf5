//! The kernel's field names (`s_inodes_count`) appear in `layout` only, where each stands beside
//! the plain name that all code uses.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

/// The table of both names that the test of the offsets checks.
const TABLE: &str = include_str!("../../../layout/tests/it/offsets.rs");

/// Returns the names that only the kernel uses.
fn kernel_names() -> BTreeSet<&'static str> {
    let rows = TABLE.lines().filter_map(|line| {
        let (names, _) = line.trim().split_once(": ")?;
        names.split_once(' ')
    });
    rows.filter(|(kernel, ours)| kernel.contains('_') && kernel != ours)
        .map(|(kernel, _)| kernel)
        .collect()
}

/// Collects the identifiers of `tokens` that are among `names`, each with its line.
fn find(tokens: TokenStream, names: &BTreeSet<&str>, found: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => find(group.stream(), names, found),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                if names.contains(name.as_str()) {
                    found.push((ident.span().start().line, name));
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[test]
fn kernel_field_names_are_in_layout_only() {
    let names = kernel_names();
    assert!(names.len() > 200, "{} names", names.len());
    let mut faults = Vec::new();
    for path in super::files(".rs") {
        let file = super::relative(&path);
        if file.starts_with("crates/layout/") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source is UTF-8");
        let tokens = source.parse().unwrap_or_else(|e| panic!("{file}: {e}"));
        let mut found = Vec::new();
        find(tokens, &names, &mut found);
        faults.extend(
            found
                .iter()
                .map(|(line, name)| format!("{file}:{line}: {name}")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn names_are_found_in_code_and_not_in_comments_or_strings() {
    let source = "/// `i_mode`\nfn f(inode: &Inode) {\n g(\"i_mode\"); h![inode.i_mode] }";
    let mut found = Vec::new();
    find(source.parse().expect("tokens"), &kernel_names(), &mut found);
    assert_eq!(found, [(3, "i_mode".to_owned())]);
}
