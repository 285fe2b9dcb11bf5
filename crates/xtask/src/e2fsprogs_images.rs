//! `e2fsprogs-images`: images of e2fsprogs' own tests, checked by `jext fsck` and by `e2fsck -fn`,
//! and given to the tools. `scripts/e2fsprogs-images` collects them.

mod differences;
mod judges;
mod page;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use fsck::{ProblemKind, Severity};
use testkit::e2fsck::{self, GAVE_UP, Message};

use crate::output::{print, tell};
use crate::program;
use crate::progress::Steps;
use crate::scratch::Scratch;
use differences::{Difference, Side};
use judges::{Judges, Verdict};

/// Ending of the file with the external journal of an image.
const JOURNAL: &str = "journal";
/// Reason for the kinds that an aborted e2fsck does not reach.
const STOPS: &str = "e2fsck stops before it";

/// Compare jext fsck with e2fsck -fn on the images of e2fsprogs' tests, and give them to the tools.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of the images; NAME.journal is the external journal of NAME.
    #[arg(value_name = "FOLDER")]
    images: PathBuf,
    /// File with a line for each test without an image: its name, a colon and the reason.
    #[arg(long, value_name = "FILE")]
    without: Option<PathBuf>,
    /// Write the table into a document.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// An image and its external journal.
struct Image {
    name: String,
    path: PathBuf,
    journal: Option<PathBuf>,
}

/// Result of the comparison of an image.
#[derive(Debug)]
struct Row {
    image: String,
    e2fsck: Verdict,
    jext: Verdict,
    /// Reason if nothing was compared.
    refusal: Option<String>,
    both: Vec<String>,
    only_e2fsck: Vec<String>,
    only_jext: Vec<String>,
    reasons: Vec<&'static str>,
    /// Differences without a reason, and lines of e2fsck that are not in the table of messages.
    failures: Vec<String>,
}

impl Row {
    /// True if the two agree on clean or not and on all kinds.
    fn is_equal(&self) -> bool {
        let has_one_verdict = self.e2fsck.is_clean() == self.jext.is_clean();
        has_one_verdict && self.only_e2fsck.is_empty() && self.only_jext.is_empty()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let scratch = Scratch::make(&std::env::temp_dir(), "e2fsprogs-images")?;
    let judges = Judges {
        jext: program::find()?,
        scratch,
    };
    let (messages, differences) = (e2fsck::messages(), differences::differences()?);
    let images = images(&arguments.images)?;
    let mut steps = Steps::new(images.len() as u64);
    let (mut rows, mut failures) = (Vec::new(), 0);
    for image in &images {
        steps.begin(&image.name);
        let image = judges.copy(image, "disk")?;
        let row = compare(&judges, &image, &messages, &differences)?;
        let mut found = row.failures.clone();
        found.extend(tools::try_all(&judges, &image, row.e2fsck.is_clean())?);
        for failure in &found {
            tell(&format!("{}: {failure}", image.name));
        }
        failures += found.len();
        rows.push(row);
    }
    if let Some(path) = &arguments.out {
        let without = arguments.without.as_ref().map(fs::read_to_string);
        let without = without.transpose().context("tests without an image")?;
        let text = page::text(&rows, &without.unwrap_or_default());
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    print(&format!("{}, {failures} failures\n", page::counts(&rows)))?;
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Returns the images of a folder, by name.
fn images(folder: &Path) -> Result<Vec<Image>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let journal = folder.join(format!("{name}.{JOURNAL}"));
        if path.extension().is_none_or(|ending| ending != JOURNAL) {
            found.push(Image {
                name: name.into_owned(),
                journal: journal.exists().then_some(journal),
                path,
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn is_note(kind: &str) -> bool {
    ProblemKind::named(kind).is_some_and(|known| known.severity() == Severity::Note)
}

/// Runs both checkers on an image and compares clean or not, and the kinds.
fn compare(
    judges: &Judges,
    image: &Image,
    messages: &[Message],
    differences: &[Difference],
) -> Result<Row> {
    let (e2fsck, jext) = (judges.e2fsck(image, messages)?, judges.jext(image)?);
    let mut row = Row {
        image: image.name.clone(),
        e2fsck: e2fsck.verdict,
        jext: jext.verdict,
        refusal: jext.refusal,
        both: Vec::new(),
        only_e2fsck: Vec::new(),
        only_jext: Vec::new(),
        reasons: Vec::new(),
        failures: Vec::new(),
    };
    if row.refusal.is_some() {
        return Ok(row);
    }
    let known = |side, kinds: &[&str]| differences::reason(differences, &image.name, side, kinds);
    let mut explain = |reason: Option<&'static str>, what: String| match reason {
        Some(reason) if row.reasons.contains(&reason) => {}
        Some(reason) => row.reasons.push(reason),
        None => row.failures.push(what),
    };
    if e2fsck.verdict.is_clean() != jext.verdict.is_clean() {
        let what = format!("e2fsck: {}, jext: {}", e2fsck.verdict, jext.verdict);
        explain(known(Side::Verdict, &[]), what);
    }
    let said = e2fsck::said(messages, &e2fsck.output);
    let (missing, beyond) = e2fsck::differences(&jext.kinds, e2fsck.status, &said, is_note);
    for Message { text, kinds } in missing {
        let what = format!("only e2fsck: {text} {kinds:?}");
        explain(known(Side::E2fsck, kinds), what);
        row.only_e2fsck.push(kinds.join(" or "));
    }
    let has_stopped = e2fsck.status & GAVE_UP != 0;
    for kind in beyond {
        let reason = known(Side::Jext, &[kind]).or(has_stopped.then_some(STOPS));
        explain(reason, format!("only jext: {kind}"));
        row.only_jext.push(kind.to_owned());
    }
    let is_said = |kind: &&String| said.iter().any(|m| m.kinds.contains(&kind.as_str()));
    row.both = jext.kinds.iter().filter(is_said).cloned().collect();
    row.only_e2fsck.sort();
    row.only_e2fsck.dedup();
    let unknown = e2fsck::unknown(messages, &e2fsck.output, &judges.folder());
    let unknown = unknown.into_iter();
    row.failures
        .extend(unknown.map(|line| format!("not in the table of messages: {line}")));
    Ok(row)
}
