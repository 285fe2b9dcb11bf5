//! The primary figure and the main figures of a table: the [`Headline`] of the workload.

use workload::{Definition, Headline};

/// The headline if workloads differ: every workload takes time.
const COMMON: Headline = Headline {
    primary: "elapsed",
    shown: &["read_rate", "write_rate", "elapsed"],
};

/// Returns the headline of a workload by its name.
#[must_use]
pub fn of_workload(name: &str) -> &'static Headline {
    Definition::named(name).map_or(&COMMON, |definition| &definition.headline)
}

/// Returns the headline that several workloads share, or the common one.
pub fn of_workloads<'n>(names: impl IntoIterator<Item = &'n str>) -> &'static Headline {
    let mut headlines = names.into_iter().map(of_workload);
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
            let found = of_workloads(names.iter().copied());
            assert_eq!(found.primary, primary, "{names:?}");
        }
    }
}
