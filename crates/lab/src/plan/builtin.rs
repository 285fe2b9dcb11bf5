//! The plans that are built into the program.

use super::{Plan, PlanError};

/// A plan that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),+ $(,)?) => {
        /// All of them, in the order of a list.
        pub const ALL: &[Builtin] = &[
            $(Builtin { name: $name, text: include_str!(concat!("../../../../plans/", $name, ".toml")) }),+
        ];
    };
}

builtin!(
    "external-journal",
    "external-journal-confounded",
    "external-journal-test2",
    "external-journal-test3",
    "external-journal-sensitivity",
    "external-journal-ablation",
    "external-journal-kernel",
);

/// The plan of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|plan| plan.name == name)
}

impl Builtin {
    /// The plan, read.
    ///
    /// # Errors
    /// Those of [`Plan::parse`]; a plan that is built in has none, and a test sees to it.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(&format!("plans/{}.toml", self.name), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_that_is_built_in_is_right_and_has_its_name() {
        for builtin in ALL {
            let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.name, builtin.name);
            assert!(!plan.trials().is_empty());
        }
    }
}
