//! Areas of fast commits with tags of every kind, torn and damaged.

use block::BlockDevice;
use block::memory::MemoryDevice;
use layout::BlockNr;
use layout::checksum::fast_commit::seal;
use layout::fast_commit::{Head, TagType, encode};
use layout::journal::JournalIncompatible;
use zerocopy::IntoBytes;

use super::*;
use crate::format::{Features, LogOptions, superblock};
use crate::location::LogExtent;

const BLOCK: usize = 1024;
const TID: u32 = 0xFFFF_FFFF;
/// Number of blocks of the journal, and of its part for fast commits.
const BLOCKS: u32 = 1040;
const AREA: u32 = 8;
/// The first block of the area.
const FIRST: u32 = BLOCKS - AREA + 1;

fn head(features: u32, tid: u32) -> Vec<u8> {
    let head = Head {
        features: features.into(),
        tid: tid.into(),
    };
    encode(TagType::Head, head.as_bytes(), &[])
}

/// Returns a name of a file: a tag of 4 + 8 + 250 bytes.
fn link(number: u32) -> Vec<u8> {
    let mut value = [number.to_le_bytes(), 2u32.to_le_bytes()].concat();
    value.resize(258, b'n');
    encode(TagType::Link, &value, &[])
}

/// Lays out a fast commit: tags, padding at the end of each block, a tail.
fn commit(tags: &[Vec<u8>], tid: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tag in tags {
        let left = BLOCK - bytes.len() % BLOCK;
        if left < tag.len() + 16 {
            bytes.extend(encode(TagType::Pad, &vec![0; left - 4], &[]));
        }
        bytes.extend(tag);
    }
    let left = BLOCK - bytes.len() % BLOCK;
    bytes.extend(encode(TagType::Tail, &vec![0xEE; left - 4], &[]));
    let mut crc = 0;
    for block in bytes.chunks_mut(BLOCK) {
        crc = seal(block, tid, crc);
    }
    bytes
}

/// Scans an area.
fn scan(area: &[u8]) -> Result<FastCommits> {
    let device: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(u64::from(BLOCKS) * BLOCK as u64));
    let options = LogOptions {
        features: Features {
            revoke: true,
            ..Features::default()
        },
        ..LogOptions::default()
    };
    let mut bytes = superblock(BLOCK as u32, BLOCKS, &options).unwrap();
    bytes[0x1C..0x20].copy_from_slice(&1u32.to_be_bytes());
    let feature = JournalIncompatible::FAST_COMMIT.bits();
    bytes[0x28..0x2C].copy_from_slice(&feature.to_be_bytes());
    bytes[0x54..0x58].copy_from_slice(&AREA.to_be_bytes());
    let log = Location {
        device: Arc::clone(&device),
        block_bytes: BLOCK as u32,
        extents: vec![LogExtent {
            first: BlockNr::new(0),
            count: BLOCKS,
        }],
    };
    device.write_blocks(0, vec![bytes.into_arc()]).unwrap();
    for (number, block) in (FIRST..).zip(area.chunks(BLOCK)) {
        let mut whole = Block::zeroed(BLOCK);
        whole[..block.len()].copy_from_slice(block);
        let at = u64::from(number) * BLOCK as u64;
        device.write_blocks(at, vec![whole.into_arc()]).unwrap();
    }
    let superblock = Superblock::load(&log).unwrap();
    let found = FastCommits::find(&log, &superblock, Tid::new(TID))?;
    Ok(found.expect("the journal has an area"))
}

/// Two fast commits: one of a block, one of three.
fn two() -> Vec<u8> {
    let first = commit(&[head(0, TID), link(1), link(2)], TID);
    let tags: Vec<_> = (3..10).map(link).collect();
    let second = commit(&tags, TID);
    assert_eq!((first.len(), second.len()), (BLOCK, 3 * BLOCK));
    [first, second].concat()
}

fn names(found: &FastCommits) -> Vec<u32> {
    let tags = found.tags().filter_map(|(_, tag)| match tag.record {
        Record::Link(entry, _) => Some(entry.parent.get()),
        _ => None,
    });
    tags.collect()
}

#[test]
fn fast_commits_end_with_their_last_tail() {
    let found = scan(&two()).unwrap();
    assert_eq!((found.count, found.first), (2, FIRST));
    assert_eq!(names(&found), (1..10).collect::<Vec<_>>());
    assert_eq!(found.end, (FIRST + 4, "an unknown tag"));
    let places: Vec<u32> = found.tags().map(|(at, _)| at).collect();
    assert!(places.is_sorted() && places.last() == Some(&(FIRST + 3)));
}

#[test]
fn the_area_may_be_full() {
    let mut area = commit(&[head(0, TID), link(0)], TID);
    for number in 1..AREA - 1 {
        area.extend(commit(&[link(number)], TID));
    }
    let found = scan(&area).unwrap();
    assert_eq!(found.count, AREA - 1);
    assert_eq!(found.end, (BLOCKS, "the area ends"));
}

#[test]
fn older_fast_commits_are_none() {
    let found = scan(&commit(&[head(0, TID - 1), link(1)], TID - 1)).unwrap();
    assert!(found.is_empty() && found.end.1.contains("head of another"));
    let first = commit(&[head(0, TID), link(1)], TID);
    let older = commit(&[link(2)], TID - 1);
    let found = scan(&[first, older].concat()).unwrap();
    assert_eq!(names(&found), [1]);
    assert!(found.end.1.contains("tail of another"));
}

#[test]
fn unknown_features_are_refused_once_they_are_certain() {
    let area = commit(&[head(4, TID), link(1)], TID);
    let error = scan(&area).map(drop).unwrap_err();
    assert_eq!(
        error,
        Error::Unsupported("fast commits with features 0x4".into())
    );
    let mut torn = area;
    torn[20] ^= 1;
    assert!(scan(&torn).unwrap().is_empty());
    assert!(scan(&commit(&[head(4, TID - 1), link(1)], TID - 1)).is_ok());
}

/// Every prefix of the area, by bytes: the fast commits that are complete in it.
#[test]
fn a_torn_fast_commit_is_dropped() {
    let whole = two();
    let tail_at = |end: usize| {
        let block = &whole[end - BLOCK..end];
        let tags = tags(block).map(Result::unwrap);
        let before: usize = tags
            .take_while(|tag| !matches!(tag.record, Record::Tail(_)))
            .map(|tag| tag.bytes.len())
            .sum();
        end - BLOCK + before
    };
    for length in (0..whole.len()).step_by(13) {
        let mut area = whole.clone();
        area[length..].fill(0);
        let found = scan(&area).unwrap();
        // What follows header, number and checksum of a tail does not count.
        let complete = [BLOCK, whole.len()].map(|end| length >= tail_at(end) + 12);
        let expected = complete
            .into_iter()
            .filter(|is_complete| *is_complete)
            .count();
        assert_eq!(found.count as usize, expected, "{length} bytes");
    }
}

#[test]
fn every_byte_counts() {
    let whole = two();
    for at in 0..whole.len() {
        let mut area = whole.clone();
        area[at] ^= 0x10;
        let found = scan(&area).unwrap();
        let is_unused = found.count == 2;
        assert!(is_unused || found.count == u32::from(at >= BLOCK), "{at}");
        if is_unused {
            assert!(whole[at] == 0xEE, "byte {at} is of no tail's end");
        }
    }
}
