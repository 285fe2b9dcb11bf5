//! Fast commits: the input is blocks of tags. Numbers of transactions and checksums are made right,
//! so that all tags are applied.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use layout::checksum;
use layout::checksum::fast_commit::seal;
use layout::extent::Extent;
use layout::fast_commit::{AddRange, DelRange, EntryHeader, Head, InodeHeader, TagType, encode};
use layout::journal::{JournalIncompatible, JournalSuperblock};
use zerocopy::{FromBytes, IntoBytes};

use super::{location, recover};
use crate::base::{Base, Kind, base};
use crate::edits::put;

const BLOCK_BYTES: usize = 1024;

pub(super) fn run(bytes: &[u8]) {
    let base = base(Kind::Ext4FastCommits);
    let device = base.copy();
    let raw = give_feature(&device, base);
    let home: Arc<MemoryDevice> = Arc::clone(&device);
    let found = jbd2::recovery::inspect(&location(home, base)).expect("the log is good");
    let tid = found.end.expect("the log is dirty").expected.get();
    let first = raw.length.get() - raw.fast_commit_blocks.get() + 1;
    let area = &base.log_blocks_at[first as usize..];
    let mut crc = 0;
    for (place, chunk) in area.iter().zip(bytes.chunks(BLOCK_BYTES)) {
        let mut block = chunk.to_vec();
        crc = seal(&mut block, tid, crc);
        block.resize(BLOCK_BYTES, 0);
        put(&device, *place, &block);
    }
    recover(device, base);
}

/// Sets the feature in the superblock of the log.
fn give_feature(device: &MemoryDevice, base: &Base) -> JournalSuperblock {
    let seen: &dyn BlockDevice = device;
    let place = base.log_blocks_at[0];
    let block = seen.read_block(place, BLOCK_BYTES as u32);
    let block = block.expect("memory does not fail");
    let (mut raw, _) = JournalSuperblock::read_from_prefix(&block).expect("a block is as long");
    let features = raw.incompatible() | JournalIncompatible::FAST_COMMIT;
    raw.incompatible_bits = features.bits().into();
    raw.checksum = checksum::journal_superblock(&raw).into();
    put(device, place, raw.as_bytes());
    raw
}

/// Returns fast commits that name a file, new files, a directory and blocks in every way.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let base = base(Kind::Ext4FastCommits);
    let file = base.inode_of_file();
    let device: &dyn BlockDevice = &base.device;
    let place = base.inode_at(file);
    let block = device.read_block(place - place % 1024, 1024);
    let block = block.expect("memory does not fail");
    let inode = &block[(place % 1024) as usize..][..128];
    let mut other = inode.to_vec();
    other[100..104].copy_from_slice(&7u32.to_le_bytes());
    let mut directory = other.clone();
    directory[..2].copy_from_slice(&0o40755u16.to_le_bytes());
    let whole = [
        encode(TagType::Head, Head::default().as_bytes(), &[]),
        inode_tag(200, &other),
        range(200, Extent::new(0, 3, 2900, false)),
        entry(TagType::Create, 200, b"new"),
        inode_tag(201, &directory),
        entry(TagType::Create, 201, b"directory"),
        inode_tag(file, inode),
        range(file, Extent::new(2, 4, 2910, true)),
        hole(file, 1, 1),
        entry(TagType::Link, file, b"another"),
        entry(TagType::Unlink, file, b"another"),
        encode(TagType::Tail, &[0; 16], &[]),
    ]
    .concat();
    let removed = [
        encode(TagType::Head, Head::default().as_bytes(), &[]),
        entry(TagType::Unlink, file, b"second name"),
        hole(file, 0, u32::MAX),
        encode(TagType::Pad, &[0; 8], &[]),
        encode(TagType::Tail, &[0; 16], &[]),
    ]
    .concat();
    vec![whole, removed]
}

fn inode_tag(nr: u32, bytes: &[u8]) -> Vec<u8> {
    let header = InodeHeader { inode: nr.into() };
    encode(TagType::Inode, header.as_bytes(), bytes)
}

fn range(nr: u32, extent: Extent) -> Vec<u8> {
    let inode = nr.into();
    encode(
        TagType::AddRange,
        AddRange { inode, extent }.as_bytes(),
        &[],
    )
}

fn hole(nr: u32, from: u32, count: u32) -> Vec<u8> {
    let range = DelRange {
        inode: nr.into(),
        file_block: from.into(),
        count: count.into(),
    };
    encode(TagType::DelRange, range.as_bytes(), &[])
}

fn entry(tag_type: TagType, nr: u32, name: &[u8]) -> Vec<u8> {
    let header = EntryHeader {
        parent: 2.into(),
        inode: nr.into(),
    };
    encode(tag_type, header.as_bytes(), name)
}
