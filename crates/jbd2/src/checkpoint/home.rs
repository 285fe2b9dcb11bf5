//! Writing blocks home.

use std::sync::Arc;

use block::{DeviceError, Payload, Request};
use layout::{Block, BlockNr, SectorNr, Tid};
use rt::Nanos;

use super::Checkpoint;
use crate::config::LogPolicy;
use crate::error::Result;
use crate::lifecycle::{DebtEvent, Next};
use crate::shared::Shared;

/// How many blocks are written home together.
pub(crate) const BATCH_BLOCKS: usize = 1024;
/// How many a 2.4 kernel wrote together.
pub(crate) const LINUX24_BATCH_BLOCKS: usize = 64;
/// The largest request, in blocks.
const REQUEST_BLOCKS: usize = 256;

/// A block that somebody has chosen to write.
pub(crate) type Candidate = (BlockNr, Tid);

/// A block on its way home.
pub(crate) struct Chosen {
    nr: BlockNr,
    image: Arc<Block>,
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

    /// Takes candidates that can be written now. Those that cannot, because an older image is in flight, go back.
    pub(crate) fn start(&mut self, candidates: &[Candidate]) -> Vec<Chosen> {
        let mut chosen = Vec::with_capacity(candidates.len());
        let Some(front) = self.filed.front().map(|filed| filed.tid) else {
            return chosen;
        };
        for (nr, tid) in candidates {
            let Some(owed) = self.owed.get_mut(nr).filter(|owed| owed.tid == *tid) else {
                continue;
            };
            match owed.debt.after(DebtEvent::Start) {
                Next::Become(debt) => {
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
        let event = if is_ok || rt::mutant!("checkpoint/error-ignored") {
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
        owed.debt = debt;
        if debt == crate::lifecycle::Debt::None {
            let owed = self.owed.remove(&nr).expect("it is there");
            owed.buffer.lock().holds.owed = None;
            self.settle(owed.tid);
        }
    }

    /// Whether transactions up to `last` owe nothing.
    fn is_settled_through(&self, last: Tid) -> bool {
        self.filed
            .iter()
            .take_while(|filed| !filed.tid.is_after(last))
            .all(|filed| filed.owed == 0)
    }

    /// Whether some block that transactions up to `last` owe can be written now.
    fn can_start_through(&self, last: Tid) -> bool {
        let can_start = |tid: Tid, nr: &BlockNr| {
            let owed = self.owed.get(nr).filter(|owed| owed.tid == tid);
            owed.is_some_and(|owed| matches!(owed.debt.after(DebtEvent::Start), Next::Become(_)))
        };
        let mut filed = self
            .filed
            .iter()
            .take_while(|filed| !filed.tid.is_after(last));
        filed.any(|filed| filed.unchosen.iter().any(|nr| can_start(filed.tid, nr)))
    }
}

impl Shared {
    /// Writes home what transactions up to `last` owe, and waits until nothing of it is owed any more, whoever writes it.
    pub(super) fn write_home_through(&self, last: Tid, batch_blocks: usize) -> Result<()> {
        loop {
            let mut checkpoint = self.checkpoint.lock();
            while !checkpoint.can_start_through(last) {
                if checkpoint.is_settled_through(last) {
                    return Ok(());
                }
                checkpoint.check()?;
                self.writes_done.wait(&mut checkpoint);
            }
            let candidates = checkpoint.choose_through(last);
            drop(checkpoint);
            self.write_candidates(candidates, batch_blocks)?;
        }
    }

    /// Writes candidates home in batches, and waits for each. Returns how many were written.
    ///
    /// The default policy sorts. A 2.4 kernel (`linux24`) took blocks in the order in which they were first changed, and
    /// left the sorting of a batch to its elevator.
    pub(super) fn write_candidates(
        &self,
        mut candidates: Vec<Candidate>,
        batch_blocks: usize,
    ) -> Result<usize> {
        if self.config.policy != LogPolicy::Linux24 {
            candidates.sort_unstable_by_key(|(nr, _)| *nr);
        }
        let mut written = 0;
        for batch in candidates.chunks(batch_blocks) {
            let chosen = self.checkpoint.lock().start(batch);
            written += chosen.len();
            self.write_chosen(chosen)?;
        }
        Ok(written)
    }

    pub(crate) fn write_chosen(&self, chosen: Vec<Chosen>) -> Result<()> {
        if chosen.is_empty() {
            return Ok(());
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
        let results = self.home.submit(requests).wait();
        let mut failure: Option<DeviceError> = None;
        let mut checkpoint = self.checkpoint.lock();
        for (run, result) in runs.iter().zip(results) {
            let is_ok = result.is_ok();
            for index in 0..run.payload.len() as u64 {
                checkpoint.end(run.first + index, is_ok);
            }
            checkpoint.written += run.payload.len() as u64;
            if let Err(error) = result {
                failure.get_or_insert(error);
            }
        }
        drop(checkpoint);
        self.writes_done.notify_all();
        failure.map_or(Ok(()), |error| Err(error.into()))
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
    use super::*;

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
