//! The programs: command lines of both sides for the same work, and parsers of their figures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use lab::system::tool::{self, Needed};
use serde_json::Value;

use super::Amounts;
use super::child::{self, Finished};
use crate::spans::Work;

const MIB: u64 = 1 << 20;
/// Names of the processor figures: seconds of a run, or bytes per processor second if the duration
/// is fixed.
const PROCESSOR_TIME: &str = "processor_time";
const PROCESSOR_RATE: &str = "processor_rate";
/// Text that Bonnie++ prints for a phase that was too short to measure.
const TOO_SHORT: &str = "+++++";
/// Fields of Bonnie++'s row with the rates of writing, rewriting and reading blocks, in KiB per
/// second.
const BONNIE_FIGURES: [(&str, usize); 3] =
    [("write_rate", 11), ("rewrite_rate", 13), ("read_rate", 17)];
const BONNIE_FIELDS: usize = 50;

/// A program of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Peer {
    Postmark,
    #[value(name = "fs_mark")]
    FsMark,
    Bonnie,
    Dbench,
}

/// The side of a comparison: Debian's program or jext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Theirs,
    Ours,
}

/// Figures of one run.
pub(super) struct Measured {
    // Name and value, in bytes, files or seconds.
    figures: Vec<(&'static str, f64)>,
    /// Counts of PostMark, which do not depend on time.
    work: Option<Work>,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Theirs => "Debian's",
            Self::Ours => "ours",
        }
    }
}

impl Measured {
    /// Returns the figure of this name, if the run has it.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        let named = |(own, _): &&(&str, f64)| *own == name;
        self.figures.iter().find(named).map(|(_, value)| *value)
    }
}

impl Peer {
    pub(super) const ALL: [Self; 4] = [Self::Postmark, Self::FsMark, Self::Bonnie, Self::Dbench];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Postmark => "PostMark",
            Self::FsMark => "fs_mark",
            Self::Bonnie => "Bonnie++",
            Self::Dbench => "dbench",
        }
    }

    /// Returns the program and the Debian package that contains it.
    pub(super) fn tool(self) -> Needed {
        match self {
            Self::Postmark => ("postmark", "postmark"),
            Self::FsMark => ("fs_mark", "fsmark"),
            Self::Bonnie => ("bonnie++", "bonnie++"),
            Self::Dbench => ("dbench", "dbench"),
        }
    }

    /// Returns the compared figures and their units.
    pub(super) fn figures(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Postmark => &[("elapsed", "s"), (PROCESSOR_TIME, "s")],
            Self::FsMark => &[("files_rate", "files/s"), (PROCESSOR_TIME, "s")],
            Self::Bonnie => &[
                ("write_rate", "B/s"),
                ("rewrite_rate", "B/s"),
                ("read_rate", "B/s"),
                (PROCESSOR_TIME, "s"),
            ],
            Self::Dbench => &[("throughput", "B/s"), (PROCESSOR_RATE, "B/s")],
        }
    }

    /// Runs one side's program in a folder.
    pub(super) fn measure(
        self,
        side: Side,
        jext: &Path,
        amounts: &Amounts,
        (folder, scratch): (&Path, &Path),
    ) -> Result<Measured> {
        let finished = match side {
            Side::Theirs => {
                let program = tool::find(self.tool().0).context("the program is gone")?;
                // fs_mark accepts no path of 40 bytes or more, so it runs in the folder with the
                // path `.`.
                let place = if self == Self::FsMark {
                    folder
                } else {
                    scratch
                };
                child::run(&program, &self.theirs(amounts, folder, scratch)?, place)?
            }
            Side::Ours => child::run(jext, &self.ours(amounts, folder, scratch)?, scratch)?,
        };
        let mut figures = match (self, side) {
            (Self::Postmark, _) => vec![("elapsed", finished.seconds)],
            (Self::FsMark, Side::Theirs) => vec![("files_rate", fs_mark_rate(&finished.printed)?)],
            (Self::Bonnie, Side::Theirs) => bonnie_rates(&finished.printed)?,
            (Self::Dbench, Side::Theirs) => vec![("throughput", dbench_rate(&finished.printed)?)],
            (_, Side::Ours) => self.own_figures(&finished)?,
        };
        figures.push(self.of_processors(&finished, &figures));
        let work = match self {
            Self::Postmark => Some(Work::parse(&finished.printed)?),
            _ => None,
        };
        Ok(Measured { figures, work })
    }

    /// Returns the processor time of the work, or the work per processor second if the duration is
    /// fixed.
    fn of_processors(
        self,
        finished: &Finished,
        figures: &[(&'static str, f64)],
    ) -> (&'static str, f64) {
        let spent = finished.processor_seconds;
        match (self, figures) {
            (Self::Dbench, [(_, throughput)]) => {
                (PROCESSOR_RATE, throughput * finished.seconds / spent)
            }
            _ => (PROCESSOR_TIME, spent),
        }
    }

    /// Checks that both sides did the same work.
    pub(super) fn check_same(self, theirs: &Measured, ours: &Measured) -> Result<()> {
        let (theirs, ours) = (&theirs.work, &ours.work);
        ensure!(
            theirs == ours,
            "{}: Debian's did {theirs:?}, ours {ours:?}",
            self.name()
        );
        Ok(())
    }

    /// Returns the arguments of Debian's program.
    fn theirs(self, amounts: &Amounts, folder: &Path, scratch: &Path) -> Result<Vec<String>> {
        let place = text(folder)?;
        Ok(match self {
            Self::Postmark => {
                let location = format!("set location {place}\n");
                vec![script(amounts, &location, scratch)?]
            }
            Self::FsMark => {
                let log = scratch.join("fs_mark.log");
                let (files, sync) = (amounts.files, amounts.sync_method);
                words(&format!("-n {files} -S {sync} -l {} -d", text(&log)?), ".")
            }
            Self::Bonnie => {
                let (size, chunk) = (amounts.megabytes, amounts.chunk);
                // Declares half of the size as memory, so that Bonnie++ does not refuse the size;
                // no seeks and no files.
                let line = format!(
                    "-q -f -n 0 -s {size}:{chunk}:0:0 -r {} -m jext -u root -d",
                    size / 2
                );
                words(&line, place)
            }
            Self::Dbench => {
                let Amounts {
                    clients,
                    seconds,
                    load,
                    ..
                } = amounts;
                let mut all = words(&format!("-t {seconds} -D"), place);
                all.extend(["-c".to_owned(), load.clone(), clients.to_string()]);
                all
            }
        })
    }

    /// Returns the arguments of jext for the same work.
    fn ours(self, amounts: &Amounts, folder: &Path, scratch: &Path) -> Result<Vec<String>> {
        let mut all = vec!["bench".to_owned()];
        let (name, sets) = match self {
            Self::Postmark => {
                all.extend(words(
                    "postmark --compat --script",
                    &script(amounts, "", scratch)?,
                ));
                all.push(text(folder)?.to_owned());
                return Ok(all);
            }
            Self::FsMark => {
                let (files, sync) = (amounts.files, amounts.sync_method);
                (
                    "fs_mark",
                    vec![format!("files={files}"), format!("sync={sync}")],
                )
            }
            Self::Bonnie => {
                let size = u64::from(amounts.megabytes) * MIB;
                let chunk = amounts.chunk;
                let sets = vec![format!("size={size}"), format!("chunk={chunk}")];
                ("bonnie", [sets, words("bytes=false", "files=0")].concat())
            }
            Self::Dbench => {
                let Amounts {
                    clients,
                    seconds,
                    load,
                    ..
                } = amounts;
                let sets = [
                    format!("clients={clients}"),
                    format!("time={seconds}s"),
                    format!("load={load}"),
                ];
                ("dbench", sets.to_vec())
            }
        };
        all.extend(words(name, text(folder)?));
        all.push("--json".to_owned());
        for set in sets
            .into_iter()
            .chain(words("latencies=false", "verify=false"))
        {
            all.extend(["--set".to_owned(), set]);
        }
        Ok(all)
    }

    fn own_figures(self, finished: &Finished) -> Result<Vec<(&'static str, f64)>> {
        let json: Value = serde_json::from_str(&finished.printed).context("our own figures")?;
        let names = self.figures().iter().map(|(name, _)| *name);
        let printed = names.filter(|name| ![PROCESSOR_TIME, PROCESSOR_RATE].contains(name));
        let figures = printed.map(|name| {
            let value = json["metrics"][name]["value"].as_f64();
            value
                .map(|value| (name, value))
                .with_context(|| format!("no figure {name}"))
        });
        figures.collect()
    }
}

/// Writes PostMark's commands to a file and returns its path.
fn script(amounts: &Amounts, first: &str, scratch: &Path) -> Result<String> {
    let path: PathBuf = scratch.join("postmark.commands");
    let transactions = amounts.transactions;
    let commands = format!("{first}set number 2000\nset transactions {transactions}\nrun\nquit\n");
    fs::write(&path, commands).context("PostMark's commands")?;
    Ok(text(&path)?.to_owned())
}

/// Returns the words of a line, followed by a word that may contain spaces.
fn words(line: &str, last: &str) -> Vec<String> {
    let words = line.split_whitespace().chain([last]);
    words.map(str::to_owned).collect()
}

/// Parses the files per second that fs_mark prints: the column of that name in the row below the
/// names.
fn fs_mark_rate(printed: &str) -> Result<f64> {
    let mut lines = printed
        .lines()
        .skip_while(|line| !line.contains("Files/sec"));
    let heads = lines.next().unwrap_or_default();
    let row = lines
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let at = heads
        .split_whitespace()
        .position(|head| head == "Files/sec");
    let value = at.and_then(|at| row.split_whitespace().nth(at)?.parse().ok());
    value.with_context(|| format!("fs_mark does not say how many files a second: {printed}"))
}

/// Parses the rates from Bonnie++'s CSV row; omits phases of less than half a second.
fn bonnie_rates(printed: &str) -> Result<Vec<(&'static str, f64)>> {
    let rows = printed
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.into_iter().find(|row| row.len() == BONNIE_FIELDS);
    let Some(row) = row else {
        bail!("bonnie++ has not printed a row of {BONNIE_FIELDS} fields: {printed}");
    };
    let mut found = Vec::new();
    for (name, at) in BONNIE_FIGURES {
        if row[at] != TOO_SHORT {
            let rate: f64 = row[at]
                .parse()
                .with_context(|| format!("bonnie++: {name}: {printed}"))?;
            found.push((name, rate * 1024.0));
        }
    }
    Ok(found)
}

/// Parses the final throughput of dbench, in units of a million bytes per second.
fn dbench_rate(printed: &str) -> Result<f64> {
    let words = printed
        .lines()
        .find_map(|line| line.strip_prefix("Throughput "));
    let value = words.and_then(|words| words.split_once(" MB/sec")?.0.parse::<f64>().ok());
    let value = value.with_context(|| format!("dbench does not say its throughput: {printed}"))?;
    Ok(value * 1e6)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{}: not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_fs_mark_are_found() {
        let printed = "\n#  fs_mark  -d  /tmp/x \n#\tVersion 3.3, 1 thread(s)\n\n\
            FSUse%        Count         Size    Files/sec     App Overhead\n     \
            2         1000        51200      11183.6             3008\n";
        assert_eq!(fs_mark_rate(printed).expect("it is there"), 11183.6);
        assert!(fs_mark_rate("FSUse% Files/sec\n\n 2 x\n").is_err());
        assert!(fs_mark_rate("").is_err());
    }

    #[test]
    fn figures_of_bonnie_are_found_and_short_phases_left_out() {
        let printed = "1.98,2.00a,x,1,1795323213,64M,,8192,5,,,400,9,+++++,+++,,,300,7,+++++,+++,\
            ,,,,,,,,,,,,,,,,,,36078us,28095us,,28090us,57461us,,,,,,";
        let rates = bonnie_rates(printed).expect("it is a row");
        assert_eq!(
            rates,
            [
                ("write_rate", 400.0 * 1024.0),
                ("read_rate", 300.0 * 1024.0)
            ]
        );
        assert!(bonnie_rates("1,2").is_err());
    }

    #[test]
    fn figures_of_dbench_are_found() {
        let printed = "   2  10 1.00 MB/sec  execute   1 sec\n\n\
            Throughput 1361.51 MB/sec  2 clients  2 procs  max_latency=12.725 ms\n";
        assert_eq!(dbench_rate(printed).expect("it is there"), 1361.51e6);
        let synchronous = "Throughput 9.5 MB/sec (sync open)  1 clients";
        assert_eq!(dbench_rate(synchronous).expect("it is there"), 9.5e6);
        assert!(dbench_rate("Throughput").is_err());
    }
}
