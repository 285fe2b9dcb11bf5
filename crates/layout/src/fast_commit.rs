//! Fast commits of ext4: what an `fsync` has changed since the last transaction, as tags, in blocks
//! at the end of the journal.
//!
//! ```text
//! s_maxlen - s_num_fc_blks      not used
//! behind it, up to s_maxlen     the area: blocks of tags, from its first block on
//!   Head                        at the start of the area only
//!   other tags, Pad             of one fast commit; a tag lies within one block
//!   Tail                        ends the fast commit, and its block
//!   other tags ... Tail         further fast commits of the same transaction
//! ```
//! A tag is a [`TagHeader`] and its value. All fields are little-endian, unlike those of the other
//! blocks of the journal. The checksum of a fast commit is [`crate::checksum::fast_commit::tag`]
//! over its tags.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`, "Fast commits".

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::extent::Extent;
use crate::inode::BASE_SIZE;

/// Maximum length of a name in bytes.
const NAME_MAX: usize = 255;

/// `fc_tag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum TagType {
    /// Blocks of a file are mapped.
    AddRange = 1,
    /// Blocks of a file are holes.
    DelRange = 2,
    /// A new inode has a name.
    Create = 3,
    /// An inode has another name.
    Link = 4,
    /// A name is removed.
    Unlink = 5,
    /// The fields of an inode.
    Inode = 6,
    /// The rest of a block is not used.
    Pad = 7,
    /// The end of a fast commit.
    Tail = 8,
    /// The start of the area.
    Head = 9,
}

impl TagType {
    /// Returns the type of a raw `fc_tag`, if it is known.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            1 => Self::AddRange,
            2 => Self::DelRange,
            3 => Self::Create,
            4 => Self::Link,
            5 => Self::Unlink,
            6 => Self::Inode,
            7 => Self::Pad,
            8 => Self::Tail,
            9 => Self::Head,
            _ => return None,
        })
    }

    /// Returns the raw `fc_tag`.
    pub const fn raw(self) -> u16 {
        self as u16
    }
}

/// `ext4_fc_tl`: the start of a tag.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TagHeader {
    /// `fc_tag`: [`TagType`].
    pub tag: U16,
    /// `fc_len`: length of the value in bytes.
    pub length: U16,
}

const _: () = assert!(size_of::<TagHeader>() == 4);

impl TagHeader {
    /// Creates the header of a value of `length` bytes.
    pub const fn new(tag: TagType, length: u16) -> Self {
        Self {
            tag: U16::new(tag.raw()),
            length: U16::new(length),
        }
    }
}

/// `ext4_fc_head`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Head {
    /// `fc_features`: features that a reader has to know; there are none.
    pub features: U32,
    /// `fc_tid`: number of the transaction that has not been committed yet.
    pub tid: U32,
}

const _: () = assert!(size_of::<Head>() == 8);

/// `ext4_fc_add_range`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AddRange {
    /// `fc_ino`: inode of the file.
    pub inode: U32,
    /// `fc_ex`: the extent, as in a leaf of an extent tree.
    pub extent: Extent,
}

const _: () = assert!(size_of::<AddRange>() == 16);

/// `ext4_fc_del_range`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DelRange {
    /// `fc_ino`: inode of the file.
    pub inode: U32,
    /// `fc_lblk`: first block within the file.
    pub file_block: U32,
    /// `fc_len`: number of blocks.
    pub count: U32,
}

const _: () = assert!(size_of::<DelRange>() == 12);

/// `ext4_fc_dentry_info`: a directory entry; its name follows (`fc_dname`).
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntryHeader {
    /// `fc_parent_ino`: inode of the directory.
    pub parent: U32,
    /// `fc_ino`: inode that the entry names.
    pub inode: U32,
}

const _: () = assert!(size_of::<EntryHeader>() == 8);

/// `ext4_fc_inode`: an inode; its bytes in the inode table follow (`fc_raw_inode`), possibly
/// without some at the end.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InodeHeader {
    /// `fc_ino`: number of the inode.
    pub inode: U32,
}

const _: () = assert!(size_of::<InodeHeader>() == 4);

/// `ext4_fc_tail`. The value of its tag is longer: it fills the block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tail {
    /// `fc_tid`: number of the transaction that has not been committed yet.
    pub tid: U32,
    /// `fc_crc`: [`crate::checksum::fast_commit::tag`] over the tags of the fast commit.
    pub checksum: U32,
}

const _: () = assert!(size_of::<Tail>() == 8);

/// The value of a tag.
#[derive(Debug, Clone, Copy)]
pub enum Record<'b> {
    /// The start of the area.
    Head(Head),
    /// Blocks of a file are mapped.
    AddRange(AddRange),
    /// Blocks of a file are holes.
    DelRange(DelRange),
    /// A new inode has this name.
    Create(EntryHeader, &'b [u8]),
    /// An inode has this name, too.
    Link(EntryHeader, &'b [u8]),
    /// This name is removed.
    Unlink(EntryHeader, &'b [u8]),
    /// The bytes of an inode, at least those of the smallest one.
    Inode(InodeHeader, &'b [u8]),
    /// Bytes that are not used.
    Pad,
    /// The end of a fast commit.
    Tail(Tail),
}

/// A tag in a block.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'b> {
    /// The header and the value.
    pub bytes: &'b [u8],
    /// The value, decoded.
    pub record: Record<'b>,
}

/// The reason why a block has no tag at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTag(pub &'static str);

/// Returns the tags of a block in order. An invalid tag is the last item: its length does not lead
/// to the next.
pub fn tags(block: &[u8]) -> impl Iterator<Item = Result<Tag<'_>, BadTag>> {
    let mut rest = block;
    core::iter::from_fn(move || {
        if rest.len() < size_of::<TagHeader>() {
            return None;
        }
        let found = first_tag(rest);
        rest = match &found {
            Ok(tag) => &rest[tag.bytes.len()..],
            Err(_) => &[],
        };
        Some(found)
    })
}

/// Decodes the tag at the start of some bytes.
fn first_tag(bytes: &[u8]) -> Result<Tag<'_>, BadTag> {
    let cut = BadTag("a tag reaches beyond its block");
    let (header, rest) = TagHeader::read_from_prefix(bytes).map_err(|_| cut)?;
    let Some(tag_type) = TagType::from_raw(header.tag.get()) else {
        return Err(BadTag("an unknown tag"));
    };
    let length = usize::from(header.length.get());
    let value = rest.get(..length).ok_or(cut)?;
    let record =
        decode(tag_type, value).ok_or(BadTag("the value of a tag has an invalid length"))?;
    Ok(Tag {
        bytes: &bytes[..size_of::<TagHeader>() + length],
        record,
    })
}

fn decode(tag_type: TagType, value: &[u8]) -> Option<Record<'_>> {
    Some(match tag_type {
        TagType::Head => Record::Head(Head::read_from_bytes(value).ok()?),
        TagType::AddRange => Record::AddRange(AddRange::read_from_bytes(value).ok()?),
        TagType::DelRange => Record::DelRange(DelRange::read_from_bytes(value).ok()?),
        TagType::Create | TagType::Link | TagType::Unlink => {
            let (entry, name) = EntryHeader::read_from_prefix(value).ok()?;
            if !(1..=NAME_MAX).contains(&name.len()) {
                return None;
            }
            match tag_type {
                TagType::Create => Record::Create(entry, name),
                TagType::Link => Record::Link(entry, name),
                _ => Record::Unlink(entry, name),
            }
        }
        TagType::Inode => {
            let (header, bytes) = InodeHeader::read_from_prefix(value).ok()?;
            if bytes.len() < BASE_SIZE {
                return None;
            }
            Record::Inode(header, bytes)
        }
        TagType::Pad => Record::Pad,
        TagType::Tail => Record::Tail(Tail::read_from_prefix(value).ok()?.0),
    })
}

/// Returns the bytes of a tag whose value has two parts.
///
/// # Panics
/// Panics if the value has 64 KiB or more.
pub fn encode(tag_type: TagType, fields: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fields.len() + rest.len()).expect("a tag lies within a block");
    [TagHeader::new(tag_type, length).as_bytes(), fields, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(tag_type: TagType, value: &[u8]) -> Vec<u8> {
        encode(tag_type, value, &[])
    }

    #[test]
    fn tags_follow_each_other() {
        let name = [&[2, 0, 0, 0, 12, 0, 0, 0][..], b"letter"].concat();
        let block = [
            tag(TagType::Head, &[0, 0, 0, 0, 7, 0, 0, 0]),
            tag(TagType::Link, &name),
            tag(TagType::Pad, &[]),
            tag(TagType::Tail, &[7; 100]),
            vec![0; 3],
        ]
        .concat();
        let found: Vec<_> = tags(&block).map(Result::unwrap).collect();
        assert_eq!(found.len(), 4);
        assert!(matches!(found[0].record, Record::Head(head) if head.tid.get() == 7));
        assert!(
            matches!(found[1].record, Record::Link(entry, b"letter") if entry.inode.get() == 12)
        );
        assert!(matches!(found[3].record, Record::Tail(tail) if tail.tid.get() == 0x0707_0707));
        assert_eq!(found[3].bytes.len(), 104);
    }

    #[test]
    fn bad_tags_are_named() {
        let why = |bytes: &[u8]| tags(bytes).last().unwrap().unwrap_err().0;
        assert!(why(&[0; 16]).contains("unknown"));
        assert!(why(&[10, 0, 0, 0]).contains("unknown"));
        assert!(why(&[7, 0, 1, 0]).contains("beyond"));
        for (tag_type, length) in [
            (TagType::Head, 12),
            (TagType::AddRange, 15),
            (TagType::DelRange, 13),
            (TagType::Create, 8),
            (TagType::Link, 8 + 256),
            (TagType::Unlink, 4),
            (TagType::Inode, 4 + BASE_SIZE - 1),
            (TagType::Tail, 7),
        ] {
            assert!(why(&tag(tag_type, &vec![1; length])).contains("length"));
        }
    }

    #[test]
    fn types_are_known_by_their_numbers() {
        for raw in 0..=u16::MAX {
            assert!(TagType::from_raw(raw).is_none_or(|tag_type| tag_type.raw() == raw));
        }
    }
}
