//! The journal's superblock, validated: the kind of the log, its start and its end.
//!
//! | field | rule |
//! |---|---|
//! | magic, type | version 1 (no features) or 2 |
//! | `s_blocksize` | that of the file system |
//! | `s_maxlen` | no more than is mapped, at least 16 |
//! | `s_first` | within the log, not 0 |
//! | `s_start` | 0 (empty), or within the log, before the area of fast commits |
//! | `s_nr_users` | cleared if too large without features: version 1 lacks the field |
//! | features | unknown ones are refused by name; at most one checksum version |
//! | `s_checksum` | matches, with checksums v2 and v3 |
//!
//! The raw structure is kept, so that unknown fields survive.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`, "Super Block".

mod fast_commits;
mod features;
mod io;

use layout::journal::{
    self, BlockType, ChecksumType, Header, JournalCompatible, JournalIncompatible,
    JournalSuperblock,
};
use layout::tag::TagFormat;
use layout::{Block, Tid, checksum};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::error::{Corrupt, Error, Result};

/// The shortest log that is used, in blocks.
pub const BLOCKS_MIN: u32 = 16;
/// `s_errno` of a journal that aborted because of a device.
const ERRNO_IO: u32 = (-5i32).cast_unsigned();

/// The protection of a log's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Checksums {
    /// No checksums: a commit block is trusted.
    #[default]
    None,
    /// A crc32 of the transaction in its commit block.
    V1,
    /// A crc32c of each block, 16 bits of it in its tag.
    V2,
    /// A crc32c of each block, in its tag.
    V3,
}

impl Checksums {
    /// Returns true if descriptor, revoke and commit blocks carry a crc32c of themselves.
    pub(crate) fn cover_each_block(self) -> bool {
        matches!(self, Self::V2 | Self::V3)
    }
}

/// The properties of a log that are constant while it is used: how its blocks are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogFormat {
    /// Size of a block in bytes.
    pub(crate) block_bytes: u32,
    /// The form of tags and revoke records.
    pub(crate) tags: TagFormat,
    /// The protection of blocks.
    pub(crate) checksums: Checksums,
    /// The initial value of all v2 and v3 checksums.
    pub(crate) seed: u32,
    /// The UUID in the first tag of a descriptor block.
    pub(crate) uuid: [u8; 16],
    /// True if commit blocks may have been written together with the blocks that they commit.
    pub(crate) is_async: bool,
}

/// A journal's superblock.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    raw: JournalSuperblock,
    checksums: Checksums,
}

impl Superblock {
    /// Decodes the superblock of a log of which `mapped` blocks are mapped.
    ///
    /// # Errors
    /// - [`Error::Corrupt`] and [`Error::Unsupported`], by the table above.
    pub(crate) fn decode(block: &[u8], block_bytes: u32, mapped: u64) -> Result<Self> {
        let (mut raw, _) =
            JournalSuperblock::read_from_prefix(block).map_err(|_| Corrupt::NoSuperblock)?;
        let version = raw.version().ok_or(Corrupt::NoSuperblock)?;
        if version == 2 && has_leftovers(&raw) {
            clear_after_version_1(&mut raw);
            raw.user_count = 1.into();
        }
        let checksums = if version == 2 {
            check_features(&raw)?
        } else {
            Checksums::None
        };
        let field = |field, value: u32, why| {
            Error::from(Corrupt::SuperblockField {
                field,
                value: value.into(),
                why,
            })
        };
        if raw.block_size.get() != block_bytes {
            return Err(field(
                "block size",
                raw.block_size.get(),
                "the file system has another one",
            ));
        }
        let length = raw.length.get();
        if u64::from(length) > mapped {
            return Err(Corrupt::Unmapped {
                mapped,
                wanted: length.into(),
            }
            .into());
        }
        let (first, start) = (raw.first_block.get(), raw.start.get());
        if first == 0 || first >= length {
            return Err(field("first block", first, "it lies outside the log"));
        }
        if length - first < BLOCKS_MIN {
            return Err(Error::TooSmall {
                blocks: length,
                least: BLOCKS_MIN + first,
            });
        }
        let superblock = Self { raw, checksums };
        if start != 0 && !(first..superblock.log_end()).contains(&start) {
            return Err(field("start", start, "it lies outside the log"));
        }
        Ok(superblock)
    }

    /// Creates the superblock of a new, empty log of version 2.
    pub(crate) fn new(block_bytes: u32, length: u32, first: u32, uuid: [u8; 16]) -> Self {
        let mut raw = JournalSuperblock::new_zeroed();
        raw.header = Header::new(BlockType::SuperblockV2, 0);
        raw.block_size = block_bytes.into();
        raw.length = length.into();
        raw.first_block = first.into();
        raw.sequence = 1.into();
        raw.uuid = uuid;
        raw.user_count = 1.into();
        Self {
            raw,
            checksums: Checksums::None,
        }
    }

    /// Converts it to version 1, which has no features and no UUID.
    pub(crate) fn set_version_1(&mut self) {
        let sequence = self.raw.header.sequence.get();
        self.raw.header = Header::new(BlockType::SuperblockV1, sequence);
        clear_after_version_1(&mut self.raw);
    }

    /// Sets features of a new log of version 2.
    pub(crate) fn set_features(&mut self, revoke: bool, is_64bit: bool, checksums: Checksums) {
        let mut incompatible = JournalIncompatible::empty();
        incompatible.set(JournalIncompatible::REVOKE, revoke);
        incompatible.set(JournalIncompatible::IS_64BIT, is_64bit);
        incompatible.set(JournalIncompatible::CHECKSUM_V2, checksums == Checksums::V2);
        incompatible.set(JournalIncompatible::CHECKSUM_V3, checksums == Checksums::V3);
        let mut compatible = JournalCompatible::empty();
        compatible.set(JournalCompatible::CHECKSUM, checksums == Checksums::V1);
        self.raw.incompatible_bits = incompatible.bits().into();
        self.raw.compatible_bits = compatible.bits().into();
        self.raw.checksum_type = if checksums.cover_each_block() {
            ChecksumType::Crc32c.raw()
        } else {
            0
        };
        self.checksums = checksums;
    }

    /// Returns the block to be written, with its checksum.
    pub(crate) fn encode(&self) -> Block {
        let mut raw = self.raw;
        if self.checksums.cover_each_block() && !rt::mutant!("checksums/log-not-sealed") {
            raw.checksum = checksum::journal_superblock(&raw).into();
        }
        let size = usize::try_from(self.raw.block_size.get()).expect("a block fits into memory");
        let mut block = Block::zeroed(size);
        block[..journal::SUPERBLOCK_SIZE].copy_from_slice(raw.as_bytes());
        block
    }

    /// Returns the format in which blocks are written and read.
    pub(crate) fn format(&self) -> LogFormat {
        LogFormat {
            block_bytes: self.raw.block_size.get(),
            tags: TagFormat::from_features(self.raw.incompatible()),
            checksums: self.checksums,
            seed: checksum::journal_seed(&self.raw.uuid),
            uuid: self.raw.uuid,
            is_async: self
                .raw
                .incompatible()
                .contains(JournalIncompatible::ASYNC_COMMIT),
        }
    }

    /// Returns the version: 1 or 2.
    pub(crate) fn version(&self) -> u8 {
        self.raw.version().expect("it was checked when decoded")
    }

    /// Returns the names of its features, as e2fsprogs prints them.
    pub(crate) fn feature_names(&self) -> Vec<&'static str> {
        let (compatible, incompatible) = (self.raw.compatible(), self.raw.incompatible());
        let compatible = journal::COMPATIBLE_NAMES
            .iter()
            .filter(|(bit, _)| compatible.contains(*bit));
        let incompatible = journal::INCOMPATIBLE_NAMES
            .iter()
            .filter(|(bit, _)| incompatible.contains(*bit));
        compatible
            .map(|(_, name)| *name)
            .chain(incompatible.map(|(_, name)| *name))
            .collect()
    }

    /// Returns the number of blocks of the journal, the superblock included.
    pub(crate) fn length(&self) -> u32 {
        self.raw.length.get()
    }

    /// Returns the first block after the superblock.
    pub(crate) fn first(&self) -> u32 {
        self.raw.first_block.get()
    }

    /// Returns the first block of the oldest transaction that may have to be replayed; none if the
    /// log is empty.
    pub(crate) fn start(&self) -> Option<u32> {
        Some(self.raw.start.get()).filter(|start| *start != 0)
    }

    /// Returns the number of that transaction.
    pub(crate) fn sequence(&self) -> Tid {
        Tid::new(self.raw.sequence.get())
    }

    /// Returns the journal's UUID.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.raw.uuid
    }

    /// Returns the error that an aborted journal has recorded (a negative errno).
    pub(crate) fn noted_error(&self) -> Option<i32> {
        Some(self.raw.error.get().cast_signed()).filter(|error| *error != 0)
    }

    /// Sets the first block of the log; `None` for an empty log. A log that is or was empty has no
    /// fast commits.
    pub(crate) fn set_tail(&mut self, start: Option<u32>, sequence: Tid) {
        if start.is_none() || self.start().is_none() {
            self.forget_fast_commits();
        }
        self.raw.start = start.unwrap_or(0).into();
        self.raw.sequence = sequence.get().into();
    }

    /// Records that the journal has aborted, or clears that record.
    pub(crate) fn set_error(&mut self, has_error: bool) {
        self.raw.error = if has_error { ERRNO_IO } else { 0 }.into();
    }

    /// Returns true if there may be revoke blocks.
    pub(crate) fn has_revoke(&self) -> bool {
        self.raw
            .incompatible()
            .contains(JournalIncompatible::REVOKE)
    }

    /// Allows revoke blocks; a log of version 1 becomes one of version 2.
    pub(crate) fn enable_revoke(&mut self) {
        self.set_version_2();
        let features = self.raw.incompatible() | JournalIncompatible::REVOKE;
        self.raw.incompatible_bits = features.bits().into();
    }

    fn set_version_2(&mut self) {
        if self.version() == 1 {
            let sequence = self.raw.header.sequence.get();
            self.raw.header = Header::new(BlockType::SuperblockV2, sequence);
            clear_after_version_1(&mut self.raw);
            self.raw.user_count = 1.into();
        }
    }

    /// Returns the UUIDs of the file systems that use the journal.
    pub(crate) fn users(&self) -> &[[u8; 16]] {
        let count = usize::try_from(self.raw.user_count.get()).unwrap_or(usize::MAX);
        &self.raw.users[..count.min(journal::USERS_MAX)]
    }

    /// Returns the number of users by the superblock.
    pub(crate) fn user_count(&self) -> u32 {
        self.raw.user_count.get()
    }

    /// Returns the place of the UUID of a file system that is announced as the next user.
    pub(crate) fn announced(&mut self) -> &mut [u8; 16] {
        let [.., last] = &mut self.raw.users;
        last
    }

    /// Sets the users, of which none is announced.
    pub(crate) fn set_users(&mut self, users: &[[u8; 16]]) {
        self.raw.users = [[0; 16]; journal::USERS_MAX];
        self.raw.users[..users.len()].copy_from_slice(users);
        self.raw.user_count = u32::try_from(users.len()).expect("at most 48").into();
    }
}

/// Returns true if the fields that version 1 does not have were not cleared when the log became one
/// of version 2.
fn has_leftovers(raw: &JournalSuperblock) -> bool {
    let features = [
        raw.compatible_bits,
        raw.incompatible_bits,
        raw.read_only_compatible_bits,
    ];
    raw.user_count.get() as usize > journal::USERS_MAX
        && features.iter().all(|word| word.get() == 0)
}

/// Clears the fields that version 1 does not have.
fn clear_after_version_1(raw: &mut JournalSuperblock) {
    let end = core::mem::offset_of!(JournalSuperblock, compatible_bits);
    raw.as_mut_bytes()[end..].fill(0);
}

/// Refuses unknown features, and verifies the checksum.
fn check_features(raw: &JournalSuperblock) -> Result<Checksums> {
    let (compatible, incompatible) = (raw.compatible(), raw.incompatible());
    let unknown = incompatible.difference(JournalIncompatible::all()).bits();
    if unknown != 0 {
        return Err(Error::Unsupported(format!(
            "incompatible features {unknown:#x}"
        )));
    }
    if raw.read_only_compatible_bits.get() != 0 {
        let bits = raw.read_only_compatible_bits.get();
        return Err(Error::Unsupported(format!(
            "read-only compatible features {bits:#x}"
        )));
    }
    let versions = [
        (
            compatible.contains(JournalCompatible::CHECKSUM),
            Checksums::V1,
        ),
        (
            incompatible.contains(JournalIncompatible::CHECKSUM_V2),
            Checksums::V2,
        ),
        (
            incompatible.contains(JournalIncompatible::CHECKSUM_V3),
            Checksums::V3,
        ),
    ];
    let mut used = versions
        .iter()
        .filter(|(is_used, _)| *is_used)
        .map(|(_, version)| *version);
    let checksums = used.next().unwrap_or(Checksums::None);
    if used.next().is_some() {
        return Err(Error::Unsupported(
            "checksums of two versions at once".to_owned(),
        ));
    }
    if checksums.cover_each_block() {
        if ChecksumType::from_raw(raw.checksum_type) != Some(ChecksumType::Crc32c) {
            let kind = raw.checksum_type;
            return Err(Error::Unsupported(format!("checksums of type {kind}")));
        }
        let (stored, computed) = (raw.checksum.get(), checksum::journal_superblock(raw));
        if stored != computed {
            return Err(Corrupt::SuperblockChecksum { stored, computed }.into());
        }
    }
    Ok(checksums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(checksums: Checksums) -> Superblock {
        let mut superblock = Superblock::new(1024, 100, 1, [7; 16]);
        superblock.set_features(true, true, checksums);
        superblock.set_tail(Some(5), Tid::new(0xFFFF_FFF0));
        superblock
    }

    fn decode(block: &[u8]) -> Result<Superblock> {
        Superblock::decode(block, 1024, 100)
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
            let block = sample(checksums).encode();
            let read = decode(&block).unwrap();
            assert_eq!(read.format(), sample(checksums).format());
            assert_eq!(read.format().checksums, checksums);
            assert_eq!(
                (read.start(), read.sequence()),
                (Some(5), Tid::new(0xFFFF_FFF0))
            );
            assert_eq!((read.first(), read.length(), read.version()), (1, 100, 2));
            assert!(read.has_revoke());
        }
    }

    #[test]
    fn version_1_has_no_features_until_it_revokes() {
        let mut superblock = sample(Checksums::None);
        superblock.set_version_1();
        let mut read = decode(&superblock.encode()).unwrap();
        assert_eq!((read.version(), read.has_revoke()), (1, false));
        read.enable_revoke();
        let read = decode(&read.encode()).unwrap();
        assert_eq!((read.version(), read.has_revoke()), (2, true));
        assert_eq!(read.sequence(), Tid::new(0xFFFF_FFF0));
    }

    #[test]
    fn leftovers_of_version_1_are_cleared() {
        let mut superblock = sample(Checksums::None);
        superblock.set_version_1();
        let mut block = superblock.encode();
        block[4..8].copy_from_slice(&4u32.to_be_bytes());
        block[0x30..0x400].fill(0xF9);
        let read = decode(&block).unwrap();
        assert_eq!((read.version(), read.user_count()), (2, 1));
        assert_eq!((read.uuid(), read.users()), ([0; 16], &[[0; 16]][..]));
        // With features, it is a log of version 2 that was damaged.
        block[0x28..0x2C].copy_from_slice(&1u32.to_be_bytes());
        assert!(decode(&block).unwrap().user_count() > 1);
    }

    #[test]
    fn impossible_fields_are_named() {
        for (offset, value, field) in [
            (0x0C, 2048u32, "block size"),
            (0x14, 0, "first block"),
            (0x1C, 100, "start"),
        ] {
            let mut block = sample(Checksums::None).encode();
            block[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
            match decode(&block) {
                Err(Error::Corrupt(Corrupt::SuperblockField { field: found, .. })) => {
                    assert_eq!(found, field);
                }
                other => panic!("{field}: {other:?}"),
            }
        }
        let short = sample(Checksums::None).encode();
        let result = Superblock::decode(&short, 1024, 99).map(drop);
        assert_eq!(
            result,
            Err(Corrupt::Unmapped {
                mapped: 99,
                wanted: 100
            }
            .into())
        );
        assert_eq!(
            decode(&[0; 1024]).map(drop),
            Err(Corrupt::NoSuperblock.into())
        );
    }

    #[test]
    fn features_are_refused_by_name() {
        for (offset, bits, name) in [
            (0x28, 0x40u32, "incompatible features 0x40"),
            (0x2C, 0x1, "read-only compatible features 0x1"),
            (0x28, 0x18, "checksums of two versions at once"),
        ] {
            let mut block = sample(Checksums::None).encode();
            block[offset..offset + 4].copy_from_slice(&bits.to_be_bytes());
            assert_eq!(
                decode(&block).map(drop),
                Err(Error::Unsupported(name.to_owned()))
            );
        }
    }

    #[test]
    fn fast_commits_have_the_end_of_a_journal() {
        let fails = |mutant| {
            let config = sim::Config {
                mutant,
                ..sim::Config::fair(1)
            };
            sim::run(config, look_at_areas).is_err()
        };
        assert!(!fails(None));
        if rt::mutant::IS_POSSIBLE {
            assert!(fails(Some("fast-commit/default-area-ignored")));
            assert!(fails(Some("fast-commit/area-of-empty-log-kept")));
        }
    }

    fn look_at_areas() {
        let mut superblock = Superblock::new(1024, 2000, 1, [7; 16]);
        let feature = JournalIncompatible::FAST_COMMIT.bits();
        let has = |superblock: &Superblock| superblock.raw.incompatible_bits.get() == feature;
        superblock.raw.start = 5.into();
        assert_eq!(superblock.fast_commit_area(), None);
        superblock.raw.incompatible_bits = feature.into();
        for (stored, end, area) in [
            (0, 2000 - 256, Some(1745..2000)),
            (64, 1936, Some(1937..2000)),
            (1, 1999, Some(2000..2000)),
            (976, 1024, Some(1025..2000)),
            (977, 2000, None),
            (2001, 2000, None),
        ] {
            superblock.raw.fast_commit_blocks = stored.into();
            assert_eq!(
                (superblock.log_end(), superblock.fast_commit_area()),
                (end, area)
            );
        }
        // The log keeps them until it is empty.
        superblock.set_tail(Some(6), Tid::new(3));
        assert!(has(&superblock));
        superblock.set_tail(None, Tid::new(3));
        assert!(!has(&superblock));
        superblock.raw.incompatible_bits = feature.into();
        superblock.set_tail(Some(6), Tid::new(3));
        assert!(!has(&superblock));
    }

    #[test]
    fn a_log_starts_before_the_fast_commits() {
        let mut superblock = Superblock::new(1024, 2000, 1, [7; 16]);
        superblock.raw.incompatible_bits = JournalIncompatible::FAST_COMMIT.bits().into();
        superblock.raw.start = 1744.into();
        let result = Superblock::decode(&superblock.encode(), 1024, 2000).map(drop);
        assert!(matches!(
            result,
            Err(Error::Corrupt(Corrupt::SuperblockField {
                field: "start",
                ..
            }))
        ));
        superblock.raw.start = 1743.into();
        assert!(Superblock::decode(&superblock.encode(), 1024, 2000).is_ok());
    }

    #[test]
    fn a_wrong_checksum_is_found() {
        let mut block = sample(Checksums::V3).encode();
        block[0x18] ^= 1;
        let result = decode(&block).map(drop);
        assert!(matches!(
            result,
            Err(Error::Corrupt(Corrupt::SuperblockChecksum { .. }))
        ));
    }
}
