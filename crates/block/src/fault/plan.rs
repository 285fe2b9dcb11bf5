//! What a fault device does: rules, each with the requests that it looks at, when it strikes and what it does then.

use core::ops::Range;

use layout::SectorNr;

use crate::device::Request;

/// A seed and rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// Decides everything random.
    pub seed: u64,
    /// In order: the first that strikes decides.
    pub rules: Vec<FaultRule>,
    /// Sectors that fail reads until they are written.
    pub bad_sectors: Vec<Range<SectorNr>>,
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRule {
    /// The requests that it looks at and counts.
    pub operations: Operations,
    /// When it strikes.
    pub when: When,
    /// What it does.
    pub effect: Effect,
}

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Reads.
    pub has_reads: bool,
    /// Writes.
    pub has_writes: bool,
    /// Flushes.
    pub has_flushes: bool,
    /// Discards.
    pub has_discards: bool,
}

impl Operations {
    /// None.
    pub const NONE: Self = Self {
        has_reads: false,
        has_writes: false,
        has_flushes: false,
        has_discards: false,
    };
    /// All.
    pub const ALL: Self = Self {
        has_reads: true,
        has_writes: true,
        has_flushes: true,
        has_discards: true,
    };
    /// Reads only.
    pub const READS: Self = Self {
        has_reads: true,
        ..Self::NONE
    };
    /// Writes only.
    pub const WRITES: Self = Self {
        has_writes: true,
        ..Self::NONE
    };
    /// Flushes only.
    pub const FLUSHES: Self = Self {
        has_flushes: true,
        ..Self::NONE
    };
    /// Discards only.
    pub const DISCARDS: Self = Self {
        has_discards: true,
        ..Self::NONE
    };

    pub(super) fn includes(self, request: &Request) -> bool {
        match request {
            Request::Read { .. } => self.has_reads,
            Request::Write { .. } => self.has_writes,
            Request::Flush => self.has_flushes,
            Request::Discard { .. } => self.has_discards,
        }
    }
}

/// When a rule strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Every time.
    Always,
    /// At the n-th request that it looks at, from 1, and not again.
    Nth(u64),
    /// At the n-th request that it looks at, from 1, and at all later ones.
    From(u64),
    /// At writes to sectors that were not written since the device was made, from the n-th request on that it looks at, so many
    /// times: a thin device that has no space left, until somebody makes room.
    Unwritten {
        /// The n, from 1.
        from: u64,
        /// How many times.
        times: u64,
    },
    /// At random.
    Rate(Rate),
    /// When the request touches one of these sectors.
    Sectors {
        /// The first.
        from: SectorNr,
        /// The one after the last.
        to: SectorNr,
    },
}

/// What has happened before a request.
pub(super) struct History {
    /// How many requests the rule has looked at, this one included.
    pub(super) seen: u64,
    /// How often it has struck.
    pub(super) struck: u64,
    /// Whether the request writes nothing but sectors that were written before.
    pub(super) is_rewritten: bool,
}

impl When {
    pub(super) fn strikes(self, history: &History, draw: u64, request: &Request) -> bool {
        let count = history.seen;
        match self {
            Self::Unwritten { from, times } => {
                count >= from && history.struck < times && !history.is_rewritten
            }
            Self::Always => true,
            Self::Nth(number) => count == number,
            Self::From(number) => count >= number,
            Self::Rate(rate) => draw < rate.threshold,
            Self::Sectors { from, to } => {
                let (sector, sectors) = request.range();
                sector < to && from.get() < sector.get() + sectors
            }
        }
    }
}

/// A probability, as the share of 2^64 below which a draw strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    threshold: u64,
}

impl Rate {
    /// A rate of `numerator` in `denominator`.
    ///
    /// # Panics
    /// If the denominator is zero.
    pub fn new(numerator: u64, denominator: u64) -> Self {
        let threshold = (u128::from(numerator) << 64) / u128::from(denominator);
        Self {
            threshold: u64::try_from(threshold).unwrap_or(u64::MAX),
        }
    }

    /// A rate from text such as `0.25` or `1e-6`, from 0 to 1.
    pub fn parse(text: &str) -> Option<Self> {
        let rate: f64 = text
            .parse()
            .ok()
            .filter(|rate| (0.0..=1.0).contains(rate))?;
        // Multiplying by a power of two is exact, and the cast saturates at 2^64 - 1.
        Some(Self {
            threshold: (rate * 2.0_f64.powi(64)) as u64,
        })
    }
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request fails and changes nothing.
    Fail,
    /// A write is refused for want of space and changes nothing. Other requests are done.
    NoSpace,
    /// The request answers `Gone`, and so does every later one.
    Gone,
    /// A write fails after some of its sectors were written. Other requests just fail.
    Torn,
    /// The request is acknowledged and not done: a write that is lost, a flush that is ignored. A read gives zeroes.
    Lost,
    /// The request is done to another place of the device and acknowledged.
    Misdirected,
    /// One bit is flipped, in what a write stores or a read returns.
    Rotten,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        assert_eq!(Rate::parse("0.5"), Some(Rate { threshold: 1 << 63 }));
        assert_eq!(Rate::parse("0.5"), Some(Rate::new(1, 2)));
        assert_eq!(
            Rate::parse("1"),
            Some(Rate {
                threshold: u64::MAX
            })
        );
        assert_eq!(Rate::parse("0"), Some(Rate { threshold: 0 }));
        assert!(Rate::parse("1e-6").is_some_and(|rate| rate.threshold / 1_000_000 == 18_446_744));
        for bad in ["", "x", "-1", "1.5", "nan"] {
            assert_eq!(Rate::parse(bad), None, "{bad}");
        }
    }
}
