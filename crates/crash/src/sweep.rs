//! The systematic search for the effects of errors: a workload runs once without any, and then once
//! for each command to its devices and each way in which that can fail.

use rt::split_mix::{SplitMix, mix_pair};

use crate::explore::Limits;
use crate::fault::{Fault, FaultKind, Which};
use crate::findings::{Found, Tally};
use crate::generator::{Kind, Share};
use crate::volumes::Volumes;
use crate::workload::Workload;

/// Maximum shift of command numbers when an operation is left out: the fault is searched in this
/// range before its place.
const MOVED_MAX: u64 = 12;

/// Numbers of writes that are refused before there is room again.
const REFUSALS: [u64; 4] = [1, 3, 10, 40];

/// Returns the limits for a run with a fault: many runs with few images each show more than the
/// reverse.
fn limits_of(limits: Limits) -> Limits {
    Limits {
        singles: limits.singles.min(2),
        pairs: limits.pairs.min(1),
        randoms: limits.randoms.min(1),
        nested_one_in: limits.nested_one_in * 8,
        ..limits
    }
}

/// Explores a workload, and its variants with faults. Returns the first violation with the workload
/// that shows it.
pub(crate) fn try_all(
    volumes: &mut Volumes,
    kind: Kind,
    workload: &Workload,
    limits: Limits,
) -> (Tally, Option<(Workload, Found)>) {
    // Without a journal the contents of a volume on failing devices are undefined.
    let has_journal = workload.setting.cell.has_journal();
    if let Some(share) = kind.faults().filter(|_| has_journal) {
        return sweep(volumes, workload, limits, share);
    }
    let (tally, found) = volumes.explore(workload, limits);
    (tally, found.map(|found| (workload.clone(), found)))
}

/// Lets commands of a workload fail, one run for each. Returns the counts, and the first violation
/// with the workload that shows it.
fn sweep(
    volumes: &mut Volumes,
    workload: &Workload,
    limits: Limits,
    share: Share,
) -> (Tally, Option<(Workload, Found)>) {
    let with = |fault| {
        let mut workload = workload.clone();
        workload.setting.fault = Some(fault);
        workload
    };
    let mut tally = Tally::default();
    let mut faults = match volumes.record(&with(Fault::NONE)) {
        Ok(recording) => recording.faults,
        Err(error) => return (tally, Some((with(Fault::NONE), Found::run(&error)))),
    };
    if matches!(share, Share::Passing(_)) {
        faults.retain(|fault| fault.device == 0 && fault.is_passing_write());
    }
    if let Share::Full(count) = share {
        faults = refusals(&faults, count, limits.seed);
    }
    if let Share::Some(count) | Share::Passing(count) = share {
        let mut random = SplitMix::new(mix_pair(limits.seed, faults.len() as u64));
        let chosen = (0..count.min(faults.len()))
            .map(|_| faults[random.below(faults.len() as u64) as usize]);
        faults = chosen.collect();
    }
    let limits = limits_of(limits);
    for fault in faults {
        let workload = with(fault);
        let (more, found) = volumes.explore(&workload, limits);
        tally += &more;
        if let Some(found) = found {
            return (tally, Some((workload, found)));
        }
    }
    tally.workloads = 1;
    (tally, None)
}

/// Returns faults without room for writes from some write on, temporarily or permanently.
fn refusals(faults: &[Fault], count: usize, seed: u64) -> Vec<Fault> {
    let mut random = SplitMix::new(mix_pair(seed, faults.len() as u64));
    let writes = faults
        .iter()
        .filter(|fault| fault.is_passing_write() && fault.kind == FaultKind::Write);
    let writes: Vec<&Fault> = writes.collect();
    let refusal = |_| {
        let fault = *writes.get(random.below(writes.len().max(1) as u64) as usize)?;
        let Which::Nth(number) = fault.which else {
            return None;
        };
        let which = match random.below(REFUSALS.len() as u64 + 1) as usize {
            chosen if chosen < REFUSALS.len() => Which::Times(number, REFUSALS[chosen]),
            _ => Which::From(number),
        };
        let kind = FaultKind::Full;
        Some(Fault {
            kind,
            which,
            ..*fault
        })
    };
    (0..count).filter_map(refusal).collect()
}

/// Returns the same fault, and those of the commands before it: candidates for the fault of a
/// workload with fewer operations.
pub(crate) fn nearby(fault: Option<Fault>) -> Vec<Option<Fault>> {
    let Some(fault) = fault else {
        return vec![None];
    };
    let number = match fault.which {
        Which::Nth(number) | Which::Times(number, _) | Which::From(number) => number,
        Which::Sectors(..) => return vec![Some(fault)],
    };
    let numbers = (number.saturating_sub(MOVED_MAX).max(1)..=number).rev();
    let at = |number| {
        let which = match fault.which {
            Which::Times(_, count) => Which::Times(number, count),
            Which::From(_) => Which::From(number),
            _ => Which::Nth(number),
        };
        Some(Fault { which, ..fault })
    };
    numbers.map(at).collect()
}
