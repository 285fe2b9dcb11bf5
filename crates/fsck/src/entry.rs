//! A directory entry as it lies in its block.

use layout::directory::{EntryHeader, HEADER_SIZE, RECORD_LENGTH_MIN, decode_record_length};
use zerocopy::FromBytes;

/// A raw entry: its length fits the block, the rest is unchecked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'b> {
    pub(crate) offset: usize,
    pub(crate) record_length: usize,
    pub(crate) inode: u32,
    pub(crate) file_type: u8,
    pub(crate) name: &'b [u8],
}

/// Returns the entry at an offset, if its length is valid.
pub(crate) fn entry_at(block: &[u8], offset: usize) -> Option<Entry<'_>> {
    let (header, rest) = EntryHeader::ref_from_prefix(block.get(offset..)?).ok()?;
    let record_length = decode_record_length(header.record_length.get(), block.len());
    let name_length = usize::from(header.name_length);
    let left = block.len() - offset;
    let is_good = record_length >= RECORD_LENGTH_MIN
        && record_length.is_multiple_of(4)
        && record_length <= left
        && name_length + HEADER_SIZE <= record_length;
    is_good.then(|| Entry {
        offset,
        record_length,
        inode: header.inode.get(),
        file_type: header.file_type,
        name: &rest[..name_length],
    })
}
