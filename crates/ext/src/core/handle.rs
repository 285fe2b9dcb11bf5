//! A handle for one step of an operation: the journal's handle or, on a volume without a journal,
//! plain access to the buffer cache.

use std::sync::Arc;

use jbd2::{Buffer, BufferWrite, Credits};
use layout::{Block, BlockNr, FileBlock, InodeNr, Tid};
use rt::atomic::Ordering;

use super::Core;
use crate::cache::fast_changes::{ChangedName, FastChanges, NameChange};
use crate::disk::extents::FILE_BLOCKS;
use crate::disk::inode::Unstored;
use crate::error::Result;
use crate::options::DataMode;

/// Largest number of blocks, and of revokes, that a step reserves at its start regardless of the
/// log's length. A volume whose log has no room for them is refused at open, because a step that
/// does not fit would fail in the middle of an operation. Further requests of a step depend on the
/// log's length.
pub(crate) const CREDITS_MAX: u32 = 32;
/// The same on a volume with extents or `large_dir`, whose trees may be deeper than others, or with
/// `ea_inode`.
pub(crate) const CREDITS_MAX_EXTENTS: u32 = 64;

/// A step that may change metadata.
#[must_use = "a handle has to be finished"]
pub(crate) struct Handle<'c> {
    core: &'c Core,
    /// The journal's handle; `None` on a volume without a journal.
    handle: Option<jbd2::Handle<'c>>,
    /// Inodes whose claims have changed and are not stored.
    unstored: Unstored,
    /// Number of clusters claimed for pages without a block that the step may allocate.
    lent: u64,
    /// True if tags of a fast commit describe the step.
    is_described: bool,
}

impl Core {
    /// Makes a transaction durable; without a journal there is none.
    pub(crate) fn commit(&self, tid: Option<Tid>) -> Result<()> {
        if let (Some(journal), Some(tid)) = (&self.journal, tid) {
            journal.commit(tid)?;
        }
        Ok(())
    }
}

impl<'c> Handle<'c> {
    /// Starts a handle; callers use [`Core::begin`].
    pub(crate) fn begin(core: &'c Core, credits: Credits) -> Result<Self> {
        let handle = match &core.journal {
            Some(journal) => {
                rt::charge(rt::Cost::Handle);
                Some(journal.start(core.with_quota(credits))?)
            }
            None => None,
        };
        Ok(Self {
            core,
            handle,
            unstored: Unstored::default(),
            lent: 0,
            is_described: false,
        })
    }

    /// Starts a handle without waiting; returns none if that would wait, or if the volume cannot be
    /// changed any more.
    pub(crate) fn begin_at_once(core: &'c Core, credits: Credits) -> Option<Self> {
        core.check_writable().ok()?;
        let handle = match &core.journal {
            Some(journal) => {
                rt::charge(rt::Cost::Handle);
                Some(journal.try_start(core.with_quota(credits)).ok()??)
            }
            None => None,
        };
        Some(Self {
            core,
            handle,
            unstored: Unstored::default(),
            lent: 0,
            is_described: false,
        })
    }

    /// Returns the number of the running transaction; none without a journal.
    pub(crate) fn tid(&self) -> Option<Tid> {
        self.handle.as_ref().map(jbd2::Handle::tid)
    }

    /// Returns the transaction that orders file data; none in writeback mode.
    pub(crate) fn ordering(&self) -> Option<Tid> {
        match self.core.options.data {
            DataMode::Writeback => None,
            DataMode::Ordered | DataMode::Journal => self.tid(),
        }
    }

    /// Returns write access to a buffer's contents, which the caller keeps for a short time only.
    pub(crate) fn write<'b>(&mut self, buffer: &'b Arc<Buffer>) -> Result<BufferWrite<'b>> {
        rt::charge(rt::Cost::BlockAccess);
        match &mut self.handle {
            Some(handle) => Ok(handle.write(buffer)?),
            None => Ok(self.core.buffers.write_plain(buffer)),
        }
    }

    /// Replaces a buffer's contents.
    pub(crate) fn replace(&mut self, buffer: &Arc<Buffer>, image: Arc<Block>) -> Result<()> {
        rt::charge(rt::Cost::BlockAccess);
        match &mut self.handle {
            Some(handle) => Ok(handle.replace(buffer, image)?),
            None => {
                self.core.buffers.replace_plain(buffer, image);
                Ok(())
            }
        }
    }

    /// Forgets a freed block that held metadata (or journaled data): its contents are never written
    /// again, and a revoke record keeps recovery from doing so.
    pub(crate) fn forget(&mut self, block: BlockNr) -> Result<()> {
        let buffer = self.core.buffers.remove(block);
        match &mut self.handle {
            Some(_) if rt::mutant!("free/metadata-not-forgotten") => Ok(()),
            Some(handle) => Ok(handle.forget(block, buffer.as_ref(), true)?),
            None => Ok(()),
        }
    }

    /// Forgets a block that this handle has allocated: no older transaction can bring it back, so
    /// it needs no revoke.
    pub(crate) fn forget_new(&mut self, block: BlockNr) -> Result<()> {
        let buffer = self.core.buffers.remove(block);
        match &mut self.handle {
            Some(handle) => Ok(handle.forget(block, buffer.as_ref(), false)?),
            None => Ok(()),
        }
    }

    /// Lets the step allocate clusters that are claimed already for pages without a block, before
    /// others. The caller takes the rest back before it finishes the handle.
    pub(crate) fn lend(&mut self, count: u64) {
        self.lent += count;
    }

    /// Returns true if clusters are lent to the step: it allocates blocks that were delayed.
    pub(crate) fn has_lent(&self) -> bool {
        self.lent > 0
    }

    /// Takes back what is left of the clusters that were lent.
    pub(crate) fn take_back(&mut self) -> u64 {
        core::mem::take(&mut self.lent)
    }

    /// Claims up to `count` clusters: those that were lent, and then free ones. Returns the number
    /// claimed.
    pub(crate) fn claim(&mut self, count: u32, may_use_reserve: bool) -> u32 {
        let space = &self.core.space;
        if self.lent == 0 {
            return space.claim(count, may_use_reserve);
        }
        let lent = self.lent.min(u64::from(count));
        self.lent -= lent;
        space.delayed_clusters.fetch_sub(lent, Ordering::AcqRel);
        lent as u32 + space.claim(count - lent as u32, may_use_reserve)
    }

    /// Aborts the volume if an inode was not stored: committing its blocks without it would give
    /// them to two files.
    fn check_stored(&self) -> Result<()> {
        if self.unstored.count() == 0 {
            return Ok(());
        }
        let why = "a handle ended before it stored an inode that it had changed";
        tracing::error!(inodes = self.unstored.count(), "{why}");
        self.core.abort(why);
        Err(jbd2::Error::Stopped(why.to_owned()).into())
    }

    /// Returns the number of revokes that this step may still add; unbounded without a journal.
    pub(crate) fn revokes_left(&self) -> u32 {
        self.handle
            .as_ref()
            .map_or(u32::MAX, jbd2::Handle::revokes_left)
    }

    /// Returns the number of blocks that this step may still dirty; unbounded without a journal.
    pub(crate) fn credits_left(&self) -> u32 {
        let left = self.handle.as_ref().map(jbd2::Handle::credits_left);
        left.map_or(u32::MAX, |left| {
            left.saturating_sub(self.core.quota_credits())
        })
    }

    /// Requests more credits without waiting; returns false if the step has to `restart`.
    pub(crate) fn extend(&mut self, more: Credits) -> Result<bool> {
        match &mut self.handle {
            Some(handle) => Ok(handle.extend(more)?),
            None => Ok(true),
        }
    }

    /// Ends the step and starts the next, possibly in a later transaction. The state so far must be
    /// consistent or be covered by the orphan list.
    ///
    /// # Errors
    /// - [`jbd2::Error::Stopped`] if an inode was changed and not stored: the journal is aborted.
    pub(crate) fn restart(&mut self, credits: Credits) -> Result<()> {
        self.check_stored()?;
        self.check_described();
        match &mut self.handle {
            Some(handle) => Ok(handle.restart(self.core.with_quota(credits))?),
            None => Ok(()),
        }
    }

    /// Separates changes that belong together, for mutants: ends the step, makes it durable and
    /// starts the next.
    pub(crate) fn tear(&mut self, credits: Credits) -> Result<()> {
        let (Some(journal), Some(handle)) = (&self.core.journal, self.handle.take()) else {
            return Ok(());
        };
        journal.commit(handle.finish()?)?;
        self.handle = Some(journal.start(self.core.with_quota(credits))?);
        Ok(())
    }

    /// Finishes the step. Returns the number of its transaction; none without a journal.
    ///
    /// # Errors
    /// - [`jbd2::Error::Stopped`] if an inode was changed and not stored: the journal is aborted.
    pub(crate) fn finish(self) -> Result<Option<Tid>> {
        self.check_stored()?;
        self.check_described();
        match self.handle {
            Some(handle) => Ok(Some(handle.finish()?)),
            None => Ok(None),
        }
    }
}

/// Fast commits.
impl Handle<'_> {
    /// Says that tags of a fast commit describe all changes of the step. Otherwise the transaction
    /// is committed as a whole.
    pub(crate) fn describe(&mut self) {
        self.is_described = true;
    }

    /// Returns the tracked changes, and the transaction; none if no fast commits are made.
    fn tracked(&self) -> Option<(&FastChanges, Tid)> {
        Some((self.core.fast_changes.as_ref()?, self.tid()?))
    }

    /// Ends the fast commits of the transaction if no tags describe the step.
    fn check_described(&self) {
        if let Some((changes, tid)) = self.tracked()
            && !self.is_described
            && self.handle.as_ref().is_some_and(jbd2::Handle::has_changed)
        {
            changes.refuse(tid, "a step that tags do not describe");
        }
    }

    /// Ends the fast commits of the transaction, in a step that tags describe otherwise.
    pub(crate) fn refuse(&self, why: &'static str) {
        if let Some((changes, tid)) = self.tracked() {
            changes.refuse(tid, why);
        }
    }

    /// Notes that an inode was stored.
    pub(super) fn note_inode(&self, nr: InodeNr, is_data: bool) {
        if let Some((changes, tid)) = self.tracked() {
            changes.note_inode(tid, nr, is_data);
        }
    }

    /// Notes that the mapping of blocks of a file has changed, or may have.
    pub(crate) fn note_blocks(&self, nr: InodeNr, from: FileBlock, count: u64) {
        if let Some((changes, tid)) = self.tracked() {
            let end = from.get().saturating_add(count).min(FILE_BLOCKS);
            changes.note_blocks(tid, nr, from.get()..end);
        }
    }

    /// Notes a change of a name. `is_gone` is true if the inode has no name left.
    pub(crate) fn note_name(
        &self,
        change: NameChange,
        (parent, name): (InodeNr, &[u8]),
        inode: InodeNr,
        is_gone: bool,
    ) {
        if let Some((changes, tid)) = self.tracked() {
            let name = ChangedName {
                change,
                parent,
                name: name.into(),
                inode,
            };
            changes.note_name(tid, name, is_gone);
        }
    }

    /// Notes that a name was added to a linear directory.
    pub(crate) fn note_linear(&self, nr: InodeNr) {
        if let Some((changes, tid)) = self.tracked() {
            changes.note_linear(tid, nr);
        }
    }

    /// Notes that an inode was put onto the orphan list.
    pub(crate) fn note_listed(&self, nr: InodeNr) {
        if let Some((changes, tid)) = self.tracked() {
            changes.note_listed(tid, nr);
        }
    }

    /// Notes that an inode was removed from the orphan list.
    pub(crate) fn note_unlisted(&self, nr: InodeNr) {
        if let Some((changes, tid)) = self.tracked() {
            changes.note_unlisted(tid, nr);
        }
    }
}

impl AsMut<Unstored> for Handle<'_> {
    fn as_mut(&mut self) -> &mut Unstored {
        &mut self.unstored
    }
}
