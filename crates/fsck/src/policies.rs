//! The policies of encrypted inodes.

use std::collections::BTreeMap;

/// The policy of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Number of a policy: equal policies have equal numbers.
    Known(u32),
    /// A policy of an unknown version; all of these count as equal.
    Unknown,
}

/// The policies of all encrypted inodes.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    numbers: BTreeMap<Vec<u8>, u32>,
    inodes: BTreeMap<u32, Policy>,
}

impl Policies {
    /// Returns the number of a policy.
    pub(crate) fn number_of(&mut self, policy: &[u8]) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(policy.to_vec()).or_insert(next)
    }

    pub(crate) fn insert(&mut self, inode: u32, policy: Policy) {
        self.inodes.insert(inode, policy);
    }

    /// Returns the policy of an inode; none if it is not encrypted, or its context is invalid.
    pub(crate) fn of(&self, inode: u32) -> Option<Policy> {
        self.inodes.get(&inode).copied()
    }
}
