//! [`Named`]: one command for each workload of the catalogue except PostMark, which has its own.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use workload::postmark;
use workload::{Definition, WORKLOADS};

use super::load;

/// A workload, selected by the name of its command.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) definition: &'static Definition,
    pub(super) arguments: Box<load::Arguments>,
}

fn definitions() -> impl Iterator<Item = &'static Definition> {
    let all = WORKLOADS.iter().copied();
    all.filter(|definition| definition.name != postmark::DEFINITION.name)
}

impl FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (name, own) = matches
            .subcommand()
            .ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        let definition = definitions().find(|definition| definition.name == name);
        Ok(Self {
            definition: definition.ok_or_else(|| Error::new(ErrorKind::InvalidSubcommand))?,
            arguments: Box::new(load::Arguments::from_arg_matches(own)?),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Named {
    fn augment_subcommands(command: Command) -> Command {
        definitions().fold(command, |command, definition| {
            let own = Command::new(definition.name);
            // The description of the argument type fits no particular workload.
            let own = load::Arguments::augment_args(own).about(definition.title);
            command.subcommand(own)
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        definitions().any(|definition| definition.name == name)
    }
}
