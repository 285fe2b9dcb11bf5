//! Logs written by debugfs: every form of tags and checksums is decoded, verified, and encoded to
//! the same bytes.

use layout::checksum;
use layout::inode::Inode;
use layout::journal::{
    BlockTail, BlockType, CommitBlock, Header, JournalCompatible, JournalIncompatible,
    JournalSuperblock, MAGIC_BYTES,
};
use layout::revoke;
use layout::tag::{Tag, TagChecksum, TagFlags, TagFormat};
use layout::{BlockNr, InodeNr};
use zerocopy::FromBytes;

use crate::image::{Image, Volume};

/// The logged blocks, from this one on; two of them are revoked in a second transaction.
const FIRST: u64 = 5000;
const COUNT: u64 = 60;
const REVOKED: [u64; 2] = [5001, 5007];
const BLOCK_SIZE: usize = 1024;
/// Index of the logged block that begins with the journal's magic.
const ESCAPED: u64 = 2;

/// A log written by debugfs, and the position of a reader in it.
struct Log {
    volume: Volume,
    inode: Inode,
    superblock: JournalSuperblock,
    contents: Vec<u8>,
}

impl Log {
    /// Writes two transactions with debugfs into the journal of a file system.
    fn write(options: &str, open: &str) -> Self {
        let image = Image::make(16, &format!("-b {BLOCK_SIZE} {options}"));
        let mut contents: Vec<u8> = (0..COUNT as usize * BLOCK_SIZE)
            .map(|i| (i / BLOCK_SIZE + i % 251) as u8)
            .collect();
        contents[ESCAPED as usize * BLOCK_SIZE..][..4].copy_from_slice(&MAGIC_BYTES);
        let file = image.file("contents", &contents);
        let last = FIRST + COUNT - 1;
        let [first, second] = REVOKED;
        image.debugfs(&format!(
            "{open}\njw -b {FIRST}-{last} {}\njw -r {first},{second}\njc\n",
            file.display()
        ));
        let volume = image.read();
        let inode = volume.inode(InodeNr::JOURNAL.get());
        let block = volume.file_block(&inode, 0);
        let (superblock, _) = JournalSuperblock::read_from_prefix(block).unwrap();
        Self {
            volume,
            inode,
            superblock,
            contents,
        }
    }

    fn block(&self, nr: u32) -> &[u8] {
        self.volume.file_block(&self.inode, nr.into())
    }

    /// Returns the contents that debugfs was given to log.
    fn contents(&self, index: u64) -> &[u8] {
        &self.contents[index as usize * BLOCK_SIZE..][..BLOCK_SIZE]
    }
}

fn check(options: &str, open: &str, is_64bit: bool, checksum: TagChecksum, has_v1: bool) {
    let log = Log::write(options, open);
    let journal = &log.superblock;
    assert!(journal.incompatible().contains(JournalIncompatible::REVOKE));
    assert_eq!(
        journal.compatible().contains(JournalCompatible::CHECKSUM),
        has_v1
    );
    let format = TagFormat::from_features(journal.incompatible());
    assert_eq!(format, TagFormat { is_64bit, checksum });
    if checksum != TagChecksum::None {
        assert_eq!(
            journal.checksum.get(),
            checksum::journal_superblock(journal)
        );
    }
    let seed = checksum::journal_seed(&journal.uuid);
    let (mut at, sequence) = (journal.start.get(), journal.sequence.get());
    let mut crc_v1 = checksum::START;

    let mut index = 0;
    while Header::recognise(log.block(at)) == Some((BlockType::Descriptor, sequence)) {
        let descriptor = log.block(at);
        check_tail(format, seed, descriptor);
        crc_v1 = checksum::crc32_be(crc_v1, descriptor);
        let mut tags = format.tags(descriptor);
        let read: Vec<Tag> = tags.by_ref().collect();
        assert!(tags.is_terminated());
        for tag in &read {
            at += 1;
            let logged = log.block(at);
            crc_v1 = checksum::crc32_be(crc_v1, logged);
            assert_eq!(tag.home, BlockNr::new(FIRST + index));
            let sum = checksum::tag(seed, sequence, logged);
            assert_eq!(tag.checksum, checksum.kept(sum), "tag {index}");
            check_logged(&log, index, *tag, logged);
            index += 1;
        }
        check_encoding(format, &read, descriptor, tags.offset());
        at += 1;
    }
    assert_eq!(index, COUNT);
    check_commit(
        format,
        seed,
        log.block(at),
        sequence,
        has_v1.then_some(crc_v1),
    );

    let revokes = log.block(at + 1);
    assert_eq!(
        Header::recognise(revokes),
        Some((BlockType::Revoke, sequence + 1))
    );
    check_tail(format, seed, revokes);
    let read: Vec<u64> = revoke::entries(format, revokes)
        .unwrap()
        .map(BlockNr::get)
        .collect();
    assert_eq!(read, REVOKED);
    check_commit(format, seed, log.block(at + 2), sequence + 1, None);
}

/// Asserts that a logged block has the expected contents, except its first four bytes if escaped.
fn check_logged(log: &Log, index: u64, tag: Tag, logged: &[u8]) {
    assert_eq!(tag.flags.contains(TagFlags::ESCAPE), index == ESCAPED);
    let wanted = log.contents(index);
    assert_eq!(logged[4..], wanted[4..]);
    if index == ESCAPED {
        assert_eq!(logged[..4], [0; 4]);
    } else {
        assert_eq!(logged[..4], wanted[..4]);
    }
}

/// Checks the tail of a descriptor or revoke block.
fn check_tail(format: TagFormat, seed: u32, block: &[u8]) {
    if format.tail_size() != 0 {
        let (_, tail) = BlockTail::ref_from_suffix(block).unwrap();
        assert_eq!(tail.checksum.get(), checksum::journal_block(seed, block));
    }
}

/// Asserts that the same tags, encoded again, give the same bytes. Unused bits are masked: debugfs
/// leaves stray bytes there, this crate writes zeroes.
fn check_encoding(format: TagFormat, tags: &[Tag], descriptor: &[u8], end: usize) {
    let lower_half = TagFlags::from_bits_retain(0xFFFF);
    let home = BlockNr::new(if format.is_64bit {
        u64::MAX
    } else {
        u32::MAX.into()
    });
    let every_bit = Tag {
        home,
        flags: lower_half,
        checksum: u32::MAX,
    };
    let (mut ours, mut theirs) = (vec![0; descriptor.len()], vec![0; descriptor.len()]);
    let mut at = size_of::<Header>();
    for tag in tags {
        let uuid_at = at + format.size(false);
        let uuid: &[u8; 16] = descriptor[uuid_at..][..16].try_into().unwrap();
        let size = format.encode(
            &Tag {
                flags: tag.flags & lower_half,
                ..*tag
            },
            Some(uuid),
            &mut ours[at..],
        );
        theirs[at..at + size].fill(0xFF);
        format.encode(&every_bit, None, &mut theirs[at..]);
        at += size;
    }
    assert_eq!(at, end);
    for (mask, byte) in theirs.iter_mut().zip(descriptor) {
        *mask &= *byte;
    }
    assert_eq!(ours, theirs);
}

fn check_commit(format: TagFormat, seed: u32, block: &[u8], sequence: u32, crc_v1: Option<u32>) {
    assert_eq!(
        Header::recognise(block),
        Some((BlockType::Commit, sequence))
    );
    let (commit, _) = CommitBlock::ref_from_prefix(block).unwrap();
    let stored = commit.checksums[0].get();
    if format.tail_size() != 0 {
        assert_eq!(stored, checksum::commit_block(seed, block));
    }
    if let Some(crc) = crc_v1 {
        assert_eq!(stored, crc, "checksum v1");
    }
}

#[test]
fn no_checksums() {
    check("-t ext3", "jo", false, TagChecksum::None, false);
    check(
        "-t ext4 -O 64bit,^metadata_csum",
        "jo",
        true,
        TagChecksum::None,
        false,
    );
}

#[test]
fn checksums_v1() {
    check("-t ext3", "jo -c", false, TagChecksum::None, true);
    check(
        "-t ext4 -O 64bit,^metadata_csum",
        "jo -c",
        true,
        TagChecksum::None,
        true,
    );
}

#[test]
fn checksums_v2() {
    check(
        "-t ext4 -O ^64bit,metadata_csum",
        "jo -c -v 2",
        false,
        TagChecksum::V2,
        false,
    );
    check(
        "-t ext4 -O 64bit,metadata_csum",
        "jo -c -v 2",
        true,
        TagChecksum::V2,
        false,
    );
}

#[test]
fn checksums_v3() {
    check(
        "-t ext4 -O ^64bit,metadata_csum",
        "jo -c -v 3",
        false,
        TagChecksum::V3,
        false,
    );
    check(
        "-t ext4 -O 64bit,metadata_csum",
        "jo -c -v 3",
        true,
        TagChecksum::V3,
        false,
    );
}
