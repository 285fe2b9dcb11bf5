//! Known differences between the two checkers: `scripts/e2fsprogs-images.d/differences.txt`.

use anyhow::{Context, Result, bail};

const TABLE: &str = include_str!("../../../../scripts/e2fsprogs-images.d/differences.txt");
/// Name in the table for all images.
const EVERY: &str = "*";

/// The subject of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Clean or not.
    Verdict,
    /// Kinds that only e2fsck finds.
    E2fsck,
    /// Kinds that only jext finds.
    Jext,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Difference {
    test: &'static str,
    side: Side,
    kinds: Vec<&'static str>,
    reason: &'static str,
}

/// Returns the table.
pub(super) fn differences() -> Result<Vec<Difference>> {
    let rows = TABLE.lines();
    let rows = rows.filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|row| parse(row).with_context(|| row.to_owned()))
        .collect()
}

fn parse(row: &'static str) -> Result<Difference> {
    let (head, reason) = row.split_once(": ").context("no reason")?;
    let mut words = head.split_whitespace();
    let test = words.next().context("no test")?;
    let side = match words.next() {
        Some("clean") => Side::Verdict,
        Some("-") => Side::E2fsck,
        Some("+") => Side::Jext,
        _ => bail!("neither clean, - nor +"),
    };
    Ok(Difference {
        test,
        side,
        kinds: words.collect(),
        reason,
    })
}

/// Returns the reason for a difference of an image: one of the kinds that a message may mean.
pub(super) fn reason(
    differences: &[Difference],
    image: &str,
    side: Side,
    kinds: &[&str],
) -> Option<&'static str> {
    let test = image.split('.').next().unwrap_or(image);
    let is_of = |row: &&Difference| {
        let is_kind = side == Side::Verdict || kinds.iter().any(|kind| row.kinds.contains(kind));
        row.side == side && is_kind && [test, image, EVERY].contains(&row.test)
    };
    differences.iter().find(is_of).map(|row| row.reason)
}
