//! Clusters freed by transactions whose commit block is not durable yet.

use layout::{GroupNr, Tid};

/// A freed extent of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreedRun {
    /// The group.
    pub(crate) group: GroupNr,
    /// The first cluster's index within the group.
    pub(crate) start: u32,
    /// Number of clusters.
    pub(crate) count: u32,
}

/// The sets of freed clusters, one for each running or committing transaction.
#[derive(Debug, Default)]
pub(crate) struct FreedSets {
    sets: Vec<(Tid, Vec<FreedRun>)>,
}

impl FreedSets {
    /// Adds clusters to a transaction's set.
    pub(crate) fn add(&mut self, tid: Tid, run: FreedRun) {
        let at = match self.sets.iter().rposition(|(known, _)| *known == tid) {
            Some(at) => at,
            None => {
                self.sets.push((tid, Vec::new()));
                self.sets.len() - 1
            }
        };
        let runs = &mut self.sets[at].1;
        match runs.last_mut() {
            Some(last) if last.group == run.group && last.start + last.count == run.start => {
                last.count += run.count;
            }
            _ => runs.push(run),
        }
    }

    /// Takes the extents that a transaction freed. The set stays, empty, until
    /// [`FreedSets::forget`].
    pub(crate) fn take(&mut self, tid: Tid) -> Vec<FreedRun> {
        let set = self.sets.iter_mut().find(|(known, _)| *known == tid);
        set.map(|(_, runs)| core::mem::take(runs))
            .unwrap_or_default()
    }

    /// Drops a transaction's set.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.sets.retain(|(known, _)| *known != tid);
    }

    /// Returns the transactions with a set.
    pub(crate) fn tids(&self) -> Vec<Tid> {
        self.sets.iter().map(|(tid, _)| *tid).collect()
    }

    /// Returns true if one of the transactions still has a set.
    pub(crate) fn has_any(&self, tids: &[Tid]) -> bool {
        self.sets.iter().any(|(tid, _)| tids.contains(tid))
    }
}
