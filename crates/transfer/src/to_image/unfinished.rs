//! Final attributes of directories, which each new entry changes: they are set when all entries
//! exist. There may be millions of directories, so most are set earlier and, if another entry
//! follows after all, again.

use std::collections::BTreeMap;

use anyhow::Result;
use ext::Volume;
use ext::volume::Restored;
use layout::InodeNr;
use layout::time::InodeTime;

/// Maximum number of directories whose attributes wait, of approximately 100 bytes each.
const WAITING_MAX: usize = 1 << 16;

/// Directories whose attributes wait.
pub(super) struct Unfinished {
    waiting: BTreeMap<InodeNr, Restored>,
    /// The last directory that got an entry.
    last: Option<InodeNr>,
    /// Time of all inodes, but for that of their last modification.
    made: InodeTime,
}

impl Unfinished {
    pub(super) fn new(made: InodeTime) -> Self {
        Self {
            waiting: BTreeMap::new(),
            last: None,
            made,
        }
    }

    /// Notes the attributes of a directory.
    pub(super) fn set(&mut self, volume: &Volume, nr: InodeNr, restored: Restored) -> Result<()> {
        if self.waiting.len() == WAITING_MAX && !self.waiting.contains_key(&nr) {
            self.finish(volume)?;
        }
        self.waiting.insert(nr, restored);
        Ok(())
    }

    /// Notes the present attributes of a directory that is about to get or lose an entry, unless
    /// others wait.
    pub(super) fn keep(&mut self, volume: &Volume, nr: InodeNr) -> Result<()> {
        if self.last == Some(nr) {
            return Ok(());
        }
        if !self.waiting.contains_key(&nr) {
            let found = volume.attributes(nr)?;
            let restored = Restored {
                permissions: found.permissions,
                uid: found.uid,
                gid: found.gid,
                mtime: found.mtime,
                other_times: self.made,
            };
            self.set(volume, nr, restored)?;
        }
        self.last = Some(nr);
        Ok(())
    }

    /// Forgets a directory that was removed.
    pub(super) fn forget(&mut self, nr: InodeNr) {
        self.waiting.remove(&nr);
        self.last = None;
    }

    /// Sets all attributes that wait.
    pub(super) fn finish(&mut self, volume: &Volume) -> Result<()> {
        self.last = None;
        for (nr, restored) in std::mem::take(&mut self.waiting) {
            volume.restore(nr, &restored)?;
        }
        Ok(())
    }
}
