//! Checks that each document with Rust examples is listed in `documents.rs`, so that its examples
//! are tested.

use std::fs;
use std::path::{Path, PathBuf};

const NAMED: &str = include_str!("../../src/documents.rs");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn documents_with_rust_are_tested() {
    let mut found = 0;
    for folder in ["", "docs", "docs/how-to"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            if !text
                .lines()
                .any(|line| line.trim_start().starts_with("```rust"))
            {
                continue;
            }
            found += 1;
            let name = Path::new(folder).join(path.file_name().unwrap());
            let include = format!("include_str!(\"../../../{}\")", name.display());
            assert!(
                NAMED.contains(&include),
                "documents.rs lacks {}",
                name.display()
            );
        }
    }
    assert!(found >= 2, "{found} documents");
}
