//! Directory blocks: entries of variable length that fill the block exactly.
//!
//! ```text
//! 0  inode       u32   0 if unused
//! 4  rec_len     u16   bytes to the next entry: a multiple of 4, at least 8 + name_len rounded up
//! 6  name_len    u8
//! 7  file_type   u8    with `filetype`, else 0 (upper byte of name_len in the first format)
//! 8  name              not terminated; "." and ".." are the first two entries of a directory
//! ```
//! An entry is removed by adding its length to the entry before it, or, at the start of a block, by
//! clearing its inode. In blocks of 65536 bytes a `rec_len` of 65535 or 0 means the whole block, a
//! length that 16 bits cannot hold.
//!
//! Source: Linux `Documentation/filesystems/ext4/directory.rst`.

use thiserror::Error;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::mode::FileType;
use crate::units::InodeNr;

/// Size of an entry before its name in bytes.
pub const HEADER_SIZE: usize = 8;
/// Maximum length of a name in bytes.
pub const NAME_MAX: usize = 255;
/// Alignment of entries in bytes; their lengths are multiples of it.
pub const ALIGNMENT: usize = 4;
/// Length of the shortest entry in bytes: a name of one byte.
pub const RECORD_LENGTH_MIN: usize = record_length(1);

/// Size of an [`EntryTail`] in bytes.
pub const TAIL_SIZE: usize = 12;
/// File type in the place of which an [`EntryTail`] is recognised.
pub const TAIL_KIND: u8 = 0xDE;

/// The record length that 16 bits cannot hold, and its stored form.
const RECORD_LENGTH_WHOLE: usize = 65536;
const RECORD_LENGTH_WHOLE_RAW: u16 = 65535;

/// `ext2_dir_entry_2`: an entry without its name.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntryHeader {
    /// Inode number, or 0 if the entry is unused.
    pub inode: U32,
    /// `rec_len`: bytes to the next entry.
    pub record_length: U16,
    /// `name_len`: length of the name in bytes.
    pub name_length: u8,
    /// [`FileType`] (`filetype`), else 0.
    pub file_type: u8,
}

const _: () = assert!(size_of::<EntryHeader>() == HEADER_SIZE);

/// `ext4_dir_entry_tail`: the checksum of a block (`metadata_csum`), in the form of an unused entry
/// at its end.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntryTail {
    /// `det_reserved_zero1`: zero, in the place of an entry's inode.
    pub reserved_inode: U32,
    /// `det_rec_len`: 12.
    pub record_length: U16,
    /// `det_reserved_zero2`: zero, in the place of an entry's name length.
    pub reserved_name_length: u8,
    /// `det_reserved_ft`: 0xDE, in the place of an entry's file type.
    pub reserved_kind: u8,
    /// `det_checksum`: crc32c.
    pub checksum: U32,
}

const _: () = assert!(size_of::<EntryTail>() == TAIL_SIZE);

impl EntryTail {
    /// Creates a tail with a checksum.
    pub fn new(checksum: u32) -> Self {
        Self {
            record_length: U16::new(TAIL_SIZE as u16),
            reserved_kind: TAIL_KIND,
            checksum: U32::new(checksum),
            ..Self::default()
        }
    }

    /// Returns the last bytes of a block, if they have the form of a tail. That an entry starts
    /// there is not checked.
    pub fn of_block(block: &[u8]) -> Option<&Self> {
        let (_, tail) = Self::ref_from_suffix(block).ok()?;
        let is_tail = tail.reserved_inode.get() == 0
            && usize::from(tail.record_length.get()) == TAIL_SIZE
            && tail.reserved_name_length == 0
            && tail.reserved_kind == TAIL_KIND;
        is_tail.then_some(tail)
    }
}

/// An entry of a directory block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Offset of the entry in the block.
    pub offset: usize,
    /// Bytes to the next entry.
    pub record_length: usize,
    /// Inode; `None` if the entry is unused (its name and type then mean nothing).
    pub inode: Option<InodeNr>,
    /// Name.
    pub name: &'a [u8],
    /// Type of the inode, if recorded.
    pub file_type: FileType,
}

impl Entry<'_> {
    /// Returns the length that the entry needs in bytes; 0 if it is unused.
    pub const fn used_length(&self) -> usize {
        if self.inode.is_some() {
            record_length(self.name.len())
        } else {
            0
        }
    }

    /// Returns the length that a further entry could take from this record in bytes.
    pub const fn spare_length(&self) -> usize {
        self.record_length - self.used_length()
    }
}

/// An invalid entry and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("directory entry at byte {offset} of its block: {fault}")]
pub struct EntryError {
    /// Offset of the entry in the block.
    pub offset: usize,
    /// Fault of the entry.
    pub fault: EntryFault,
}

/// Faults of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// Length is not a multiple of 4.
    #[error("its length of {record_length} bytes is not a multiple of 4")]
    Unaligned {
        /// Length of the entry.
        record_length: usize,
    },
    /// Length is less than that of the shortest entry.
    #[error("its length of {record_length} bytes is less than that of the shortest entry")]
    TooShort {
        /// Length of the entry.
        record_length: usize,
    },
    /// Length is less than the name needs.
    #[error("its length of {record_length} bytes has no room for a name of {name_length} bytes")]
    NameTooLong {
        /// Length of the entry.
        record_length: usize,
        /// Length of the name.
        name_length: usize,
    },
    /// Entry reaches beyond the end of the block.
    #[error("its length of {record_length} bytes is more than the {left} left in the block")]
    Overrun {
        /// Length of the entry.
        record_length: usize,
        /// Bytes from the start of the entry to the end of the block.
        left: usize,
    },
    /// Entry leaves too few bytes for another entry.
    #[error("after its {record_length} bytes {left} are left, too few for another entry")]
    Gap {
        /// Length of the entry.
        record_length: usize,
        /// Bytes from the end of the entry to the end of the block.
        left: usize,
    },
    /// Inode number is out of range.
    #[error("its inode {inode} does not exist: the last one is {inode_count}")]
    InodeOutOfRange {
        /// Inode number.
        inode: u32,
        /// Number of inodes.
        inode_count: u32,
    },
    /// Entry is used and has no name.
    #[error("it has an inode and no name")]
    EmptyName,
}

/// Returns the length of an entry for a name of `name_length` bytes.
pub const fn record_length(name_length: usize) -> usize {
    (HEADER_SIZE + name_length).next_multiple_of(ALIGNMENT)
}

/// Decodes a stored `rec_len` into bytes.
pub const fn decode_record_length(raw: u16, block_size: usize) -> usize {
    if block_size == RECORD_LENGTH_WHOLE && (raw == RECORD_LENGTH_WHOLE_RAW || raw == 0) {
        RECORD_LENGTH_WHOLE
    } else {
        raw as usize
    }
}

/// Encodes a length in bytes as a `rec_len`.
///
/// # Panics
/// Panics if no entry can have the length.
pub const fn encode_record_length(length: usize) -> u16 {
    assert!(
        length.is_multiple_of(ALIGNMENT),
        "entries take multiples of 4 bytes"
    );
    assert!(
        length <= RECORD_LENGTH_WHOLE,
        "entries are no longer than the largest block"
    );
    if length == RECORD_LENGTH_WHOLE {
        RECORD_LENGTH_WHOLE_RAW
    } else {
        length as u16
    }
}

/// True if a directory can hold the name: 1 to 255 bytes, none of them NUL or a slash.
pub fn is_valid_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// An iterator over the entries of a directory block, unused ones included; created by [`entries`].
/// It stops after an error.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    block: &'a [u8],
    inode_count: u32,
    offset: usize,
}

/// Iterates over the entries of a whole directory block and checks each of them. `inode_count` is
/// the superblock's number of inodes.
pub const fn entries(block: &[u8], inode_count: u32) -> Entries<'_> {
    Entries {
        block,
        inode_count,
        offset: 0,
    }
}

/// Returns the entry at `offset` after checking it.
///
/// # Errors
/// - [`EntryError`] if the entry is invalid.
pub fn entry_at(block: &[u8], inode_count: u32, offset: usize) -> Result<Entry<'_>, EntryError> {
    check(block, inode_count, offset).map_err(|fault| EntryError { offset, fault })
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.block.len() {
            return None;
        }
        let entry = entry_at(self.block, self.inode_count, self.offset);
        self.offset = match &entry {
            Ok(entry) => entry.offset + entry.record_length,
            Err(_) => self.block.len(),
        };
        Some(entry)
    }
}

fn check(block: &[u8], inode_count: u32, offset: usize) -> Result<Entry<'_>, EntryFault> {
    let rest = block.get(offset..).unwrap_or_default();
    let left = rest.len();
    let Ok((header, tail)) = EntryHeader::ref_from_prefix(rest) else {
        return Err(EntryFault::Overrun {
            record_length: RECORD_LENGTH_MIN,
            left,
        });
    };
    let record_length = decode_record_length(header.record_length.get(), block.len());
    let name_length = usize::from(header.name_length);
    if !record_length.is_multiple_of(ALIGNMENT) {
        return Err(EntryFault::Unaligned { record_length });
    }
    if record_length < RECORD_LENGTH_MIN {
        return Err(EntryFault::TooShort { record_length });
    }
    if record_length > left {
        return Err(EntryFault::Overrun {
            record_length,
            left,
        });
    }
    if record_length < self::record_length(name_length) {
        return Err(EntryFault::NameTooLong {
            record_length,
            name_length,
        });
    }
    let after = left - record_length;
    if after != 0 && after < RECORD_LENGTH_MIN {
        return Err(EntryFault::Gap {
            record_length,
            left: after,
        });
    }
    let inode = header.inode.get();
    if inode > inode_count {
        return Err(EntryFault::InodeOutOfRange { inode, inode_count });
    }
    if inode != 0 && name_length == 0 {
        return Err(EntryFault::EmptyName);
    }
    Ok(Entry {
        offset,
        record_length,
        inode: (inode != 0).then(|| InodeNr::new(inode)),
        name: &tail[..name_length],
        file_type: FileType::from_raw(header.file_type),
    })
}

/// Writes an entry at its offset. The padding after its name is zeroed; the rest of its record is
/// left as it is.
///
/// # Panics
/// Panics if the entry does not fit its record, or the record does not fit the block.
pub fn write(block: &mut [u8], entry: &Entry<'_>) {
    let needed = record_length(entry.name.len());
    assert!(
        entry.offset.is_multiple_of(ALIGNMENT),
        "entries begin at multiples of 4 bytes"
    );
    assert!(entry.name.len() <= NAME_MAX, "names have at most 255 bytes");
    assert!(
        needed <= entry.record_length,
        "an entry's name fits its record"
    );
    let record = &mut block[entry.offset..entry.offset + entry.record_length];
    let header = EntryHeader {
        inode: U32::new(entry.inode.map_or(0, InodeNr::get)),
        record_length: U16::new(encode_record_length(entry.record_length)),
        name_length: entry.name.len() as u8,
        file_type: entry.file_type.raw(),
    };
    record[..HEADER_SIZE].copy_from_slice(header.as_bytes());
    let name = &mut record[HEADER_SIZE..needed];
    name[..entry.name.len()].copy_from_slice(entry.name);
    name[entry.name.len()..].fill(0);
}

/// Zeroes a block and writes one unused entry that fills it.
pub fn write_empty(block: &mut [u8]) {
    block.fill(0);
    let record_length = block.len();
    let file_type = FileType::Unknown;
    write(
        block,
        &Entry {
            offset: 0,
            record_length,
            inode: None,
            name: &[],
            file_type,
        },
    );
}

/// Changes the length of the entry at `offset`.
///
/// # Panics
/// Panics if there is no room for an entry at `offset`, or no entry can have the length.
pub fn set_record_length(block: &mut [u8], offset: usize, length: usize) {
    header_mut(block, offset)
        .record_length
        .set(encode_record_length(length));
}

/// Marks the entry at `offset` unused.
///
/// # Panics
/// Panics if there is no room for an entry at `offset`.
pub fn clear_inode(block: &mut [u8], offset: usize) {
    header_mut(block, offset).inode.set(0);
}

fn header_mut(block: &mut [u8], offset: usize) -> &mut EntryHeader {
    let header = EntryHeader::mut_from_prefix(&mut block[offset..]);
    header
        .expect("an entry that was read before lies in the block")
        .0
}

#[cfg(test)]
mod tests;
