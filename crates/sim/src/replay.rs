//! [`ReplayId`]: one line of text from which a run is repeated.
//!
//! ```text
//! sim2:fair:SEED:HOST
//! sim2:random:SEED:HOST
//! sim2:pct:SEED:HOST:DEPTH
//! sim2:replay:SEED:HOST:AT=CHOICE,AT=CHOICE,...
//! ```
//!
//! Numbers are decimal; HOST is a [`HostProfile`] in text. The version changes whenever the same
//! text would no longer give the same run.

use std::fmt;
use std::str::FromStr;

use crate::host::HostProfile;
use crate::policy::{Decision, Policy};

const VERSION: &str = "sim2";

/// The identity of a run, given the code that it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayId {
    /// Seed of the world.
    pub seed: u64,
    /// Policy of the world.
    pub policy: Policy,
    /// Host of the world.
    pub host: HostProfile,
}

/// The error of a text that is not a replay id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a replay id of this version: it has the form {VERSION}:POLICY:SEED:HOST")]
pub struct ReplayIdError {
    /// Text that was given.
    pub text: String,
}

impl ReplayId {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        parts.next().filter(|version| *version == VERSION)?;
        let policy = parts.next()?;
        let seed = parts.next()?.parse().ok()?;
        let host = parts.next()?.parse().ok()?;
        let policy = match (policy, parts.next()) {
            ("fair", None) => Policy::Fair,
            ("random", None) => Policy::Random,
            ("pct", Some(depth)) => Policy::Pct {
                depth: depth.parse().ok()?,
            },
            ("replay", Some(list)) => Policy::Replay(parse_decisions(list)?),
            _ => return None,
        };
        parts
            .next()
            .is_none()
            .then_some(Self { seed, policy, host })
    }
}

fn parse_decisions(list: &str) -> Option<Vec<Decision>> {
    let mut decisions: Vec<Decision> = Vec::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        let (at, choice) = item.split_once('=')?;
        let decision = Decision {
            at: at.parse().ok()?,
            choice: choice.parse().ok()?,
        };
        if decisions.last().is_some_and(|last| last.at >= decision.at) {
            return None;
        }
        decisions.push(decision);
    }
    Some(decisions)
}

impl fmt::Display for ReplayId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.policy {
            Policy::Fair => "fair",
            Policy::Random => "random",
            Policy::Pct { .. } => "pct",
            Policy::Replay(_) => "replay",
        };
        write!(out, "{VERSION}:{name}:{}:{}", self.seed, self.host)?;
        match &self.policy {
            Policy::Fair | Policy::Random => Ok(()),
            Policy::Pct { depth } => write!(out, ":{depth}"),
            Policy::Replay(decisions) => {
                let items: Vec<String> = decisions
                    .iter()
                    .map(|item| format!("{}={}", item.at, item.choice))
                    .collect();
                write!(out, ":{}", items.join(","))
            }
        }
    }
}

impl FromStr for ReplayId {
    type Err = ReplayIdError;

    fn from_str(text: &str) -> Result<Self, ReplayIdError> {
        Self::parse(text).ok_or_else(|| ReplayIdError {
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
            let id: ReplayId = text.parse().expect(text);
            assert_eq!(id.to_string(), text);
        };
        check("sim2:fair:0:zero");
        check("sim2:random:18446744073709551615:p4-2.66-2003*900");
        check("sim2:pct:7:cloud-vm@2:3");
        check("sim2:replay:7:zero:");
        check("sim2:replay:7:custom(1,2,3,4,5,6,7,8,9,10,11,12,13):1=2,40=1");
        for bad in [
            "",
            "sim2",
            "sim1:fair:0:zero",
            "sim2:fair:0",
            "sim2:fair:x:zero",
            "sim2:fair:0:zero:1",
            "sim2:pct:0:zero",
            "sim2:replay:0:zero:2=1,2=1",
            "sim2:replay:0:zero:2",
        ] {
            assert!(bad.parse::<ReplayId>().is_err(), "{bad}");
        }
    }
}
