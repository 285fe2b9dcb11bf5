//! [`Findings`]: conclusions from the rows of a group, and from the published figures.

use super::{Row, SATURATION, TIE};
use crate::metric::MetricKind;
use crate::statistics::effect::Ratio;

/// The findings of a group of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The findings of our figures.
    pub ours: Marks,
    /// The findings of the published figures; empty if these are incomplete.
    pub published: Marks,
    /// Number of pairs of rows whose published figures differ by more than a tie.
    pub pairs: usize,
    /// The pairs whose order here is reversed.
    pub swapped: Vec<(String, String)>,
    /// The row, other than the baseline, with the largest relative difference from the published
    /// figure, and that difference.
    pub furthest: Option<(String, f64)>,
}

/// The findings of one set of figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marks {
    /// The first row that beats the baseline, and its gain.
    pub first_gain: Option<Mark>,
    /// The row from which the next one gains less than the bound, and that gain.
    pub saturation: Option<Mark>,
}

/// A row with a relative value.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The row's label.
    pub label: String,
    /// The value as a fraction: 0.05 is 5 %.
    pub share: f64,
}

impl Findings {
    /// Returns the findings of the primary figure of rows, one of which may be the baseline.
    #[must_use]
    pub fn of(rows: &[Row], primary: &MetricKind) -> Self {
        let ours = |row: &Row| row.value(primary.name);
        let published = |row: &Row| row.published.get(primary.name).copied();
        let ratio = Ratio::of(primary.better);
        let (pairs, swapped) = compare_order(rows, primary);
        let errors = rows.iter().filter(|row| !row.is_baseline);
        let errors = errors.filter_map(|row| Some((row.label(), row.error(primary.name)?)));
        Self {
            ours: marks(rows, ratio, ours),
            published: marks(rows, ratio, published),
            pairs,
            swapped,
            furthest: errors.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs())),
        }
    }

    /// Returns true if there is no finding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn marks(rows: &[Row], ratio: Ratio, value: impl Fn(&Row) -> Option<f64>) -> Marks {
    let baseline = rows.iter().find(|row| row.is_baseline).and_then(&value);
    let others: Option<Vec<(String, f64)>> = rows
        .iter()
        .filter(|row| !row.is_baseline)
        .map(|row| Some((row.label(), value(row)?)))
        .collect();
    let (Some(baseline), Some(others)) = (baseline, others) else {
        return Marks::default();
    };
    let mark = |label: &String, share| Mark {
        label: label.clone(),
        share,
    };
    let first_gain = others.iter().find_map(|(label, own)| {
        ratio
            .share(baseline, *own)
            .filter(|share| *share > 0.0)
            .map(|share| mark(label, share))
    });
    let saturation = others.windows(2).find_map(|pair| {
        let [(label, own), (_, next)] = pair else {
            return None;
        };
        ratio
            .share(*own, *next)
            .filter(|share| *share < SATURATION)
            .map(|share| mark(label, share))
    });
    Marks {
        first_gain,
        saturation,
    }
}

fn compare_order(rows: &[Row], primary: &MetricKind) -> (usize, Vec<(String, String)>) {
    let known: Vec<(String, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            Some((
                row.label(),
                row.value(primary.name)?,
                row.published.get(primary.name).copied()?,
            ))
        })
        .collect();
    let mut pairs = 0;
    let mut swapped = Vec::new();
    for (index, (label, own, published)) in known.iter().enumerate() {
        for (other_label, other_own, other_published) in &known[index + 1..] {
            let least = published.min(*other_published);
            if (published - other_published).abs() <= TIE * least {
                continue;
            }
            pairs += 1;
            if (own < other_own) != (published < other_published) {
                swapped.push((label.clone(), other_label.clone()));
            }
        }
    }
    (pairs, swapped)
}
