//! [`HostProfile`]: the cost of host work in nanoseconds, and the number of processors.
//!
//! The numbers are rounded on purpose: only their order of magnitude matters beside a disk's
//! milliseconds. [`HostProfile::scale_permille`] calibrates all of them against a measured run.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rt::Cost;

use crate::Parameter;

/// Unit of the costs of copies and checksums in bytes.
const PAGE_BYTES: u64 = 4096;
/// Neutral scale.
const SCALE_ONE: u32 = 1000;

/// A Pentium 4 of 2.66 GHz with Linux 2.4, the machine of the published benchmarks of 2003.
pub const P4_2_66_2003: HostProfile = HostProfile {
    name: Cow::Borrowed("p4-2.66-2003"),
    cpu_count: 1,
    // int 0x80 alone takes about 0.5 us on a Pentium 4, the path through the VFS as much again.
    syscall_ns: 1_000,
    // About 1 GB/s: one read and one write stream over PC2100 memory.
    copy_page_ns: 4_096,
    // About 400 MB/s: CRC-32 by table, one byte at a time, at 6 to 7 cycles each.
    checksum_page_ns: 10_240,
    // A hash chain and a string comparison with two or three cache misses of 150 ns each.
    lookup_ns: 500,
    // Start and stop of a handle: two contended spinlocks and the credit accounting.
    handle_ns: 2_000,
    // Finding a buffer head: two cache misses.
    block_access_ns: 300,
    // ll_rw_block, the elevator, the controller's registers and one interrupt.
    request_ns: 10_000,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// A virtual machine of the 2020s with four processors.
pub const CLOUD_VM: HostProfile = HostProfile {
    name: Cow::Borrowed("cloud-vm"),
    cpu_count: 4,
    // syscall/sysret with mitigations against speculation.
    syscall_ns: 200,
    // About 10 GB/s.
    copy_page_ns: 410,
    // About 15 GB/s: CRC-32C by instruction.
    checksum_page_ns: 270,
    // Two cache misses of 80 ns.
    lookup_ns: 150,
    // Uncontended atomics and a few hundred instructions.
    handle_ns: 400,
    // One cache miss.
    block_access_ns: 80,
    // A virtio queue: one exit and one interrupt.
    request_ns: 5_000,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// A host whose work takes no time.
pub const ZERO: HostProfile = HostProfile {
    name: Cow::Borrowed("zero"),
    cpu_count: 1,
    syscall_ns: 0,
    copy_page_ns: 0,
    checksum_page_ns: 0,
    lookup_ns: 0,
    handle_ns: 0,
    block_access_ns: 0,
    request_ns: 0,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

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

const NAMED: [HostEntry; 3] = [
    HostEntry {
        profile: &P4_2_66_2003,
        description: "Pentium 4 of 2.66 GHz, PC2100 memory, Linux 2.4",
        source: "round numbers from cycles, cache misses and memory bandwidth of the machine of the published ext3 \
                 benchmarks of 2003; calibrated as a whole by its scale",
    },
    HostEntry {
        profile: &CLOUD_VM,
        description: "virtual machine of the 2020s with four processors",
        source: "round numbers from cycles, cache misses and memory bandwidth of such machines; calibrated as a whole by \
                 its scale",
    },
    HostEntry {
        profile: &ZERO,
        description: "a host whose work takes no time",
        source: "by definition",
    },
];

/// A host profile: the cost of each kind of host work. All fields may be changed.
///
/// Its text form is a name (`p4-2.66-2003`), a name with another number of processors
/// (`p4-2.66-2003@2`), with a scale (`p4-2.66-2003*850`) or with jitter (`p4-2.66-2003~20`), or all
/// numbers in the order of the fields (`custom(1,1000,4096,10240,500,2000,300,10000)`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProfile {
    /// Name of the profile in reports.
    pub name: Cow<'static, str>,
    /// Number of processors; at least one.
    pub cpu_count: u32,
    /// [`Cost::Syscall`].
    pub syscall_ns: u64,
    /// [`Cost::Copy`], per 4096 bytes.
    pub copy_page_ns: u64,
    /// [`Cost::Checksum`], per 4096 bytes.
    pub checksum_page_ns: u64,
    /// [`Cost::Lookup`].
    pub lookup_ns: u64,
    /// [`Cost::Handle`].
    pub handle_ns: u64,
    /// [`Cost::BlockAccess`].
    pub block_access_ns: u64,
    /// [`Cost::Request`].
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
    "`{text}` is not a host profile: give p4-2.66-2003, cloud-vm, zero or custom(...), then @CPUS, then *PERMILLE, \
     then ~PERMILLE of jitter"
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
            Parameter::main("syscall_ns", self.syscall_ns),
            Parameter::main("copy_page_ns", self.copy_page_ns),
            Parameter::new("checksum_page_ns", self.checksum_page_ns),
            Parameter::new("lookup_ns", self.lookup_ns),
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
        let [
            syscall_ns,
            copy_page_ns,
            checksum_page_ns,
            lookup_ns,
            handle_ns,
            block_access_ns,
            request_ns,
        ] = self.costs().map(scale);
        Self {
            name: self.name.clone(),
            cpu_count: self.cpu_count.max(1),
            syscall_ns,
            copy_page_ns,
            checksum_page_ns,
            lookup_ns,
            handle_ns,
            block_access_ns,
            request_ns,
            scale_permille: SCALE_ONE,
            jitter_permille: self.jitter_permille.min(SCALE_ONE),
        }
    }

    /// Returns the time that some work takes in nanoseconds, without the scale. A part of a page
    /// costs its fraction, rounded up.
    pub(crate) fn nanos(&self, cost: Cost) -> u64 {
        match cost {
            Cost::Syscall => self.syscall_ns,
            Cost::Copy(bytes) => of_pages(self.copy_page_ns, bytes),
            Cost::Checksum(bytes) => of_pages(self.checksum_page_ns, bytes),
            Cost::Lookup => self.lookup_ns,
            Cost::Handle => self.handle_ns,
            Cost::BlockAccess => self.block_access_ns,
            Cost::Request => self.request_ns,
        }
    }

    fn costs(&self) -> [u64; 7] {
        [
            self.syscall_ns,
            self.copy_page_ns,
            self.checksum_page_ns,
            self.lookup_ns,
            self.handle_ns,
            self.block_access_ns,
            self.request_ns,
        ]
    }

    fn custom(numbers: &str) -> Option<Self> {
        let (cpu_count, costs) = numbers.split_once(',')?;
        let costs: Result<Vec<u64>, _> = costs.split(',').map(str::parse).collect();
        let [
            syscall_ns,
            copy_page_ns,
            checksum_page_ns,
            lookup_ns,
            handle_ns,
            block_access_ns,
            request_ns,
        ] = costs.ok()?[..]
        else {
            return None;
        };
        Some(Self {
            name: Cow::Borrowed("custom"),
            cpu_count: cpu_count.parse().ok()?,
            syscall_ns,
            copy_page_ns,
            checksum_page_ns,
            lookup_ns,
            handle_ns,
            block_access_ns,
            request_ns,
            scale_permille: SCALE_ONE,
            jitter_permille: 0,
        })
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
        let is_valid = cpu_count > 0 && jitter <= SCALE_ONE;
        is_valid.then(|| profile.with_jitter(jitter))
    }
}

impl fmt::Display for HostProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = NAMED.iter().map(|entry| entry.profile);
        match named.find(|profile| profile.costs() == self.costs()) {
            Some(profile) => {
                write!(out, "{}", profile.name)?;
                if profile.cpu_count != self.cpu_count {
                    write!(out, "@{}", self.cpu_count)?;
                }
            }
            None => {
                write!(out, "custom({}", self.cpu_count)?;
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

fn of_pages(page_ns: u64, bytes: u64) -> u64 {
    let product = u128::from(page_ns) * u128::from(bytes);
    u64::try_from(product.div_ceil(u128::from(PAGE_BYTES))).unwrap_or(u64::MAX)
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
        check("custom(3,1,2,3,4,5,6,7)*10");
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
            "custom(1,2,3,4,5,6,7,8",
        ] {
            assert!(bad.parse::<HostProfile>().is_err(), "{bad}");
        }
    }

    #[test]
    fn costs_are_scaled_and_rounded_up() {
        let profile = P4_2_66_2003.scaled(500).resolved();
        assert_eq!(profile.nanos(Cost::Syscall), 500);
        assert_eq!(profile.nanos(Cost::Copy(4096)), 2_048);
        assert_eq!(profile.nanos(Cost::Copy(1)), 1);
        assert_eq!(profile.nanos(Cost::Checksum(0)), 0);
        assert_eq!(ZERO.resolved().nanos(Cost::Copy(u64::MAX)), 0);
        assert_eq!(
            P4_2_66_2003.resolved().nanos(Cost::Copy(u64::MAX)),
            u64::MAX
        );
    }
}
