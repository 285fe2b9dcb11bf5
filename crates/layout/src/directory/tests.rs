//! Tests of directory blocks.

use super::*;

const INODES: u32 = 100;

fn used(offset: usize, record_length: usize, inode: u32, name: &[u8]) -> Entry<'_> {
    let inode = Some(InodeNr::new(inode));
    Entry {
        offset,
        record_length,
        inode,
        name,
        file_type: FileType::Regular,
    }
}

/// Returns a block of 1024 bytes with ".", ".." and a name of three bytes.
fn sample() -> Vec<u8> {
    let mut block = vec![0; 1024];
    write(&mut block, &used(0, 12, 2, b"."));
    write(&mut block, &used(12, 12, 2, b".."));
    write(&mut block, &used(24, 1000, 12, b"abc"));
    block
}

#[test]
fn entries_are_read_as_written() {
    let block = sample();
    let read: Vec<Entry<'_>> = entries(&block, INODES).map(Result::unwrap).collect();
    assert_eq!(
        read,
        [
            used(0, 12, 2, b"."),
            used(12, 12, 2, b".."),
            used(24, 1000, 12, b"abc")
        ]
    );
    assert_eq!(read[2].used_length(), 12);
    assert_eq!(read[2].spare_length(), 988);
}

#[test]
fn an_entry_is_split_and_joined() {
    let mut block = sample();
    set_record_length(&mut block, 24, 12);
    write(&mut block, &used(36, 988, 13, &[b'x'; 255]));
    assert_eq!(entries(&block, INODES).count(), 4);
    set_record_length(&mut block, 12, 24);
    clear_inode(&mut block, 36);
    let read: Vec<Entry<'_>> = entries(&block, INODES).map(Result::unwrap).collect();
    assert_eq!(read[1], used(12, 24, 2, b".."));
    assert_eq!(read[2].inode, None);
    assert_eq!(read[2].spare_length(), 988);
}

#[test]
fn padding_is_zero_and_the_rest_of_the_record_stays() {
    let mut block = vec![0xFF; 1024];
    write(&mut block, &used(0, 1024, 2, b"abcde"));
    assert_eq!(&block[8..16], b"abcde\0\0\0");
    assert!(block[16..].iter().all(|byte| *byte == 0xFF));
    write_empty(&mut block);
    assert!(block.iter().skip(6).all(|byte| *byte == 0));
    assert_eq!(
        entries(&block, INODES)
            .next()
            .unwrap()
            .unwrap()
            .spare_length(),
        1024
    );
}

#[test]
fn record_lengths() {
    let cases = [(0, 8), (1, 12), (4, 12), (5, 16), (255, 264)];
    for (name_length, length) in cases {
        assert_eq!(record_length(name_length), length);
    }
    for block_size in [1024, 4096, 32768, 65536] {
        let mut block = vec![0; block_size];
        write_empty(&mut block);
        let entry = entries(&block, INODES).next().unwrap().unwrap();
        assert_eq!(entry.record_length, block_size);
    }
    assert_eq!(decode_record_length(0, 65536), 65536);
    assert_eq!(decode_record_length(65535, 65536), 65536);
    assert_eq!(decode_record_length(65532, 65536), 65532);
    assert_eq!(decode_record_length(0, 4096), 0);
}

#[test]
fn valid_names() {
    assert!(is_valid_name(b"a"));
    assert!(is_valid_name(&[0xFF; 255]));
    for name in [&b""[..], b"a/b", b"a\0", &[b'x'; 256]] {
        assert!(!is_valid_name(name), "{name:?}");
    }
}

/// Checks the fault that results from changing one field of the third entry of [`sample`].
fn check_fault(at: usize, bytes: &[u8], fault: EntryFault) {
    let mut block = sample();
    block[24 + at..24 + at + bytes.len()].copy_from_slice(bytes);
    let mut read = entries(&block, INODES);
    assert!(read.next().unwrap().is_ok());
    assert!(read.next().unwrap().is_ok());
    assert_eq!(read.next().unwrap(), Err(EntryError { offset: 24, fault }));
    assert_eq!(read.next(), None);
}

#[test]
fn every_fault_is_named() {
    let length = |length: u16| length.to_le_bytes();
    check_fault(
        4,
        &length(998),
        EntryFault::Unaligned { record_length: 998 },
    );
    check_fault(4, &length(0), EntryFault::TooShort { record_length: 0 });
    check_fault(4, &length(8), EntryFault::TooShort { record_length: 8 });
    check_fault(
        4,
        &length(1004),
        EntryFault::Overrun {
            record_length: 1004,
            left: 1000,
        },
    );
    check_fault(
        4,
        &length(992),
        EntryFault::Gap {
            record_length: 992,
            left: 8,
        },
    );
    check_fault(
        4,
        &[12, 0, 5],
        EntryFault::NameTooLong {
            record_length: 12,
            name_length: 5,
        },
    );
    check_fault(6, &[0], EntryFault::EmptyName);
    let inode = EntryFault::InodeOutOfRange {
        inode: 101,
        inode_count: INODES,
    };
    check_fault(0, &[101], inode);
    assert_eq!(
        EntryError {
            offset: 24,
            fault: inode
        }
        .to_string(),
        "directory entry at byte 24 of its block: its inode 101 does not exist: the last one is 100"
    );
}

#[test]
fn no_bytes_make_it_panic() {
    let mut word = 1u32;
    for _ in 0..20_000 {
        let block: Vec<u8> = (0..64)
            .map(|_| {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Small numbers are more likely to be almost valid.
                if word >> 31 == 0 {
                    (word >> 24) as u8 & 12
                } else {
                    (word >> 24) as u8
                }
            })
            .collect();
        let covered: usize = entries(&block, INODES)
            .flatten()
            .map(|entry| entry.record_length)
            .sum();
        assert!(covered <= block.len());
    }
    for length in 0..12 {
        assert!(entries(&vec![0; length], INODES).all(|entry| entry.is_err()));
    }
    assert!(entry_at(&[0; 16], INODES, 99).is_err());
}
