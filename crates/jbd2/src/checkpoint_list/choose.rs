//! The blocks of the checkpoint list that can be written, and the start and end of each write.
//!
//! A write of a block starts and ends in this list, and starts only when no other write of the
//! block is in flight.

use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Nanos;

use super::{CheckpointList, Owed};
use crate::lifecycle::{Debt, DebtEvent, Next};
use crate::policy::HeldBlocks;

/// A block to be written, and the transaction that has to write it.
pub(crate) type Candidate = (BlockNr, Tid);

/// A block whose write has started.
pub(crate) struct Chosen {
    pub(crate) nr: BlockNr,
    pub(crate) image: Arc<Block>,
}

/// The next step towards a checkpoint of the transactions up to a given one.
pub(crate) enum Outlook {
    /// No block is left to write.
    Settled,
    /// Some block can be written now.
    CanStart,
    /// All blocks that are left are being written.
    Underway,
    /// The given transaction, which runs or commits, has to be committed first.
    Held(Tid),
}

impl CheckpointList {
    /// Takes the blocks of transactions up to `last` whose write has not started.
    pub(crate) fn choose_through(&mut self, last: Tid) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for filed in &mut self.filed {
            if filed.tid.is_after(last) {
                break;
            }
            let tid = filed.tid;
            candidates.extend(filed.unchosen.drain(..).map(|nr| (nr, tid)));
        }
        self.keep_owed(&mut candidates);
        candidates
    }

    /// Takes at most `limit` blocks of transactions committed before a time, oldest first.
    pub(crate) fn choose_aged(&mut self, owed_before: Nanos, limit: usize) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let owed = &self.owed;
        for filed in &mut self.filed {
            if filed.since > owed_before {
                break;
            }
            while candidates.len() < limit && !filed.unchosen.is_empty() {
                let count = filed.unchosen.len().min(limit - candidates.len());
                let tid = filed.tid;
                let still_owed = |nr: &BlockNr| owed.get(nr).is_some_and(|owed| owed.tid == tid);
                let oldest = filed.unchosen.drain(..count).filter(still_owed);
                candidates.extend(oldest.map(|nr| (nr, tid)));
            }
        }
        candidates
    }

    fn keep_owed(&self, candidates: &mut Vec<Candidate>) {
        candidates.retain(|(nr, tid)| self.owed.get(nr).is_some_and(|owed| owed.tid == *tid));
    }

    /// Starts the write of those candidates that can be written now. The others, whose older image
    /// is in flight or (depending on `held`) which a later transaction has, are put back.
    pub(crate) fn start(&mut self, candidates: &[Candidate], held: HeldBlocks) -> Vec<Chosen> {
        let mut chosen = Vec::with_capacity(candidates.len());
        let Some(front) = self.filed.front().map(|filed| filed.tid) else {
            return chosen;
        };
        for (nr, tid) in candidates {
            let Some(owed) = self.owed.get_mut(nr).filter(|owed| owed.tid == *tid) else {
                continue;
            };
            match owed.debt.after(DebtEvent::Start) {
                Next::Become(debt) if owed.holder(held).is_none() => {
                    owed.debt = debt;
                    let image = if rt::mutant!("checkpoint/uncommitted-image") {
                        owed.buffer.image()
                    } else {
                        Arc::clone(&owed.image)
                    };
                    chosen.push(Chosen { nr: *nr, image });
                }
                _ => self.filed[tid.distance_from(front) as usize]
                    .unchosen
                    .push(*nr),
            }
        }
        chosen
    }

    /// Returns true if a block is being written to its final location.
    pub(crate) fn is_in_flight(&self, nr: BlockNr) -> bool {
        self.owed
            .get(&nr)
            .is_some_and(|owed| matches!(owed.debt, Debt::InFlight | Debt::Superseded))
    }

    /// Ends the write of a block.
    pub(crate) fn end(&mut self, nr: BlockNr, is_ok: bool) {
        let event = if is_ok {
            DebtEvent::Done
        } else {
            DebtEvent::Failed
        };
        let owed = self
            .owed
            .get_mut(&nr)
            .expect("a block in flight stays owed");
        let Next::Become(debt) = owed.debt.after(event) else {
            unreachable!("only a write in flight ends")
        };
        // If a transaction took it over meanwhile, it is among the unchosen blocks of that one.
        let is_newest = owed.debt == Debt::InFlight;
        owed.debt = debt;
        let tid = owed.tid;
        if !is_ok && is_newest && !rt::mutant!("checkpoint/refused-block-forgotten") {
            // It is put back among the unchosen blocks.
            let front = self
                .filed
                .front()
                .expect("a transaction that owes is in the log")
                .tid;
            self.filed[tid.distance_from(front) as usize]
                .unchosen
                .push(nr);
        }
        if debt == Debt::None {
            let owed = self.owed.remove(&nr).expect("it is there");
            owed.buffer.lock().holds.owed = None;
            self.settle(owed.tid);
        }
    }

    /// Returns the next step for transactions up to `last`.
    pub(crate) fn outlook(&self, last: Tid, held: HeldBlocks) -> Outlook {
        let (mut owed_count, mut held_count, mut holder) = (0, 0, None);
        for filed in &self.filed {
            if filed.tid.is_after(last) {
                break;
            }
            owed_count += filed.owed;
            for nr in &filed.unchosen {
                let Some(owed) = self.owed.get(nr).filter(|owed| owed.tid == filed.tid) else {
                    continue;
                };
                if !matches!(owed.debt.after(DebtEvent::Start), Next::Become(_)) {
                    continue;
                }
                let Some(tid) = owed.holder(held) else {
                    return Outlook::CanStart;
                };
                held_count += 1;
                holder.get_or_insert(tid);
            }
        }
        match holder {
            Some(tid) if held_count == owed_count => Outlook::Held(tid),
            _ if owed_count == 0 => Outlook::Settled,
            _ => Outlook::Underway,
        }
    }
}

impl Owed {
    /// Returns the transaction that has to be committed before the block is written.
    fn holder(&self, held: HeldBlocks) -> Option<Tid> {
        if held == HeldBlocks::Write {
            return None;
        }
        let state = self.buffer.lock();
        let running = state.holds.running.map(|filing| filing.tid);
        state.holds.committing.or(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::transaction::Logged;

    /// A block whose write is refused after a newer transaction took it over can be chosen once, so
    /// that a thread that waits for it finds the transaction that holds it.
    #[test]
    fn a_refused_block_is_chosen_again_once() {
        let nr = BlockNr::new(7);
        let buffer = Buffer::new(nr, Block::zeroed(512).into_arc());
        let mut list = CheckpointList::default();
        let file = |list: &mut CheckpointList, tid| {
            buffer.lock().holds.committing = Some(tid);
            list.file(tid, 1, 3, vec![nr]);
            let (buffer, image) = (Arc::clone(&buffer), buffer.image());
            list.take_over(tid, Logged { buffer, image });
        };
        let [first, second, third] = [1, 2, 3].map(Tid::new);
        file(&mut list, first);
        let candidates = list.choose_through(first);
        assert_eq!(list.start(&candidates, HeldBlocks::Commit).len(), 1);
        file(&mut list, second);
        list.end(nr, false);
        assert_eq!(list.filed[1].unchosen, [nr]);
        let filing = crate::buffer::Filing {
            tid: third,
            slot: 0,
        };
        buffer.lock().holds.running = Some(filing);
        let outlook = list.outlook(second, HeldBlocks::Commit);
        assert!(matches!(outlook, Outlook::Held(tid) if tid == third));
    }
}
