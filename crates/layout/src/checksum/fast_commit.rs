//! The checksums of fast commits.

use core::mem::offset_of;

use zerocopy::FromBytes;

use super::crc32c;
use crate::fast_commit::{Head, TagHeader, TagType, Tail, tags};

/// Returns the `fc_crc` of a fast commit up to a tag, header and value: crc32c from 0 over all its
/// tags. Of the last one, the tail, the header and `fc_tid` are covered.
pub fn tag(before: u32, tag: &[u8], is_tail: bool) -> u32 {
    const COVERED: usize = size_of::<TagHeader>() + offset_of!(Tail, checksum);
    let covered = if is_tail { &tag[..COVERED] } else { tag };
    crc32c(before, covered)
}

/// Gives the heads and tails of a block the number of a transaction, and its tails their
/// checksums. `before` is the checksum of the fast commit up to the block; returns that up to its
/// end.
pub fn seal(block: &mut [u8], tid: u32, before: u32) -> u32 {
    let (mut at, mut crc) = (0, before);
    let found: Vec<(TagType, usize)> = tags(block)
        .map_while(Result::ok)
        .filter_map(|tag| {
            let (header, _) = TagHeader::read_from_prefix(tag.bytes).ok()?;
            Some((TagType::from_raw(header.tag.get())?, tag.bytes.len()))
        })
        .collect();
    for (tag_type, length) in found {
        let tag = &mut block[at..at + length];
        let is_tail = tag_type == TagType::Tail;
        let value = &mut tag[size_of::<TagHeader>()..];
        if tag_type == TagType::Head {
            let (head, _) = Head::mut_from_prefix(value).expect("its length was checked");
            head.tid.set(tid);
        } else if is_tail {
            let (tail, _) = Tail::mut_from_prefix(value).expect("its length was checked");
            tail.tid.set(tid);
        }
        crc = self::tag(crc, tag, is_tail);
        if is_tail {
            let value = &mut tag[size_of::<TagHeader>()..];
            let (tail, _) = Tail::mut_from_prefix(value).expect("its length was checked");
            tail.checksum.set(core::mem::take(&mut crc));
        }
        at += length;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast_commit::{Record, encode};

    #[test]
    fn sealed_blocks_have_their_checksums() {
        let tail = encode(TagType::Tail, &[9; 20], &[]);
        let mut block = [encode(TagType::Head, &[0; 8], &[]), tail.clone(), tail].concat();
        assert_eq!(seal(&mut block, 77, 0), 0);
        let found: Vec<_> = tags(&block).map(Result::unwrap).collect();
        let mut crc = 0;
        for tag in &found {
            let is_tail = matches!(tag.record, Record::Tail(_));
            crc = super::tag(crc, tag.bytes, is_tail);
            match tag.record {
                Record::Head(head) => assert_eq!(head.tid.get(), 77),
                Record::Tail(tail) => {
                    assert_eq!((tail.tid.get(), tail.checksum.get()), (77, crc));
                    crc = 0;
                }
                _ => unreachable!("there are no others"),
            }
        }
        assert_eq!(found.len(), 3);
    }
}
