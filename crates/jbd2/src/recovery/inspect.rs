//! Inspecting a log without a write.

use layout::{BlockNr, Tid};

use super::decide::Decision;
use super::fast_commit::FastCommits;
use super::scan::{Found, Scan};
use crate::error::Result;
use crate::location::Location;
use crate::superblock::Superblock;

/// The properties and contents of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The superblock's version: 1 or 2.
    pub version: u8,
    /// Names of its features, as e2fsprogs prints them.
    pub features: Vec<&'static str>,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Number of blocks of the journal, its superblock included.
    pub blocks: u32,
    /// The first block after the superblock.
    pub first: u32,
    /// The first block of the oldest transaction; none if the log is empty.
    pub start: Option<u32>,
    /// The number in the superblock: that of the first transaction.
    pub sequence: Tid,
    /// The journal's UUID.
    pub uuid: [u8; 16],
    /// The UUIDs of the file systems that use it.
    pub users: Vec<[u8; 16]>,
    /// The error that an abort has recorded (a negative errno).
    pub noted_error: Option<i32>,
    /// The complete transactions, oldest first.
    pub transactions: Vec<TransactionInfo>,
    /// The end of the log, and its reason; none if the log is empty.
    pub end: Option<End>,
    /// The fast commits after the last transaction; none if the journal has no place for them.
    pub fast_commits: Option<FastCommits>,
}

/// A complete transaction in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionInfo {
    /// Its number.
    pub tid: Tid,
    /// Its first block in the log.
    pub first: u32,
    /// Its commit block.
    pub commit_block: u32,
    /// The time of the commit, in seconds since 1970; 0 if the log does not record it.
    pub committed_at: u64,
    /// The images, in the order of the log.
    pub blocks: Vec<LoggedBlock>,
    /// The revoked blocks.
    pub revokes: Vec<BlockNr>,
}

/// An image in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedBlock {
    /// Its block in the log.
    pub log_block: u32,
    /// Its final location.
    pub home: BlockNr,
    /// True if it starts with the journal's magic number.
    pub is_escaped: bool,
}

/// The end of a log, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The block at which the scan stopped.
    pub log_block: u32,
    /// The number that was expected there.
    pub expected: Tid,
    /// True if a transaction was started there and interrupted; recovery drops it.
    pub is_torn: bool,
    /// True if the torn transaction had been committed: recovery drops it, and records an error.
    pub is_lost: bool,
    /// True if the log is damaged there; recovery refuses it.
    pub is_damaged: bool,
    /// The place of the fault, and the fault.
    pub wrong: Option<(u32, &'static str)>,
}

/// Inspects a log. Writes nothing.
///
/// # Errors
/// - Errors of reading the superblock. Damage in the log itself is part of the result.
pub fn inspect(log: &Location) -> Result<Inspection> {
    let superblock = Superblock::load(log)?;
    let scan = superblock
        .start()
        .map(|start| Scan::of(log, &superblock, start))
        .transpose()?;
    let end = scan.as_ref().map(|scan| End {
        log_block: scan.end.0,
        expected: scan.expected,
        is_torn: scan.end.1 == Decision::Drop,
        is_lost: scan.is_lost,
        is_damaged: scan.end.1 == Decision::Damage,
        wrong: scan.wrong,
    });
    let fast_commits = match &scan {
        Some(scan) => FastCommits::find(log, &superblock, scan.expected)?,
        None => None,
    };
    let transactions = scan.map(|scan| scan.transactions).unwrap_or_default();
    Ok(Inspection {
        version: superblock.version(),
        features: superblock.feature_names(),
        block_bytes: log.block_bytes,
        blocks: superblock.length(),
        first: superblock.first(),
        start: superblock.start(),
        sequence: superblock.sequence(),
        uuid: superblock.uuid(),
        users: superblock.users().to_vec(),
        noted_error: superblock.noted_error(),
        transactions: transactions.into_iter().map(info).collect(),
        end,
        fast_commits,
    })
}

fn info(found: Found) -> TransactionInfo {
    let blocks = found.images.iter().map(|image| LoggedBlock {
        log_block: image.log_block,
        home: image.home,
        is_escaped: image.is_escaped,
    });
    TransactionInfo {
        tid: found.tid,
        first: found.start,
        commit_block: found.commit_block,
        committed_at: found.committed_at,
        blocks: blocks.collect(),
        revokes: found.revokes,
    }
}
