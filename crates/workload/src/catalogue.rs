//! All workloads by their names, and [`Load`]: one of them with its parameters.
//!
//! PostMark is not in this list: it has its original's own command language, phases and report. Everything else here is
//! reached by name, from plans and from `jext bench`.

use std::fmt;
use std::sync::Arc;

use crate::control::Control;
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::{self, Stage};
use crate::target::Target;
use crate::tree;

/// A workload whose parameters were read and checked.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Does it once. The folder named as the workload is there and empty, and is removed afterwards with all that is in it.
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError>;
}

/// A workload by its name.
#[derive(Debug)]
pub struct Definition {
    /// Its name in plans and commands, and of its folder.
    pub name: &'static str,
    /// What it is, in one line.
    pub title: &'static str,
    /// Its own parameters; those of [`stage::PARAMETERS`] come on top.
    pub parameters: &'static [Parameter],
    /// What its runs are told by.
    pub headline: Headline,
    /// Reads and checks parameters.
    pub read: fn(&Values) -> Result<Arc<dyn Workload>, ParameterError>,
}

/// All of them, in the order in which they are listed.
pub const WORKLOADS: &[&Definition] = &[
    &crate::synctest::DEFINITION,
    &crate::make_many_files::DEFINITION,
    &crate::tree_copy::DEFINITION,
    &crate::fs_mark::DEFINITION,
    &crate::obldisk::DEFINITION,
    &crate::oblload::DEFINITION,
    &crate::mongo::DEFINITION,
    &crate::iozone::DEFINITION,
    &crate::bonnie::DEFINITION,
    &crate::dbench::DEFINITION,
    &crate::filebench::DEFINITION,
    &crate::fsx::DEFINITION,
    &crate::fsstress::DEFINITION,
];

impl Definition {
    /// The workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS
            .iter()
            .copied()
            .find(|definition| definition.name == name)
    }

    /// The defaults of all its parameters.
    #[must_use]
    pub fn defaults(&self) -> Values {
        Values::defaults([stage::PARAMETERS, self.parameters])
    }
}

/// A workload with its parameters.
#[derive(Debug, Clone)]
pub struct Load {
    definition: &'static Definition,
    values: Values,
    workload: Arc<dyn Workload>,
}

impl PartialEq for Load {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && self.values == other.values
    }
}

impl Eq for Load {}

impl Load {
    /// A workload with these values, which begin as its [`Definition::defaults`].
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn new(definition: &'static Definition, values: Values) -> Result<Self, ParameterError> {
        Ok(Self {
            workload: (definition.read)(&values)?,
            definition,
            values,
        })
    }

    /// Which it is.
    #[must_use]
    pub fn definition(&self) -> &'static Definition {
        self.definition
    }

    /// Its parameters.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Does it once, in a folder of its own below the target's root, which is removed afterwards in any case.
    ///
    /// # Errors
    /// Whatever went wrong; also if the folder is there already.
    pub fn run(
        &self,
        target: &Arc<dyn Target>,
        control: &Arc<Control>,
    ) -> Result<Outcome, RunError> {
        let folder = self.definition.name;
        target.mkdir(folder)?;
        let stage = Stage::new(target, control, &self.values);
        let result = self.workload.run(&stage);
        let removed = tree::remove(&**target, folder);
        let outcome = result?;
        removed?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::postmark;

    #[test]
    fn names_are_unique_and_parameters_carry_the_workloads() {
        for (index, definition) in WORKLOADS.iter().enumerate() {
            let name = definition.name;
            assert!(WORKLOADS[..index].iter().all(|other| other.name != name));
            let prefix = format!("{name}.");
            for parameter in definition.parameters {
                assert!(parameter.name.starts_with(&prefix), "{}", parameter.name);
            }
            assert!(
                Load::new(definition, definition.defaults()).is_ok(),
                "the defaults of {name}"
            );
        }
    }

    #[test]
    fn every_headline_is_of_figures_and_its_primary_has_a_direction() {
        let all = WORKLOADS.iter().map(|definition| &definition.headline);
        for headline in all.chain([&postmark::HEADLINE]) {
            assert!(headline.shown.contains(&headline.primary));
            for name in headline.shown {
                let figure = Figure::named(name).unwrap_or_else(|| panic!("no figure {name}"));
                assert!(
                    *name != headline.primary || figure.better.is_some(),
                    "{name}"
                );
            }
        }
    }
}
