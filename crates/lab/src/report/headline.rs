//! The primary figure and the main figures of a table: the [`Headline`] of the workload.

use std::collections::BTreeMap;

use workload::{Definition, Headline};

use crate::plan::key::{CUT_MEASURES, NOTHING};
use crate::plan::settings::Settings;
use crate::plan::value::Value;
use crate::power_cut::Measure;

/// The headline if workloads differ: every workload takes time.
const COMMON: Headline = Headline {
    primary: "elapsed",
    shown: &["read_rate", "write_rate", "elapsed"],
};

/// Returns the headline of trials with these settings: that of what is measured after a power cut,
/// or else of the workload.
#[must_use]
pub fn of(settings: &Settings) -> &'static Headline {
    let measures = match settings.get(CUT_MEASURES) {
        Some(Value::Text(word)) => word,
        _ => NOTHING,
    };
    of_words(settings.workload(), measures)
}

/// Returns the headline that the records with these settings share, or the common one.
pub fn of_records<'s>(
    settings: impl IntoIterator<Item = &'s BTreeMap<String, String>>,
) -> &'static Headline {
    let headlines = settings.into_iter().map(|settings| {
        let word = |key: &str| settings.get(key).map(String::as_str);
        let measures = word(CUT_MEASURES).unwrap_or(NOTHING);
        of_words(word("workload").unwrap_or_default(), measures)
    });
    shared(headlines)
}

fn of_words(workload: &str, measures: &str) -> &'static Headline {
    Measure::of_word(measures).map_or_else(|| of_workload(workload), Measure::headline)
}

fn of_workload(name: &str) -> &'static Headline {
    Definition::named(name).map_or(&COMMON, |definition| &definition.headline)
}

/// Returns the headline that several settings share, or the common one.
pub fn of_all<'s>(settings: impl IntoIterator<Item = &'s Settings>) -> &'static Headline {
    shared(settings.into_iter().map(of))
}

fn shared(mut headlines: impl Iterator<Item = &'static Headline>) -> &'static Headline {
    match headlines.next() {
        Some(first) if headlines.all(|other| other == first) => first,
        _ => &COMMON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_workloads_have_only_time_in_common() {
        for (names, primary) in [
            (&["postmark"][..], "elapsed"),
            (&["dbench"], "throughput"),
            (&["dbench", "dbench"], "throughput"),
            (&["dbench", "filebench"], "elapsed"),
            (&["oblload", "fsx"], "elapsed"),
            (&[], "elapsed"),
        ] {
            let found = shared(names.iter().copied().map(of_workload));
            assert_eq!(found.primary, primary, "{names:?}");
        }
    }
}
