//! `jext completions`: shell completions, generated from the definition of the command line.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use lab::plan::builtin;

/// Print completions for a shell: `source <(jext completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the shell.
    shell: Shell,
}

/// Commands of the laboratory that take plans, with the argument.
const OF_PLANS: [(&str, &str); 4] = [
    ("run", "plan"),
    ("report", "plan"),
    ("trials", "plan"),
    ("summary", "plans"),
];

pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let mut command = with_plans(command);
    // Written at once: the generator would panic if the reader stopped early.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "jext", &mut text);
    if arguments.shell == Shell::Fish {
        text.extend_from_slice(plans_in_fish().as_bytes());
    }
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what the generator leaves out in fish: the values of positional arguments.
fn plans_in_fish() -> String {
    let commands: Vec<&str> = OF_PLANS.iter().map(|(command, _)| *command).collect();
    let plans: Vec<&str> = builtin::ALL.iter().map(|plan| plan.name).collect();
    format!(
        "complete -c jext -n \"__fish_jext_using_subcommand lab; and \
         __fish_seen_subcommand_from {}\" -a \"{}\"\n",
        commands.join(" "),
        plans.join(" ")
    )
}

/// Returns the command with the names of the built-in plans as values. The parser takes paths, too,
/// so that only completions know them.
fn with_plans(command: Command) -> Command {
    let of_plans = |plan: Arg| {
        let names = builtin::ALL.iter().map(|plan| plan.name);
        plan.value_parser(PossibleValuesParser::new(names))
    };
    command.mut_subcommand("lab", |mut lab| {
        for (name, argument) in OF_PLANS {
            lab = lab.mut_subcommand(name, |one| one.mut_arg(argument, of_plans));
        }
        lab
    })
}
