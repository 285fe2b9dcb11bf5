//! Counts by detector.

use core::fmt;
use core::ops::AddAssign;

use super::territory::{PARTS, Part};

/// The first detector of a silently changed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The volume was refused at open.
    Refused,
    /// A call reported an error.
    Told,
    /// Only a check found it.
    Found,
    /// Nothing: there are no checksums, or the changed bytes are unused.
    Undetected,
}

/// All detectors.
pub const FATES: [Fate; 4] = [Fate::Refused, Fate::Told, Fate::Found, Fate::Undetected];

impl fmt::Display for Fate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Refused => "refused",
            Self::Told => "told",
            Self::Found => "fsck",
            Self::Undetected => "undetected",
        })
    }
}

/// Numbers of blocks that were damaged silently, by their use and detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SilentTally([[u64; FATES.len()]; PARTS.len()]);

impl SilentTally {
    /// Adds one to a count.
    pub fn note(&mut self, part: Part, fate: Fate) {
        self.0[part as usize][fate as usize] += 1;
    }

    /// Returns a count.
    pub fn get(&self, part: Part, fate: Fate) -> u64 {
        self.0[part as usize][fate as usize]
    }

    /// Returns the number of damaged blocks of a part.
    pub fn of_part(&self, part: Part) -> u64 {
        self.0[part as usize].iter().sum()
    }
}

impl AddAssign<&Self> for SilentTally {
    fn add_assign(&mut self, other: &Self) {
        let own = self.0.iter_mut().flatten();
        own.zip(other.0.iter().flatten())
            .for_each(|(own, more)| *own += more);
    }
}
