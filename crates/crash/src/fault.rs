//! Faults: failing device commands of a run. In text: kind, device, and commands.
//!
//! | text | failing commands |
//! |---|---|
//! | `write.0.17` | the 17th write of the file-system device since open, once |
//! | `torn.0.17` | the same, after some of its sectors were written |
//! | `flush.1.2x3` | three flushes of the external journal's device, from the 2nd on |
//! | `write.0.17+` | all writes of the file-system device from the 17th on |
//! | `full.0.17x8` | from the 17th write on, eight writes to sectors never written before |
//! | `read.0.120-121` | every read that touches the sectors 120 and 121, permanently |
//!
//! The reactions of clients to failures are in [`run`](mod@crate::run).

use core::fmt;
use core::str::FromStr;

use block::fault::{Effect, FaultPlan, FaultRule, Operations, When};
use block::trace::Event;
use block::{DeviceError, Request};
use layout::SectorNr;

/// The kind of a failing command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write of which a part is done.
    Torn,
    /// A flush.
    Flush,
    /// A write to sectors never written before: the host has no room for it.
    Full,
}

/// All kinds, with their names.
pub const KINDS: [(FaultKind, &str); 5] = [
    (FaultKind::Read, "read"),
    (FaultKind::Write, "write"),
    (FaultKind::Torn, "torn"),
    (FaultKind::Flush, "flush"),
    (FaultKind::Full, "full"),
];

/// The commands of a kind that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The n-th, from 1; 0 for none.
    Nth(u64),
    /// The n-th, and a number of commands after it.
    Times(u64, u64),
    /// The n-th, and all later ones.
    From(u64),
    /// Those that touch a sector in the range from the first to the second.
    Sectors(u64, u64),
}

/// Commands that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of command.
    pub kind: FaultKind,
    /// Device: 0 for the file-system device, 1 for that of an external journal.
    pub device: usize,
    /// The commands.
    pub which: Which,
}

impl Fault {
    /// No command fails, but clients are prepared for failures.
    pub const NONE: Self = Self {
        kind: FaultKind::Read,
        device: 0,
        which: Which::Nth(0),
    };

    /// Returns the number of commands that fail, if the fault passes.
    pub fn count(self) -> Option<u64> {
        match self.which {
            Which::Nth(_) => Some(1),
            Which::Times(_, count) => Some(count),
            Which::From(_) | Which::Sectors(..) => None,
        }
    }

    /// Returns true if a write fails once, wholly or in part.
    pub fn is_passing_write(self) -> bool {
        let is_write = matches!(self.kind, FaultKind::Write | FaultKind::Torn);
        is_write && matches!(self.which, Which::Nth(_))
    }

    /// Returns the plan for a device.
    pub(crate) fn plan(self) -> FaultPlan {
        let (operations, effect) = match self.kind {
            FaultKind::Read => (Operations::READS, Effect::Fail),
            FaultKind::Write => (Operations::WRITES, Effect::Fail),
            FaultKind::Torn => (Operations::WRITES, Effect::Torn),
            FaultKind::Flush => (Operations::FLUSHES, Effect::Fail),
            FaultKind::Full => (Operations::WRITES, Effect::NoSpace),
        };
        let rule = |when| FaultRule {
            operations,
            when,
            effect,
        };
        let unwritten = |from, times| vec![rule(When::Unwritten { from, times })];
        let (seed, rules) = match self.which {
            Which::Nth(number) if self.kind == FaultKind::Full => (number, unwritten(number, 1)),
            Which::Times(number, count) if self.kind == FaultKind::Full => {
                (number, unwritten(number, count))
            }
            Which::From(number) if self.kind == FaultKind::Full => {
                (number, unwritten(number, u64::MAX))
            }
            Which::Nth(number) => (number, vec![rule(When::Nth(number))]),
            Which::Times(number, count) => {
                let numbers = number..number + count;
                (number, numbers.map(|one| rule(When::Nth(one))).collect())
            }
            Which::From(number) => (number, vec![rule(When::From(number))]),
            Which::Sectors(first, last) => {
                let (from, to) = (SectorNr::new(first), SectorNr::new(last + 1));
                (first, vec![rule(When::Sectors { from, to })])
            }
        };
        FaultPlan {
            seed,
            rules,
            ..FaultPlan::default()
        }
    }
}

/// Returns all faults of the commands in a trace: each fails once, twice, torn, and permanently, on
/// its device or its sectors.
pub fn each(events: &[Event]) -> Vec<Fault> {
    let mut counts = [[0; 3]; 2];
    let mut faults = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for event in events {
        let Event::Submitted {
            device, requests, ..
        } = event
        else {
            continue;
        };
        for request in requests.iter() {
            let (kinds, place): (&[FaultKind], usize) = match request {
                Request::Read { .. } => (&[FaultKind::Read], 0),
                Request::Write { .. } => (&[FaultKind::Write, FaultKind::Torn], 1),
                Request::Flush => (&[FaultKind::Flush], 2),
                Request::Discard { .. } => continue,
            };
            counts[*device][place] += 1;
            let number = counts[*device][place];
            for kind in kinds {
                let mut add = |which| {
                    faults.push(Fault {
                        kind: *kind,
                        device: *device,
                        which,
                    });
                };
                add(Which::Nth(number));
                if *kind == FaultKind::Torn {
                    continue;
                }
                add(Which::Times(number, 2));
                add(Which::From(number));
                let (sector, sectors) = request.range();
                let range = (sector.get(), sector.get() + sectors.max(1) - 1);
                if *kind != FaultKind::Flush && seen.insert((*device, place, range)) {
                    add(Which::Sectors(range.0, range.1));
                }
            }
        }
    }
    faults
}

/// A failed command.
#[derive(Debug, Clone)]
pub struct Strike {
    /// Number of the event that reported the failure.
    pub event: usize,
    /// The device.
    pub device: usize,
    /// The command.
    pub request: Request,
    /// True if it was refused for lack of room.
    pub is_refused: bool,
}

/// Returns true if a command was refused for lack of room.
pub(crate) fn is_refused(result: &Result<(), DeviceError>) -> bool {
    matches!(result, Err(DeviceError::NoSpace { .. }))
}

/// Returns the failed commands.
pub fn strikes(events: &[Event]) -> Vec<Strike> {
    let mut batches = std::collections::BTreeMap::new();
    let mut strikes = Vec::new();
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Submitted {
                batch, requests, ..
            } => drop(batches.insert(*batch, requests)),
            Event::Completed {
                device,
                batch,
                results,
            } => {
                let requests = batches.remove(batch).into_iter().flat_map(|all| all.iter());
                let failed = requests.zip(results).filter(|(_, result)| result.is_err());
                strikes.extend(failed.map(|(request, result)| Strike {
                    event: number,
                    device: *device,
                    request: request.clone(),
                    is_refused: is_refused(result),
                }));
            }
            Event::Awaited { .. } | Event::Detached { .. } | Event::Mark(_) => {}
        }
    }
    strikes
}

impl fmt::Display for Which {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nth(number) => write!(out, "{number}"),
            Self::Times(number, count) => write!(out, "{number}x{count}"),
            Self::From(number) => write!(out, "{number}+"),
            Self::Sectors(first, last) => write!(out, "{first}-{last}"),
        }
    }
}

fn parse_which(text: &str) -> Option<Which> {
    if let Some(number) = text.strip_suffix('+') {
        return Some(Which::From(number.parse().ok()?));
    }
    if let Some((number, count)) = text.split_once('x') {
        return Some(Which::Times(number.parse().ok()?, count.parse().ok()?));
    }
    if let Some((first, last)) = text.split_once('-') {
        return Some(Which::Sectors(first.parse().ok()?, last.parse().ok()?));
    }
    Some(Which::Nth(text.parse().ok()?))
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let name = name.map_or("", |(_, name)| name);
        write!(out, "{name}.{}.{}", self.device, self.which)
    }
}

/// The error of a text that is not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a fault: they look like write.0.17, flush.1.2x3, write.0.17+ or read.0.120-121"
)]
pub struct FaultError(pub String);

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let parts: Vec<&str> = text.split('.').collect();
        let parse = || {
            let [name, device, which] = parts[..] else {
                return None;
            };
            let (kind, _) = KINDS.iter().find(|(_, one)| *one == name)?;
            Some(Self {
                kind: *kind,
                device: device.parse().ok()?,
                which: parse_which(which)?,
            })
        };
        parse().ok_or_else(|| FaultError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "write.0.17",
            "torn.1.3",
            "flush.1.2x3",
            "write.0.17+",
            "full.0.17x8",
            "read.0.120-121",
        ] {
            let fault: Fault = text.parse().expect("a fault");
            assert_eq!(fault.to_string(), text);
        }
        for text in [
            "",
            "write",
            "write.0",
            "write.0.x",
            "write.0.1x",
            "seek.0.1",
            "read.0.1-",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
