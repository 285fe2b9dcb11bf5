//! The decision to replay the log when a volume is opened: one rule for all ways to open one.
//!
//! The superblock's `needs_recovery` means that the log must be replayed. It is durable before the
//! first transaction, and is cleared when the log is durably empty; so neither an open volume nor a
//! crash leaves transactions in the log without it.
//!
//! | journal | `needs_recovery` | log holds | options | device | result |
//! |---|---|---|---|---|---|
//! | any | set | anything | any | writable | replayed |
//! | any | set | anything | read-only, `no_recovery` | any | opened without replay |
//! | any | set | anything | any | read-only | refused: the log cannot be applied |
//! | any | set | anything | not `is_private` | any, large blocks | refused: they are only read |
//! | any | clear | nothing | read-write | writable | journal opened |
//! | any | clear | nothing complete | read-write | writable | log emptied, journal opened |
//! | any | clear | transactions, or damage | read-write | writable | by `unmarked_log` |
//! | any | clear | anything | read-only | any | opened without replay |
//! | external | any | anything | any | missing or foreign | refused |
//!
//! With `unmarked_log` the log is refused, replayed or emptied.
//!
//! # Why a log without the mark is refused
//!
//! Linux empties such a log when it mounts, read-only mounts included, and reports it in the kernel
//! log only; it does not mount a read-only device with such a log without `noload`. `e2fsck -y`
//! replays the log; `e2fsck -p` gives up. Each is right in some cases. Backups of the superblock
//! never have the mark. A superblock restored from one after a crash leaves a log with acknowledged
//! transactions, which Linux would lose. But a volume restored from an older image beside its
//! external journal, or one whose mark was cleared on purpose, would be overwritten by a replay. On
//! the device the two cases look the same; only the administrator can tell them apart.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::recovery::{self, FastCommits, Holdings, Recovered};
use jbd2::{Location, LogExtent};
use layout::Tid;

use super::{OpenReport, fast_commit};
use crate::disk::superblock::{self, Superblock};
use crate::error::{Error, Result};
use crate::options::{MountOptions, UnmarkedLog};

/// Replays the log if necessary. Returns true if the device has changed.
pub(super) fn replay(
    device: &Arc<dyn BlockDevice>,
    log: &Location,
    superblock: &Superblock,
    is_read_only: bool,
    options: &MountOptions,
    report: &mut OpenReport,
) -> Result<bool> {
    if options.read_only && options.no_recovery {
        return Ok(false);
    }
    if superblock.needs_recovery && superblock.has_large_blocks() && !options.is_private {
        let bytes = superblock.geometry.block_bytes;
        return Err(Error::Unsupported(format!(
            "the journal has to be replayed, but blocks of {bytes} bytes are only read; e2fsck -p replays it"
        )));
    }
    let is_fixed = |device: &&Arc<dyn BlockDevice>| device.geometry().is_read_only;
    if let Some(fixed) = [device, &log.device].into_iter().find(is_fixed) {
        return if superblock.needs_recovery {
            let device = fixed.name();
            Err(Error::NeedsRecovery { device })
        } else {
            Ok(false)
        };
    }
    if is_read_only && !superblock.needs_recovery {
        return Ok(false);
    }
    if superblock.is_torn() {
        // The log has to bring a whole one; else nothing is written.
        superblock::read(&recovery::view(log, device)?)?;
    }
    let recovered = settle(device, log, superblock, options)?;
    report.replayed_transactions = recovered.transactions;
    report.replayed_fast_commits = recovered.fast_commits;
    report.discarded_transactions = recovered.discarded;
    report.lost = recovered.lost;
    if let Some(lost) = recovered.lost {
        tracing::warn!(%lost, "run fsck");
    }
    // The number in between may have been that of a dropped transaction.
    report.last_committed = Some(Tid::new(recovered.next.get().wrapping_sub(2)));
    let is_done = superblock.needs_recovery && is_read_only;
    let has_errors = recovered.noted_error.is_some();
    if is_done || has_errors {
        let mut replayed = superblock::read(device)?;
        if is_done {
            replayed.set_needs_recovery(false);
        }
        if has_errors {
            replayed.note_errors();
        }
        superblock::write(device, &replayed)?;
    }
    // At every instant one of the two superblocks records the errors.
    if has_errors {
        recovery::forget_error(log)?;
    }
    Ok(!recovered.was_clean || superblock.needs_recovery || has_errors)
}

/// Replays a log that the superblock marks for replay, and treats any other by the options.
fn settle(
    device: &Arc<dyn BlockDevice>,
    log: &Location,
    superblock: &Superblock,
    options: &MountOptions,
) -> Result<Recovered> {
    let holdings = match options.unmarked_log {
        _ if superblock.needs_recovery => Holdings::Replay,
        UnmarkedLog::Refuse => Holdings::Refuse,
        UnmarkedLog::Replay => Holdings::Replay,
        UnmarkedLog::Discard => Holdings::Discard,
    };
    // The blocks of an external log are not of this volume.
    let inside: &[LogExtent] = match superblock.journal_inode {
        Some(_) => &log.extents,
        None => &[],
    };
    let has_quota = superblock.quota_inodes().next().is_some();
    let apply = |found: &FastCommits| {
        match has_quota {
        true => Err(Error::Unsupported(
            "fast commits of a volume with quota are not replayed, since they count no owners; mount it with Linux once".to_owned(),
        )),
        false => fast_commit::apply(device, inside, options, found),
    }
    };
    recovery::settle(log, device, holdings, apply).map_err(|error| match error {
        Error::Journal(jbd2::Error::Unsettled { transactions }) => {
            Error::UnmarkedLog { transactions }
        }
        error => error,
    })
}
