//! Plans of fault devices: rules, each with the requests that it matches, its condition and its
//! effect.

use core::ops::Range;

use layout::SectorNr;

use crate::device::Request;

/// A seed and rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Rules in order: the first that fires decides.
    pub rules: Vec<FaultRule>,
    /// Sectors whose reads fail until they are written.
    pub bad_sectors: Vec<Range<SectorNr>>,
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRule {
    /// Requests that the rule matches and counts.
    pub operations: Operations,
    /// Condition under which it fires.
    pub when: When,
    /// Effect.
    pub effect: Effect,
}

/// A set of request kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// True if it contains reads.
    pub has_reads: bool,
    /// True if it contains writes.
    pub has_writes: bool,
    /// True if it contains flushes.
    pub has_flushes: bool,
    /// True if it contains discards.
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

/// The condition of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At every match.
    Always,
    /// At the n-th match only, counted from 1.
    Nth(u64),
    /// At the n-th match, counted from 1, and at all later ones.
    From(u64),
    /// At writes to sectors that were not written since the device was created, from the n-th match
    /// on, a limited number of times: a thin device that is full until space is added.
    Unwritten {
        /// The n, from 1.
        from: u64,
        /// Number of times.
        times: u64,
    },
    /// At random.
    Rate(Rate),
    /// If the request touches one of these sectors.
    Sectors {
        /// First sector.
        from: SectorNr,
        /// Sector after the last.
        to: SectorNr,
    },
}

/// The history of a rule before a request.
pub(super) struct History {
    /// Number of requests that the rule has matched, this one included.
    pub(super) seen: u64,
    /// Number of times that it has fired.
    pub(super) struck: u64,
    /// True if the request writes only sectors that were written before.
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

/// A probability, as the share of 2^64 below which a random number fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    threshold: u64,
}

impl Rate {
    /// Creates a rate of `numerator` in `denominator`.
    ///
    /// # Panics
    /// Panics if the denominator is zero.
    pub fn new(numerator: u64, denominator: u64) -> Self {
        let threshold = (u128::from(numerator) << 64) / u128::from(denominator);
        Self {
            threshold: u64::try_from(threshold).unwrap_or(u64::MAX),
        }
    }

    /// Parses a rate such as `0.25` or `1e-6`, from 0 to 1.
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

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request fails and changes nothing.
    Fail,
    /// A write fails for lack of space and changes nothing. Other requests succeed.
    NoSpace,
    /// This request and all later ones fail with `Gone`.
    Gone,
    /// A write fails after some of its sectors were written. Other requests just fail.
    Torn,
    /// The request is acknowledged but not executed: a lost write, an ignored flush. A read returns
    /// zeroes.
    Lost,
    /// The request is executed at another location of the device and acknowledged.
    Misdirected,
    /// One bit is flipped, in the data that a write stores or a read returns.
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
