//! Fast commits: finding and verifying those of the transaction that the log does not have.
//!
//! A fast commit belongs to the transaction that follows the last one of the log. Each starts at a
//! block, a tail ends it, and the next follows in the next block. The first damage ends them: a
//! fast commit without a valid tail was not acknowledged, or what follows it cannot be applied
//! without it.
//!
//! | at a block | decision |
//! |---|---|
//! | the first block does not start with a head | none |
//! | a head of another transaction | end |
//! | an invalid tag, or a block that cannot be read | end |
//! | a tail of another transaction, or with a wrong checksum | end |
//! | a valid tail | the tags up to it are replayed |
//! | a valid tail, of a head with unknown features | refuse |
//!
//! Linux refuses a volume whose first fast commit has no valid tail. Here nothing of it is
//! replayed.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`, "Fast commits".

use std::sync::Arc;

use layout::fast_commit::{Record, Tag, tags};
use layout::{Block, Tid, checksum};
use rt::Cost;

use super::reader::Reader;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::space::Ring;
use crate::superblock::Superblock;

/// The complete fast commits of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastCommits {
    /// Number of the transaction, which the log does not have.
    pub tid: Tid,
    /// The first block of their area in the journal.
    pub first: u32,
    /// Number of fast commits.
    pub count: u32,
    /// The transaction of the first head; none without one.
    pub(super) head: Option<Tid>,
    /// The place after the last valid tail at which no further fast commit was found, and the
    /// reason.
    pub end: (u32, &'static str),
    /// The blocks that were read, from the first on.
    blocks: Vec<Arc<Block>>,
    /// Number of tags up to the last valid tail.
    tag_count: usize,
}

/// The state of a scan.
struct Scanner {
    found: FastCommits,
    /// Number of tags read so far.
    tag_count: usize,
    /// The checksum of the current fast commit so far.
    checksum: u32,
    /// The features of the head.
    features: u32,
}

impl FastCommits {
    /// Finds the fast commits of a transaction; none if the journal has no place for them.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] for features of fast commits, which Linux does not define yet.
    pub(super) fn find(log: &Location, superblock: &Superblock, tid: Tid) -> Result<Option<Self>> {
        let Some(ring) = Ring::of_fast_commits(superblock) else {
            return Ok(None);
        };
        let mut reader = Reader::new(log, ring);
        let mut scanner = Scanner::new(tid, ring.first());
        for number in 0..ring.capacity() {
            let at = ring.first() + number;
            let why = match reader.read(at) {
                Some(block) => scanner.take(block)?,
                None => Some("the block cannot be read"),
            };
            if let Some(why) = why {
                scanner.found.end = (at, why);
                return Ok(Some(scanner.found));
            }
        }
        scanner.found.end = (ring.first() + ring.capacity(), "the area ends");
        Ok(Some(scanner.found))
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the tags up to the last valid tail, each with its block of the journal.
    pub fn tags(&self) -> impl Iterator<Item = (u32, Tag<'_>)> {
        let numbered = (self.first..).zip(&self.blocks);
        let all = numbered.flat_map(|(at, block)| {
            let sound = tags(block).map_while(Result::ok);
            sound.map(move |tag| (at, tag))
        });
        all.take(self.tag_count)
    }
}

impl Scanner {
    fn new(tid: Tid, first: u32) -> Self {
        Self {
            found: FastCommits {
                tid,
                first,
                count: 0,
                head: None,
                end: (first, ""),
                blocks: Vec::new(),
                tag_count: 0,
            },
            tag_count: 0,
            checksum: 0,
            features: 0,
        }
    }

    /// Scans the next block. Returns the reason if the fast commits end in it.
    fn take(&mut self, block: Arc<Block>) -> Result<Option<&'static str>> {
        let is_first = self.found.blocks.is_empty();
        rt::charge(Cost::Checksum(block.len() as u64));
        self.found.blocks.push(Arc::clone(&block));
        for (index, tag) in tags(&block).enumerate() {
            let tag = match tag {
                Ok(tag) => tag,
                Err(bad) => return Ok(Some(bad.0)),
            };
            let is_head = matches!(tag.record, Record::Head(_));
            if is_first && index == 0 && !is_head {
                return Ok(Some("the area does not start with a head"));
            }
            if let Some(why) = self.take_tag(&tag)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn take_tag(&mut self, tag: &Tag<'_>) -> Result<Option<&'static str>> {
        let is_tail = matches!(tag.record, Record::Tail(_));
        self.tag_count += 1;
        self.checksum = checksum::fast_commit::tag(self.checksum, tag.bytes, is_tail);
        match tag.record {
            Record::Head(head) if self.found.head.is_none() => {
                let tid = Tid::new(head.tid.get());
                self.found.head = Some(tid);
                self.features |= head.features.get();
                let is_other = tid != self.found.tid;
                return Ok(is_other.then_some("a head of another transaction"));
            }
            Record::Head(head) if head.tid.get() != self.found.tid.get() => {
                return Ok(Some("a head of another transaction"));
            }
            Record::Head(head) => self.features |= head.features.get(),
            Record::Tail(tail) => {
                let computed = core::mem::take(&mut self.checksum);
                if tail.tid.get() != self.found.tid.get() {
                    return Ok(Some("a tail of another transaction"));
                }
                if tail.checksum.get() != computed {
                    return Ok(Some("the checksum of a fast commit does not match"));
                }
                if self.features != 0 {
                    let features = self.features;
                    return Err(Error::Unsupported(format!(
                        "fast commits with features {features:#x}"
                    )));
                }
                self.found.count += 1;
                self.found.tag_count = self.tag_count;
            }
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
