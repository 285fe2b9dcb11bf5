//! Files with dirty pages, by age.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use layout::InodeNr;
use rt::{Mutex, Nanos};

use super::inode::Inode;

/// The position of a file in the dirty list.
pub(crate) type DirtyKey = (Nanos, InodeNr);

/// Files with dirty pages, by the age of the oldest page.
#[derive(Default)]
pub(crate) struct DirtyList {
    files: Mutex<BTreeMap<DirtyKey, Arc<Inode>>>, // leaf, below the pages of a file
}

impl DirtyList {
    pub(crate) fn insert(&self, since: Nanos, inode: &Arc<Inode>) {
        self.files
            .lock()
            .insert((since, inode.nr), Arc::clone(inode));
    }

    pub(crate) fn remove(&self, since: Nanos, nr: InodeNr) {
        let removed = self.files.lock().remove(&(since, nr));
        drop(removed);
    }

    /// Returns all files, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.files.lock().values().map(Arc::clone).collect()
    }

    /// Returns up to `count_max` files after a key, oldest first, that have been dirty since before
    /// a time.
    pub(crate) fn after(
        &self,
        key: Option<DirtyKey>,
        before: Nanos,
        count_max: usize,
    ) -> Vec<(DirtyKey, Arc<Inode>)> {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        let files = self.files.lock();
        let found = files.range((start, Bound::Unbounded)).take(count_max);
        found
            .take_while(|((since, _), _)| *since <= before)
            .map(|(key, inode)| (*key, Arc::clone(inode)))
            .collect()
    }
}
