//! [`Findings`]: conclusions from the rows of a group, and from the published figures.

use super::{Row, SATURATION, TIE};
use crate::metric::MetricKind;
use crate::statistics::SIGNIFICANCE;
use crate::statistics::effect::Ratio;
use crate::statistics::paired::LogRatio;
use crate::statistics::rank::holm;

/// The findings of a group of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The findings of our figures.
    pub ours: Marks,
    /// The findings of the published figures; empty if these are incomplete.
    pub published: Marks,
    /// The order of the rows compared with the published one.
    pub order: Order,
    /// The row, other than the baseline, with the largest relative difference from the published
    /// figure, and that difference.
    pub furthest: Option<(String, f64)>,
}

/// The order of rows compared with the published one, over the pairs whose published figures differ
/// by more than a tie.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Order {
    /// Number of such pairs.
    pub pairs: usize,
    /// Pairs in the other order here, and not by chance.
    pub reversed: Vec<(String, String)>,
    /// Pairs whose difference here may be chance.
    pub undecided: Vec<(String, String)>,
    /// Kendall's tau of our means and the published figures: 1 for the same order, -1 for the
    /// reverse; `None` for less than two rows.
    pub tau: Option<f64>,
}

impl Order {
    /// Returns the number of pairs in the published order.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.pairs - self.reversed.len() - self.undecided.len()
    }
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
        let errors = rows.iter().filter(|row| !row.is_baseline);
        let errors = errors.filter_map(|row| Some((row.label(), row.error(primary.name)?)));
        Self {
            ours: Marks {
                // A gain that may be chance is none.
                first_gain: rows.iter().find_map(|row| {
                    let effect = row
                        .effect
                        .filter(|own| own.share > 0.0 && own.is_certain())?;
                    Some(Mark {
                        label: row.label(),
                        share: effect.share,
                    })
                }),
                ..marks(rows, ratio, ours)
            },
            published: marks(rows, ratio, published),
            order: compare_order(rows, primary),
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

fn compare_order(rows: &[Row], primary: &MetricKind) -> Order {
    let known: Vec<(&Row, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let published = row.published.get(primary.name).copied()?;
            Some((row, row.value(primary.name)?, published))
        })
        .collect();
    let mut pairs = Vec::new();
    let (mut agreement, mut all) = (0.0, 0.0);
    for (index, (row, own, published)) in known.iter().enumerate() {
        for (other, other_own, other_published) in &known[index + 1..] {
            all += 1.0;
            agreement += sign(own - other_own) * sign(published - other_published);
            let least = published.min(*other_published);
            if (published - other_published).abs() > TIE * least {
                let ratio = LogRatio::of(&row.trials, &other.trials);
                let is_higher = published > other_published;
                pairs.push(((row.label(), other.label()), is_higher, ratio));
            }
        }
    }
    let tests: Vec<f64> = pairs
        .iter()
        .map(|(_, _, ratio)| ratio.and_then(|ratio| ratio.p).unwrap_or(1.0))
        .collect();
    let mut order = Order {
        pairs: pairs.len(),
        tau: (all > 0.0).then_some(agreement / all),
        ..Order::default()
    };
    for ((labels, is_higher, ratio), p) in pairs.into_iter().zip(holm(&tests)) {
        match ratio.filter(|_| p < SIGNIFICANCE) {
            None => order.undecided.push(labels),
            Some(ratio) if (ratio.mean > 0.0) != is_higher => order.reversed.push(labels),
            Some(_) => {}
        }
    }
    order
}

/// Returns -1, 0 or 1.
fn sign(difference: f64) -> f64 {
    if difference == 0.0 {
        0.0
    } else {
        difference.signum()
    }
}
