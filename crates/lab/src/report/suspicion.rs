//! Checks of records: no commit, no read, intervals that stay wide; of repeated real trials also
//! drift, outliers and warm-up.
//!
//! Simulated trials begin in the same state each time and share nothing: their differences come
//! from the plan's own seeds.

use super::gather::Gathered;
use super::headline;
use crate::file_system::JournalPlace;
use crate::metric::{Better, MetricKind};
use crate::plan::Plan;
use crate::setup::Setup;
use crate::statistics::stopping::Verdict;
use crate::statistics::{SIGNIFICANCE, Sample, series};
use crate::warning::Warning;

/// Minimum number of repetitions for the detection of a warm-up.
const WARM_UP_COUNT_MIN: usize = 10;
/// Minimum difference of a warm-up's mean from that of the rest, in standard deviations of the
/// rest.
const WARM_UP_DEVIATIONS: f64 = 3.0;
/// Maximum number of values in the trend test; more are averaged in groups.
const TREND_COUNT_MAX: usize = 500;

/// Returns the suspicions about records.
pub(super) fn of(plan: &Plan, all: &[Gathered<'_>], machines: usize) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut in_time: Vec<(u64, f64)> = Vec::new();
    let rule = plan.stopping_rule();
    for gathered in all {
        let headline = headline::of(&gathered.combination.settings);
        let Some(sample) = gathered.sample_of(headline.primary) else {
            continue;
        };
        let level = gathered.combination.trial(0, false).name();
        let half = sample.describe().relative_half();
        if let (Verdict::Capped, Some(half)) = (rule.judge(Some(&sample)), half) {
            let count = sample.count();
            warnings.push(Warning::Imprecise {
                level: level.clone(),
                figure: headline.primary,
                half,
                count,
            });
        }
        let setup = Setup::of(&gathered.combination.settings);
        if setup.is_ok_and(|setup| setup.is_simulated()) {
            continue;
        }
        warnings.extend(of_repetitions(&level, gathered, &sample));
        let mean = sample.mean();
        if sample.count() > 1 && mean > 0.0 {
            let better = MetricKind::named(headline.primary).and_then(|kind| kind.better);
            // Slowness relative to the mean; inverted for figures of which more is better.
            let slowness = |value: &f64| match better {
                Some(Better::Higher) => -(value / mean),
                Some(Better::Lower) | None => value / mean,
            };
            let began = gathered.trials.values().map(|record| record.started);
            in_time.extend(began.zip(sample.values().iter().map(slowness)));
        }
    }
    warnings.extend(drift(in_time));
    let is_zero = |own: &Gathered<'_>, metric: &str| {
        own.sample_of(metric)
            .is_some_and(|sample| sample.values().iter().all(|value| *value == 0.0))
    };
    let name = |own: &Gathered<'_>| own.combination.trial(0, false).name();
    let has_fast = |own: &Gathered<'_>| own.sample_of("fast_commits").is_some();
    let idle = all.iter();
    let idle = idle.filter(|own| is_zero(own, "commits") && !has_fast(own));
    let levels: Vec<String> = idle.filter(|own| has_journal(own)).map(name).collect();
    if !levels.is_empty() {
        warnings.push(Warning::NoCommit { levels });
    }
    let cached = all.iter().filter(|own| is_zero(own, "home_reads"));
    let levels: Vec<String> = cached.map(name).collect();
    if !levels.is_empty() {
        warnings.push(Warning::AllInCache { levels });
    }
    if machines > 1 && !is_all_simulated(all) {
        warnings.push(Warning::SeveralMachines { count: machines });
    }
    warnings
}

/// Returns true if the file system of a combination has a journal, as far as is known.
fn has_journal(own: &Gathered<'_>) -> bool {
    let setup = Setup::of(&own.combination.settings).ok();
    let file_system = setup.as_ref().and_then(Setup::file_system);
    file_system.is_none_or(|own| !matches!(own.journal(), JournalPlace::None))
}

fn is_all_simulated(all: &[Gathered<'_>]) -> bool {
    all.iter().all(|gathered| {
        let setup = Setup::of(&gathered.combination.settings);
        setup.is_ok_and(|setup| setup.is_simulated())
    })
}

fn of_repetitions(level: &str, gathered: &Gathered<'_>, sample: &Sample) -> Vec<Warning> {
    let values = sample.values();
    let mut warnings = Vec::new();
    let warm_up = series::warm_up(values);
    if values.len() >= WARM_UP_COUNT_MIN && warm_up > 0 {
        let (first, rest) = values.split_at(warm_up);
        let means = Sample::new(first.to_vec()).zip(Sample::new(rest.to_vec()));
        let is_far = means.is_some_and(|(first, rest)| {
            let deviation = rest.deviation().unwrap_or(0.0);
            (first.mean() - rest.mean()).abs() > WARM_UP_DEVIATIONS * deviation
        });
        if is_far {
            warnings.push(Warning::WarmingUp {
                level: level.to_owned(),
                count: warm_up,
            });
            return warnings;
        }
    }
    let outliers = series::outliers(values);
    if !outliers.is_empty() {
        let numbers: Vec<u32> = gathered.trials.keys().copied().collect();
        warnings.push(Warning::Outliers {
            level: level.to_owned(),
            repetitions: outliers.iter().map(|index| numbers[*index]).collect(),
        });
    }
    warnings
}

/// Checks for a trend over all trials in the order of their runs, each relative to its level's
/// mean.
fn drift(mut in_time: Vec<(u64, f64)>) -> Option<Warning> {
    in_time.sort_by_key(|(began, _)| *began);
    let size = in_time.len().div_ceil(TREND_COUNT_MAX).max(1);
    let means: Vec<f64> = in_time
        .chunks(size)
        .map(|run| run.iter().map(|(_, value)| value).sum::<f64>() / run.len() as f64)
        .collect();
    let trend = series::trend(&means).filter(|trend| trend.p < SIGNIFICANCE)?;
    Some(Warning::Drift {
        tau: trend.tau,
        p: trend.p,
    })
}
