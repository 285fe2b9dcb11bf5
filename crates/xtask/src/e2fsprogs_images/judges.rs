//! The two checkers, run on an image.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::e2fsck::{self, ERROR, GAVE_UP, LEFT, Message};

use super::{Image, JOURNAL, is_note};
use crate::scratch::Scratch;

/// Time for e2fsck in seconds. It can start again for ever, and catches SIGTERM.
const SECONDS_MAX: u32 = 30;
/// Maximum number of bytes of e2fsck's output that are read: if it starts again it repeats itself.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Exit status of `jext fsck` if it cannot check.
const CANNOT: i32 = 8;

/// A judgement of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No problem but notes.
    Clean,
    /// Problems.
    NotClean,
    /// Problems that end the check.
    Stops,
}

impl Verdict {
    pub(super) fn is_clean(self) -> bool {
        self == Self::Clean
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::NotClean => "not clean",
            Self::Stops => "stops",
        })
    }
}

/// The result of e2fsck.
pub(super) struct OfE2fsck {
    pub(super) verdict: Verdict,
    pub(super) status: i32,
    pub(super) output: String,
}

/// The result of `jext fsck`.
pub(super) struct OfJext {
    pub(super) verdict: Verdict,
    pub(super) kinds: BTreeSet<String>,
    /// Reason if it cannot judge the image, because it lacks something.
    pub(super) refusal: Option<String>,
}

/// The exit status and output of a program.
pub(super) struct Ended {
    pub(super) status: i32,
    pub(super) output: String,
    pub(super) errors: String,
}

/// The two checkers, and a folder for copies of images.
pub(super) struct Judges {
    pub(super) jext: PathBuf,
    pub(super) scratch: Scratch,
}

/// Runs a program that must end in time.
pub(super) fn ended(seconds: u32, program: &Path, words: &[&str]) -> Result<Ended> {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string()]);
    command.arg(program).args(words).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| program.display().to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended {
        status: output.status.code().unwrap_or(-1),
        output: text(&output.stdout),
        errors: text(&output.stderr),
    })
}

impl Image {
    fn text(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    /// Returns the words that name the image and, after an option, its journal.
    fn words<'a>(&'a self, option: &'a str) -> Vec<&'a str> {
        let journal = self.journal.as_ref().and_then(|path| path.to_str());
        let journal = journal.map(|path| [option, path]);
        let words = journal.into_iter().flatten();
        words.chain([self.text()]).collect()
    }
}

impl Judges {
    /// Returns the folder of the copies.
    pub(super) fn folder(&self) -> String {
        self.scratch.at("").display().to_string()
    }

    /// Copies an image and its journal.
    pub(super) fn copy(&self, image: &Image, name: &str) -> Result<Image> {
        let copy = |source: &PathBuf, name: &str| {
            let target = self.scratch.at(name);
            let paths = [source, &target];
            let mut command = Command::new("cp");
            let copied = command.arg("--sparse=always").args(paths).status();
            let copied = copied.context("cp")?;
            ensure!(copied.success(), "{} cannot be copied", source.display());
            Ok(target)
        };
        let journal = image.journal.as_ref();
        Ok(Image {
            name: image.name.clone(),
            path: copy(&image.path, name)?,
            journal: journal
                .map(|path| copy(path, &format!("{name}.{JOURNAL}")))
                .transpose()?,
        })
    }

    /// Runs `e2fsck -fn`. It does not read the log: if there is one to replay, a copy is judged
    /// after that.
    pub(super) fn e2fsck(&self, image: &Image, messages: &[Message]) -> Result<OfE2fsck> {
        let program = Path::new("e2fsck");
        let run = |words: &[&str], image: &Image| {
            let words = [words, &image.words("-j")].concat();
            let Ended {
                status,
                output,
                errors,
            } = ended(SECONDS_MAX, program, &words)?;
            Ok::<_, anyhow::Error>((status, start_of(&output).to_owned() + &errors))
        };
        let (mut before, mut has_mended) = (String::new(), false);
        let copy;
        let mut judged = image;
        if needs_recovery(image)? {
            copy = self.copy(image, "replayed")?;
            let (status, output) = run(&["-p", "-E", "journal_only"], &copy)?;
            // It mends what it finds before the log, and its status is 0 nevertheless.
            let is_replay = |line: &str| line.ends_with(": recovering journal");
            let is_only_replay = output.lines().all(is_replay);
            let is_left = status >= LEFT;
            has_mended = is_left || !is_only_replay;
            // Only the original shows what was mended.
            if is_left || is_only_replay {
                judged = &copy;
            }
            if is_left {
                before = output;
            }
        }
        let (status, output) = run(&["-fn"], judged)?;
        let output = before + &output;
        let said = e2fsck::said(messages, &output);
        let is_content = e2fsck::is_content(status, &said, is_note);
        let verdict = if is_content && !has_mended {
            Verdict::Clean
        } else if status & GAVE_UP != 0 {
            Verdict::Stops
        } else {
            Verdict::NotClean
        };
        Ok(OfE2fsck {
            verdict,
            status,
            output,
        })
    }

    /// Runs `jext fsck`.
    pub(super) fn jext(&self, image: &Image) -> Result<OfJext> {
        let words = [&["fsck", "--json"][..], &image.words("--journal-device")].concat();
        let Ended {
            status,
            output,
            errors,
        } = ended(SECONDS_MAX, &self.jext, &words)?;
        if status == CANNOT {
            let lacks = [
                "not supported",
                "external journal",
                "journal is on another device",
            ];
            let is_refused = lacks.iter().any(|text| errors.contains(text));
            let why = errors.trim().rsplit_once(&format!("{}: ", image.text()));
            return Ok(OfJext {
                verdict: Verdict::Stops,
                kinds: BTreeSet::from([ERROR.to_owned()]),
                refusal: is_refused.then(|| why.map_or(&*errors, |(_, why)| why).to_owned()),
            });
        }
        let report: Value = serde_json::from_str(&output)
            .with_context(|| format!("{}: jext fsck: status {status}: {errors}", image.name))?;
        let problems = report["problems"].as_array().context("problems")?;
        let kinds = problems
            .iter()
            .filter_map(|problem| problem["name"].as_str());
        Ok(OfJext {
            verdict: match report["clean"].as_bool().context("clean")? {
                true => Verdict::Clean,
                false => Verdict::NotClean,
            },
            kinds: kinds.map(str::to_owned).collect(),
            refusal: None,
        })
    }
}

/// Returns the whole lines at the start of an output.
fn start_of(output: &str) -> &str {
    let start = &output[..output.floor_char_boundary(OUTPUT_BYTES_MAX)];
    match start.rfind('\n') {
        Some(end) if start.len() < output.len() => &start[..=end],
        _ => start,
    }
}

/// True if the superblock demands the replay of the log.
fn needs_recovery(image: &Image) -> Result<bool> {
    let dumped = ended(SECONDS_MAX, Path::new("dumpe2fs"), &["-h", image.text()])?;
    let mut lines = dumped.output.lines();
    Ok(lines
        .any(|line| line.starts_with("Filesystem features:") && line.contains(" needs_recovery")))
}
