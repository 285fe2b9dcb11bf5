//! Layout of a fast commit's blocks.
//!
//! ```text
//! head                     in the first fast commit of a transaction
//! tags                     each within one block; a pad fills a block that the next does not fit
//! tail                     fills the last block
//! ```
//!
//! Every block keeps room for the header of a pad behind its last tag.

use std::sync::Arc;

use layout::fast_commit::{Head, TagHeader, TagType, Tail, encode, tags};
use layout::{Block, Tid, checksum};
use rt::Cost;
use zerocopy::IntoBytes;

/// The blocks of a fast commit. The last one has the tail.
#[derive(Debug)]
pub(crate) struct FastRecords {
    pub(crate) blocks: Vec<Arc<Block>>,
}

/// A fast commit that is being laid out.
struct Writer {
    block_bytes: usize,
    blocks: Vec<Vec<u8>>,
    checksum: u32,
}

impl FastRecords {
    /// Lays out the tags of a fast commit; none if a tag does not fit into a block.
    pub(crate) fn build(block_bytes: u32, tid: Tid, is_first: bool, found: &[u8]) -> Option<Self> {
        let mut writer = Writer {
            block_bytes: usize::try_from(block_bytes).ok()?,
            blocks: vec![Vec::new()],
            checksum: 0,
        };
        if is_first {
            let head = Head {
                tid: tid.get().into(),
                ..Head::default()
            };
            writer.add(&encode(TagType::Head, head.as_bytes(), &[]))?;
        }
        for tag in tags(found) {
            writer.add(tag.ok()?.bytes)?;
        }
        writer.end(tid)
    }
}

impl Writer {
    /// Adds a tag.
    fn add(&mut self, tag: &[u8]) -> Option<()> {
        self.make_room(tag.len())?;
        self.append(tag, false);
        Some(())
    }

    /// Starts another block if the current one has no room.
    fn make_room(&mut self, length: usize) -> Option<()> {
        let most = self.block_bytes - size_of::<TagHeader>();
        if length > most {
            return None;
        }
        let used = self.current().len();
        if used + length > most {
            let pad = encode(TagType::Pad, &vec![0; most - used], &[]);
            self.append(&pad, false);
            self.blocks.push(Vec::with_capacity(self.block_bytes));
        }
        Some(())
    }

    fn append(&mut self, tag: &[u8], is_tail: bool) {
        self.checksum = checksum::fast_commit::tag(self.checksum, tag, is_tail);
        self.current().extend_from_slice(tag);
    }

    fn current(&mut self) -> &mut Vec<u8> {
        self.blocks.last_mut().expect("there is a first block")
    }

    /// Adds the tail, which fills the block.
    fn end(mut self, tid: Tid) -> Option<FastRecords> {
        let least = size_of::<TagHeader>() + size_of::<Tail>();
        self.make_room(least)?;
        let mut tail = Tail {
            tid: tid.get().into(),
            ..Tail::default()
        };
        let rest = vec![0; self.block_bytes - self.current().len() - least];
        let unsealed = encode(TagType::Tail, tail.as_bytes(), &rest);
        tail.checksum = checksum::fast_commit::tag(self.checksum, &unsealed, true).into();
        let sealed = encode(TagType::Tail, tail.as_bytes(), &rest);
        self.append(&sealed, true);
        let blocks = self.blocks.into_iter();
        let blocks: Vec<_> = blocks
            .map(|bytes| Block::copy_from(&bytes).into_arc())
            .collect();
        let bytes: usize = blocks.iter().map(|block| block.len()).sum();
        rt::charge(Cost::Checksum(bytes as u64));
        Some(FastRecords { blocks })
    }
}

#[cfg(test)]
mod tests {
    use layout::checksum::fast_commit::seal;

    use super::*;

    /// A tag whose value has this length.
    fn tag(length: usize) -> Vec<u8> {
        encode(TagType::Pad, &vec![7; length], &[])
    }

    #[test]
    fn blocks_are_full_and_sealed() {
        let tid = Tid::new(77);
        for (lengths, blocks) in [
            (vec![], 1),
            (vec![1024 - 16], 2),
            // The rest of the block has room for a tail, or not.
            (vec![1024 - 12 - 8], 1),
            (vec![1024 - 12 - 7], 2),
            (vec![300; 9], 3),
        ] {
            let found: Vec<u8> = lengths.iter().flat_map(|length| tag(*length)).collect();
            let made = FastRecords::build(1024, tid, lengths.is_empty(), &found);
            let made = made.expect("every tag fits into a block").blocks;
            assert_eq!(made.len(), blocks, "{lengths:?}");
            let mut crc = 0;
            for block in &made {
                let mut copy = block.to_vec();
                crc = seal(&mut copy, tid.get(), crc);
                assert_eq!(copy, block.to_vec(), "{lengths:?}");
                assert_eq!(tags(block).filter(Result::is_err).count(), 0);
            }
            assert_eq!(crc, 0, "the last tag is a tail");
        }
        assert!(FastRecords::build(1024, tid, false, &tag(1024 - 4)).is_none());
    }
}
