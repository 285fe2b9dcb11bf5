//! Tasks beside the lanes of a workload, in a directory of their own: calls that race with each
//! other and with those of the lanes.
//!
//! The states of a lane follow from its operations alone. The effect of several tasks in the same
//! directories does not, so the names in [`CROWD`](crate::observe::CROWD) are not part of any
//! model: after a crash they are read and checked, but not compared. The known facts about the
//! calls are compared when they return.
//!
//! | crowd | work of its tasks | rule |
//! |---|---|---|
//! | [`Kind::Names`] | renames of all modes, links, listings with states, among few names | C1 |
//! | [`Kind::Listings`] | listings in small steps, beside changes of names | C2 |
//! | [`Kind::Numbers`] | calls by path and by number, beside removals and new files | C3 |
//!
//! In the third, a freed inode number is the next to be allocated.

pub(crate) mod tasks;

use core::fmt;
use core::str::FromStr;

/// The work of a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tasks that change and list names.
    Names,
    /// Tasks that list changing directories.
    Listings,
    /// Tasks that use paths and numbers of files that are created and removed.
    Numbers,
}

/// A crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// The kind of its tasks.
    pub kind: Kind,
    /// Seed of each task's calls.
    pub seed: u64,
    /// Number of rounds of each task. One starts every second, as operations of lanes do.
    pub rounds: u32,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Names, "names"),
    (Kind::Listings, "listings"),
    (Kind::Numbers, "numbers"),
];

impl fmt::Display for Crowd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let name = name.map_or("", |(_, name)| name);
        write!(out, "{name}.{}.{}", self.seed, self.rounds)
    }
}

/// The error of a text that is not a crowd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a crowd: they look like names.17.12")]
pub struct CrowdError(String);

impl FromStr for Crowd {
    type Err = CrowdError;

    fn from_str(text: &str) -> Result<Self, CrowdError> {
        let parse = || {
            let mut parts = text.split('.');
            let name = parts.next()?;
            let (kind, _) = KINDS.iter().find(|(_, known)| *known == name)?;
            let (seed, rounds) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(Self {
                kind: *kind,
                seed,
                rounds,
            })
        };
        parse().ok_or_else(|| CrowdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "names.17.12",
            "listings.0.1",
            "numbers.18446744073709551615.3",
        ] {
            let crowd: Crowd = text.parse().expect("a crowd");
            assert_eq!(crowd.to_string(), text);
        }
        for text in ["", "names", "names.1", "others.1.2", "names.1.2.3"] {
            assert!(text.parse::<Crowd>().is_err(), "{text}");
        }
    }
}
