//! Reading a log as it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::journal::{BlockType, Header, JournalSuperblock, MAGIC_BYTES};
use layout::tag::{TagFlags, TagFormat};
use layout::{Block, Tid, revoke};
use zerocopy::FromBytes;

use crate::disks::{Disks, log_end};

/// The locations of the blocks of the log.
pub(crate) struct LogMap {
    /// For an internal journal, the position in the log of each of its blocks on the file-system
    /// device.
    internal: Option<BTreeMap<u64, u32>>,
    places: Arc<Vec<u64>>,
    superblock: u64,
}

impl LogMap {
    pub(crate) fn new(disks: &Disks) -> Self {
        let internal = disks.log.is_none().then(|| {
            let blocks = disks.journal_blocks.iter().copied();
            blocks.zip(0..).collect()
        });
        Self {
            internal,
            places: Arc::clone(&disks.journal_blocks),
            superblock: disks.journal_block,
        }
    }

    /// Returns the position in the log of a block of a device; 0 is the journal's superblock.
    pub(crate) fn log_block(&self, device: usize, block: u64) -> Option<u32> {
        match &self.internal {
            Some(map) => map.get(&block).copied(),
            None if device == 1 && block == self.superblock => Some(0),
            None => (device == 1).then_some(block as u32),
        }
    }

    /// Returns device and block of a position in the log.
    pub(crate) fn place(&self, at: u32) -> (usize, u64) {
        match self.internal {
            Some(_) => (0, self.places[at as usize]),
            None => (1, at.into()),
        }
    }

    /// Returns device and block of the journal's superblock.
    pub(crate) fn superblock(&self) -> (usize, u64) {
        (usize::from(self.internal.is_none()), self.superblock)
    }
}

/// A transaction in the log.
pub(super) struct Transaction {
    pub(super) tid: Tid,
    /// Its first block in the log.
    start: u32,
    /// Its blocks in the log, without the commit block.
    pub(super) log_blocks: Vec<u32>,
    pub(super) images: Vec<(u64, Arc<Block>)>,
    pub(super) revokes: Vec<u64>,
}

/// A reader of log blocks as they are written, which assembles transactions.
pub(super) struct LogReader {
    first: u32,
    end: u32,
    /// The block after the last commit block.
    head: u32,
    tags: TagFormat,
    /// Blocks written since then.
    blocks: BTreeMap<u32, Arc<Block>>,
    /// Blocks that incomplete transactions revoke.
    revokes: Vec<u64>,
}

impl LogReader {
    pub(super) fn new(map: &LogMap, disks: &Disks) -> Self {
        let (device, block) = map.superblock();
        let image = match (device, &disks.log) {
            (1, Some(log)) => log,
            _ => &disks.home,
        };
        let (superblock, _) = JournalSuperblock::ref_from_prefix(image.block(block))
            .expect("a block holds the journal's superblock");
        let first = superblock.first_block.get();
        Self {
            first,
            end: log_end(superblock),
            head: first,
            tags: TagFormat::from_features(superblock.incompatible()),
            blocks: BTreeMap::new(),
            revokes: Vec::new(),
        }
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// Returns true if a transaction whose commit block is not submitted yet revokes a block.
    pub(super) fn is_revoked(&self, block: u64) -> bool {
        self.revokes.contains(&block)
    }

    /// Notes that the journal is marked as empty. The next transaction still starts after the last
    /// one.
    pub(super) fn emptied(&mut self) {
        self.blocks.clear();
        self.revokes.clear();
    }

    /// Notes that a commit block was refused for lack of room: its transaction will be written once
    /// more, to the same position.
    pub(super) fn refused(&mut self, transaction: &Transaction) {
        self.head = transaction.start;
    }

    /// Reads a block written to the log. Returns the transaction if it is a commit block.
    pub(super) fn read(&mut self, at: u32, image: &Arc<Block>) -> Option<Transaction> {
        self.blocks.insert(at, Arc::clone(image));
        match Header::recognise(image) {
            // An image that starts like this is escaped, so this is not an image.
            Some((BlockType::Commit, tid)) => Some(self.transaction(Tid::new(tid), at)),
            Some((BlockType::Revoke, _)) => {
                let entries = revoke::entries(self.tags, image).into_iter().flatten();
                self.revokes.extend(entries.map(|block| block.get()));
                None
            }
            _ => None,
        }
    }

    fn transaction(&mut self, tid: Tid, commit: u32) -> Transaction {
        let mut transaction = Transaction {
            tid,
            start: self.head,
            log_blocks: Vec::new(),
            images: Vec::new(),
            revokes: Vec::new(),
        };
        let mut at = self.head;
        while at != commit {
            transaction.log_blocks.push(at);
            let Some(block) = self.blocks.get(&at).cloned() else {
                break;
            };
            at = self.next(at);
            match Header::recognise(&block) {
                Some((BlockType::Descriptor, _)) => {
                    for tag in self.tags.tags(&block) {
                        let Some(image) = self.blocks.get(&at) else {
                            break;
                        };
                        let image = if tag.flags.contains(TagFlags::ESCAPE) {
                            unescaped(image)
                        } else {
                            Arc::clone(image)
                        };
                        transaction.images.push((tag.home.get(), image));
                        transaction.log_blocks.push(at);
                        at = self.next(at);
                    }
                }
                Some((BlockType::Revoke, _)) => {
                    let entries = revoke::entries(self.tags, &block).into_iter().flatten();
                    transaction.revokes.extend(entries.map(|block| block.get()));
                }
                _ => break,
            }
        }
        self.head = self.next(commit);
        self.blocks.clear();
        self.revokes.clear();
        transaction
    }

    fn next(&self, at: u32) -> u32 {
        if at + 1 == self.end {
            self.first
        } else {
            at + 1
        }
    }
}

fn unescaped(image: &Block) -> Arc<Block> {
    let mut block = Block::clone(image);
    block[..MAGIC_BYTES.len()].copy_from_slice(&MAGIC_BYTES);
    block.into_arc()
}
