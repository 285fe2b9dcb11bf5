//! Parses a plan and sets up each of its combinations once, so that a parsed plan can be run.

use super::Setup;
use crate::plan::builtin::Builtin;
use crate::plan::parse::{check_cells, parse};
use crate::plan::{Combination, Plan, PlanError, Spot};

impl Plan {
    /// Parses a plan. `file` is its name in errors.
    ///
    /// # Errors
    /// Fails with the first fault and its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let plan = parse(file, text)?;
        let start = Spot {
            file: file.into(),
            line: 1,
        };
        for combination in plan.combinations() {
            check(&plan, &combination, &start)?;
        }
        check_cells(&plan)?;
        Ok(plan)
    }

    /// Returns true if a trial mounts something; a command must then call
    /// [`crate::system::namespace::enter`] first.
    #[must_use]
    pub fn mounts(&self) -> bool {
        let combinations = self.combinations().into_iter();
        let mut setups = combinations.filter_map(|own| Setup::of(&own.settings).ok());
        setups.any(|setup| setup.mounts())
    }

    /// Returns true if a trial runs in a guest, which needs a kernel that is installed apart.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        let combinations = self.combinations().into_iter();
        let mut setups = combinations.filter_map(|own| Setup::of(&own.settings).ok());
        setups.any(|setup| setup.has_guest())
    }
}

impl Builtin {
    /// Parses the plan.
    ///
    /// # Errors
    /// Fails as [`Plan::parse`]; a test checks that no built-in plan does.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(self.file, self.text)
    }
}

/// Checks that a combination can be set up.
fn check(plan: &Plan, combination: &Combination, start: &Spot) -> Result<(), PlanError> {
    let trial = combination.trial(0, false);
    let setup = Setup::of(&trial.settings).map_err(|error| {
        let spots = error.keys.iter();
        let spots = spots.filter_map(|key| trial.settings.spot(key));
        // Lines of the plan itself precede those of its base.
        let spot = spots.max_by_key(|spot| (spot.file == start.file, spot.line));
        let place = if trial.levels.is_empty() {
            String::new()
        } else {
            format!(" ({})", trial.name())
        };
        PlanError::at(spot.unwrap_or(start), &format!("{}{place}", error.message))
    })?;
    if plan.warmup > 0 && setup.is_simulated() {
        let message = "warmup: a simulated trial always starts in the same state and needs none";
        return Err(PlanError::at(start, message));
    }
    Ok(())
}
