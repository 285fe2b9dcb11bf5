//! The first pass: finding the transactions in the log and verifying all of their blocks.

use layout::journal::{BlockTail, BlockType, CRC32_SIZE, ChecksumType, CommitBlock, Header};
use layout::tag::{Tag, TagFlags};
use layout::{Block, BlockNr, Tid, checksum, revoke};
use rt::Cost;
use zerocopy::FromBytes;

use super::Lost;
use super::decide::{Decision, Finding, Head, decide};
use super::reader::Reader;
use crate::error::{Corrupt, Result};
use crate::location::Location;
use crate::space::Ring;
use crate::superblock::{Checksums, LogFormat, Superblock};

/// The fault of a block that the device cannot read.
const UNREADABLE: &str = "the block cannot be read";

/// Number of sectors that a power cut can leave unreadable: one physical sector of a disk with
/// smaller logical ones.
const TORN_SECTORS: u64 = 8;

/// Maximum distance of a later transaction's number from the expected one, for the block to count
/// as evidence.
const LATER_MAX: u32 = 1 << 20;

/// The contents of a log.
#[derive(Debug)]
pub(super) struct Scan {
    /// The complete transactions, oldest first.
    pub(super) transactions: Vec<Found>,
    /// The number of the transaction that is missing or was dropped: that of the last committed one
    /// plus one.
    pub(super) expected: Tid,
    /// The place where the scan stopped, and the reason.
    pub(super) end: (u32, Decision),
    /// The fault at that place.
    pub(super) wrong: Option<(u32, &'static str)>,
    /// True if the dropped transaction had been committed, so that its changes may have been
    /// acknowledged.
    pub(super) is_lost: bool,
}

/// A complete transaction.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) tid: Tid,
    pub(super) start: u32,
    pub(super) images: Vec<Image>,
    pub(super) revokes: Vec<BlockNr>,
    pub(super) commit_block: u32,
    /// Seconds since 1970; 0 in logs of JBD.
    pub(super) committed_at: u64,
}

/// A logged image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) log_block: u32,
    pub(super) home: BlockNr,
    pub(super) is_escaped: bool,
}

/// The state of a scan.
struct Scanner<'l> {
    reader: Reader<'l>,
    ring: Ring,
    format: LogFormat,
    /// The block at the position of the scan.
    at: u32,
    /// The transaction being read.
    current: Found,
    /// Number of log blocks left before the whole log has been read.
    left: u32,
    /// The v1 checksum so far.
    crc: u32,
    /// The place and the fault of the transaction.
    wrong: Option<(u32, &'static str)>,
    /// The first block of the transaction that cannot be read.
    unreadable: Option<u32>,
}

impl Found {
    fn new(tid: Tid, start: u32) -> Self {
        Self {
            tid,
            start,
            images: Vec::new(),
            revokes: Vec::new(),
            commit_block: 0,
            committed_at: 0,
        }
    }
}

impl Scan {
    /// Scans a log from its tail.
    pub(super) fn of(log: &Location, superblock: &Superblock, start: u32) -> Result<Self> {
        let ring = Ring::of(superblock);
        let mut scanner = Scanner {
            reader: Reader::new(log, ring),
            ring,
            format: superblock.format(),
            at: start,
            current: Found::new(superblock.sequence(), start),
            left: ring.capacity(),
            crc: checksum::START,
            wrong: None,
            unreadable: None,
        };
        let mut transactions = Vec::new();
        loop {
            match scanner.step() {
                Decision::GoOn => {}
                Decision::Complete => transactions.push(scanner.complete()),
                decision => {
                    let is_lost = decision == Decision::Drop && scanner.has_own_commit();
                    return Ok(Self {
                        is_lost,
                        transactions,
                        expected: scanner.current.tid,
                        end: (scanner.at, decision),
                        wrong: scanner.wrong,
                    });
                }
            }
        }
    }

    /// Returns the committed transaction that is dropped, if there is one.
    pub(super) fn lost(&self) -> Option<Lost> {
        let (log_block, what) = self.wrong.filter(|_| self.is_lost)?;
        Some(Lost {
            tid: self.expected,
            log_block,
            what,
        })
    }

    /// Checks that the log may be replayed.
    pub(super) fn accept(&self) -> Result<()> {
        match (self.end, self.wrong) {
            ((at, Decision::Damage), wrong) => {
                let (log_block, what) = wrong.unwrap_or((at, "it has no valid commit block"));
                Err(Corrupt::Log {
                    tid: self.expected,
                    log_block,
                    what,
                }
                .into())
            }
            _ => Ok(()),
        }
    }
}

impl Scanner<'_> {
    /// Reads the block at the position of the scan and those that belong to it.
    fn step(&mut self) -> Decision {
        let at = self.at;
        let block = if self.left == 0 {
            Some(None)
        } else {
            self.reader.read(at).map(Some)
        };
        let (head, is_head_good) = match &block {
            // The whole log has been read: nothing can follow.
            Some(None) => (Head::Foreign, true),
            None => (Head::Unreadable, true),
            Some(Some(block)) => self.recognise(block),
        };
        if head == Head::Unreadable {
            self.note_unreadable(at);
        } else if !is_head_good {
            self.note(at, "the block's checksum does not match");
        }
        if let (Head::Commit, true, Some(Some(block))) = (head, is_head_good, &block) {
            self.check_commit(at, block);
        }
        let is_body_good = self.wrong.is_none();
        let decision = decide(
            Finding {
                head,
                is_head_good,
                is_body_good,
            },
            || self.was_committed(self.current.tid),
        );
        if let (Decision::GoOn | Decision::Complete, Some(Some(block))) = (decision, &block) {
            self.advance(1);
            match head {
                Head::Descriptor => self.take_descriptor(at, block),
                Head::Revoke => self.take_revokes(at, block),
                _ => self.current.commit_block = at,
            }
        }
        decision
    }

    /// Returns the role of a block in the expected transaction, and true if its own checksum
    /// matches.
    fn recognise(&self, block: &Block) -> (Head, bool) {
        let Some((kind, sequence)) = Header::recognise(block) else {
            return (Head::Foreign, true);
        };
        if sequence != self.current.tid.get() {
            return (Head::Foreign, true);
        }
        let head = match kind {
            BlockType::Descriptor => Head::Descriptor,
            BlockType::Revoke => Head::Revoke,
            BlockType::Commit => Head::Commit,
            BlockType::SuperblockV1 | BlockType::SuperblockV2 => return (Head::Foreign, true),
        };
        (head, self.is_sealed(kind, block))
    }

    /// Returns true if a block that carries a crc32c of itself matches it.
    fn is_sealed(&self, kind: BlockType, block: &Block) -> bool {
        if !self.format.checksums.cover_each_block() {
            return true;
        }
        rt::charge(Cost::Checksum(block.len() as u64));
        if kind == BlockType::Commit {
            let Ok((record, _)) = CommitBlock::ref_from_prefix(block) else {
                return false;
            };
            return record.checksums[0].get() == checksum::commit_block(self.format.seed, block);
        }
        let tail = block.len() - size_of::<BlockTail>();
        let Ok(tail) = BlockTail::ref_from_bytes(&block[tail..]) else {
            return false;
        };
        tail.checksum.get() == checksum::journal_block(self.format.seed, block)
    }

    /// Reads the images that a descriptor block describes.
    fn take_descriptor(&mut self, at: u32, descriptor: &Block) {
        self.add_to_crc(descriptor);
        let tags: Vec<Tag> = self.format.tags.tags(descriptor).collect();
        if tags.is_empty() {
            self.note(at, "the descriptor block has no tags");
        }
        for tag in tags {
            if self.left == 0 {
                self.note(at, "the transaction is longer than the log");
                return;
            }
            let log_block = self.at;
            match self.reader.read(log_block) {
                Some(image) => self.check_image(log_block, &image, &tag),
                None => self.note_unreadable(log_block),
            }
            let is_escaped = tag.flags.contains(TagFlags::ESCAPE);
            if !tag.flags.contains(TagFlags::DELETED) {
                self.current.images.push(Image {
                    log_block,
                    home: tag.home,
                    is_escaped,
                });
            }
            self.advance(1);
        }
    }

    fn check_image(&mut self, at: u32, image: &Block, tag: &Tag) {
        self.add_to_crc(image);
        if !self.format.checksums.cover_each_block() {
            return;
        }
        rt::charge(Cost::Checksum(image.len() as u64));
        let computed = checksum::tag(self.format.seed, self.current.tid.get(), image);
        if self.format.tags.checksum.kept(computed) != tag.checksum {
            self.note(at, "the image's checksum does not match its tag");
        }
    }

    fn take_revokes(&mut self, at: u32, block: &Block) {
        match revoke::entries(self.format.tags, block) {
            Ok(entries) => self.current.revokes.extend(entries),
            Err(_) => self.note(at, "the revoke block's count is impossible"),
        }
    }

    /// Checks a commit block against the v1 checksum of its transaction, and notes its time.
    fn check_commit(&mut self, at: u32, block: &Block) {
        let Ok((record, _)) = CommitBlock::ref_from_prefix(block) else {
            return;
        };
        self.current.committed_at = record.commit_seconds.get();
        if self.format.checksums != Checksums::V1 {
            return;
        }
        let found = (
            record.checksum_type,
            record.checksum_size,
            record.checksums[0].get(),
        );
        let is_unused = found == (0, 0, 0);
        if !is_unused && found != (ChecksumType::Crc32.raw(), CRC32_SIZE, self.crc) {
            self.note(at, "the transaction's checksum does not match");
        }
    }

    fn add_to_crc(&mut self, block: &Block) {
        if self.format.checksums == Checksums::V1 {
            rt::charge(Cost::Checksum(block.len() as u64));
            self.crc = checksum::crc32_be(self.crc, block);
        }
    }

    /// Returns true if anything in the log shows that the expected transaction was committed; see
    /// the table in `decide`.
    fn was_committed(&mut self, expected: Tid) -> bool {
        let mut at = self.ring.first();
        for _ in 0..self.ring.capacity() {
            let shows = match self.reader.read(at) {
                Some(block) => self.shows_commit(expected, &block),
                None => self
                    .unreadable
                    .is_some_and(|torn| !self.is_same_sector(torn, at)),
            };
            if shows {
                return true;
            }
            at = self.ring.advance(at, 1);
        }
        false
    }

    /// Returns true if a block shows that the expected transaction was complete.
    fn shows_commit(&self, expected: Tid, block: &Block) -> bool {
        let Some((kind, sequence)) = Header::recognise(block) else {
            return false;
        };
        let sequence = Tid::new(sequence);
        let is_later = sequence.is_after(expected) && sequence.distance_from(expected) <= LATER_MAX;
        let is_own = sequence == expected && kind == BlockType::Commit;
        let is_proof = is_own && self.unreadable.is_some() && !self.format.is_async;
        (is_later || is_proof) && self.is_evidence(kind, block)
    }

    /// Returns true if the log has a valid commit block of the dropped transaction, which is
    /// written only when everything else of the transaction is durable. Asynchronous commits have
    /// no such order.
    fn has_own_commit(&mut self) -> bool {
        if self.format.is_async || self.wrong.is_none() {
            return false;
        }
        let mut at = self.ring.first();
        for _ in 0..self.ring.capacity() {
            if let Some(block) = self.reader.read(at)
                && let Some((BlockType::Commit, sequence)) = Header::recognise(&block)
                && sequence == self.current.tid.get()
                && self.is_evidence(BlockType::Commit, &block)
            {
                return true;
            }
            at = self.ring.advance(at, 1);
        }
        false
    }

    /// Returns true if two blocks of the log lie in one physical sector.
    fn is_same_sector(&self, one: u32, other: u32) -> bool {
        let sector = |at| {
            self.reader
                .place(at)
                .map(|place| place.get() / TORN_SECTORS)
        };
        sector(one) == sector(other)
    }

    /// Returns true if a block can only be a part of a transaction of this log.
    fn is_evidence(&self, kind: BlockType, block: &Block) -> bool {
        let can_be = matches!(
            kind,
            BlockType::Descriptor | BlockType::Revoke | BlockType::Commit
        );
        can_be && self.is_sealed(kind, block)
    }

    /// Returns the complete transaction and starts the next.
    fn complete(&mut self) -> Found {
        self.crc = checksum::START;
        let next = Found::new(self.current.tid.next(), self.at);
        core::mem::replace(&mut self.current, next)
    }

    fn advance(&mut self, count: u32) {
        self.at = self.ring.advance(self.at, count);
        self.left = self.left.saturating_sub(count);
    }

    fn note_unreadable(&mut self, at: u32) {
        self.note(at, UNREADABLE);
        self.unreadable.get_or_insert(at);
    }

    /// Records the first fault of the transaction.
    fn note(&mut self, at: u32, what: &'static str) {
        self.wrong.get_or_insert((at, what));
    }
}
