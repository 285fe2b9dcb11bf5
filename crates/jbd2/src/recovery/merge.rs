//! The changes of fast commits as a transaction.
//!
//! Replaying fast commits changes blocks that no transaction in the log has. If they were written
//! to their final locations one by one, a power cut in between would leave some of them, and
//! replaying the same fast commits over these could end differently. So they are logged first, as
//! the transaction that the fast commits belong to: before its commit block is durable, the next
//! open replays the fast commits again; afterwards, the transaction.
//!
//! All transactions before are checkpointed by then, so that it has the whole log.
//!
//! Other changes of many blocks are made in the same way, on a volume that is not open.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::{BlockDevice, Payload, Request};
use layout::{Block, BlockNr, SectorNr, Tid};

use crate::buffer::Buffer;
use crate::commit::records::{Records, block_count, commit_block};
use crate::credits::Credits;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::space::Limits;
use crate::superblock::Superblock;
use crate::transaction::{Contents, Logged};

/// Largest number of blocks in one request.
const REQUEST_BLOCKS: usize = 256;

/// The blocks that a replay of fast commits, or another change, writes: their final locations and
/// new contents, each once.
pub type Changes = Vec<(BlockNr, Arc<Block>)>;

/// Checks that a log is empty, and has room for this number of changes as one transaction once it
/// has these features; see [`add_features`](crate::format::add_features).
///
/// # Errors
/// - [`Error::NotRecovered`] if it is not empty.
/// - [`Error::TooSmall`], and the errors of reading the superblock.
pub fn check_changes(
    log: &Location,
    (is_64bit, has_checksums): (bool, bool),
    count: usize,
) -> Result<()> {
    let mut superblock = Superblock::load(log)?;
    if superblock.start().is_some() {
        return Err(Error::NotRecovered);
    }
    superblock.add_features(is_64bit, has_checksums);
    let limits = Limits::new(&superblock, &superblock.format());
    let credits = Credits {
        blocks: u32::try_from(count).unwrap_or(u32::MAX),
        revokes: 0,
    };
    let (needed, room) = (limits.need(credits), limits.ring.capacity());
    if needed > room {
        let blocks = superblock.length();
        return Err(Error::TooSmall {
            blocks,
            least: (blocks - room).saturating_add(needed),
        });
    }
    Ok(())
}

/// Logs changes as a transaction, durably. The log holds no transaction that is still needed.
///
/// # Errors
/// - [`Error::Unsupported`] if there are more changes than the log has blocks; nothing was written.
pub(super) fn log_changes(
    log: &Location,
    superblock: &mut Superblock,
    tid: Tid,
    changes: Changes,
) -> Result<()> {
    let format = superblock.format();
    let limits = Limits::new(superblock, &format);
    let logged = changes.into_iter().map(|(nr, image)| Logged {
        buffer: Buffer::new(nr, Arc::clone(&image)),
        image,
    });
    let contents = Contents {
        tid,
        logged: logged.collect(),
        revokes: BTreeSet::new(),
        forgotten: BTreeSet::new(),
    };
    let count = block_count(&contents, &limits);
    let room = limits.ring.capacity();
    if count > room {
        return Err(Error::Unsupported(format!(
            "fast commits whose changes take {count} blocks of a log of {room}"
        )));
    }
    let first = limits.ring.first();
    superblock.set_tail(Some(first), tid);
    log.device.request(superblock.requests(log)).wait_all()?;
    log.device.flush()?;
    let mut records = Records::build(&format, &limits, &contents);
    let blocks = core::mem::take(&mut records.blocks);
    let commit_at = first + u32::try_from(blocks.len()).expect("less than the log");
    write(log, first, blocks)?;
    log.device.flush()?;
    let commit = commit_block(&format, tid, records.crc, rt::wall());
    write(log, commit_at, vec![commit])?;
    Ok(log.device.flush()?)
}

/// Writes changes at their final locations, durably.
pub(super) fn bring_home(
    home: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    changes: &Changes,
) -> Result<()> {
    for part in changes.chunks(REQUEST_BLOCKS) {
        let write = |(block, image): &(BlockNr, Arc<Block>)| Request::Write {
            sector: SectorNr::from_byte_offset(block.get() * u64::from(block_bytes)),
            payload: vec![Arc::clone(image)],
            force_unit_access: false,
        };
        home.request(part.iter().map(write).collect()).wait_all()?;
    }
    Ok(home.flush()?)
}

/// Writes blocks of the log from a place on.
fn write(log: &Location, first: u32, blocks: Payload) -> Result<()> {
    let count = u32::try_from(blocks.len()).expect("less than the log");
    let sectors = u64::from(log.block_bytes) / SectorNr::SIZE;
    let mut blocks = blocks.into_iter();
    let mut requests = Vec::new();
    for piece in log.pieces(first, count) {
        let (mut sector, mut left) = (piece.sector, piece.count as usize);
        while left > 0 {
            let payload: Payload = blocks.by_ref().take(left.min(REQUEST_BLOCKS)).collect();
            left -= payload.len();
            let after = sector + payload.len() as u64 * sectors;
            requests.push(Request::Write {
                sector,
                payload,
                force_unit_access: false,
            });
            sector = after;
        }
    }
    Ok(log.device.request(requests).wait_all()?)
}
