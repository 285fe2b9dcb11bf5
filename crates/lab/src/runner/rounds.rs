//! [`Rounds`]: chooses the next trials and their order.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::StableHash;
use crate::plan::{Combination, Plan, Trial};
use crate::record::Record;
use crate::report::headline;
use crate::statistics::Sample;
use crate::statistics::stopping::Verdict;

/// The state of each combination, from which the next trials follow.
pub(super) struct Rounds<'p> {
    plan: &'p Plan,
    combinations: Vec<(Combination, Known)>,
}

/// The state of a combination.
#[derive(Default)]
struct Known {
    // The primary figure by repetition; `None` if a trial failed or lacks it.
    values: BTreeMap<u32, Option<f64>>,
    warmups: BTreeSet<u32>,
    has_failed: bool,
}

impl<'p> Rounds<'p> {
    /// Creates the rounds of a plan with these records.
    pub(super) fn new<'r>(plan: &'p Plan, records: impl Iterator<Item = &'r Record>) -> Self {
        let combinations = plan.combinations().into_iter();
        let mut combinations: Vec<(Combination, Known)> = combinations
            .map(|combination| (combination, Known::default()))
            .collect();
        let index: BTreeMap<String, usize> = combinations
            .iter()
            .enumerate()
            .map(|(index, (combination, _))| (combination.id(), index))
            .collect();
        for record in records {
            if let Some(index) = index.get(&record.context.combination) {
                let (combination, known) = &mut combinations[*index];
                let primary = headline::of(&combination.settings).primary;
                known.add(record.repetition, record.is_warmup, record.metric(primary));
            }
        }
        Self { plan, combinations }
    }

    /// Returns the trials of the plan that are not recorded: warm-ups first, then repetition by
    /// repetition.
    pub(super) fn first(&self) -> Vec<Trial> {
        let warmups = (0..self.plan.warmup).map(|number| (number, true));
        let runs = (0..self.plan.repetitions).map(|number| (number, false));
        let mut trials = Vec::new();
        for (repetition, is_warmup) in warmups.chain(runs) {
            let is_open = |known: &Known| match is_warmup {
                true => !known.warmups.contains(&repetition),
                false => !known.values.contains_key(&repetition),
            };
            let open = self.combinations.iter().filter(|(_, known)| is_open(known));
            trials.extend(
                self.block(open.map(|(combination, _)| (combination, repetition, is_warmup))),
            );
        }
        trials
    }

    /// Updates the state with finished trials.
    pub(super) fn learn(&mut self, finished: &mut Vec<(Trial, Option<f64>)>) {
        for (trial, value) in finished.drain(..) {
            let mut combinations = self.combinations.iter_mut();
            let own = combinations.find(|(combination, _)| {
                combination.block == trial.block && combination.levels == trial.levels
            });
            if let Some((_, known)) = own {
                known.add(trial.repetition, trial.is_warmup, value);
                known.has_failed |= value.is_none();
            }
        }
    }

    /// Returns one more trial for each combination whose interval is too wide.
    pub(super) fn next(&self) -> Vec<Trial> {
        let rule = self.plan.stopping_rule();
        let more = self.combinations.iter().filter_map(|(combination, known)| {
            let values: Vec<f64> = known.values.values().copied().flatten().collect();
            let is_wide = rule.judge(Sample::new(values).as_ref()) == Verdict::More;
            let repetition = known.next()?;
            let may = !known.has_failed && repetition < self.plan.repetitions_max;
            (is_wide && may).then_some((combination, repetition, false))
        });
        self.block(more)
    }

    /// Returns one block, in an order shuffled by the plan's seed.
    fn block<'c>(&self, trials: impl Iterator<Item = (&'c Combination, u32, bool)>) -> Vec<Trial> {
        let mut trials: Vec<Trial> = trials
            .map(|(combination, repetition, is_warmup)| combination.trial(repetition, is_warmup))
            .collect();
        trials.sort_by_cached_key(|trial| {
            let mut hash = StableHash::new();
            hash.number(self.plan.seed);
            hash.text(&trial.id());
            hash.finish()
        });
        trials
    }
}

impl Known {
    fn add(&mut self, repetition: u32, is_warmup: bool, value: Option<f64>) {
        if is_warmup {
            self.warmups.insert(repetition);
        } else {
            self.values.insert(repetition, value);
        }
    }

    /// Returns the first repetition that has not been run.
    fn next(&self) -> Option<u32> {
        (0..=u32::MAX).find(|repetition| !self.values.contains_key(repetition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(head: &str) -> Plan {
        let text = format!(
            "[plan]\nname = \"p\"\nquestion = \"?\"\n{head}\n[fixed]\ndevice = \"mem:64MiB\"\n\
             target = \"process\"\n[factors]\nfs.commit = [1, 2, 3, 4, 5, 6]\n"
        );
        Plan::parse("p.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn order(trials: &[Trial]) -> Vec<String> {
        trials.iter().map(Trial::name).collect()
    }

    #[test]
    fn each_repetition_is_a_block_in_an_order_of_its_own() {
        let plan = plan("repetitions = 3\nwarmup = 1");
        let trials = Rounds::new(&plan, std::iter::empty()).first();
        assert_eq!(trials.len(), 24);
        assert!(trials[..6].iter().all(|trial| trial.is_warmup));
        let blocks: Vec<&[Trial]> = trials[6..].chunks(6).collect();
        for (number, block) in blocks.iter().enumerate() {
            assert!(block.iter().all(|trial| trial.repetition == number as u32));
            let mut names = order(block);
            names.sort();
            assert_eq!(
                names,
                ["1s", "2s", "3s", "4s", "5s", "6s"],
                "each level once"
            );
        }
        assert_ne!(order(blocks[0]), order(blocks[1]));
        let again = Rounds::new(&plan, std::iter::empty()).first();
        assert_eq!(order(&again), order(&trials), "the seed decides");
    }

    #[test]
    fn what_varies_is_repeated_up_to_the_cap_and_no_more() {
        let plan = plan("repetitions = 3\nprecision = 0.05\nrepetitions_max = 5");
        let mut rounds = Rounds::new(&plan, std::iter::empty());
        // Level 1s varies, 2s fails, the others are constant.
        let run = |rounds: &mut Rounds<'_>, trials: Vec<Trial>| {
            let time = |trial: &Trial| match trial.name().as_str() {
                "1s" => Some(100.0 + 40.0 * f64::from(trial.repetition % 2)),
                "2s" => None,
                _ => Some(100.0 + f64::from(trial.repetition % 2)),
            };
            let mut finished = trials.into_iter().map(|t| (t.clone(), time(&t))).collect();
            rounds.learn(&mut finished);
        };
        let first = rounds.first();
        assert_eq!(first.len(), 18);
        run(&mut rounds, first);
        for repetition in [3, 4] {
            let next = rounds.next();
            assert_eq!(order(&next), ["1s"]);
            assert_eq!(next[0].repetition, repetition);
            run(&mut rounds, next);
        }
        assert!(rounds.next().is_empty(), "the cap");
    }

    #[test]
    fn without_a_precision_there_is_one_round() {
        let plan = plan("repetitions = 2");
        let mut rounds = Rounds::new(&plan, std::iter::empty());
        let mut finished = rounds.first().into_iter().map(|t| (t, Some(1.0))).collect();
        rounds.learn(&mut finished);
        assert!(rounds.next().is_empty());
    }
}
