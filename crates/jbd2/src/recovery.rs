//! Recovery: replay of a log.
//!
//! Three passes. *Scan* reads the whole log from its tail in large batches, finds its last
//! transaction and verifies every checksum, without a write; its decisions are the table in the
//! module `decide`. *Revoke* finds for each revoked block the last transaction that revoked it: a
//! revoke hides images of that transaction and of earlier ones. *Replay* writes the newest image of
//! each block to its final location, sorted. Then the fast commits of the transaction that the log
//! does not have are replayed: this crate finds them, and the file system applies them; see the
//! modules `fast_commit` and `merge`.
//!
//! # Rules
//!
//! - A transaction that was torn by the crash is dropped as a whole. Damage before the last
//!   transaction, or an unreadable block of a committed transaction, stops recovery before anything
//!   is written.
//! - The file-system device is flushed before the log is emptied, so that recovery can be
//!   interrupted anywhere and repeated.
//! - The next transaction is numbered (last committed + 2) mod 2^32, so that the number of a
//!   dropped one is never reused; after a clean close it is `s_sequence` + 1.
//! - A log is refused if it is shorter on the device than its superblock says, or if it names
//!   blocks beyond the end of the device.
//!
//! # Where this differs from Linux and e2fsck
//!
//! Only for logs with checksum failures or unreadable blocks:
//!
//! | log | Linux | e2fsck | here |
//! |---|---|---|---|
//! | last: bad tag checksum of an image | replays others, refuses | same, full check | drops it |
//! | earlier: the same | replays others, refuses | same, full check | refuses |
//! | last: bad commit block | drops it; newer kernels refuse | drops it | drops it |
//! | earlier: bad commit block | replays until there, refuses | replays until there | refuses |
//! | last: bad descriptor or revoke block | drops or refuses, by commit times | same | drops it |
//! | last: impossible count in a revoke block | refuses | aborts the replay | drops it |
//! | last: unreadable block, commit block behind it | refuses | refuses | refuses |
//! | last: unreadable block, no commit block | refuses | refuses | drops it |
//!
//! *Last* and *earlier* are the last transaction of the log and one before it. A refusal writes
//! nothing here. A transaction that is dropped although it was committed is noted as an error.
//!
//! A dropped transaction whose commit block is valid was committed, unless commits are
//! asynchronous: its changes may have been acknowledged. Half of it would leave the volume
//! inconsistent, so it is dropped as a whole, and the journal's superblock gets an error in the
//! same write that empties the log. The file system copies the error to its own superblock, as
//! after an abort.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`.

mod decide;
mod fast_commit;
mod inspect;
mod merge;
mod reader;
mod replay;
mod revoke;
mod scan;
mod view;

use std::sync::Arc;

use block::BlockDevice;
use layout::Tid;

use crate::error::{Corrupt, Error, Result};
use crate::location::Location;
use crate::superblock::Superblock;
pub use fast_commit::FastCommits;
pub use inspect::{End, Inspection, LoggedBlock, TransactionInfo, inspect};
pub use merge::{Changes, check_changes};
use replay::Replay;
use scan::Scan;
pub use view::view;

/// The treatment of the transactions that a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Holdings {
    /// They are replayed.
    #[default]
    Replay,
    /// They are dropped. Blocks of theirs left in the log are never taken for later transactions.
    Discard,
    /// A log that holds transactions, or may hold some behind damage, is refused.
    Refuse,
}

/// The outcome of recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Number of transactions replayed.
    pub transactions: u32,
    /// Number of transactions dropped for [`Holdings::Discard`]. Behind damage there may have been
    /// more.
    pub discarded: u32,
    /// Number of fast commits replayed.
    pub fast_commits: u32,
    /// Number of blocks written.
    pub blocks: u64,
    /// Number of images not written because they were revoked.
    pub revoked: u64,
    /// The last transaction of the log, if there was one.
    pub last: Option<Tid>,
    /// The number of the next transaction.
    pub next: Tid,
    /// True if the log was empty, so that nothing was written.
    pub was_clean: bool,
    /// A committed transaction that was dropped because one of its blocks is damaged.
    pub lost: Option<Lost>,
    /// The error that an earlier abort, or the loss of a transaction, has recorded in the journal
    /// (a negative errno). It stays there until [`forget_error`] is called, after the caller has
    /// recorded it elsewhere.
    pub noted_error: Option<i32>,
}

/// A committed transaction that recovery had to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("transaction {tid} was committed and is lost: block {log_block} of the log: {what}")]
pub struct Lost {
    /// Its number.
    pub tid: Tid,
    /// The first damaged block in the log.
    pub log_block: u32,
    /// The fault.
    pub what: &'static str,
}

/// Replays a log, flushes, and empties it. Does nothing to an empty log.
///
/// # Errors
/// - [`Error::Corrupt`] if the log is damaged before its last transaction; nothing was written.
/// - [`Error::Unsupported`] for fast commits, and the other errors of the superblock.
/// - [`Error::Io`] if a device fails. Recovery can be repeated.
pub fn recover(log: &Location, home: &Arc<dyn BlockDevice>) -> Result<Recovered> {
    settle(log, home, Holdings::Replay, |_| {
        Err(Error::Unsupported("fast commits".to_owned()))
    })
}

/// Replays a log like [`recover`]; with other `holdings`, drops its transactions or refuses the
/// log. `apply` is called if there are fast commits, when all transactions are at their final
/// locations; it returns the blocks that they change, and writes nothing.
///
/// # Errors
/// - [`Error::Unsettled`] if the log holds transactions and is to be refused; nothing was written.
/// - Errors of `apply`, and of [`recover`].
pub fn settle<E: From<Error>>(
    log: &Location,
    home: &Arc<dyn BlockDevice>,
    holdings: Holdings,
    apply: impl FnOnce(&FastCommits) -> Result<Changes, E>,
) -> Result<Recovered, E> {
    let mut superblock = Superblock::load(log)?;
    let mut recovered = Recovered {
        transactions: 0,
        discarded: 0,
        fast_commits: 0,
        blocks: 0,
        revoked: 0,
        last: None,
        next: superblock.sequence().next(),
        was_clean: superblock.start().is_none(),
        lost: None,
        noted_error: superblock.noted_error(),
    };
    let Some(start) = superblock.start() else {
        return Ok(recovered);
    };
    let scan = Scan::of(log, &superblock, start)?;
    let fast_commits = match holdings {
        Holdings::Discard => None,
        _ => FastCommits::find(log, &superblock, scan.expected)?,
    };
    let head = fast_commits.as_ref().and_then(|found| found.head);
    let fast_commits = fast_commits.filter(|found| !found.is_empty());
    let count = u32::try_from(scan.transactions.len()).expect("fewer than blocks of the log");
    let holds_some = count > 0 || fast_commits.is_some() || scan.accept().is_err();
    let mut last = scan.expected;
    match holdings {
        Holdings::Refuse if holds_some => {
            return Err(E::from(Error::Unsettled {
                transactions: count,
            }));
        }
        Holdings::Discard if holds_some => {
            // Each transaction takes at least one block: no block in the log has a later number.
            last = Tid::new(last.get().wrapping_add(superblock.length()));
            recovered.discarded = count;
        }
        _ => {
            bring_home(log, home, &mut superblock, &scan, &mut recovered)?;
            recovered.transactions = count;
            recovered.lost = scan.lost();
            if recovered.lost.is_some() && !rt::mutant!("recovery/loss-not-noted") {
                superblock.set_error(true);
                recovered.noted_error = superblock.noted_error();
            }
            if let Some(found) = fast_commits {
                let changes = apply(&found)?;
                bring_home_merged(log, home, &mut superblock, found.tid, changes)?;
                recovered.fast_commits = found.count;
                recovered.last = Some(found.tid);
                last = found.tid.next();
            }
        }
    }
    // Fast commits of a later transaction, behind one that was dropped: its number is used up.
    if let Some(head) = head
        && head.is_after(last)
    {
        last = head;
    }
    // Last committed + 1: the next open continues one later.
    superblock.set_tail(None, last);
    recovered.next = last.next();
    if rt::mutant!("sequence/number-of-dropped-reused") {
        let last = Tid::new(scan.expected.get().wrapping_sub(1));
        superblock.set_tail(None, last);
        recovered.next = scan.expected;
    }
    let emptied = log.device.request(superblock.requests(log)).wait_all();
    emptied
        .and_then(|()| log.device.flush())
        .map_err(Error::from)?;
    Ok(recovered)
}

/// Makes changes durable at their final locations, by way of an empty log: all of them or none,
/// whenever the power is cut. The file system calls for a replay until this returns.
///
/// The changes are one transaction. At their final locations, those of each stage are durable
/// before those of the next are written, so that the log can be found in between.
///
/// # Errors
/// - [`Error::NotRecovered`] if the log is not empty.
/// - [`Error::TooSmall`] if the log has no room for them, see [`check_changes`]; nothing was
///   written.
/// - [`Error::Io`] if a device fails. A replay leaves all changes or none.
pub fn commit_changes(
    log: &Location,
    home: &Arc<dyn BlockDevice>,
    stages: &[Changes],
) -> Result<()> {
    let mut superblock = Superblock::load(log)?;
    if superblock.start().is_some() {
        return Err(Error::NotRecovered);
    }
    let changes = stages.concat();
    check_changes(log, (false, false), changes.len())?;
    let tid = superblock.sequence().next();
    log_whole(log, &mut superblock, tid, changes)?;
    for stage in stages {
        merge::bring_home(home, log.block_bytes, stage)?;
    }
    superblock.set_tail(None, tid.next());
    log.device.request(superblock.requests(log)).wait_all()?;
    Ok(log.device.flush()?)
}

/// Makes the changes of fast commits durable at their final locations, by way of the log.
fn bring_home_merged(
    log: &Location,
    home: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    tid: Tid,
    changes: Changes,
) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let Some(scan) = log_whole(log, superblock, tid, changes)? else {
        return Ok(());
    };
    let replay = Replay::plan(&scan);
    replay.check(home, log.block_bytes)?;
    replay.run(log, home)?;
    Ok(home.flush()?)
}

/// Logs changes as a transaction, durably, and reads the log again.
fn log_whole(
    log: &Location,
    superblock: &mut Superblock,
    tid: Tid,
    changes: Changes,
) -> Result<Option<Scan>> {
    merge::log_changes(log, superblock, tid, changes)?;
    let Some(start) = superblock.start() else {
        return Ok(None);
    };
    let scan = Scan::of(log, superblock, start)?;
    scan.accept()?;
    let is_whole = scan.transactions.iter().map(|logged| logged.tid).eq([tid]);
    if !is_whole || scan.lost().is_some() {
        // Nothing has changed but the log: the next open finds what was there before.
        let log_block = start;
        let what = "the changes that were logged read back as something else";
        return Err(Error::Corrupt(Corrupt::Log {
            tid,
            log_block,
            what,
        }));
    }
    Ok(Some(scan))
}

/// Replays the transactions that a scan found, durably. They remain in the log.
fn bring_home(
    log: &Location,
    home: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    scan: &Scan,
    recovered: &mut Recovered,
) -> Result<()> {
    scan.accept()?;
    let replay = Replay::plan(scan);
    replay.check(home, log.block_bytes)?;
    if rt::mutant!("recovery/log-emptied-first") {
        superblock.set_tail(None, scan.expected);
        log.device.request(superblock.requests(log)).wait_all()?;
        log.device.flush()?;
    }
    // If only the program has ended, the end of the log may be in the device's cache: a power cut
    // would take it back, but not what was replayed of it.
    log.device.flush()?;
    replay.run(log, home)?;
    if !rt::mutant!("recovery/home-not-flushed") {
        home.flush()?;
    }
    recovered.blocks = replay.block_count();
    recovered.revoked = replay.revoked;
    recovered.last = scan.transactions.last().map(|transaction| transaction.tid);
    Ok(())
}

/// Clears the error that an abort has recorded in the journal.
///
/// # Errors
/// - Errors of reading the superblock.
/// - [`Error::Io`] if the device fails.
pub fn forget_error(log: &Location) -> Result<()> {
    let mut superblock = Superblock::load(log)?;
    superblock.set_error(false);
    log.device.request(superblock.requests(log)).wait_all()?;
    log.device.flush()?;
    Ok(())
}
