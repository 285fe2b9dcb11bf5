//! The orphan list in memory: the chained inodes, and those in slots of the orphan file.
//!
//! It holds both neighbours of each chained inode, so that adding and removing touch the superblock
//! or one neighbour and never walk the list. It also holds the table blocks of these inodes, so
//! that neither operation reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jbd2::Buffer;
use layout::InodeNr;

use super::orphan_slots::OrphanSlots;

/// The on-disk list. An inode is chained or in a slot, and never both.
#[derive(Default)]
pub(crate) struct OrphanList {
    pub(crate) slots: OrphanSlots,
    newest: Option<InodeNr>,
    links: BTreeMap<InodeNr, Link>,
    /// Inodes whose deletion has failed and will be tried again.
    left: BTreeSet<InodeNr>,
}

struct Link {
    newer: Option<InodeNr>,
    older: Option<InodeNr>,
    /// The block of the inode table that holds the inode.
    table: Arc<Buffer>,
}

impl OrphanList {
    /// Returns true if an inode is on the list.
    pub(crate) fn contains(&self, nr: InodeNr) -> bool {
        self.links.contains_key(&nr) || self.slots.find(nr).is_some()
    }

    /// Returns the number of inodes on the list.
    pub(crate) fn count(&self) -> usize {
        self.links.len() + self.slots.count()
    }

    /// Returns the chained inode that was added last.
    pub(crate) fn newest(&self) -> Option<InodeNr> {
        self.newest
    }

    /// Returns the inode that was added before this one.
    pub(crate) fn older(&self, nr: InodeNr) -> Option<InodeNr> {
        self.links.get(&nr)?.older
    }

    /// Returns the inode that was added after this one, and its block of the inode table.
    pub(crate) fn newer(&self, nr: InodeNr) -> Option<(InodeNr, &Arc<Buffer>)> {
        let newer = self.links.get(&nr)?.newer?;
        Some((newer, &self.links.get(&newer)?.table))
    }

    /// Takes the inodes whose deletion has failed.
    pub(crate) fn take_left(&mut self) -> BTreeSet<InodeNr> {
        core::mem::take(&mut self.left)
    }

    /// Notes an inode whose deletion has failed.
    pub(crate) fn note_left(&mut self, nr: InodeNr) {
        self.left.insert(nr);
    }

    /// Returns all inodes on the list.
    pub(crate) fn numbers(&self) -> Vec<InodeNr> {
        let chained = self.links.keys().copied();
        chained.chain(self.slots.numbers()).collect()
    }

    /// Adds an inode to the chain.
    pub(crate) fn push(&mut self, nr: InodeNr, table: Arc<Buffer>) {
        if let Some(newest) = self.newest.and_then(|newest| self.links.get_mut(&newest)) {
            newest.newer = Some(nr);
        }
        let link = Link {
            newer: None,
            older: self.newest,
            table,
        };
        self.links.insert(nr, link);
        self.newest = Some(nr);
    }

    /// Removes an inode from the chain.
    pub(crate) fn take(&mut self, nr: InodeNr) {
        let Some(Link { newer, older, .. }) = self.links.remove(&nr) else {
            return;
        };
        match newer.and_then(|newer| self.links.get_mut(&newer)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        if let Some(older) = older.and_then(|older| self.links.get_mut(&older)) {
            older.newer = newer;
        }
    }
}
