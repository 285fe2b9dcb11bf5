//! Writing blocks home.

use std::sync::Arc;

use block::{Payload, Request, Ticket};
use layout::{Block, BlockNr, SectorNr, Tid};
use rt::Nanos;

use super::{Checkpoint, Owed};
use crate::error::Result;
use crate::lifecycle::{DebtEvent, Next};
use crate::policy::{Batch, Batches, HeldBlocks, WriteOrder};
use crate::shared::Shared;

/// The largest request, in blocks.
const REQUEST_BLOCKS: usize = 256;

/// A block that somebody has chosen to write.
pub(crate) type Candidate = (BlockNr, Tid);

/// A block on its way home.
pub(crate) struct Chosen {
    nr: BlockNr,
    image: Arc<Block>,
}

/// What there is to do for transactions up to some.
enum Outlook {
    /// They owe nothing.
    Settled,
    /// Some block can be written now.
    CanStart,
    /// Others write what is left.
    Underway,
    /// What is left has to be committed by a transaction that runs or commits.
    Held(Tid),
}

impl Checkpoint {
    /// Blocks that transactions up to `last` still owe and nobody has chosen.
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

    /// Blocks that have been owed since before a time, oldest first, at most `limit`.
    pub(super) fn choose_aged(&mut self, owed_before: Nanos, limit: usize) -> Vec<Candidate> {
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

    /// Takes candidates that can be written now. Those that cannot, because an older image is in flight or (if `held` says
    /// so) a later transaction has the block, go back.
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

    /// The write of a block has ended.
    fn end(&mut self, nr: BlockNr, is_ok: bool) {
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
        // A transaction that took it over meanwhile has it among those to be chosen.
        let is_newest = owed.debt == crate::lifecycle::Debt::InFlight;
        owed.debt = debt;
        let tid = owed.tid;
        if !is_ok && is_newest && !rt::mutant!("checkpoint/refused-block-forgotten") {
            // Somebody has to choose it again.
            let front = self.filed.front().expect("whoever owes is in the log").tid;
            self.filed[tid.distance_from(front) as usize]
                .unchosen
                .push(nr);
        }
        if debt == crate::lifecycle::Debt::None {
            let owed = self.owed.remove(&nr).expect("it is there");
            owed.buffer.lock().holds.owed = None;
            self.settle(owed.tid);
        }
    }

    /// What there is to do for transactions up to `last`.
    fn outlook(&self, last: Tid, held: HeldBlocks) -> Outlook {
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
    /// The transaction that has to be committed before the block is written home.
    fn holder(&self, held: HeldBlocks) -> Option<Tid> {
        if held == HeldBlocks::Write {
            return None;
        }
        let state = self.buffer.lock();
        let running = state.holds.running.map(|filing| filing.tid);
        state.holds.committing.or(running)
    }
}

/// Batches on their way home, oldest first.
#[derive(Default)]
struct Underway {
    batches: Vec<(Vec<Run>, Ticket)>,
}

impl Shared {
    /// Writes home what transactions up to `last` owe, and waits until nothing of it is owed any more, whoever writes it.
    /// The caller has no open handle.
    pub(super) fn write_home_through(&self, last: Tid) -> Result<()> {
        let policy = self.config.policy;
        loop {
            let mut checkpoint = self.checkpoint.lock();
            checkpoint.check()?;
            match checkpoint.outlook(last, policy.held) {
                Outlook::Settled => return Ok(()),
                Outlook::Underway => self.writes_done.wait(&mut checkpoint),
                Outlook::Held(tid) => {
                    drop(checkpoint);
                    self.commit(tid)?;
                    self.wait_until_filed(tid)?;
                }
                Outlook::CanStart => {
                    let candidates = checkpoint.choose_through(last);
                    drop(checkpoint);
                    self.write_candidates(candidates, policy.batch, policy.batches)?;
                }
            }
        }
    }

    /// Writes candidates home in batches, and waits for them. Returns how many were written.
    pub(super) fn write_candidates(
        &self,
        mut candidates: Vec<Candidate>,
        batch: Batch,
        batches: Batches,
    ) -> Result<usize> {
        if self.config.policy.order == WriteOrder::Sorted {
            candidates.sort_unstable_by_key(|(nr, _)| *nr);
        }
        let mut written = 0;
        let mut underway = Underway::default();
        let mut result = Ok(());
        for batch in candidates.chunks(batch.blocks()) {
            let chosen = self.checkpoint.lock().start(batch, self.config.policy.held);
            if chosen.len() < batch.len() {
                // Whoever waits for what went back may now have to do something else for it.
                self.writes_done.notify_all();
            }
            written += chosen.len();
            self.submit_chosen(chosen, &mut underway);
            if batches == Batches::Wait {
                result = result.and(self.finish_writes(&mut underway));
            }
            // Where there is no room for some blocks, there may be for others.
            if let Err(error) = &result
                && !error.is_no_room()
            {
                break;
            }
        }
        // What was chosen has to end even if something else has failed.
        let rest = self.finish_writes(&mut underway);
        result.and(rest).map(|()| written)
    }

    #[cfg(test)]
    pub(crate) fn write_chosen(&self, chosen: Vec<Chosen>) -> Result<()> {
        let mut underway = Underway::default();
        self.submit_chosen(chosen, &mut underway);
        self.finish_writes(&mut underway)
    }

    fn submit_chosen(&self, chosen: Vec<Chosen>, underway: &mut Underway) {
        if chosen.is_empty() {
            return;
        }
        let runs = runs(chosen);
        let block_bytes = u64::from(self.format.block_bytes);
        let requests: Vec<Request> = runs
            .iter()
            .map(|run| Request::Write {
                sector: SectorNr::from_byte_offset(run.first.get() * block_bytes),
                payload: run.payload.clone(),
                force_unit_access: false,
            })
            .collect();
        let count: usize = runs.iter().map(|run| run.payload.len()).sum();
        self.counters.checkpoint_blocks.add(count as u64);
        self.counters.checkpoint_requests.add(requests.len() as u64);
        let ticket = self.home.submit(requests);
        underway.batches.push((runs, ticket));
    }

    /// Waits for batches; the first error of them.
    fn finish_writes(&self, underway: &mut Underway) -> Result<()> {
        let mut failure = Ok(());
        for (runs, ticket) in underway.batches.drain(..) {
            let results = ticket.wait();
            let mut checkpoint = self.checkpoint.lock();
            for (run, result) in runs.iter().zip(results) {
                let is_ok = result.is_ok() || rt::mutant!("checkpoint/error-ignored");
                for index in 0..run.payload.len() as u64 {
                    checkpoint.end(run.first + index, is_ok);
                }
                checkpoint.written += run.payload.len() as u64;
                if !is_ok && failure.is_ok() {
                    failure = result.map(drop).map_err(Into::into);
                }
            }
            drop(checkpoint);
            self.writes_done.notify_all();
        }
        failure
    }
}

/// Adjacent blocks that go in one request.
struct Run {
    first: BlockNr,
    payload: Payload,
}

/// Blocks in ascending order, as runs.
fn runs(chosen: Vec<Chosen>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for block in chosen {
        match runs.last_mut() {
            Some(run)
                if run.first + run.payload.len() as u64 == block.nr
                    && run.payload.len() < REQUEST_BLOCKS =>
            {
                run.payload.push(block.image);
            }
            _ => runs.push(Run {
                first: block.nr,
                payload: vec![block.image],
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::Filed;
    use super::*;
    use crate::buffer::Buffer;
    use crate::transaction::Logged;

    /// A block whose write is refused after a newer transaction took it over is there to be chosen once, so that whoever waits for it sees
    /// who holds it.
    #[test]
    fn a_refused_block_is_chosen_again_once() {
        let nr = BlockNr::new(7);
        let buffer = Buffer::new(nr, Block::zeroed(512).into_arc());
        let mut checkpoint = Checkpoint::default();
        let file = |checkpoint: &mut Checkpoint, tid| {
            buffer.lock().holds.committing = Some(tid);
            checkpoint.filed.push_back(Filed {
                tid,
                start: 1,
                log_blocks: 3,
                since: Nanos::ZERO,
                owed: 1,
                unchosen: vec![nr],
            });
            let (buffer, image) = (Arc::clone(&buffer), buffer.image());
            checkpoint.take_over(tid, Logged { buffer, image });
        };
        let [first, second, third] = [1, 2, 3].map(Tid::new);
        file(&mut checkpoint, first);
        let candidates = checkpoint.choose_through(first);
        assert_eq!(checkpoint.start(&candidates, HeldBlocks::Commit).len(), 1);
        file(&mut checkpoint, second);
        checkpoint.end(nr, false);
        assert_eq!(checkpoint.filed[1].unchosen, [nr]);
        let filing = crate::buffer::Filing {
            tid: third,
            slot: 0,
        };
        buffer.lock().holds.running = Some(filing);
        let outlook = checkpoint.outlook(second, HeldBlocks::Commit);
        assert!(matches!(outlook, Outlook::Held(tid) if tid == third));
    }

    #[test]
    fn adjacent_blocks_become_runs() {
        let chosen = [3, 4, 5, 7, 9, 10].map(|nr| Chosen {
            nr: BlockNr::new(nr),
            image: Block::zeroed(512).into_arc(),
        });
        let runs: Vec<(u64, usize)> = runs(Vec::from(chosen))
            .iter()
            .map(|run| (run.first.get(), run.payload.len()))
            .collect();
        assert_eq!(runs, [(3, 3), (7, 1), (9, 2)]);
    }
}
