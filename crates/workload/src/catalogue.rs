//! The list of all workloads, and [`Load`]: a workload with its parameters.
//!
//! This is the only list: plans take their keys from it, and `jext bench` its commands. The first
//! workload is the default of a plan.

use std::sync::Arc;

use crate::control::Control;
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::outcome::Outcome;
use crate::parameter::{ParameterError, Setting, Values};
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::Target;
use crate::tree;

/// All workloads, in the order in which they are listed.
pub const WORKLOADS: &[&Definition] = &[
    &crate::postmark::DEFINITION,
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

/// The end of the name of the parameter that seeds a workload's random numbers.
const SEED_SUFFIX: &str = ".seed";

impl Definition {
    /// Returns the workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS
            .iter()
            .copied()
            .find(|definition| definition.name == name)
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
    /// Returns a workload with these values, which start as its [`Definition::defaults`].
    ///
    /// # Errors
    /// Fails with the first value that is invalid.
    pub fn new(definition: &'static Definition, values: Values) -> Result<Self, ParameterError> {
        Ok(Self {
            workload: (definition.read)(&values)?,
            definition,
            values,
        })
    }

    /// Returns the same workload with another seed of its random numbers.
    ///
    /// # Errors
    /// Fails if the workload does not take this seed; all take those from 1 to 2^31 - 1.
    pub fn reseeded(&self, seed: u32) -> Result<Self, ParameterError> {
        let mut values = self.values.clone();
        let mut parameters = self.definition.all_parameters();
        if let Some(parameter) = parameters.find(|own| own.name.ends_with(SEED_SUFFIX)) {
            values.set(parameter.name, Setting::Number(i64::from(seed)));
        }
        Self::new(self.definition, values)
    }

    /// Returns the workload's definition.
    #[must_use]
    pub fn definition(&self) -> &'static Definition {
        self.definition
    }

    /// Returns its parameters.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the data that a run writes before it deletes anything, if the parameters determine
    /// it.
    #[must_use]
    pub fn footprint(&self) -> Option<Footprint> {
        (self.definition.footprint)(&self.values)
    }

    /// Runs the workload once. With [`Frame::Common`] it runs in its own directory below the
    /// target's root, which is always removed afterwards.
    ///
    /// # Errors
    /// Fails with the first error of the run; also if the directory exists already.
    pub fn run(
        &self,
        target: &Arc<dyn Target>,
        control: &Arc<Control>,
    ) -> Result<Outcome, RunError> {
        if self.definition.frame == Frame::Original {
            return self.workload.run(&Stage::bare(target, control));
        }
        let directory = self.definition.name;
        target.mkdir(directory)?;
        let stage = Stage::new(target, control, &self.values);
        let result = self.workload.run(&stage);
        let removed = tree::remove(&**target, directory);
        let outcome = result?;
        removed?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

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
        for headline in WORKLOADS.iter().map(|definition| &definition.headline) {
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
