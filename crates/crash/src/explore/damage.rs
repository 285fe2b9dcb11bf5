//! Damage: a byte of a log is changed after the power cut, in a block of a committed transaction
//! that a checksum covers.
//!
//! | the damaged transaction | required effect |
//! |---|---|
//! | is followed by later ones | the volume is refused, and nothing is written |
//! | is the last | it is dropped: the volume is as the transaction before left it |
//! | is the last, with blocks of the next one in the log | dropped, or the volume is refused |
//!
//! The blocks of a dropped transaction must not be checkpointed yet, and the tail must not have
//! moved because of it: the transaction takes over blocks from older ones, which then leave the
//! log. After that nothing could undo it, so damage in a last transaction is tried only before.
//!
//! This module reads the log without the engine.

use std::sync::Arc;

use ext::Volume;
use layout::journal::{BlockType, CommitBlock, Header, JournalIncompatible, JournalSuperblock};
use layout::tag::TagFormat;
use layout::{Block, Tid, checksum};
use rt::split_mix::SplitMix;
use zerocopy::FromBytes;

use super::Explorer;
use crate::disks::{Disks, log_end, quiet};
use crate::protocol::log::LogMap;
use crate::recover::{Examination, recover};
use crate::rule::{Broken, Rule};
use crate::setting::Checksums;

/// A block of a committed transaction.
struct Part {
    at: u32,
    /// Type of the block; none for an image.
    kind: Option<BlockType>,
}

/// A log on disks.
pub(super) struct Log<'d> {
    disks: &'d Disks,
    map: LogMap,
    superblock: JournalSuperblock,
}

/// The damage.
struct Harm {
    tid: Tid,
    is_last: bool,
    disks: Disks,
}

impl<'d> Log<'d> {
    pub(super) fn of(disks: &'d Disks) -> Self {
        let map = LogMap::new(disks);
        let (device, block) = map.superblock();
        let bytes = image_of(disks, device).block(block);
        let (superblock, _) = JournalSuperblock::read_from_prefix(bytes)
            .expect("a block holds the journal's superblock");
        Self {
            disks,
            map,
            superblock,
        }
    }

    fn block(&self, at: u32) -> &Arc<Block> {
        let (device, block) = self.map.place(at);
        image_of(self.disks, device).block(block)
    }

    fn next(&self, at: u32) -> u32 {
        if at + 1 == log_end(&self.superblock) {
            self.superblock.first_block.get()
        } else {
            at + 1
        }
    }

    /// Returns the committed transactions, oldest first.
    fn transactions(&self) -> Vec<(Tid, Vec<Part>)> {
        let tags = TagFormat::from_features(self.superblock.incompatible());
        let mut at = self.superblock.start.get();
        let mut tid = Tid::new(self.superblock.sequence.get());
        let (mut transactions, mut parts) = (Vec::new(), Vec::new());
        let mut left = self.superblock.length.get();
        while at != 0 && left > 0 {
            let block = self.block(at);
            let Some((kind, number)) = Header::recognise(block) else {
                break;
            };
            if number != tid.get() || kind == BlockType::Commit && self.is_torn(block) {
                break;
            }
            parts.push(Part {
                at,
                kind: Some(kind),
            });
            let images = match kind {
                BlockType::Descriptor => tags.tags(block).count(),
                _ => 0,
            };
            for _ in 0..images {
                at = self.next(at);
                parts.push(Part { at, kind: None });
            }
            if kind == BlockType::Commit {
                transactions.push((tid, core::mem::take(&mut parts)));
                tid = tid.next();
            }
            at = self.next(at);
            left = left.saturating_sub(1 + images as u32);
        }
        transactions
    }

    /// Returns true if a power cut has left a part of a commit block: its transaction did not
    /// become durable.
    fn is_torn(&self, block: &Block) -> bool {
        let has_own = JournalIncompatible::CHECKSUM_V2 | JournalIncompatible::CHECKSUM_V3;
        if !self.superblock.incompatible().intersects(has_own) {
            return false;
        }
        let (commit, _) = CommitBlock::ref_from_prefix(block).expect("a block has its header");
        let seed = checksum::journal_seed(&self.superblock.uuid);
        commit.checksums[0].get() != checksum::commit_block(seed, block)
    }

    /// Returns the blocks of the last transaction, each by its device and its number there, that a
    /// power cut may leave unreadable: its commit block; with asynchronous commits all.
    pub(super) fn last_torn(&self) -> Vec<(usize, u64)> {
        let transactions = self.transactions();
        let parts = transactions.last().map_or(&[][..], |(_, parts)| parts);
        let is_async = self
            .superblock
            .incompatible()
            .contains(JournalIncompatible::ASYNC_COMMIT);
        let torn = match is_async {
            true => parts,
            false => &parts[parts.len().saturating_sub(1)..],
        };
        torn.iter().map(|part| self.map.place(part.at)).collect()
    }

    /// Returns true if the log has a block of a transaction after this one.
    fn has_later(&self, tid: Tid) -> bool {
        let blocks = self.superblock.first_block.get()..self.superblock.length.get();
        let headers = blocks.filter_map(|at| Header::recognise(self.block(at)));
        headers
            .into_iter()
            .any(|(_, number)| Tid::new(number).is_after(tid))
    }

    /// Changes a random byte. Returns `None` if no byte is covered by a checksum, or the checksum
    /// would miss the change.
    fn harm(&self, checksums: Checksums, random: &mut SplitMix) -> Option<Harm> {
        let transactions = self.transactions();
        let chosen = random.below(transactions.len().max(1) as u64) as usize;
        let (tid, parts) = transactions.get(chosen)?;
        let covered = parts
            .iter()
            .filter(|part| part.kind.is_none() || checksums != Checksums::V1);
        let covered: Vec<&Part> = covered.collect();
        let part = covered.get(random.below(covered.len().max(1) as u64) as usize)?;
        let mut block = Block::clone(self.block(part.at));
        // A block without its header is no longer recognised as one of the journal's.
        let first = part.kind.map_or(0, |_| size_of::<Header>());
        let offset = first + random.below((block.len() - first) as u64) as usize;
        block[offset] ^= 1 + random.below(0xFF) as u8;
        if checksums == Checksums::V2 && part.kind.is_none() {
            let seed = checksum::journal_seed(&self.superblock.uuid);
            let half = |image: &Block| checksum::tag(seed, tid.get(), image) as u16;
            if half(&block) == half(self.block(part.at)) {
                return None;
            }
        }
        let mut disks = self.disks.clone();
        let (device, place) = self.map.place(part.at);
        let image = match &mut disks.log {
            Some(log) if device == 1 => log,
            _ => &mut disks.home,
        };
        image.set_block(place, block.into_arc());
        Some(Harm {
            tid: *tid,
            is_last: chosen + 1 == transactions.len(),
            disks,
        })
    }
}

fn image_of(disks: &Disks, device: usize) -> &crate::image::Image {
    match &disks.log {
        Some(log) if device == 1 => log,
        _ => &disks.home,
    }
}

impl Explorer<'_> {
    /// Damages the log of an image and recovers it.
    pub(super) fn damage(&mut self, disks: &Disks, seed: u64) -> Result<(), Broken> {
        let setting = self.recording.workload.setting;
        if setting.checksums == Checksums::None {
            return Ok(());
        }
        let log = Log::of(disks);
        let Some(harm) = log.harm(setting.checksums, &mut SplitMix::new(seed)) else {
            return Ok(());
        };
        if harm.is_last && self.watcher.has_gone_on() {
            return Ok(());
        }
        self.tally.damaged += 1;
        self.tally.rules.note(Rule::E6);
        let may_be_refused = !harm.is_last || log.has_later(harm.tid);
        if may_be_refused && self.is_refused(&harm)? {
            return Ok(());
        }
        let tid = harm.tid;
        let broken = |what: &str| {
            let text = format!("transaction {tid} is damaged in the log: {what}");
            Broken::new(Rule::E6, text)
        };
        if !harm.is_last {
            return Err(broken("nobody noticed"));
        }
        let checked = recover(&harm.disks, &setting, Examination::Read, &mut self.sound)
            .map_err(|found| broken(&found.to_string()))?;
        if checked.recovered.last.next() != tid {
            return Err(broken("it was not dropped"));
        }
        self.oracle(&checked)
            .check_names()
            .map_err(|found| broken(&found.to_string()))
    }

    /// Returns true if a damaged volume is refused; a refusal must leave it unchanged.
    fn is_refused(&self, harm: &Harm) -> Result<bool, Broken> {
        let devices = harm.disks.devices();
        let data = self.recording.workload.setting.cell.data;
        match Volume::open(devices.home_device(), devices.log_device(), quiet(data)) {
            Ok(volume) => {
                // Its contents do not matter.
                let _ = volume.close();
                Ok(false)
            }
            Err(_) if devices.disks(&harm.disks).are_as(&harm.disks) => Ok(true),
            Err(error) => Err(Broken::new(
                Rule::E6,
                format!("the volume was refused ({error}), but not before it was written to"),
            )),
        }
    }
}
