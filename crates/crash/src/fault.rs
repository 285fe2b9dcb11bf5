//! Faults: one device command of a run fails, once. In text: `write.0.17` is the 17th write of the home device, `flush.1.2`
//! the second flush of the journal's own.
//!
//! | kind | what fails |
//! |---|---|
//! | read, write, flush | a command of that kind, without effect |
//! | torn | a write, after some of its sectors |
//!
//! An operation that fails is done or not done, and the last of its lane; sync calls that fail bind nothing.

use core::fmt;
use core::str::FromStr;

use block::fault::{Effect, FaultPlan, FaultRule, Operations, When};

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write, half done.
    Torn,
    /// A flush.
    Flush,
}

/// All kinds, with their names.
pub const KINDS: [(FaultKind, &str); 4] = [
    (FaultKind::Read, "read"),
    (FaultKind::Write, "write"),
    (FaultKind::Torn, "torn"),
    (FaultKind::Flush, "flush"),
];

/// A command that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What fails.
    pub kind: FaultKind,
    /// Of which device: the home device, or the journal's own.
    pub device: usize,
    /// The how many-th of its kind since the volume was opened, from 1.
    pub number: u64,
}

impl Fault {
    /// As a plan for a device.
    pub(crate) fn plan(self) -> FaultPlan {
        let (operations, effect) = match self.kind {
            FaultKind::Read => (Operations::READS, Effect::Fail),
            FaultKind::Write => (Operations::WRITES, Effect::Fail),
            FaultKind::Torn => (Operations::WRITES, Effect::Torn),
            FaultKind::Flush => (Operations::FLUSHES, Effect::Fail),
        };
        let rule = FaultRule {
            operations,
            when: When::Nth(self.number),
            effect,
        };
        FaultPlan {
            seed: self.number,
            rules: vec![rule],
            ..FaultPlan::default()
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let name = name.map_or("", |(_, name)| name);
        write!(out, "{name}.{}.{}", self.device, self.number)
    }
}

/// A text is not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault: they look like write.0.17 or flush.1.2")]
pub struct FaultError(pub String);

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let parts: Vec<&str> = text.split('.').collect();
        let parse = || {
            let [name, device, number] = parts[..] else {
                return None;
            };
            let (kind, _) = KINDS.iter().find(|(_, one)| *one == name)?;
            Some(Self {
                kind: *kind,
                device: device.parse().ok()?,
                number: number.parse().ok()?,
            })
        };
        parse().ok_or_else(|| FaultError(text.to_owned()))
    }
}
