//! Layout of a transaction's blocks in the log.
//!
//! ```text
//! revoke blocks            all revokes of the transaction
//! descriptor block         tags of the images that follow
//! images                   unchanged, or a copy without its first four bytes if these are the
//!                          magic number
//! descriptor block ...
//! commit block             written separately, when all of the above is durable; together with it
//!                          in an asynchronous commit
//! ```
//!
//! Checksums are computed here and nowhere else: each image as logged into its tag (v2, v3), each
//! descriptor and revoke block into its tail (v2, v3), descriptor blocks and images into the commit
//! block (v1).

use std::sync::Arc;

use block::Payload;
use layout::journal::{
    BlockTail, BlockType, CRC32_SIZE, ChecksumType, CommitBlock, Header, MAGIC_BYTES, RevokeHeader,
};
use layout::tag::{Tag, TagFlags};
use layout::{Block, BlockNr, Tid, checksum, revoke};
use rt::{Cost, WallTime};
use zerocopy::IntoBytes;

use crate::space::Limits;
use crate::superblock::{Checksums, LogFormat};
use crate::transaction::{Contents, Logged};

/// The blocks of a transaction, without its commit block.
pub(crate) struct Records {
    pub(crate) blocks: Payload,
    /// The v1 checksum.
    pub(crate) crc: u32,
    pub(crate) escaped_count: u64,
    pub(crate) descriptor_count: u64,
    pub(crate) revoke_count: u64,
}

/// Returns the number of log blocks that a transaction takes, its commit block included.
pub(crate) fn block_count(contents: &Contents, limits: &Limits) -> u32 {
    let descriptors = contents.logged.len().div_ceil(limits.tags_per_block());
    let revokes = contents.revokes.len().div_ceil(limits.revokes_per_block());
    let count = contents.logged.len() + descriptors + revokes + 1;
    u32::try_from(count).expect("less than the log")
}

impl Records {
    /// Lays out a transaction.
    pub(crate) fn build(format: &LogFormat, limits: &Limits, contents: &Contents) -> Self {
        let mut records = Self {
            blocks: Payload::with_capacity(block_count(contents, limits) as usize),
            crc: checksum::START,
            escaped_count: 0,
            descriptor_count: 0,
            revoke_count: 0,
        };
        let revokes: Vec<BlockNr> = contents.revokes.iter().copied().collect();
        for part in revokes.chunks(limits.revokes_per_block()) {
            records
                .blocks
                .push(revoke_block(format, contents.tid, part));
            records.revoke_count += 1;
        }
        for part in contents.logged.chunks(limits.tags_per_block()) {
            records.add_described(format, contents.tid, part);
        }
        records
    }

    /// Adds a descriptor block and the images that it describes.
    fn add_described(&mut self, format: &LogFormat, tid: Tid, logged: &[Logged]) {
        let place = self.blocks.len();
        let mut descriptor = new_block(format, BlockType::Descriptor, tid);
        self.blocks.push(Block::zeroed(0).into_arc());
        let mut offset = size_of::<Header>();
        for (index, entry) in logged.iter().enumerate() {
            let mut flags = TagFlags::empty();
            flags.set(TagFlags::SAME_UUID, index > 0);
            flags.set(TagFlags::LAST_TAG, index + 1 == logged.len());
            let is_newest = rt::mutant!("commit/running-image-logged");
            let frozen = if is_newest {
                entry.buffer.image()
            } else {
                Arc::clone(&entry.image)
            };
            let image = match escape(&frozen) {
                Some(escaped) => {
                    flags.insert(TagFlags::ESCAPE);
                    self.escaped_count += 1;
                    escaped
                }
                None => frozen,
            };
            let checksum = tag_checksum(format, tid, &image);
            let tag = Tag {
                home: entry.buffer.nr(),
                flags,
                checksum,
            };
            offset += format
                .tags
                .encode(&tag, Some(&format.uuid), &mut descriptor[offset..]);
            self.blocks.push(image);
        }
        seal(format, &mut descriptor);
        self.blocks[place] = descriptor.into_arc();
        self.descriptor_count += 1;
        if format.checksums == Checksums::V1 {
            for block in &self.blocks[place..] {
                rt::charge(Cost::Checksum(block.len() as u64));
                self.crc = checksum::crc32_be(self.crc, block);
            }
        }
    }
}

/// Returns the commit block, which ends a transaction.
pub(crate) fn commit_block(format: &LogFormat, tid: Tid, crc: u32, now: WallTime) -> Arc<Block> {
    let mut record = CommitBlock {
        header: Header::new(BlockType::Commit, tid.get()),
        commit_seconds: now.seconds.cast_unsigned().into(),
        commit_nanoseconds: now.nanos.into(),
        ..CommitBlock::default()
    };
    if format.checksums == Checksums::V1 {
        record.checksum_type = ChecksumType::Crc32.raw();
        record.checksum_size = CRC32_SIZE;
        record.checksums[0] = crc.into();
    }
    let mut block = Block::zeroed(format.block_bytes as usize);
    block[..size_of::<CommitBlock>()].copy_from_slice(record.as_bytes());
    if format.checksums.cover_each_block() {
        rt::charge(Cost::Checksum(block.len() as u64));
        record.checksums[0] = checksum::commit_block(format.seed, &block).into();
        block[..size_of::<CommitBlock>()].copy_from_slice(record.as_bytes());
    }
    block.into_arc()
}

fn revoke_block(format: &LogFormat, tid: Tid, revokes: &[BlockNr]) -> Arc<Block> {
    let mut block = new_block(format, BlockType::Revoke, tid);
    let header = RevokeHeader {
        header: Header::new(BlockType::Revoke, tid.get()),
        length: revoke::byte_count(format.tags, revokes.len()).into(),
    };
    block[..size_of::<RevokeHeader>()].copy_from_slice(header.as_bytes());
    for (index, nr) in revokes.iter().enumerate() {
        revoke::write(format.tags, &mut block, index, *nr);
    }
    seal(format, &mut block);
    block.into_arc()
}

fn new_block(format: &LogFormat, kind: BlockType, tid: Tid) -> Block {
    let mut block = Block::zeroed(format.block_bytes as usize);
    let header = Header::new(kind, tid.get());
    block[..size_of::<Header>()].copy_from_slice(header.as_bytes());
    block
}

/// Stores the checksum at the end of a descriptor or revoke block.
fn seal(format: &LogFormat, block: &mut Block) {
    if !format.checksums.cover_each_block() {
        return;
    }
    rt::charge(Cost::Checksum(block.len() as u64));
    let tail = BlockTail {
        checksum: checksum::journal_block(format.seed, block).into(),
    };
    let at = block.len() - size_of::<BlockTail>();
    block[at..].copy_from_slice(tail.as_bytes());
}

/// Returns a copy without the magic number if the image starts with it.
fn escape(image: &Arc<Block>) -> Option<Arc<Block>> {
    if !image.starts_with(&MAGIC_BYTES) || rt::mutant!("escape/skipped") {
        return None;
    }
    rt::charge(Cost::Copy(image.len() as u64));
    let mut copy = Block::copy_from(image);
    copy[..MAGIC_BYTES.len()].fill(0);
    Some(copy.into_arc())
}

fn tag_checksum(format: &LogFormat, tid: Tid, logged: &Block) -> u32 {
    if !format.checksums.cover_each_block() {
        return 0;
    }
    rt::charge(Cost::Checksum(logged.len() as u64));
    checksum::tag(format.seed, tid.get(), logged)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::buffer::Buffer;
    use crate::superblock::Superblock;

    fn contents(blocks: u64, revokes: u64) -> Contents {
        let logged = (0..blocks).map(|nr| {
            let mut image = Block::zeroed(1024);
            image[..4].copy_from_slice(if nr == 1 { &MAGIC_BYTES } else { &[9; 4] });
            let image = image.into_arc();
            Logged {
                buffer: Buffer::new(BlockNr::new(nr), Arc::clone(&image)),
                image,
            }
        });
        Contents {
            tid: Tid::new(0xFFFF_FFFF),
            logged: logged.collect(),
            revokes: (0..revokes).map(BlockNr::new).collect(),
            forgotten: BTreeSet::new(),
        }
    }

    #[test]
    fn records_fill_exactly_what_was_counted() {
        for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
            let mut superblock = Superblock::new(1024, 10_000, 1, [5; 16]);
            superblock.set_features(true, true, checksums);
            let format = superblock.format();
            let limits = Limits::new(&superblock, &format);
            for (blocks, revokes) in [(0, 0), (1, 0), (0, 1), (2, 300), (200, 126), (300, 127)] {
                let contents = contents(blocks, revokes);
                let records = Records::build(&format, &limits, &contents);
                let count = block_count(&contents, &limits);
                assert_eq!(records.blocks.len() as u32 + 1, count);
                let credits = crate::Credits {
                    blocks: blocks as u32,
                    revokes: revokes as u32,
                };
                assert_eq!(count, limits.need(credits));
                assert_eq!(records.escaped_count, u64::from(blocks > 1));
                assert!(records.blocks.iter().all(|block| block.len() == 1024));
            }
        }
    }

    #[test]
    fn images_are_shared_and_escaped_ones_copied() {
        let superblock = Superblock::new(1024, 1000, 1, [0; 16]);
        let format = superblock.format();
        let limits = Limits::new(&superblock, &format);
        let contents = contents(3, 0);
        let records = Records::build(&format, &limits, &contents);
        let is_shared =
            |index: usize| Arc::ptr_eq(&records.blocks[index + 1], &contents.logged[index].image);
        assert!(is_shared(0) && !is_shared(1) && is_shared(2));
        assert_eq!(records.blocks[2][..4], [0; 4]);
        assert_eq!(contents.logged[1].image[..4], MAGIC_BYTES);
    }
}
