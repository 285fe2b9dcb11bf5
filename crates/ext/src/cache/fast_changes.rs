//! The changes of the running transaction since its last fast commit.
//!
//! | tracked | as |
//! |---|---|
//! | a changed inode | its number, and the range of file blocks whose mapping changed |
//! | a name | created, linked or unlinked, in order |
//! | the orphan list | inodes that the transaction removed and had not added |
//! | a linear directory | its number, once a name was added |
//! | a change that tags cannot describe | its reason, which ends the tracking |
//!
//! There is one list: when a later transaction changes something, the earlier one is closed, and is
//! committed as a whole. A volume without fast commits has no list.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use layout::{InodeNr, Tid};
use rt::Mutex;

/// Largest number of names, and of inodes, that are tracked. A fast commit of more would hardly fit
/// into its area.
const TRACKED_MAX: usize = 4096;

/// The kind of a change of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// A new inode got its first name.
    Created,
    /// An inode got another name.
    Linked,
    /// A name was removed.
    Unlinked,
}

/// A change of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedName {
    pub(crate) change: NameChange,
    pub(crate) parent: InodeNr,
    pub(crate) name: Box<[u8]>,
    pub(crate) inode: InodeNr,
}

/// The changes of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChangedInode {
    /// True if it has changes that are needed to read the data.
    pub(crate) is_data: bool,
    /// The file blocks whose mapping may have changed.
    pub(crate) blocks: Option<Range<u64>>,
}

/// Collected changes.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) names: Vec<ChangedName>,
    pub(crate) inodes: BTreeMap<InodeNr, ChangedInode>,
    /// Inodes that are on the orphan list of the last transaction, and no longer on the current
    /// one. The tags of such an inode, or of another with its number, would damage the list.
    pub(crate) unlisted: BTreeSet<InodeNr>,
}

/// The tracked changes.
#[derive(Default)]
pub(crate) struct FastChanges {
    state: Mutex<State>, // [fast changes] leaf
}

#[derive(Default)]
struct State {
    /// The transaction that the changes belong to.
    tid: Option<Tid>,
    /// The reason why it gets no further fast commit.
    refused: Option<&'static str>,
    changes: Collected,
    /// New inodes among these changes.
    created: BTreeSet<InodeNr>,
    /// Inodes that the transaction has put onto the orphan list.
    listed: BTreeSet<InodeNr>,
    /// Number of nodes of the extent trees that fast commits of the transaction have remapped, or
    /// are about to; files without nodes are left out.
    nodes: BTreeMap<InodeNr, u64>,
    /// Linear directories to which the transaction has added names. There the place of a name
    /// depends on all names before it.
    linear: BTreeSet<InodeNr>,
}

impl FastChanges {
    /// Changes the state of a transaction, unless it gets no further fast commit.
    fn track(&self, tid: Tid, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        if state.tid != Some(tid) {
            *state = State {
                tid: Some(tid),
                ..State::default()
            };
        }
        if state.refused.is_some() {
            return;
        }
        change(&mut state);
        let changes = &state.changes;
        if changes.names.len().max(changes.inodes.len()) > TRACKED_MAX {
            state.refuse("too many changes");
        }
    }

    /// Notes that an inode was stored. `is_data` is true for changes that are needed to read the
    /// data.
    pub(crate) fn note_inode(&self, tid: Tid, nr: InodeNr, is_data: bool) {
        self.track(tid, |state| {
            state.changes.inodes.entry(nr).or_default().is_data |= is_data;
        });
    }

    /// Notes that the mapping of file blocks has changed, or may have.
    pub(crate) fn note_blocks(&self, tid: Tid, nr: InodeNr, blocks: Range<u64>) {
        self.track(tid, |state| {
            let inode = state.changes.inodes.entry(nr).or_default();
            inode.is_data = true;
            inode.blocks = Some(match inode.blocks.take() {
                Some(old) => old.start.min(blocks.start)..old.end.max(blocks.end),
                None => blocks,
            });
        });
    }

    /// Notes a change of a name. `is_gone` is true if the inode has no name left.
    pub(crate) fn note_name(&self, tid: Tid, name: ChangedName, is_gone: bool) {
        self.track(tid, |state| {
            let nr = name.inode;
            if is_gone && state.created.remove(&nr) {
                state.forget_created(nr);
                return;
            }
            if name.change == NameChange::Created {
                state.created.insert(nr);
            }
            state.changes.names.push(name);
        });
    }

    /// Notes that a name was added to a linear directory.
    pub(crate) fn note_linear(&self, tid: Tid, nr: InodeNr) {
        self.track(tid, |state| {
            state.linear.insert(nr);
        });
    }

    /// Notes that an inode was put onto the orphan list.
    pub(crate) fn note_listed(&self, tid: Tid, nr: InodeNr) {
        self.track(tid, |state| {
            state.listed.insert(nr);
        });
    }

    /// Notes that an inode was removed from the orphan list.
    pub(crate) fn note_unlisted(&self, tid: Tid, nr: InodeNr) {
        self.track(tid, |state| {
            if !state.listed.remove(&nr) {
                state.changes.unlisted.insert(nr);
            }
        });
    }

    /// Notes a change that tags cannot describe.
    pub(crate) fn refuse(&self, tid: Tid, why: &'static str) {
        if rt::mutant!("fast-commit/ineligible-change-taken") {
            return;
        }
        self.track(tid, |state| state.refuse(why));
    }

    /// Returns true unless all changes of an inode in a transaction, or for `data_only` those that
    /// are needed to read its data, have been collected.
    pub(crate) fn has_changes(&self, tid: Tid, nr: InodeNr, data_only: bool) -> bool {
        let state = self.state.lock();
        if state.tid != Some(tid) || state.refused.is_some() {
            return true;
        }
        let found = state.changes.inodes.get(&nr);
        found.is_some_and(|inode| inode.is_data || !data_only)
    }

    /// Notes the number of nodes of a file whose mapping is among the changes taken last. Returns
    /// the number of nodes of all files that fast commits of the transaction have remapped.
    pub(crate) fn note_nodes(&self, nr: InodeNr, count: u64) -> u64 {
        let mut state = self.state.lock();
        match count {
            0 => state.nodes.remove(&nr),
            _ => state.nodes.insert(nr, count),
        };
        state.nodes.values().sum()
    }

    /// Takes the changes of a transaction, or returns the reason why it gets no fast commit.
    pub(crate) fn take(&self, tid: Tid) -> Result<Collected, &'static str> {
        let mut state = self.state.lock();
        if state.tid != Some(tid) {
            return Err("its changes are not tracked");
        }
        if let Some(why) = state.refused {
            return Err(why);
        }
        state.created.clear();
        let unlisted = state.changes.unlisted.clone();
        let taken = core::mem::take(&mut state.changes);
        state.changes.unlisted = unlisted;
        Ok(taken)
    }
}

impl State {
    /// Forgets the names of a new inode that has none left: nothing of it is on the device. Names
    /// before its creation are those of another inode with the same number.
    ///
    /// In a linear directory these names have steered where others went. A replay without them
    /// could need a block more, which a full volume does not have.
    fn forget_created(&mut self, nr: InodeNr) {
        let names = &mut self.changes.names;
        let is_creation =
            |name: &ChangedName| name.inode == nr && name.change == NameChange::Created;
        let Some(created) = names.iter().rposition(is_creation) else {
            return;
        };
        let mut own = names[created..].iter().filter(|name| name.inode == nr);
        if own.any(|name| self.linear.contains(&name.parent)) {
            self.refuse("a name of a linear directory is gone");
            return;
        }
        let mut index = 0;
        names.retain(|name| {
            index += 1;
            index <= created || name.inode != nr
        });
    }

    fn refuse(&mut self, why: &'static str) {
        self.refused = Some(why);
        self.changes = Collected::default();
        self.created = BTreeSet::new();
        self.listed = BTreeSet::new();
        self.linear = BTreeSet::new();
        self.nodes = BTreeMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: Tid = Tid::new(7);
    const FILE: InodeNr = InodeNr::new(12);

    fn name(change: NameChange, name: &[u8]) -> ChangedName {
        ChangedName {
            change,
            parent: InodeNr::ROOT,
            name: name.into(),
            inode: FILE,
        }
    }

    #[test]
    fn ranges_and_flags_add_up_until_they_are_taken() {
        let changes = FastChanges::default();
        assert!(
            changes.has_changes(TID, FILE, true),
            "nothing is known of it"
        );
        changes.note_inode(TID, FILE, false);
        assert!(changes.has_changes(TID, FILE, false) && !changes.has_changes(TID, FILE, true));
        changes.note_blocks(TID, FILE, 5..7);
        changes.note_blocks(TID, FILE, 2..3);
        assert!(changes.has_changes(TID, FILE, true));
        let taken = changes.take(TID).expect("they can be described");
        assert_eq!(taken.inodes[&FILE].blocks, Some(2..7));
        assert!(!changes.has_changes(TID, FILE, false));
        assert!(
            changes
                .take(TID)
                .expect("nothing is left")
                .inodes
                .is_empty()
        );
    }

    #[test]
    fn what_is_created_and_removed_leaves_nothing() {
        let changes = FastChanges::default();
        changes.note_name(TID, name(NameChange::Created, b"a"), false);
        changes.note_name(TID, name(NameChange::Linked, b"b"), false);
        changes.note_name(TID, name(NameChange::Unlinked, b"a"), false);
        changes.note_name(TID, name(NameChange::Unlinked, b"b"), true);
        assert!(changes.take(TID).expect("described").names.is_empty());
        // What an earlier fast commit has created has to be removed.
        changes.note_name(TID, name(NameChange::Created, b"a"), false);
        assert_eq!(changes.take(TID).expect("described").names.len(), 1);
        changes.note_name(TID, name(NameChange::Unlinked, b"a"), true);
        assert_eq!(changes.take(TID).expect("described").names.len(), 1);
    }

    #[test]
    fn what_is_gone_from_a_linear_directory_needs_a_whole_commit() {
        for linear in [InodeNr::ROOT, FILE] {
            let changes = FastChanges::default();
            changes.note_linear(TID, linear);
            changes.note_name(TID, name(NameChange::Created, b"a"), false);
            changes.note_name(TID, name(NameChange::Unlinked, b"a"), true);
            assert_eq!(changes.take(TID).is_err(), linear == InodeNr::ROOT);
        }
    }

    #[test]
    fn names_of_an_earlier_inode_with_the_same_number_stay() {
        let changes = FastChanges::default();
        changes.note_name(TID, name(NameChange::Unlinked, b"old"), true);
        changes.note_name(TID, name(NameChange::Created, b"new"), false);
        changes.note_name(TID, name(NameChange::Unlinked, b"new"), true);
        let taken = changes.take(TID).expect("described");
        assert_eq!(taken.names, [name(NameChange::Unlinked, b"old")]);
    }

    #[test]
    fn orphans_of_the_last_transaction_are_remembered() {
        let changes = FastChanges::default();
        changes.note_listed(TID, FILE);
        changes.note_unlisted(TID, FILE);
        assert!(changes.take(TID).expect("described").unlisted.is_empty());
        changes.note_unlisted(TID, FILE);
        for _ in 0..2 {
            assert!(
                changes
                    .take(TID)
                    .expect("described")
                    .unlisted
                    .contains(&FILE)
            );
        }
    }

    #[test]
    fn nodes_add_up_until_the_transaction_ends() {
        let changes = FastChanges::default();
        changes.note_blocks(TID, FILE, 0..1);
        changes.take(TID).expect("described");
        assert_eq!(changes.note_nodes(FILE, 10), 10);
        assert_eq!(changes.note_nodes(InodeNr::new(13), 5), 15);
        assert_eq!(changes.note_nodes(FILE, 8), 13);
        changes.take(TID).expect("described");
        assert_eq!(changes.note_nodes(FILE, 0), 5);
        changes.note_inode(TID.next(), FILE, false);
        assert_eq!(changes.note_nodes(FILE, 1), 1);
    }

    #[test]
    fn a_refusal_lasts_as_long_as_the_transaction() {
        let changes = FastChanges::default();
        changes.refuse(TID, "a reason");
        changes.note_inode(TID, FILE, false);
        assert_eq!(changes.take(TID).err(), Some("a reason"));
        assert!(changes.has_changes(TID, FILE, true));
        changes.note_inode(TID.next(), FILE, false);
        assert!(changes.take(TID).is_err() && changes.take(TID.next()).is_ok());
        for number in 0..=TRACKED_MAX {
            changes.note_inode(TID.next(), InodeNr::new(number as u32 + 1), false);
        }
        assert_eq!(changes.take(TID.next()).err(), Some("too many changes"));
    }
}
