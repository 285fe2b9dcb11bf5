//! Tags: a descriptor block has one for each logged block that follows it.
//!
//! ```text
//!                bytes  block lower  checksum  flags  block upper  checksum  unused
//! plain              8  u32          u16 = 0   u16
//! 64bit             12  u32          u16 = 0   u16    u32
//! v2                10  u32          u16       u16                           2
//! v2 and 64bit      14  u32          u16       u16    u32                    2
//! v3                16  u32                    u32    u32          u32
//! ```
//! After a tag without [`TagFlags::SAME_UUID`] come the 16 bytes of a UUID. The tags start after
//! the block's header. They end with the tag that has [`TagFlags::LAST_TAG`], or where no whole tag
//! fits before the block's tail: debugfs does not mark the last tag of a full block.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`, "Descriptor Block".

use bitflags::bitflags;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::journal::{BlockTail, Header, JournalIncompatible};
use crate::units::BlockNr;

/// Size of the UUID after a tag without [`TagFlags::SAME_UUID`] in bytes.
pub const UUID_SIZE: usize = 16;

bitflags! {
    /// `t_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct TagFlags: u32 {
        /// The logged block began with the journal's magic, which is stored as zeroes.
        const ESCAPE = 0x1;
        /// The UUID is that of the previous tag; none follows.
        const SAME_UUID = 0x2;
        /// The block was deleted (never written).
        const DELETED = 0x4;
        /// The last tag of the descriptor block.
        const LAST_TAG = 0x8;
    }
}

/// `journal_block_tag_t`: without checksums, and with v2 (then two unused bytes follow). The upper
/// half of the block number exists only with 64bit.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockTag {
    /// `t_blocknr`: final location of the block, lower half.
    pub block_low: U32,
    /// `t_checksum`: crc32c of the block, lower half (v2).
    pub checksum: U16,
    /// `t_flags`: [`TagFlags`].
    pub flag_bits: U16,
    /// `t_blocknr_high`: final location of the block, upper half.
    pub block_high: U32,
}

const _: () = assert!(size_of::<BlockTag>() == 12);

/// `journal_block_tag3_t`: with checksums v3.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockTag3 {
    /// `t_blocknr`: final location of the block, lower half.
    pub block_low: U32,
    /// `t_flags`: [`TagFlags`].
    pub flag_bits: U32,
    /// `t_blocknr_high`: final location of the block, upper half; 0 without 64bit.
    pub block_high: U32,
    /// `t_checksum`: crc32c of the block.
    pub checksum: U32,
}

const _: () = assert!(size_of::<BlockTag3>() == 16);

/// Size of the upper half of a block number in bytes.
const HIGH_SIZE: usize = 4;
/// Unused bytes after a tag with v2.
const V2_UNUSED_SIZE: usize = 2;

/// A tag, decoded from any of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Final location of the block.
    pub home: BlockNr,
    /// Flags.
    pub flags: TagFlags,
    /// crc32c of the logged block (see [`crate::checksum::tag`]): its lower 16 bits with v2, 0
    /// without checksums.
    pub checksum: u32,
}

/// The form of checksums in tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TagChecksum {
    /// No checksum (none at all, or checksums v1).
    #[default]
    None,
    /// Lower 16 bits of the checksum.
    V2,
    /// Whole checksum.
    V3,
}

impl TagChecksum {
    /// Returns the part of a block's checksum that a tag stores.
    pub const fn kept(self, checksum: u32) -> u32 {
        match self {
            Self::None => 0,
            Self::V2 => checksum & 0xFFFF,
            Self::V3 => checksum,
        }
    }
}

/// The form of a journal's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TagFormat {
    /// True if block numbers have 64 bits.
    pub is_64bit: bool,
    /// Form of checksums.
    pub checksum: TagChecksum,
}

impl TagFormat {
    /// Returns the form that a journal's features select. If both v2 and v3 are set, v3 applies.
    pub const fn from_features(features: JournalIncompatible) -> Self {
        let checksum = if features.contains(JournalIncompatible::CHECKSUM_V3) {
            TagChecksum::V3
        } else if features.contains(JournalIncompatible::CHECKSUM_V2) {
            TagChecksum::V2
        } else {
            TagChecksum::None
        };
        Self {
            is_64bit: features.contains(JournalIncompatible::IS_64BIT),
            checksum,
        }
    }

    /// Returns the size of a tag and of the UUID after it in bytes.
    pub const fn size(self, has_uuid: bool) -> usize {
        let high = if self.is_64bit { HIGH_SIZE } else { 0 };
        let base = size_of::<BlockTag>() - HIGH_SIZE;
        let size = match self.checksum {
            TagChecksum::None => base + high,
            TagChecksum::V2 => base + high + V2_UNUSED_SIZE,
            TagChecksum::V3 => size_of::<BlockTag3>(),
        };
        if has_uuid { size + UUID_SIZE } else { size }
    }

    /// Returns the size of the tail of descriptor and revoke blocks in bytes.
    pub const fn tail_size(self) -> usize {
        match self.checksum {
            TagChecksum::None => 0,
            TagChecksum::V2 | TagChecksum::V3 => size_of::<BlockTail>(),
        }
    }

    /// Returns the capacity of a descriptor block in tags, if only the first has a UUID. As in
    /// Linux's writer, room for one more UUID is left, so that both write logs of the same length.
    pub const fn capacity(self, block_size: usize) -> usize {
        let room = block_size - size_of::<Header>() - self.tail_size() - UUID_SIZE;
        // A tag fits if it and a UUID fit after the tags before it.
        1 + (room - self.size(false) - UUID_SIZE) / self.size(false)
    }

    /// Writes a tag to the start of `out`, and a UUID after it unless the flags omit it. Returns
    /// the number of bytes written.
    ///
    /// # Panics
    /// Panics if the tag does not fit in `out`, the block number does not fit the form, or a
    /// required UUID is missing.
    pub fn encode(self, tag: &Tag, uuid: Option<&[u8; UUID_SIZE]>, out: &mut [u8]) -> usize {
        let number = tag.home.get();
        if !self.is_64bit {
            assert!(
                number <= u64::from(u32::MAX),
                "a block number beyond 32 bits needs 64bit tags"
            );
        }
        let (low, high) = (U32::new(number as u32), U32::new((number >> 32) as u32));
        let size = self.size(false);
        let out_tag = &mut out[..size];
        out_tag.fill(0);
        let flags = tag.flags.bits();
        let checksum = self.checksum.kept(tag.checksum);
        if self.checksum == TagChecksum::V3 {
            let raw = BlockTag3 {
                block_low: low,
                flag_bits: U32::new(flags),
                block_high: high,
                checksum: U32::new(checksum),
            };
            out_tag.copy_from_slice(raw.as_bytes());
        } else {
            let raw = BlockTag {
                block_low: low,
                checksum: U16::new(checksum as u16),
                flag_bits: U16::new(flags as u16),
                block_high: high,
            };
            let used = self.size_used();
            out_tag[..used].copy_from_slice(&raw.as_bytes()[..used]);
        }
        if tag.flags.contains(TagFlags::SAME_UUID) {
            return size;
        }
        let uuid = uuid.expect("a tag without the flag for the same uuid comes with a uuid");
        out[size..size + UUID_SIZE].copy_from_slice(uuid);
        size + UUID_SIZE
    }

    /// Reads the tag at the start of `bytes`. Returns `None` if they are too short.
    pub fn decode(self, bytes: &[u8]) -> Option<Tag> {
        let bytes = bytes.get(..self.size(false))?;
        let (low, high, flags, checksum) = if self.checksum == TagChecksum::V3 {
            let raw = BlockTag3::read_from_bytes(bytes).ok()?;
            (
                raw.block_low,
                raw.block_high,
                raw.flag_bits.get(),
                raw.checksum.get(),
            )
        } else {
            let mut raw = BlockTag::default();
            let used = self.size_used();
            raw.as_mut_bytes()[..used].copy_from_slice(&bytes[..used]);
            let (flags, checksum) = (raw.flag_bits.get(), raw.checksum.get());
            (
                raw.block_low,
                raw.block_high,
                u32::from(flags),
                u32::from(checksum),
            )
        };
        let high = if self.is_64bit {
            u64::from(high.get())
        } else {
            0
        };
        Some(Tag {
            home: BlockNr::new(u64::from(low.get()) | (high << 32)),
            flags: TagFlags::from_bits_retain(flags),
            checksum: self.checksum.kept(checksum),
        })
    }

    /// Iterates over the tags of a whole descriptor block with any contents. The iterator stops at
    /// the last tag or where no whole tag fits, as in Linux.
    pub const fn tags(self, descriptor: &[u8]) -> Tags<'_> {
        Tags {
            format: self,
            block: descriptor,
            offset: size_of::<Header>(),
            is_terminated: false,
        }
    }

    /// Returns the number of bytes of a [`BlockTag`] that are stored in this form.
    const fn size_used(self) -> usize {
        size_of::<BlockTag>() - if self.is_64bit { 0 } else { HIGH_SIZE }
    }
}

/// An iterator over the tags of a descriptor block in order; created by [`TagFormat::tags`].
#[derive(Debug, Clone)]
pub struct Tags<'a> {
    format: TagFormat,
    block: &'a [u8],
    offset: usize,
    is_terminated: bool,
}

impl Tags<'_> {
    /// True if the tag with [`TagFlags::LAST_TAG`] has been read.
    pub const fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// Returns the offset after the last tag read.
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl Iterator for Tags<'_> {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        if self.is_terminated {
            return None;
        }
        let end = self.block.len().saturating_sub(self.format.tail_size());
        let tag = self.format.decode(self.block.get(self.offset..end)?)?;
        self.offset += self.format.size(!tag.flags.contains(TagFlags::SAME_UUID));
        self.is_terminated = tag.flags.contains(TagFlags::LAST_TAG);
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [(TagFormat, usize); 6] = [
        (
            TagFormat {
                is_64bit: false,
                checksum: TagChecksum::None,
            },
            8,
        ),
        (
            TagFormat {
                is_64bit: true,
                checksum: TagChecksum::None,
            },
            12,
        ),
        (
            TagFormat {
                is_64bit: false,
                checksum: TagChecksum::V2,
            },
            10,
        ),
        (
            TagFormat {
                is_64bit: true,
                checksum: TagChecksum::V2,
            },
            14,
        ),
        (
            TagFormat {
                is_64bit: false,
                checksum: TagChecksum::V3,
            },
            16,
        ),
        (
            TagFormat {
                is_64bit: true,
                checksum: TagChecksum::V3,
            },
            16,
        ),
    ];
    const UUID: [u8; UUID_SIZE] = [0xA5; UUID_SIZE];

    /// Returns `count` tags as a writer creates them: the first with a UUID, the last marked.
    fn sample(format: TagFormat, count: usize) -> Vec<Tag> {
        (0..count)
            .map(|i| {
                let mut flags = TagFlags::empty();
                flags.set(TagFlags::SAME_UUID, i > 0);
                flags.set(TagFlags::ESCAPE, i % 3 == 1);
                flags.set(TagFlags::LAST_TAG, i + 1 == count);
                let high = if format.is_64bit { (i as u64) << 33 } else { 0 };
                Tag {
                    home: BlockNr::new(0xFFFF_FF00 + i as u64 % 256 + high),
                    flags,
                    checksum: format
                        .checksum
                        .kept(0x9E37_79B9u32.wrapping_mul(i as u32 + 1)),
                }
            })
            .collect()
    }

    fn write(format: TagFormat, tags: &[Tag], block: &mut [u8]) -> usize {
        tags.iter().fold(size_of::<Header>(), |offset, tag| {
            offset + format.encode(tag, Some(&UUID), &mut block[offset..])
        })
    }

    #[test]
    fn sizes() {
        for (format, size) in FORMATS {
            assert_eq!(format.size(false), size, "{format:?}");
            assert_eq!(format.size(true), size + 16, "{format:?}");
        }
    }

    #[test]
    fn tags_survive_in_every_form() {
        for (format, size) in FORMATS {
            for block_size in [1024, 2048, 4096, 65536] {
                let capacity = format.capacity(block_size);
                for count in [1, 2, capacity - 1, capacity] {
                    let mut block = vec![0xFF; block_size];
                    let tags = sample(format, count);
                    let end = write(format, &tags, &mut block);
                    assert_eq!(end, 12 + 16 + count * size);
                    assert!(
                        end + format.tail_size() <= block_size,
                        "{format:?} {block_size}"
                    );
                    let mut read = format.tags(&block);
                    assert_eq!(read.by_ref().collect::<Vec<_>>(), tags, "{format:?}");
                    assert!(read.is_terminated());
                    assert_eq!(read.offset(), end);
                }
            }
        }
    }

    #[test]
    fn capacity_is_what_a_writer_that_keeps_room_for_a_uuid_reaches() {
        for (format, size) in FORMATS {
            for block_size in [1024, 2048, 4096] {
                let mut left = block_size - 12 - size - 16;
                let mut count = 1;
                while left >= size + 16 + format.tail_size() {
                    left -= size;
                    count += 1;
                }
                assert_eq!(
                    format.capacity(block_size),
                    count,
                    "{format:?} {block_size}"
                );
            }
        }
    }

    #[test]
    fn unused_bytes_are_zero() {
        for (format, size) in FORMATS {
            let mut out = [0xFF; 32];
            let tag = Tag {
                home: BlockNr::new(1),
                flags: TagFlags::SAME_UUID,
                checksum: 0,
            };
            assert_eq!(format.encode(&tag, None, &mut out), size);
            assert_eq!(out[..size].iter().filter(|byte| **byte != 0).count(), 2);
            assert!(out[size..].iter().all(|byte| *byte == 0xFF));
        }
    }

    #[test]
    fn damaged_blocks_end_the_tags() {
        for (format, size) in FORMATS {
            for length in 0..80 {
                // No tag is the last one, and each takes a UUID.
                let bytes = vec![0; length];
                let mut tags = format.tags(&bytes);
                let count = tags.by_ref().count();
                assert!(!tags.is_terminated());
                let room = length.saturating_sub(12 + format.tail_size());
                let fit = (room + 16) / (size + 16);
                assert_eq!(
                    count,
                    if room < size { 0 } else { fit },
                    "{format:?} {length}"
                );
            }
            assert_eq!(format.decode(&vec![0; size - 1]), None);
        }
    }
}
