//! The protocol: rules for the order of requests itself, regardless of the effect of power cuts.
//!
//! The watcher reads the log as it is written. It knows the images and revokes of each transaction,
//! and from the replays of the devices the durable contents at each event.
//!
//! | rule | checked when |
//! |---|---|
//! | T1 | a commit block is submitted |
//! | T2, T4 | a block is checkpointed |
//! | T3 | the journal's superblock moves the tail |
//! | T5 | a commit block is submitted, the tail moves |
//! | T6 | a block of the log is written |
//! | T7 | a commit block is complete |
//! | E2 | a commit block is submitted after the failure of a command that concerns the log |

pub(crate) mod log;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::mode::DataMode;
use block::trace::Event;
use block::versions::Version;
use block::{Replay, Request};
use layout::feature::Incompatible;
use layout::journal::JournalSuperblock;
use layout::{Block, Tid, fast_commit, superblock};
use zerocopy::FromBytes;

use crate::disks::SUPERBLOCK;
use crate::fault::{Strike, is_refused};
use crate::image::{BLOCK_BYTES, BLOCK_SECTORS, Image, SECTOR_BYTES};
use crate::recording::Recording;
use crate::rule::{Broken, Rule, RuleCounts};
use crate::setting::{JournalPlace, Setting};
use crate::tag::Tag;
pub(crate) use log::LogMap;
use log::{LogReader, Transaction};
use writers::Writers;

/// Checks a recording.
pub struct Watcher {
    setting: Setting,
    writers: Writers,
    map: LogMap,
    reader: LogReader,
    /// Images of committed transactions that no later one has revoked, oldest first.
    images: BTreeMap<u64, Vec<(Tid, Arc<Block>)>>,
    /// Blocks that committed transactions have revoked and not logged again.
    revoked: BTreeSet<u64>,
    /// The images of those blocks.
    retired: BTreeMap<u64, Vec<(Tid, Arc<Block>)>>,
    /// Blocks of the log in the batch that is being submitted, as far as they were checked.
    beside: Vec<u32>,
    /// Submitted commit blocks: the batch, and the transaction.
    issued: BTreeMap<u64, Transaction>,
    /// True if a block outside the log was written or discarded, or the tail moved, since the last
    /// commit block was complete.
    has_gone_on: bool,
    /// Blocks of files whose write has failed, and that have not become durable since.
    failed_data: BTreeMap<u64, Retry>,
    /// After a failure that ends all commits: the number of commit blocks that may still be in
    /// flight.
    records_left: Option<u32>,
}

/// The state of a block whose write has failed. Until a second write of it is durable no commit
/// block waits for it: its transaction was committed without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    None,
    OnItsWay(u64),
    Done,
}

type Check = Result<(), Broken>;

impl Watcher {
    /// Creates the watcher before the first event.
    pub fn new(recording: &Recording) -> Self {
        let (setting, initial) = (recording.workload.setting, &recording.initial);
        let map = LogMap::new(initial);
        Self {
            reader: LogReader::new(&map, initial),
            setting,
            writers: Writers::of(recording),
            map,
            images: BTreeMap::new(),
            revoked: BTreeSet::new(),
            retired: BTreeMap::new(),
            beside: Vec::new(),
            issued: BTreeMap::new(),
            // The file system's contents before a power cut are unknown.
            has_gone_on: setting.is_dirty,
            failed_data: BTreeMap::new(),
            records_left: None,
        }
    }

    /// Checks an event, before the replays apply it.
    ///
    /// # Errors
    /// - T1 to T7.
    pub fn note(
        &mut self,
        event: &Event,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        match event {
            Event::Submitted {
                device,
                batch,
                requests,
            } => {
                self.beside.clear();
                for request in requests.iter() {
                    self.submitted(*device, *batch, request, replays, counts)?;
                }
                Ok(())
            }
            Event::Completed { batch, results, .. } => {
                let is_done = results.iter().all(Result::is_ok);
                for retry in self.failed_data.values_mut() {
                    if *retry == Retry::OnItsWay(*batch) && is_done {
                        *retry = Retry::Done;
                    }
                }
                match self.issued.remove(batch) {
                    Some(transaction) if is_done => self.committed(transaction, replays, counts),
                    Some(transaction) if results.iter().any(is_refused) => {
                        self.reader.refused(&transaction);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            Event::Awaited { .. } | Event::Detached { .. } | Event::Mark(_) => Ok(()),
        }
    }

    /// Notes a failed command. A command refused for lack of room ends nothing.
    pub fn failed(&mut self, strike: &Strike, counts: &mut RuleCounts) {
        let (device, request) = (strike.device, &strike.request);
        let mut end = |left: u32| {
            let most = self.records_left.unwrap_or(left);
            self.records_left = Some(most.min(left));
        };
        let Request::Write {
            sector, payload, ..
        } = request
        else {
            if matches!(request, Request::Flush) {
                counts.note(Rule::E4);
                end(1);
            }
            return;
        };
        let first = sector.get() / BLOCK_SECTORS as u64;
        let blocks = block::payload::payload_bytes(payload).div_ceil(BLOCK_BYTES as u64);
        for block in first..first + blocks {
            match self.map.log_block(device, block) {
                // The superblock may be written by another thread than the committing one.
                Some(_) if strike.is_refused => counts.note(Rule::E10),
                Some(0) => end(1),
                Some(_) => {
                    counts.note(Rule::E2);
                    end(0);
                }
                None if self.images.contains_key(&block) => counts.note(Rule::E3),
                None => drop(self.failed_data.insert(block, Retry::None)),
            }
        }
    }

    fn submitted(
        &mut self,
        device: usize,
        batch: u64,
        request: &Request,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        let Request::Write {
            sector,
            payload,
            force_unit_access,
        } = request
        else {
            // A block may be discarded as soon as the transaction that freed it is durable.
            self.has_gone_on |= matches!(request, Request::Discard { .. });
            return Ok(());
        };
        let first = sector.get() / BLOCK_SECTORS as u64;
        let images = payload.iter().filter(|image| image.len() == BLOCK_BYTES);
        for (block, image) in (first..).zip(images) {
            let write = Write {
                device,
                batch,
                block,
                image,
                is_forced: *force_unit_access,
            };
            self.written(&write, replays, counts)?;
        }
        Ok(())
    }

    /// Returns true if a committed transaction has revoked blocks, so that recovery could bring old
    /// images back.
    pub fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Returns true if a block outside the log was written or discarded, or the tail moved, since
    /// the last commit block was complete.
    pub fn has_gone_on(&self) -> bool {
        self.has_gone_on
    }

    fn written(
        &mut self,
        write: &Write<'_>,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        let Some(at) = self.map.log_block(write.device, write.block) else {
            // Without a checksum, half of a superblock is as good as a whole one.
            let is_checked = self.setting.cell.structures.has_checksums();
            self.has_gone_on |= is_checked || write.block != SUPERBLOCK;
            return self.written_home(write, replays, counts);
        };
        if at == 0 {
            self.has_gone_on = true;
            return self.tail_written(write, replays, counts);
        }
        if at >= self.reader.end() {
            return self.fast_commit_written(write);
        }
        counts.note(Rule::T6);
        if self.is_live(at, replays) {
            let what = format!("log block {at} is written before the tail has durably passed it");
            return Err(Broken::new(Rule::T6, what));
        }
        self.beside.push(at);
        let Some(transaction) = self.reader.read(at, write.image) else {
            return Ok(());
        };
        self.record_issued(&transaction, write, replays, counts)?;
        self.issued.insert(write.batch, transaction);
        Ok(())
    }

    /// Checks a written block of a fast commit.
    fn fast_commit_written(&self, write: &Write<'_>) -> Check {
        let is_tail = fast_commit::tags(write.image)
            .map_while(Result::ok)
            .any(|tag| matches!(tag.record, fast_commit::Record::Tail(_)));
        if is_tail && self.setting.can_force && !write.is_forced {
            let what = "the tail of a fast commit is not forced";
            return Err(Broken::new(Rule::T1, what));
        }
        Ok(())
    }

    /// Returns true if a block of the log belongs to a transaction that a recovery would need.
    fn is_live(&self, at: u32, replays: &[Replay<Image>]) -> bool {
        let durable = self.superblock(replays);
        let start = durable.start.get();
        let (head, first) = (self.reader.head(), self.reader.first());
        start != 0 && start != head && {
            let length = self.reader.end() - first;
            let from = |block: u32| (block + length - start) % length;
            from(at) < from(head)
        }
    }

    /// Returns true if the tail has durably passed all transactions with images of a block.
    fn is_behind_tail(&self, block: u64, replays: &[Replay<Image>]) -> bool {
        let durable = self.superblock(replays);
        let tail = Tid::new(durable.sequence.get());
        let newest = self.images.get(&block).and_then(|images| images.last());
        let is_passed = |tid: Tid| durable.start.get() == 0 || !tid.is_at_or_after(tail);
        newest.is_none_or(|(tid, _)| is_passed(*tid))
    }

    fn superblock(&self, replays: &[Replay<Image>]) -> JournalSuperblock {
        let (device, block) = self.map.superblock();
        let bytes = replays[device].durable().block(block);
        let (superblock, _) = JournalSuperblock::read_from_prefix(bytes)
            .expect("a block holds the journal's superblock");
        superblock
    }

    /// Checks a submitted commit block.
    fn record_issued(
        &mut self,
        transaction: &Transaction,
        write: &Write<'_>,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        counts.note(Rule::T1);
        let tid = transaction.tid;
        if let Some(left) = self.records_left {
            if left == 0 {
                let what = format!(
                    "the commit record of transaction {tid} is issued after a failure of the log"
                );
                return Err(Broken::new(Rule::E2, what));
            }
            self.records_left = Some(left - 1);
        }
        // A checksum covers the transaction, but not its revoke blocks.
        let is_async = self.setting.cell.commits_at_once() && transaction.revokes.is_empty();
        let awaited = if is_async {
            &[]
        } else {
            &transaction.log_blocks[..]
        };
        for at in awaited {
            let (device, block) = self.map.place(*at);
            if self.beside.contains(at) || is_unsettled(&replays[device], block) {
                let what = format!(
                    "log block {at} of transaction {tid} is not durable when its commit record is issued"
                );
                return Err(Broken::new(Rule::T1, what));
            }
        }
        if self.setting.can_force && !write.is_forced {
            return Err(Broken::new(
                Rule::T1,
                format!("the commit record of transaction {tid} is not forced"),
            ));
        }
        if self.setting.cell.data != DataMode::Ordered {
            return Ok(());
        }
        counts.note(Rule::T5);
        self.failed_data
            .retain(|block, retry| *retry != Retry::Done || is_unsettled(&replays[0], *block));
        for (sector, versions) in replays[0].versions().iter() {
            let block = sector.get() / BLOCK_SECTORS as u64;
            let is_data = self.map.log_block(0, block).is_none()
                && block != SUPERBLOCK
                && !self.failed_data.contains_key(&block)
                && !self.images.contains_key(&block)
                && !transaction.images.iter().any(|(home, _)| *home == block);
            // If a block is written again because the next transaction has changed another part of
            // it, this part is durable already.
            let within = (sector.get() % BLOCK_SECTORS as u64) as usize * SECTOR_BYTES;
            let durable = &replays[0].durable().block(block)[within..within + SECTOR_BYTES];
            // A block that was journaled and then revoked may have been checkpointed before: it
            // need not be written again.
            let retired = self.retired.get(&block).into_iter().flatten();
            let retired = retired.map(|(_, image)| &image[within..within + SECTOR_BYTES]);
            // A discard is a hint: no transaction waits for it.
            let is_due = |version: &Version| {
                let bytes = version.bytes();
                bytes != durable
                    && !replays[0].is_discard(version)
                    && !retired.clone().any(|retired| retired == bytes)
                    && self.writers.is_due(bytes, tid)
            };
            if is_data && versions.iter().any(is_due) {
                let what = format!(
                    "block {block} is not durable when the commit record of transaction {tid} is issued"
                );
                return Err(Broken::new(Rule::T5, what));
            }
        }
        Ok(())
    }

    /// Notes that a commit block is complete.
    fn committed(
        &mut self,
        transaction: Transaction,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        counts.note(Rule::T7);
        let tid = transaction.tid;
        if self.superblock(replays).start.get() == 0 {
            let what = format!(
                "transaction {tid} is committed, but the journal says durably that it is empty"
            );
            return Err(Broken::new(Rule::T7, what));
        }
        let bytes = replays[0].durable().block(SUPERBLOCK);
        let (home, _) =
            superblock::Superblock::read_from_prefix(bytes).expect("a block holds the superblock");
        if !home
            .features()
            .incompatible
            .contains(Incompatible::NEEDS_RECOVERY)
        {
            let what =
                format!("transaction {tid} is committed, but the volume does not need recovery");
            return Err(Broken::new(Rule::T7, what));
        }
        self.has_gone_on = false;
        for block in transaction.revokes {
            if let Some(images) = self.images.remove(&block) {
                self.retired.insert(block, images);
            }
            self.revoked.insert(block);
        }
        for (block, image) in transaction.images {
            self.revoked.remove(&block);
            self.retired.remove(&block);
            self.images.entry(block).or_default().push((tid, image));
        }
        Ok(())
    }

    /// Checks a write outside the log, as metadata or as data.
    fn written_home(
        &mut self,
        write: &Write<'_>,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        if write.device != 0 || write.block == SUPERBLOCK {
            return Ok(());
        }
        if let Some(retry) = self.failed_data.get_mut(&write.block) {
            *retry = Retry::OnItsWay(write.batch);
        }
        let Some(images) = self.images.get(&write.block) else {
            if self.revoked.contains(&write.block) {
                counts.note(Rule::T4);
            }
            return Ok(());
        };
        counts.note(Rule::T2);
        if images.iter().any(|(_, image)| image == write.image) {
            return Ok(());
        }
        if writers::is_data(write.image) && self.is_behind_tail(write.block, replays) {
            // Journaled data of a file that is no longer journaled: the log has nothing about its
            // block any more.
            self.images.remove(&write.block);
            return Ok(());
        }
        // Data of a file that has left journaling in a transaction that will never be committed:
        // recovery restores the older data.
        let mut sectors = write.image.chunks(SECTOR_BYTES);
        if self.records_left.is_some() && sectors.any(|sector| Tag::read(sector).is_some()) {
            return Ok(());
        }
        let is_revoked = self.reader.is_revoked(write.block)
            || self
                .issued
                .values()
                .any(|one| one.revokes.contains(&write.block));
        let (rule, why) = if is_revoked {
            (Rule::T4, "its revoke is not durable")
        } else {
            (Rule::T2, "it is not what a committed transaction brought")
        };
        Err(Broken::new(
            rule,
            format!("block {} is written home, but {why}", write.block),
        ))
    }

    /// Checks a write of the journal's superblock.
    fn tail_written(
        &mut self,
        write: &Write<'_>,
        replays: &[Replay<Image>],
        counts: &mut RuleCounts,
    ) -> Check {
        let (new, _) = JournalSuperblock::read_from_prefix(write.image)
            .expect("a block holds the journal's superblock");
        let tail = Tid::new(new.sequence.get());
        counts.note(Rule::T3);
        if self.setting.cell.place == JournalPlace::External {
            counts.note(Rule::T5);
        }
        for (block, images) in &self.images {
            let Some((tid, image)) = images.last() else {
                continue;
            };
            // A block that a transaction behind the tail has logged again is checkpointed by that
            // one.
            if tid.is_at_or_after(tail) {
                continue;
            }
            let durable = replays[0].durable().block(*block);
            if durable != image && *block != SUPERBLOCK {
                let what = format!(
                    "the tail moves to {tail}, but block {block} of transaction {tid} is not durably at home"
                );
                return Err(Broken::new(Rule::T3, what));
            }
        }
        if new.start.get() == 0 {
            self.reader.emptied();
            // All blocks are checkpointed, and may be reused without the log, such as for data of a
            // file that leaves journaling.
            self.images.clear();
        }
        Ok(())
    }
}

/// A block that is written.
struct Write<'e> {
    device: usize,
    batch: u64,
    block: u64,
    image: &'e Arc<Block>,
    is_forced: bool,
}

fn is_unsettled(replay: &Replay<Image>, block: u64) -> bool {
    let first = block * BLOCK_SECTORS as u64;
    (first..first + BLOCK_SECTORS as u64).any(|sector| {
        replay
            .versions()
            .newest_through(layout::SectorNr::new(sector), u64::MAX)
            .is_some()
    })
}
