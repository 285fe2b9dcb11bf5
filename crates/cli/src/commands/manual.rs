//! `jext manual`: writes man pages of all commands, generated from the command line's definition.
//! Exit statuses and [`examples`] are added to each.

mod examples;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Exit statuses of most commands.
const STATUSES: &[(&str, &str)] = &[
    ("0", "Success."),
    (
        "1",
        "An error. Standard error has one line with the reason.",
    ),
    ("2", "The command line is wrong."),
];
/// Exit statuses of `jext fsck`, those of fsck(8).
const STATUSES_OF_FSCK: &[(&str, &str)] = &[
    ("0", "Nothing is wrong."),
    ("4", "Problems were found. They are not repaired."),
    (
        "8",
        "The check could not be done: no superblock, unknown features, a missing journal device, or an I/O error.",
    ),
    ("16", "The command line is wrong."),
];
/// Meanings of status 1 for commands where it is not only an error.
const MEANINGS_OF_1: &[(&str, &str)] = &[
    (
        "jext-info",
        "An error; or, with --for, the system or program does not accept the file system.",
    ),
    (
        "jext-crash",
        "An error, or a violation was found. The output has the line that repeats it.",
    ),
    ("jext-replay", "An error, or the violation still occurs."),
    (
        "jext-lab-run",
        "An error, or a trial failed. The other trials are recorded.",
    ),
];
/// The status of a command that a signal ends.
const STATUS_OF_SIGNAL: (&str, &str) = (
    "128+N",
    "Signal N ended the command; its unfinished output is removed.",
);
/// The heading that a page ends with.
const VERSION: &str = ".SH VERSION\n";

/// Write man pages: jext.1, and one for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory to write to, such as /usr/local/share/man/man1. It is created if missing.
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{}: cannot be made", directory.display()))?;
    write(&built(command), directory)
        .with_context(|| format!("{}: cannot be written to", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command with the full names of its subcommands.
fn built(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

fn write(command: &Command, directory: &Path) -> Result<()> {
    for subcommand in visible(command) {
        write(subcommand, directory)?;
    }
    let version = command.get_version().unwrap_or_default();
    let man = Man::new(command.clone())
        .source(format!("jext {version}"))
        .manual("jext");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page)?;
    let (before, after) = page.rsplit_once(VERSION).unwrap_or((&page, ""));
    let text = [before, &added(name(command)), VERSION, after].concat();
    std::fs::write(directory.join(man.get_filename()), text)?;
    Ok(())
}

/// Returns the subcommands that have a page.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|subcommand| !subcommand.is_hide_set())
}

/// Returns the name of a command's page, such as `jext-journal-show`.
fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// Returns the sections that are added to a page.
fn added(name: &str) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in statuses(name) {
        roff.control("TP", []);
        roff.text([bold(status)]);
        roff.text([roman(meaning)]);
    }
    let examples = examples::of(name);
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for (purpose, lines) in examples {
        roff.control("PP", []);
        roff.text([roman(format!("{purpose}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff.to_roff()
}

fn statuses(name: &str) -> Vec<(&'static str, &'static str)> {
    if name == "jext-fsck" {
        return STATUSES_OF_FSCK.to_vec();
    }
    let mut statuses = STATUSES.to_vec();
    if let Some((_, meaning)) = MEANINGS_OF_1.iter().find(|(page, _)| *page == name) {
        statuses[1].1 = meaning;
    }
    statuses.push(STATUS_OF_SIGNAL);
    statuses
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    /// Returns the words of a line of a shell with single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                letter => words.last_mut().expect("at least one").push(letter),
            }
        }
        words
    }

    /// Collects the names of the pages of all commands without subcommands.
    fn leaves(command: &Command, found: &mut Vec<String>) {
        if visible(command).next().is_none() {
            found.push(name(command).to_owned());
        }
        visible(command).for_each(|subcommand| leaves(subcommand, found));
    }

    #[test]
    fn every_command_has_an_example_of_itself() {
        let mut names = Vec::new();
        leaves(&built(Cli::command()), &mut names);
        assert!(names.len() > 50, "{names:?}");
        for name in names {
            let is_own = |line: &str| line.replace(' ', "-").contains(&name);
            let examples = examples::of(&name);
            let mut lines = examples.iter().flat_map(|(_, lines)| lines.lines());
            assert!(lines.any(is_own), "{name} has no example");
        }
    }

    #[test]
    fn examples_are_command_lines_of_jext() {
        for (name, examples) in examples::ALL {
            for line in examples.iter().flat_map(|(_, lines)| lines.lines()) {
                let mut parts = line.split(" | ").flat_map(|part| part.split(" > "));
                let Some(own) = parts.find(|part| part.starts_with("jext ")) else {
                    continue;
                };
                if let Err(error) = Cli::try_parse_from(words(own)) {
                    panic!("{name}: {line}: {error}");
                }
            }
        }
    }
}
