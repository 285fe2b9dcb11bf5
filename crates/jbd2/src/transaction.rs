//! The running transaction: the blocks that it holds and has freed.
//!
//! Blocks are a list of references to buffers, in the order of their first access; a buffer stores
//! its slot, so that forgetting it needs no search. Images change in place in the buffers until the
//! transaction is *frozen*: then it becomes a [`Contents`], which never changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Mutex;

use crate::buffer::{Buffer, BufferState, Filing, Label};
use crate::credits::Credits;
use crate::error::{Error, Result};

/// The blocks of the running transaction, which handles change. Empty if there is none.
#[derive(Default)]
pub(crate) struct Transaction {
    // [blocks], taken after the locks of buffers, and before no other lock.
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// The buffers; none where one was forgotten.
    list: Vec<Option<Arc<Buffer>>>,
    /// Number of slots in use.
    count: usize,
    /// Blocks whose older images must not be replayed.
    revokes: BTreeSet<BlockNr>,
    /// Blocks that were freed: their pending writes are cancelled when the transaction is durable.
    forgotten: BTreeSet<BlockNr>,
}

/// The contents of a closed transaction.
pub(crate) struct Contents {
    pub(crate) tid: Tid,
    pub(crate) logged: Vec<Logged>,
    pub(crate) revokes: BTreeSet<BlockNr>,
    pub(crate) forgotten: BTreeSet<BlockNr>,
}

/// A block of a closed transaction.
pub(crate) struct Logged {
    pub(crate) buffer: Arc<Buffer>,
    /// The image to be logged and checkpointed.
    pub(crate) image: Arc<Block>,
}

impl Transaction {
    /// Files a buffer if it is not filed yet, which takes a credit. `state` is the buffer's lock.
    pub(crate) fn file(
        &self,
        tid: Tid,
        buffer: &Arc<Buffer>,
        state: &mut BufferState,
        credits: &mut Credits,
    ) -> Result<()> {
        if let Some(filing) = state.holds.running {
            assert_eq!(
                filing.tid, tid,
                "a buffer is filed in one running transaction"
            );
            return Ok(());
        }
        if credits.blocks == 0 {
            return Err(Error::OutOfCredits { block: buffer.nr() });
        }
        credits.blocks -= 1;
        let mut blocks = self.blocks.lock();
        state.holds.running = Some(Filing {
            tid,
            slot: blocks.list.len(),
        });
        blocks.list.push(Some(Arc::clone(buffer)));
        blocks.count += 1;
        if !blocks.forgotten.is_empty() {
            // The block is reused: its new contents are replayed and checkpointed.
            blocks.revokes.remove(&buffer.nr());
            blocks.forgotten.remove(&buffer.nr());
        }
        Ok(())
    }

    /// Removes a freed block, which returns a credit if it was filed, and notes the work for the
    /// commit.
    pub(crate) fn forget(
        &self,
        tid: Tid,
        nr: BlockNr,
        buffer: Option<&Arc<Buffer>>,
        revoke: bool,
        credits: &mut Credits,
    ) -> Result<()> {
        let mut state = buffer.map(|buffer| {
            assert_eq!(buffer.nr(), nr, "the buffer is that of the block");
            buffer.lock()
        });
        let mut blocks = self.blocks.lock();
        let is_new_revoke = revoke && !blocks.revokes.contains(&nr);
        if is_new_revoke && credits.revokes == 0 {
            return Err(Error::OutOfCredits { block: nr });
        }
        if let Some(filing) = state.as_mut().and_then(|state| state.holds.running.take()) {
            assert_eq!(
                filing.tid, tid,
                "a buffer is filed in one running transaction"
            );
            blocks.list[filing.slot] = None;
            blocks.count -= 1;
            credits.blocks += 1;
        }
        if !rt::mutant!("checkpoint/freed-block-written") {
            blocks.forgotten.insert(nr);
        }
        if is_new_revoke && !rt::mutant!("revoke/dropped") {
            blocks.revokes.insert(nr);
            credits.revokes -= 1;
        }
        Ok(())
    }

    /// Returns the number of blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.lock().count
    }

    /// Takes all blocks as those of a closed transaction: freezes their images, each after `seal`
    /// has completed it. No handle is open.
    pub(crate) fn freeze(
        &self,
        tid: Tid,
        seal: impl Fn(Label, BlockNr, &mut Arc<Block>),
    ) -> Contents {
        let blocks = core::mem::take(&mut *self.blocks.lock());
        let mut logged = Vec::with_capacity(blocks.count);
        for buffer in blocks.list.into_iter().flatten() {
            rt::charge(rt::Cost::BlockAccess);
            let mut state = buffer.lock();
            assert_eq!(state.holds.running.map(|filing| filing.tid), Some(tid));
            assert_eq!(
                state.holds.committing, None,
                "one transaction commits at a time"
            );
            state.holds.running = None;
            state.holds.committing = Some(tid);
            state.seal(|label, image| seal(label, buffer.nr(), image));
            let image = state.freeze();
            drop(state);
            logged.push(Logged { buffer, image });
        }
        assert_eq!(logged.len(), blocks.count, "every block is counted once");
        Contents {
            tid,
            logged,
            revokes: blocks.revokes,
            forgotten: blocks.forgotten,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: Tid = Tid::new(0xFFFF_FFF0);

    fn buffer(nr: u64) -> Arc<Buffer> {
        Buffer::new(BlockNr::new(nr), Block::zeroed(512).into_arc())
    }

    fn file(transaction: &Transaction, buffer: &Arc<Buffer>, credits: &mut Credits) -> Result<()> {
        transaction.file(TID, buffer, &mut buffer.lock(), credits)
    }

    fn credits() -> Credits {
        Credits {
            blocks: 3,
            revokes: 1,
        }
    }

    #[test]
    fn the_first_touch_takes_a_credit() {
        let (transaction, buffer, mut credits) = (Transaction::default(), buffer(1), credits());
        for _ in 0..2 {
            file(&transaction, &buffer, &mut credits).unwrap();
        }
        assert_eq!(credits.blocks, 2);
        assert!(!buffer.is_clean());
        let contents = transaction.freeze(TID, |_, _, _| ());
        assert_eq!(contents.logged.len(), 1);
        assert_eq!(buffer.lock().holds.committing, Some(TID));
    }

    #[test]
    fn forgetting_gives_the_credit_back_and_reuse_cancels_the_revoke() {
        let (transaction, old, new) = (Transaction::default(), buffer(1), buffer(1));
        let mut credits = credits();
        file(&transaction, &old, &mut credits).unwrap();
        transaction
            .forget(TID, old.nr(), Some(&old), true, &mut credits)
            .unwrap();
        assert_eq!(
            credits,
            Credits {
                blocks: 3,
                revokes: 0
            }
        );
        assert!(old.is_clean());
        transaction
            .forget(TID, old.nr(), None, true, &mut credits)
            .unwrap();
        assert_eq!(transaction.block_count(), 0);
        file(&transaction, &new, &mut credits).unwrap();
        let contents = transaction.freeze(TID, |_, _, _| ());
        assert!(contents.revokes.is_empty());
        assert!(contents.forgotten.is_empty());
        assert!(Arc::ptr_eq(&contents.logged[0].buffer, &new));
    }

    #[test]
    fn credits_are_not_overdrawn() {
        let (transaction, mut none) = (Transaction::default(), Credits::default());
        let result = file(&transaction, &buffer(4), &mut none);
        assert_eq!(
            result,
            Err(Error::OutOfCredits {
                block: BlockNr::new(4)
            })
        );
        let result = transaction.forget(TID, BlockNr::new(5), None, true, &mut none);
        assert_eq!(
            result,
            Err(Error::OutOfCredits {
                block: BlockNr::new(5)
            })
        );
        assert_eq!(
            transaction.forget(TID, BlockNr::new(5), None, false, &mut none),
            Ok(())
        );
    }
}
