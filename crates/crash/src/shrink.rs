//! Shrinking: the search for the shortest workload that breaks the same rule. The failing command
//! moves with the operations.

use std::rc::Rc;

use crate::crowd::Crowd;
use crate::disks::Disks;
use crate::explore::{Limits, explore};
use crate::findings::Found;
use crate::replay::ReplayId;
use crate::rule::{Broken, Rule};
use crate::run::{prepare, record};
use crate::run_error::RunError;
use crate::sweep::nearby;
use crate::workload::Workload;

/// Maximum number of workloads that are tried.
const TRIES_MAX: usize = 300;

/// Runs and explores a workload, with its fault in place or, for another workload, slightly
/// earlier. Returns the first violation, with the workload that shows it.
fn find_nearby(workload: &Workload, limits: Limits) -> Option<(Workload, Found)> {
    nearby(workload.setting.fault)
        .into_iter()
        .find_map(|fault| {
            let mut workload = workload.clone();
            workload.setting.fault = fault;
            find(&workload, limits).map(|found| (workload, found))
        })
}

/// Runs and explores a workload. Returns the first violation.
pub fn find(workload: &Workload, limits: Limits) -> Option<Found> {
    let explored = (|| -> Result<_, RunError> {
        let empty =
            Disks::make(&workload.setting).map_err(|error| RunError::Volume(error.to_string()))?;
        let prepared = prepare(workload, &empty)?;
        Ok(explore(Rc::new(record(workload, &prepared)?), limits).1)
    })();
    explored.unwrap_or_else(|error| Some(Found::run(&error)))
}

/// Removes operations as long as the same rule is broken, until `is_late` says so. Returns the
/// shortest workload found and its violation.
pub fn shrink(
    workload: &Workload,
    found: Found,
    mut limits: Limits,
    is_late: &dyn Fn() -> bool,
) -> (ReplayId, Broken) {
    // A shorter workload leaves other images, of which others would be chosen.
    if found.broken.rule == Rule::E7 {
        limits.silent_one_in = 1;
    }
    let (mut best, mut best_found) = (workload.clone(), found);
    let mut tries = 0;
    let mut has_shrunk = true;
    while has_shrunk {
        has_shrunk = false;
        for lane in 0..best.lanes.len() {
            let mut number = best.lanes[lane].len();
            while number > 0 && tries < TRIES_MAX && !is_late() {
                number -= 1;
                let Some(shorter) = without(&best, lane, number) else {
                    continue;
                };
                tries += 1;
                let again = find_nearby(&shorter, limits);
                if let Some(again) =
                    again.filter(|(_, again)| again.broken.rule == best_found.broken.rule)
                {
                    (best, best_found) = again;
                    has_shrunk = true;
                }
            }
        }
    }
    while !is_late()
        && let Some((shorter, again)) = with_fewer_rounds(&best, best_found.broken.rule, limits)
    {
        (best, best_found) = (shorter, again);
    }
    let id = ReplayId {
        workload: best,
        cuts: best_found.cuts,
    };
    (id, best_found.broken)
}

/// Returns the workload beside a crowd of half as many rounds, or of one less, with its violation.
fn with_fewer_rounds(workload: &Workload, rule: Rule, limits: Limits) -> Option<(Workload, Found)> {
    let crowd = workload.setting.crowd?;
    [crowd.rounds / 2, crowd.rounds.saturating_sub(1)]
        .into_iter()
        .filter(|rounds| *rounds < crowd.rounds)
        .find_map(|rounds| {
            let mut shorter = workload.clone();
            shorter.setting.crowd = Some(Crowd { rounds, ..crowd });
            let found = find(&shorter, limits)?;
            (found.broken.rule == rule).then_some((shorter, found))
        })
}

/// Returns a workload without one operation, if the others can still be done.
fn without(workload: &Workload, lane: usize, number: usize) -> Option<Workload> {
    let mut shorter = workload.clone();
    shorter.lanes[lane].remove(number);
    if number < shorter.prepared[lane] {
        shorter.prepared[lane] -= 1;
    }
    shorter.states(lane)?;
    Some(shorter)
}
