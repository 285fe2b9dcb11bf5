//! [`HostProfile`]: the cost of host work in nanoseconds, and the number of processors.
//!
//! The named profiles and their sources are in [`catalogue`]. [`HostProfile::scale_permille`]
//! scales all costs of a host, for a processor of another speed.

mod catalogue;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::Parameter;

use catalogue::NAMED;
pub use catalogue::{CLOUD_VM, P4_2_66_2003, XEON_5130, ZERO};

/// Number of costs of a profile.
const COST_COUNT: usize = 10;
/// Largest cache of a profile in bytes.
const CACHE_BYTES_MAX: u64 = 1 << 30;
/// Neutral scale.
const SCALE_ONE: u32 = 1000;

/// A named profile, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostEntry {
    /// Profile.
    pub profile: &'static HostProfile,
    /// Description of the host.
    pub description: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
}

/// A host profile: the cost of each kind of host work. All fields may be changed.
///
/// Its text form is a name (`p4-2.66-2003`), a name with another number of processors
/// (`p4-2.66-2003@2`), with a scale (`p4-2.66-2003*850`) or with jitter (`p4-2.66-2003~20`), or all
/// numbers in the order of the fields
/// (`custom(1,8192,524288,1000,192,361,2214,10240,500,19,2000,300,10000)`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProfile {
    /// Name of the profile in reports.
    pub name: Cow<'static, str>,
    /// Number of processors; at least one.
    pub cpu_count: u32,
    /// Bytes of the first level of the data cache.
    pub first_cache_bytes: u64,
    /// Bytes of the last level of the cache.
    pub second_cache_bytes: u64,
    /// A system call.
    pub syscall_ns: u64,
    /// Moving 4096 bytes to or from the first level of the cache: one side of a copy.
    pub first_cache_page_ns: u64,
    /// Moving 4096 bytes to or from the last level of the cache.
    pub second_cache_page_ns: u64,
    /// Moving 4096 bytes over the memory bus. Bytes that are read cross it once; bytes that are
    /// written, twice.
    pub memory_page_ns: u64,
    /// A checksum over 4096 bytes.
    pub checksum_page_ns: u64,
    /// A look-up of a name or of a cache entry.
    pub lookup_ns: u64,
    /// A comparison of a name with a directory entry.
    pub entry_ns: u64,
    /// Start and stop of a journal handle.
    pub handle_ns: u64,
    /// An access to a block or page in memory.
    pub block_access_ns: u64,
    /// A device request.
    pub request_ns: u64,
    /// Scale of all costs in thousandths.
    pub scale_permille: u32,
    /// Random part of each piece of work in thousandths, to either side, at most 1000: on a real
    /// host caches and interrupts make equal work take unequal times.
    pub jitter_permille: u32,
}

/// The error of a text that is not a host profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a host profile: give p4-2.66-2003, xeon-5130, cloud-vm, zero or custom(13 numbers), then @CPUS, \
     then *PERMILLE, then ~PERMILLE of jitter"
)]
pub struct HostProfileError {
    /// Text that was given.
    pub text: String,
}

impl HostProfile {
    /// Returns the profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        NAMED
            .iter()
            .find(|entry| entry.profile.name == name)
            .map(|entry| entry.profile.clone())
    }

    /// Returns the names that [`named`](Self::named) accepts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|entry| &*entry.profile.name)
    }

    /// Returns all named profiles.
    pub fn catalogue() -> &'static [HostEntry] {
        &NAMED
    }

    /// Returns all numbers of the profile.
    pub fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::main("cpus", self.cpu_count),
            Parameter::main("first_cache_bytes", self.first_cache_bytes),
            Parameter::main("second_cache_bytes", self.second_cache_bytes),
            Parameter::main("syscall_ns", self.syscall_ns),
            Parameter::new("first_cache_page_ns", self.first_cache_page_ns),
            Parameter::new("second_cache_page_ns", self.second_cache_page_ns),
            Parameter::main("memory_page_ns", self.memory_page_ns),
            Parameter::new("checksum_page_ns", self.checksum_page_ns),
            Parameter::new("lookup_ns", self.lookup_ns),
            Parameter::main("entry_ns", self.entry_ns),
            Parameter::new("handle_ns", self.handle_ns),
            Parameter::new("block_access_ns", self.block_access_ns),
            Parameter::main("request_ns", self.request_ns),
            Parameter::new("scale_permille", self.scale_permille),
            Parameter::new("jitter_permille", self.jitter_permille),
        ]
    }

    /// Returns the same host with another scale.
    #[must_use]
    pub fn scaled(self, scale_permille: u32) -> Self {
        Self {
            scale_permille,
            ..self
        }
    }

    /// Returns the same host with another jitter.
    #[must_use]
    pub fn with_jitter(self, jitter_permille: u32) -> Self {
        Self {
            jitter_permille,
            ..self
        }
    }

    /// Returns the same host with another number of processors.
    #[must_use]
    pub fn with_cpu_count(self, cpu_count: u32) -> Self {
        Self { cpu_count, ..self }
    }

    /// Returns the profile with its scale applied to the costs.
    pub(crate) fn resolved(&self) -> Self {
        let scale = |ns: u64| {
            let scaled = u128::from(ns) * u128::from(self.scale_permille) / u128::from(SCALE_ONE);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self {
            cpu_count: self.cpu_count.max(1),
            scale_permille: SCALE_ONE,
            jitter_permille: self.jitter_permille.min(SCALE_ONE),
            ..self.clone().with_costs(self.costs().map(scale))
        }
    }

    /// Returns the costs in the order of their fields.
    fn costs(&self) -> [u64; COST_COUNT] {
        [
            self.syscall_ns,
            self.first_cache_page_ns,
            self.second_cache_page_ns,
            self.memory_page_ns,
            self.checksum_page_ns,
            self.lookup_ns,
            self.entry_ns,
            self.handle_ns,
            self.block_access_ns,
            self.request_ns,
        ]
    }

    /// Returns the same host with other costs.
    fn with_costs(self, costs: [u64; COST_COUNT]) -> Self {
        let [
            syscall_ns,
            first_cache_page_ns,
            second_cache_page_ns,
            memory_page_ns,
            checksum_page_ns,
            lookup_ns,
            entry_ns,
            handle_ns,
            block_access_ns,
            request_ns,
        ] = costs;
        Self {
            syscall_ns,
            first_cache_page_ns,
            second_cache_page_ns,
            memory_page_ns,
            checksum_page_ns,
            lookup_ns,
            entry_ns,
            handle_ns,
            block_access_ns,
            request_ns,
            ..self
        }
    }

    fn custom(numbers: &str) -> Option<Self> {
        let mut numbers = numbers.split(',');
        let cpu_count = numbers.next()?.parse().ok()?;
        let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        let numbers = numbers.ok()?;
        let [first_cache_bytes, second_cache_bytes, costs @ ..] = &numbers[..] else {
            return None;
        };
        let profile = Self {
            name: Cow::Borrowed("custom"),
            cpu_count,
            first_cache_bytes: *first_cache_bytes,
            second_cache_bytes: *second_cache_bytes,
            ..ZERO
        };
        Some(profile.with_costs(costs.try_into().ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let (text, jitter) = match text.split_once('~') {
            Some((rest, jitter)) => (rest, jitter.parse().ok()?),
            None => (text, 0),
        };
        let (text, scale_permille) = match text.split_once('*') {
            Some((rest, scale)) => (rest, scale.parse().ok()?),
            None => (text, SCALE_ONE),
        };
        let (text, cpu_count) = match text.split_once('@') {
            Some((rest, count)) => (rest, Some(count.parse().ok()?)),
            None => (text, None),
        };
        let profile = match text.strip_prefix("custom(") {
            Some(rest) => Self::custom(rest.strip_suffix(')')?)?,
            None => Self::named(text)?,
        };
        let cpu_count = cpu_count.unwrap_or(profile.cpu_count);
        let profile = profile.with_cpu_count(cpu_count).scaled(scale_permille);
        let caches = [profile.first_cache_bytes, profile.second_cache_bytes];
        let are_caches_valid = caches.iter().all(|bytes| *bytes <= CACHE_BYTES_MAX);
        let is_valid = cpu_count > 0 && jitter <= SCALE_ONE && are_caches_valid;
        is_valid.then(|| profile.with_jitter(jitter))
    }
}

impl fmt::Display for HostProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = NAMED.iter().map(|entry| entry.profile);
        let caches = |profile: &Self| (profile.first_cache_bytes, profile.second_cache_bytes);
        let is_same =
            |profile: &Self| profile.costs() == self.costs() && caches(profile) == caches(self);
        match named.find(|profile| is_same(profile)) {
            Some(profile) => {
                write!(out, "{}", profile.name)?;
                if profile.cpu_count != self.cpu_count {
                    write!(out, "@{}", self.cpu_count)?;
                }
            }
            None => {
                let (first, second) = caches(self);
                write!(out, "custom({},{first},{second}", self.cpu_count)?;
                for cost in self.costs() {
                    write!(out, ",{cost}")?;
                }
                write!(out, ")")?;
            }
        }
        if self.scale_permille != SCALE_ONE {
            write!(out, "*{}", self.scale_permille)?;
        }
        if self.jitter_permille != 0 {
            write!(out, "~{}", self.jitter_permille)?;
        }
        Ok(())
    }
}

impl FromStr for HostProfile {
    type Err = HostProfileError;

    fn from_str(text: &str) -> Result<Self, HostProfileError> {
        Self::parse(text).ok_or_else(|| HostProfileError {
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let check = |text: &str| {
            let profile: HostProfile = text.parse().expect(text);
            assert_eq!(profile.to_string(), text);
        };
        check("p4-2.66-2003");
        check("cloud-vm");
        check("zero");
        check("zero@8");
        check("p4-2.66-2003@2*850");
        check("xeon-5130");
        check("custom(3,1,2,3,4,5,6,7,8,9,10,11,12)*10");
        check("cloud-vm~20");
        check("p4-2.66-2003@2*850~1000");
        for bad in [
            "",
            "p5",
            "zero@0",
            "custom(1,2)",
            "zero*x",
            "zero~1001",
            "zero~5*10",
            "custom(1,2,3,4,5,6,7,8)",
            "custom(1,2,1073741825,4,5,6,7,8,9,10,11,12,13)",
            "custom(1,2,3,4,5,6,7,8,9,10,11,12,13",
            "custom(1,2,3,4,5,6,7,8,9,10,11,12,13,14)",
        ] {
            assert!(bad.parse::<HostProfile>().is_err(), "{bad}");
        }
    }

    #[test]
    fn costs_are_scaled_and_caches_are_not() {
        let profile = P4_2_66_2003.scaled(500).resolved();
        assert_eq!(profile.syscall_ns, 500);
        assert_eq!(profile.memory_page_ns, P4_2_66_2003.memory_page_ns / 2);
        assert_eq!(profile.second_cache_bytes, 512 << 10);
        assert_eq!(P4_2_66_2003.resolved(), P4_2_66_2003);
    }

    #[test]
    fn bytes_that_are_nearer_cost_less() {
        for entry in HostProfile::catalogue() {
            let host = entry.profile;
            assert!(host.first_cache_page_ns <= host.second_cache_page_ns);
            assert!(host.second_cache_page_ns <= host.memory_page_ns);
            assert!(host.first_cache_bytes <= host.second_cache_bytes);
        }
    }
}
