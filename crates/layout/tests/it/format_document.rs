//! The tables of `docs/format.md` against the offsets that `offsets.rs` checks.

const DOCUMENT: &str = include_str!("../../../../docs/format.md");
const OFFSETS: &str = include_str!("offsets.rs");

/// Returns the kernel's names and the offsets of `offsets.rs`, in order.
fn offsets() -> Vec<(&'static str, u64)> {
    let checks = OFFSETS.split("check!(").skip(1);
    let bodies = checks.filter_map(|check| check.split_once("as T {")?.1.split_once("})"));
    let fields = bodies.flat_map(|(body, _)| body.split(','));
    fields
        .filter_map(|field| {
            let (names, offset) = field.trim().split_once(": ")?;
            let (name, _) = names.split_once(' ')?;
            let digits = offset.strip_prefix("0x");
            let offset = digits.map_or_else(
                || offset.parse().ok(),
                |hex| u64::from_str_radix(hex, 16).ok(),
            )?;
            Some((name, offset))
        })
        .collect()
}

#[test]
fn every_field_has_a_row_with_its_offset() {
    let offsets = offsets();
    assert!(offsets.len() > 200, "{} fields", offsets.len());
    for (name, offset) in offsets {
        let is_there = DOCUMENT.lines().any(|line| {
            line.starts_with(&format!("| 0x{offset:02X} |"))
                && line.contains(&format!("| `{name}` |"))
        });
        assert!(is_there, "docs/format.md lacks {name} at {offset:#X}");
    }
}
