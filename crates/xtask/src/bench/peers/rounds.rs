//! The rounds: every side of a case once in each, in turns.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use lab::statistics::paired::ByRepetition;

use super::loads::Done;
use super::side::Side;
use super::site::Site;
use super::work::{Case, Work};
use crate::progress::Steps;
use crate::spans::Work as Counts;

/// A work and the figures of its runs.
pub(super) struct Measured<'w> {
    pub(super) work: &'w Work,
    pub(super) cases: Vec<MeasuredCase<'w>>,
}

/// The figures of a case.
pub(super) struct MeasuredCase<'w> {
    pub(super) case: &'w Case,
    /// In the order of the work's sides; each has the values of all figures by round.
    pub(super) sides: Vec<(Side, Vec<ByRepetition>)>,
    counts: Option<Counts>,
}

/// Measures all works.
pub(super) fn measure<'w>(site: &Site, works: &'w [Work], runs: u32) -> Result<Vec<Measured<'w>>> {
    let counts = works.iter().flat_map(|work| {
        let cases = work.cases.iter();
        cases.flat_map(|case| {
            work.sides
                .iter()
                .map(|side| Work::rounds(case, *side, runs))
        })
    });
    let mut steps = Steps::new(counts.map(u64::from).sum());
    let mut all = Vec::new();
    for work in works {
        let mut measured = Measured::new(work);
        for round in 0..runs {
            measured.run_round(site, (round, runs), &mut steps)?;
        }
        all.push(measured);
    }
    Ok(all)
}

impl<'w> Measured<'w> {
    fn new(work: &'w Work) -> Self {
        let cases = work.cases.iter().map(|case| MeasuredCase {
            case,
            sides: work
                .sides
                .iter()
                .map(|side| (*side, vec![BTreeMap::new(); work.figures.len()]))
                .collect(),
            counts: None,
        });
        Self {
            work,
            cases: cases.collect(),
        }
    }

    fn run_round(
        &mut self,
        site: &Site,
        (round, runs): (u32, u32),
        steps: &mut Steps,
    ) -> Result<()> {
        let work = self.work;
        for measured in &mut self.cases {
            for index in order(work.sides.len(), round) {
                let side = work.sides[index];
                if round >= Work::rounds(measured.case, side, runs) {
                    continue;
                }
                site.check_running()?;
                let name = format!("{}, {}: {}", work.name, measured.case.name, side.name());
                steps.begin(&name);
                let done = measured.case.load.run(site, work.place, side);
                // Programs that Ctrl-C has ended fail, too.
                site.check_running()?;
                measured.add(index, round, done.context(name)?)?;
            }
        }
        Ok(())
    }
}

impl MeasuredCase<'_> {
    fn add(&mut self, index: usize, round: u32, done: Done) -> Result<()> {
        let (side, figures) = &mut self.sides[index];
        if let Some(counts) = done.counts {
            let first = *self.counts.get_or_insert(counts);
            ensure!(
                counts == first,
                "{} did {counts:?}, another side {first:?}",
                side.name()
            );
        }
        for (figure, value) in figures.iter_mut().zip(done.values) {
            figure.insert(round, value);
        }
        Ok(())
    }
}

/// Returns the order of the sides in a round: that of the table, or the opposite one.
fn order(sides: usize, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_round_turns_the_order() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert_eq!(order(3, 2), [0, 1, 2]);
    }
}
