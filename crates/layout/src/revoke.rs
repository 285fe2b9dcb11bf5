//! Revoke blocks: the numbers of blocks that must not be replayed from this transaction or an
//! earlier one.
//!
//! ```text
//! RevokeHeader; r_count = bytes used, header included
//! block numbers, 4 bytes each, 8 with 64bit
//! ... BlockTail in the last four bytes with checksums v2 and v3
//! ```
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`, "Revocation Block".

use thiserror::Error;
use zerocopy::FromBytes;

use crate::journal::RevokeHeader;
use crate::tag::TagFormat;
use crate::units::BlockNr;

/// A revoke block with an invalid `r_count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("revoke block says {count} bytes are used, where between {least} and {most} can be")]
pub struct CountError {
    /// `r_count`.
    pub count: u32,
    /// Minimum: the size of the header in bytes.
    pub least: usize,
    /// Maximum: the number of bytes before the tail.
    pub most: usize,
}

/// Returns the size of a block number in bytes.
pub const fn entry_size(format: TagFormat) -> usize {
    if format.is_64bit { 8 } else { 4 }
}

/// Returns the number of block numbers that fit in a revoke block.
pub const fn capacity(format: TagFormat, block_size: usize) -> usize {
    (block_size - size_of::<RevokeHeader>() - format.tail_size()) / entry_size(format)
}

/// Writes the `index`th block number of a whole revoke block. The caller sets `r_count`.
///
/// # Panics
/// Panics if the block is full, or the block number does not fit the form.
pub fn write(format: TagFormat, block: &mut [u8], index: usize, revoked: BlockNr) {
    assert!(
        index < capacity(format, block.len()),
        "the revoke block is full"
    );
    let size = entry_size(format);
    let at = size_of::<RevokeHeader>() + index * size;
    let number = revoked.get();
    if format.is_64bit {
        block[at..at + size].copy_from_slice(&number.to_be_bytes());
    } else {
        let number = u32::try_from(number).expect("a block number beyond 32 bits needs 64bit");
        block[at..at + size].copy_from_slice(&number.to_be_bytes());
    }
}

/// Returns the `r_count` of a revoke block with `entry_count` block numbers.
pub const fn byte_count(format: TagFormat, entry_count: usize) -> u32 {
    (size_of::<RevokeHeader>() + entry_count * entry_size(format)) as u32
}

/// Iterates over the block numbers of a whole revoke block.
///
/// # Errors
/// - [`CountError`] if `r_count` is less than the header or reaches into the tail.
pub fn entries(
    format: TagFormat,
    block: &[u8],
) -> Result<impl Iterator<Item = BlockNr> + '_, CountError> {
    let least = size_of::<RevokeHeader>();
    let most = block.len().saturating_sub(format.tail_size());
    let count = RevokeHeader::ref_from_prefix(block).map_or(0, |(header, _)| header.length.get());
    let used = usize::try_from(count)
        .ok()
        .and_then(|count| block[..most].get(least..count));
    let used = used.ok_or(CountError { count, least, most })?;
    Ok(used.chunks_exact(entry_size(format)).map(|bytes| {
        BlockNr::new(
            bytes
                .iter()
                .fold(0, |number, byte| (number << 8) | u64::from(*byte)),
        )
    }))
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::journal::{BlockType, Header};
    use crate::tag::TagChecksum;

    fn block(format: TagFormat, numbers: &[u64]) -> Vec<u8> {
        let mut block = vec![0; 1024];
        let header = RevokeHeader {
            header: Header::new(BlockType::Revoke, 7),
            length: byte_count(format, numbers.len()).into(),
        };
        block[..size_of::<RevokeHeader>()].copy_from_slice(header.as_bytes());
        for (index, number) in numbers.iter().enumerate() {
            write(format, &mut block, index, BlockNr::new(*number));
        }
        block
    }

    #[test]
    fn numbers_survive_in_every_form() {
        for (is_64bit, checksum) in [
            (false, TagChecksum::None),
            (true, TagChecksum::None),
            (false, TagChecksum::V3),
            (true, TagChecksum::V3),
        ] {
            let format = TagFormat { is_64bit, checksum };
            let high = if is_64bit { 0xABu64 << 32 } else { 0 };
            for count in [0, 1, capacity(format, 1024)] {
                let numbers: Vec<u64> = (0..count as u64).map(|i| high + i * 3 + 1).collect();
                let block = block(format, &numbers);
                let read: Vec<u64> = entries(format, &block).unwrap().map(BlockNr::get).collect();
                assert_eq!(read, numbers, "{format:?}");
            }
        }
    }

    #[test]
    fn a_count_out_of_range_is_an_error() {
        let format = TagFormat {
            is_64bit: false,
            checksum: TagChecksum::V3,
        };
        for count in [0, 15, 1021, u32::MAX] {
            let mut bytes = block(format, &[]);
            bytes[12..16].copy_from_slice(&count.to_be_bytes());
            let error = entries(format, &bytes).err().unwrap();
            assert_eq!(
                error,
                CountError {
                    count,
                    least: 16,
                    most: 1020
                }
            );
        }
        assert!(entries(format, &[0; 3]).is_err());
    }
}
