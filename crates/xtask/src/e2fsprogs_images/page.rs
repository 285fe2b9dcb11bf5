//! The document about the images.

use std::fmt::Write as _;

use super::Row;

const HEAD: &str = "A row is an image that one of e2fsprogs' tests gave to e2fsck: `.00` is the first of the test, the others are mostly what a repair left.
*Stops* is a check that ends before its end. Kinds of problems are those of [docs/fsck.md](../fsck.md#problems); `crates/testkit/src/e2fsck/messages.txt` says
which a message of e2fsck may mean, and one of them has to be found. Notes that only `jext fsck` has are not compared. `jext fsck` replays the log in memory;
`e2fsck -fn` does not read it, and judges a copy after `e2fsck -p -E journal_only`. Reasons are in `scripts/e2fsprogs-images.d/differences.txt`.
";

/// Returns the numbers of images in one line.
pub(super) fn counts(rows: &[Row]) -> String {
    let count = |is: fn(&&Row) -> bool| rows.iter().filter(is).count();
    let refused = count(|row| row.refusal.is_some());
    let equal = count(|row| row.refusal.is_none() && row.is_equal());
    let verdicts =
        count(|row| row.refusal.is_none() && row.e2fsck.is_clean() != row.jext.is_clean());
    format!(
        "{} images: jext fsck and e2fsck agree on {equal}, differ in kinds on {} and in clean or not on {verdicts}, \
         {refused} are not compared",
        rows.len(),
        rows.len() - equal - refused - verdicts,
    )
}

fn quoted(kinds: &[String]) -> String {
    let quoted: Vec<String> = kinds
        .iter()
        .map(|kind| format!("`{}`", kind.replace(" or ", "` or `")))
        .collect();
    quoted.join(", ")
}

/// Returns the tables. `without` holds a line for each test without an image.
pub(super) fn text(rows: &[Row], without: &str) -> String {
    let is_silent = |row: &&Row| {
        row.is_equal() && row.e2fsck.is_clean() && row.both.is_empty() && row.refusal.is_none()
    };
    let mut text = format!("{}.\n\n{HEAD}\n## Compared\n\n", counts(rows));
    text.push_str(
        "| image | `e2fsck -fn` | `jext fsck` | kinds that both find | only e2fsck | only jext | reason |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows
        .iter()
        .filter(|row| row.refusal.is_none() && !is_silent(row))
    {
        let (both, e2fsck) = (quoted(&row.both), quoted(&row.only_e2fsck));
        let (jext, mut reasons) = (quoted(&row.only_jext), row.reasons.join("; "));
        if !row.failures.is_empty() {
            reasons = "**unexplained**".to_owned();
        }
        let _ = writeln!(
            text,
            "| {} | {} | {} | {both} | {e2fsck} | {jext} | {reasons} |",
            row.image, row.e2fsck, row.jext
        );
    }
    let silent: Vec<&str> = rows
        .iter()
        .filter(is_silent)
        .map(|row| &*row.image)
        .collect();
    let _ = write!(
        text,
        "\n## Clean for both, without a note of e2fsck\n\n{} images: {}.\n\n## Not compared\n\n",
        silent.len(),
        silent.join(", ")
    );
    text.push_str("| image or test | `e2fsck -fn` | reason |\n|---|---|---|\n");
    for row in rows {
        if let Some(refusal) = &row.refusal {
            let _ = writeln!(text, "| {} | {} | {refusal} |", row.image, row.e2fsck);
        }
    }
    for (test, reason) in without.lines().filter_map(|line| line.split_once(": ")) {
        let _ = writeln!(text, "| {test} | | {reason} |");
    }
    text
}
