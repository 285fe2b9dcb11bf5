//! Figures beyond the largest volume that was measured, marked as extrapolated.
//!
//! A full check reads all bitmaps and inode tables, so that its time is a constant and a part in
//! proportion to the size of the volume. Both follow from the two largest volumes measured. The
//! replay reads the log, which does not grow with the volume, and is not extrapolated.

use block::text::Size;

use super::{Group, Row};
use crate::metric::MetricKind;

/// The factor whose levels are volumes, named by their sizes.
const FACTOR: &str = "device";
/// The figure that grows with the volume.
const FIGURE: &str = "check";
/// The sizes, over that of the largest volume measured.
const TIMES: [u64; 3] = [2, 4, 16];

/// Returns a sentence on larger volumes; `None` if the rows are no volumes of growing size.
pub(super) fn sentence(group: &Group) -> Option<String> {
    if group.factors != [FACTOR] {
        return None;
    }
    let sizes: Option<Vec<(u64, f64)>> = group.rows.iter().map(sized).collect();
    let sizes = sizes?;
    if !sizes.is_sorted_by(|one, two| one.0 < two.0) {
        return None;
    }
    let [.., (small, least), (large, most)] = sizes.as_slice() else {
        return None;
    };
    let kind = MetricKind::named(FIGURE)?;
    let slope = (most - least) / (large - small) as f64;
    let beyond = TIMES.map(|times| {
        let size = large.saturating_mul(times);
        let value = most + slope * (size - large) as f64;
        let (size, value) = (Size::from(size), kind.text(value));
        format!("{value} {} at {size}", kind.display.unit)
    });
    Some(format!(
        "Extrapolated, not measured: {} {}, on the line through {} and {}.",
        kind.title,
        beyond.join(", "),
        Size::from(*small),
        Size::from(*large)
    ))
}

/// Returns the size of a row's volume, and the figure.
fn sized(row: &Row) -> Option<(u64, f64)> {
    let [label] = row.labels.as_slice() else {
        return None;
    };
    let size = Size::parse(label).ok()?.bytes();
    Some((size, row.value(FIGURE)?))
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use crate::record::{Measured, Record};
    use crate::report::Report;

    fn text(levels: &str, checks: &[f64]) -> String {
        let text = format!(
            "[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\ncut.measures = \"recovery\"\n\
             [factors]\n{levels}\n"
        );
        let plan = Plan::parse("p.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let trials = plan.trials();
        let records = trials.iter().zip(checks).map(|(trial, check)| {
            let metrics = [("usable", 1.0), ("check", *check)];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
            let measured = Measured {
                metrics: metrics.into(),
                ..Measured::default()
            };
            Record::new(&plan, trial, 0, 0.0, measured)
        });
        Report::new(&plan, &records.collect::<Vec<_>>()).text(false)
    }

    const SIZES: &str = r#"device = [
        { label = "256GiB", value = "slice(sim:constellation-es3,0..256GiB)" },
        { label = "1TiB", value = "slice(sim:constellation-es3,0..1TiB)" },
    ]"#;

    #[test]
    fn a_check_grows_with_the_volume() {
        let found = text(SIZES, &[70.0, 220.0]);
        let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
        // 50 s for each 256 GiB.
        let expected = "Extrapolated, not measured: full check 420.000 s at 2TiB, 820.000 s at 4TiB, \
                        3220.000 s at 16TiB, on the line through 256GiB and 1TiB.";
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn what_is_not_a_list_of_volumes_is_not_extrapolated() {
        for levels in [
            "device = [\"sim:atlas-10k\", \"sim:barracuda\"]",
            "device = [\"sim:atlas-10k\"]\ncut.files = [0, 100]",
        ] {
            let found = text(levels, &[70.0, 220.0]);
            assert!(!found.contains("Extrapolated"), "{found}");
        }
        assert!(
            !text(SIZES, &[70.0]).contains("Extrapolated"),
            "one is not recorded"
        );
    }
}
