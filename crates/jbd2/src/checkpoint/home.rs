//! Writing blocks to their final location.

use std::sync::Arc;

use block::Request;
use layout::{SectorNr, Tid};

use crate::checkpoint_list::{Candidate, Chosen, Outlook};
use crate::error::Result;
use crate::home_batch::{HomeBatch, Run};
use crate::policy::{Batch, Batches, HomeIo, WriteOrder};
use crate::shared::Shared;

/// Size of the largest request in blocks.
const REQUEST_BLOCKS: usize = 256;

/// Batches in flight, oldest first.
#[derive(Default)]
struct Underway {
    batches: Vec<Arc<HomeBatch>>,
}

impl Shared {
    /// Checkpoints transactions up to `last`, and waits until all of their blocks are written, by
    /// this thread or another. The caller has no open handle.
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
                    self.commit_for_checkpoint(tid)?;
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

    /// Writes candidates to their final location in batches, and waits for them. Returns the number
    /// written.
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
                // Threads that wait for the returned blocks check again: a commit may have to come
                // first.
                self.writes_done.notify_all();
            }
            written += chosen.len();
            self.submit_chosen(chosen, &mut underway);
            if batches == Batches::Wait {
                result = result.and(self.finish_writes(&mut underway));
            }
            // If a device has no room for some blocks, it may have room for others.
            if let Err(error) = &result
                && !error.is_no_room()
            {
                break;
            }
        }
        // Blocks whose write has started are completed even after an error.
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
        let count: usize = runs.iter().map(|run| run.payload.len()).sum();
        self.counters.checkpoint_blocks.add(count as u64);
        self.counters.checkpoint_requests.add(runs.len() as u64);
        if self.config.policy.home == HomeIo::Copy {
            self.submit_runs(runs, underway);
            return;
        }
        for run in runs {
            self.submit_runs(vec![run], underway);
        }
    }

    /// Submits runs as one batch.
    fn submit_runs(&self, runs: Vec<Run>, underway: &mut Underway) {
        let block_bytes = u64::from(self.format.block_bytes);
        let requests: Vec<Request> = runs
            .iter()
            .map(|run| Request::Write {
                sector: SectorNr::from_byte_offset(run.first.get() * block_bytes),
                payload: run.payload.clone(),
                force_unit_access: false,
            })
            .collect();
        let ticket = self.home.request(requests);
        let policy = self.config.policy;
        if policy.home == HomeIo::Wait || policy.batches == Batches::Overlap {
            ticket.start();
        }
        let batch = HomeBatch::new(runs, ticket);
        if policy.home == HomeIo::Wait {
            self.home_batches.lock().push(Arc::clone(&batch));
            // A thread that has looked for the batch in vain sleeps once its lock is free.
            drop(self.checkpoint.lock());
            self.writes_done.notify_all();
        }
        underway.batches.push(batch);
    }

    /// Waits for batches. Returns their first error.
    fn finish_writes(&self, underway: &mut Underway) -> Result<()> {
        let completed = underway
            .batches
            .drain(..)
            .map(|batch| self.complete(&batch));
        // All are waited for.
        completed.fold(Ok(()), Result::and)
    }
}

/// Groups blocks in ascending order into extents.
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
    use layout::{Block, BlockNr};

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
