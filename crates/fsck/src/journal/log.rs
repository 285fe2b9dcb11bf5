//! The log as far as it would be replayed: committed transactions refer only to existing blocks,
//! and their revoke blocks are readable. The end of the log is not judged, because a crash may cut
//! it anywhere. Checksums of logged blocks are verified by the replay.

use layout::journal::{
    BLOCK_COUNT_MIN, BlockType, FAST_COMMIT_BLOCKS_DEFAULT, Header, JournalIncompatible,
    JournalSuperblock,
};
use layout::revoke;
use layout::tag::TagFormat;

use crate::error::Error;
use crate::image::{Bytes, Image};
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// The location of the log's blocks.
pub(super) enum Log<'a> {
    /// Block numbers on the device, by their number within the journal's file.
    Internal { blocks: Vec<u64> },
    External {
        image: Box<Image<'a>>,
        block_bytes: usize,
        count: u64,
    },
}

/// A fault in a transaction that may turn out not to be committed.
struct Fault {
    kind: ProblemKind,
    block: u32,
    found: u64,
}

impl<'a> Log<'a> {
    /// Returns the number of blocks.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Internal { blocks } => blocks.len() as u64,
            Self::External { count, .. } => *count,
        }
    }

    pub(super) fn superblock(&mut self, state: &mut State<'a>) -> Result<Bytes<'a>, Error> {
        let place = match self {
            Self::Internal { .. } => 0,
            Self::External { block_bytes, .. } if *block_bytes == 1024 => 2,
            Self::External { .. } => 1,
        };
        self.block(state, place)
    }

    fn block(&mut self, state: &mut State<'a>, number: u32) -> Result<Bytes<'a>, Error> {
        match self {
            Self::Internal { blocks } => state.block(blocks[number as usize]),
            Self::External {
                image, block_bytes, ..
            } => image.bytes(u64::from(number) * *block_bytes as u64, *block_bytes),
        }
    }
}

/// Reads the transactions that would be replayed. Returns their number.
pub(super) fn check<'a>(
    state: &mut State<'a>,
    log: &mut Log<'a>,
    raw: &JournalSuperblock,
) -> Result<u32, Error> {
    let (first, length) = (raw.first_block.get(), log_end(raw));
    let start = raw.start.get();
    if start == 0 {
        return Ok(0);
    }
    if !(first..length).contains(&start) {
        let kind = ProblemKind::LogStartOutOfRange;
        state
            .report
            .add_found(kind, Location::whole(), start.into());
        return Ok(0);
    }
    let format = TagFormat::from_features(raw.incompatible());
    let advance = |block: u32, count: u64| {
        let ring = u64::from(length - first);
        first + ((u64::from(block - first) + count) % ring) as u32
    };
    let (mut at, mut sequence) = (start, raw.sequence.get());
    let mut faults: Vec<Fault> = Vec::new();
    let mut left = u64::from(length - first);
    while left > 0 {
        let bytes = log.block(state, at)?;
        let Some((block_type, found)) = Header::recognise(&bytes) else {
            break;
        };
        if found != sequence {
            break;
        }
        let mut taken = 1;
        match block_type {
            BlockType::Descriptor => {
                taken += check_descriptor(state, format, &bytes, at, &mut faults)
            }
            BlockType::Revoke => check_revoke(state, format, &bytes, at, &mut faults),
            BlockType::Commit => {
                sequence = sequence.wrapping_add(1);
                for fault in faults.drain(..) {
                    let place = Location::block(fault.block.into());
                    state.report.add_found(fault.kind, place, fault.found);
                }
            }
            BlockType::SuperblockV1 | BlockType::SuperblockV2 => break,
        }
        at = advance(at, taken);
        left = left.saturating_sub(taken);
    }
    Ok(sequence.wrapping_sub(raw.sequence.get()))
}

/// Returns the block after the last one of the log: the rest of a journal may hold fast commits,
/// which are not judged.
fn log_end(raw: &JournalSuperblock) -> u32 {
    let length = raw.length.get();
    let count = match raw.fast_commit_blocks.get() {
        0 => FAST_COMMIT_BLOCKS_DEFAULT,
        count => count,
    };
    let has_them = raw
        .incompatible()
        .contains(JournalIncompatible::FAST_COMMIT);
    match length.checked_sub(count) {
        Some(end) if has_them && end >= BLOCK_COUNT_MIN && end > raw.first_block.get() => end,
        _ => length,
    }
}

/// Checks the tags of a descriptor block. Returns the number of logged blocks.
fn check_descriptor(
    state: &State<'_>,
    format: TagFormat,
    bytes: &[u8],
    block: u32,
    faults: &mut Vec<Fault>,
) -> u64 {
    let mut count = 0;
    for tag in format.tags(bytes) {
        count += 1;
        let home = tag.home.get();
        // The boot block may be logged: it can be written through the file system's device.
        if home >= state.geometry.block_count {
            let kind = ProblemKind::LogHomeOutOfRange;
            let found = home;
            faults.push(Fault { kind, block, found });
        }
    }
    count
}

fn check_revoke(
    state: &State<'_>,
    format: TagFormat,
    bytes: &[u8],
    block: u32,
    faults: &mut Vec<Fault>,
) {
    let mut add = |kind, found| faults.push(Fault { kind, block, found });
    match revoke::entries(format, bytes) {
        Err(error) => add(ProblemKind::LogRevokeInvalid, error.count.into()),
        Ok(mut entries) => {
            let limit = state.geometry.block_count;
            if let Some(beyond) = entries.find(|revoked| revoked.get() >= limit) {
                add(ProblemKind::LogRevokeInvalid, beyond.get());
            }
        }
    }
}
