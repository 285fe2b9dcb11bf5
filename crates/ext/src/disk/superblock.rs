//! The validated superblock: one `decode` checks everything, so that the rest of the crate reads
//! plain values.
//!
//! # Features
//!
//! [`layout::feature::table`] has the outcome of each: written, read-only, or refused by name.
//! An unknown compatible feature has no effect.
//!
//! Counts (free blocks, free inodes) are not trusted: the group descriptors have the exact ones.

mod device;
mod sizes;
mod state;

use layout::InodeNr;
use layout::feature::table::{FEATURES, Oracles, Outcome, with_outcome};
use layout::feature::{Compatible, Features, Incompatible, ReadOnlyCompatible, Word, word_names};
use layout::quota::QuotaKind;
use layout::superblock as disk;
use zerocopy::FromBytes;

pub(crate) use device::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, read, read_before_replay, write};
pub(crate) use state::{count_mount, split_time};

use crate::disk::checksums::Checksums;
use crate::disk::geometry::Geometry;
use crate::error::{Corrupt, Error, Result};

/// Size in bytes of the largest blocks that are written. Volumes with larger ones are only read.
pub const WRITTEN_BLOCK_BYTES_MAX: u32 = 4096;
/// The highest hash version: the three hashes, each with signed and with unsigned bytes.
const HASH_VERSION_MAX: u8 = 5;
/// Offset of the hash versions that treat the bytes of names as unsigned.
const HASH_UNSIGNED: u8 = 3;
/// The supported incompatible features.
const INCOMPATIBLE: u32 = with_outcome(Word::Incompatible, Outcome::Written);
/// The supported read-only compatible features.
const READ_ONLY_COMPATIBLE: u32 = with_outcome(Word::ReadOnlyCompatible, Outcome::Written);
/// The read-only compatible features that change more than writing.
const REFUSED: u32 = with_outcome(Word::ReadOnlyCompatible, Outcome::Refused);

/// A validated superblock.
#[derive(Debug, Clone)]
pub struct Superblock {
    /// Sizes and places.
    pub geometry: Geometry,
    /// The on-disk form, for the fields that are only passed on.
    pub raw: disk::Superblock,
    /// The inode of the internal journal, if there is one.
    pub journal_inode: Option<InodeNr>,
    /// The UUID of the external journal, if there is one.
    pub journal_uuid: Option<[u8; 16]>,
    /// True if the journal has to be replayed.
    pub needs_recovery: bool,
    /// The features at decoding; empty for the original revision.
    pub features: Features,
    /// The seed of directory hashes.
    pub hash_seed: [u32; 4],
    /// The default hash version of new indexed directories, signedness included.
    pub hash_version: u8,
    /// Number of blocks reserved for privileged callers.
    pub reserved_blocks: u64,
    /// The checksums of the volume's structures.
    pub(crate) checksums: Checksums,
    /// Names of the unknown read-only compatible features, which allow only a read-only open;
    /// `None` if there are none.
    pub unknown_read_only_features: Option<String>,
    /// True if the state was valid at decoding.
    pub was_valid: bool,
}

impl Superblock {
    /// Decodes and validates the 1024 bytes of a superblock, against the size of the device in
    /// bytes.
    ///
    /// # Errors
    /// - `Corrupt` names an invalid field.
    /// - `Unsupported` names the unknown incompatible features.
    pub fn decode(bytes: &[u8], device_bytes: u64) -> Result<Self> {
        Self::decode_fields(bytes, device_bytes, true)
    }

    /// Decodes the superblock of a volume before its log is replayed. The checksum need not match
    /// if the volume needs recovery: a write of the superblock that a power cut tore apart is in
    /// the log as a whole.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub(crate) fn decode_before_replay(bytes: &[u8], device_bytes: u64) -> Result<Self> {
        Self::decode_fields(bytes, device_bytes, false)
    }

    fn decode_fields(bytes: &[u8], device_bytes: u64, is_whole: bool) -> Result<Self> {
        let Ok((raw, _)) = disk::Superblock::read_from_prefix(bytes) else {
            return Err(Corrupt::Magic { magic: 0 }.into());
        };
        if raw.magic.get() != disk::MAGIC {
            return Err(Corrupt::Magic {
                magic: raw.magic.get(),
            }
            .into());
        }
        let features = features_of(&raw)?;
        check_features(features)?;
        check_checksum_type(&raw, features)?;
        let checksums = Checksums::of(&raw, features);
        let needs_recovery = features.incompatible.contains(Incompatible::NEEDS_RECOVERY);
        if is_whole || !needs_recovery {
            checksums.check_superblock(&raw)?;
        }
        let geometry = sizes::geometry(&raw, features, device_bytes)?;
        let (journal_inode, journal_uuid) = journal(&raw, features, &geometry)?;
        let unknown = features.read_only_compatible.bits() & !READ_ONLY_COMPATIBLE;
        let has_dir_index = features.compatible.contains(Compatible::DIR_INDEX);
        Ok(Self {
            journal_inode,
            journal_uuid,
            needs_recovery,
            features,
            hash_seed: raw.hash_seed(),
            hash_version: hash_version(&raw, has_dir_index)?,
            reserved_blocks: sizes::reserved_blocks(&raw, features),
            checksums,
            unknown_read_only_features: (unknown != 0)
                .then(|| word_names(Word::ReadOnlyCompatible, unknown).join(", ")),
            was_valid: raw.state().contains(disk::State::VALID),
            geometry,
            raw,
        })
    }

    /// Returns true if the blocks are larger than those that are written.
    pub fn has_large_blocks(&self) -> bool {
        self.geometry.block_bytes > WRITTEN_BLOCK_BYTES_MAX
    }

    /// Returns the reason that the volume is only read: its features, or the size of its blocks.
    /// `None` if it can be written.
    pub(crate) fn only_read_because(&self) -> Option<String> {
        if let Some(features) = &self.unknown_read_only_features {
            return Some(format!("features that can only be read: {features}"));
        }
        let bytes = self.geometry.block_bytes;
        self.has_large_blocks()
            .then(|| format!("blocks of {bytes} bytes are only read"))
    }

    /// Returns true if the checksum does not match, as before the replay of a log that has a newer
    /// image.
    pub(crate) fn is_torn(&self) -> bool {
        self.checksums.check_superblock(&self.raw).is_err()
    }

    /// Returns true if this is a volume whose marks are changed by a write that changes nothing
    /// else: one with a journal, which is replayed by them, and with a checksum.
    pub(crate) fn is_marked_alone(&self) -> bool {
        self.checksums.has_tails() && self.features.compatible.contains(Compatible::HAS_JOURNAL)
    }

    /// Returns true if the volume has an orphan file.
    pub(crate) fn has_orphan_file(&self) -> bool {
        self.features.compatible.contains(Compatible::ORPHAN_FILE)
    }

    /// Returns the inode of the orphan file, if the volume has one.
    pub(crate) fn orphan_file(&self) -> Option<InodeNr> {
        let nr = InodeNr::new(self.raw.orphan_file_inode.get());
        self.has_orphan_file().then_some(nr)
    }

    /// Returns true if commits may be fast ones. Tags do not describe contents within inodes, nor
    /// usage that is counted, as Linux replays them; nor which blocks of a cluster are free.
    pub(crate) fn has_fast_commit(&self) -> bool {
        let counted =
            ReadOnlyCompatible::QUOTA | ReadOnlyCompatible::PROJECT | ReadOnlyCompatible::BIGALLOC;
        self.features.compatible.contains(Compatible::FAST_COMMIT)
            && !self.has_inline_data()
            && !self.features.read_only_compatible.intersects(counted)
    }

    /// Returns true if directories may be indexed.
    pub fn has_dir_index(&self) -> bool {
        self.features.compatible.contains(Compatible::DIR_INDEX)
    }

    /// Returns true if entries carry the file's type.
    pub fn has_filetype(&self) -> bool {
        self.features.incompatible.contains(Incompatible::FILETYPE)
    }

    /// Returns true if inodes may count their blocks in units of a block.
    pub fn has_huge_file(&self) -> bool {
        let words = self.features.read_only_compatible;
        words.contains(ReadOnlyCompatible::HUGE_FILE)
    }

    /// Returns true if the links of directories need not be counted.
    pub fn has_dir_nlink(&self) -> bool {
        let words = self.features.read_only_compatible;
        words.contains(ReadOnlyCompatible::DIR_NLINK)
    }

    /// Returns true if files may be mapped by extents.
    pub fn has_extents(&self) -> bool {
        self.features.incompatible.contains(Incompatible::EXTENTS)
    }

    /// Returns true if indexes of directories may have one more level, and directories 4 GiB.
    pub fn has_large_dir(&self) -> bool {
        self.features.incompatible.contains(Incompatible::LARGE_DIR)
    }

    /// Returns true if values of attributes may lie in inodes of their own.
    pub fn has_ea_inode(&self) -> bool {
        self.features.incompatible.contains(Incompatible::EA_INODE)
    }

    /// Returns true if contents of files and directories may lie within their inodes.
    pub fn has_inline_data(&self) -> bool {
        self.features
            .incompatible
            .contains(Incompatible::INLINE_DATA)
    }

    /// Returns true if inodes belong to projects.
    pub fn has_project(&self) -> bool {
        let words = self.features.read_only_compatible;
        words.contains(ReadOnlyCompatible::PROJECT)
    }

    /// Returns the inodes of the quota files.
    pub(crate) fn quota_inodes(&self) -> impl Iterator<Item = (QuotaKind, InodeNr)> + use<> {
        let words = self.features.read_only_compatible;
        let has_quota = words.contains(ReadOnlyCompatible::QUOTA);
        let (raw, has_project) = (&self.raw, self.has_project());
        let files = [
            (QuotaKind::User, raw.user_quota_inode.get()),
            (QuotaKind::Group, raw.group_quota_inode.get()),
            (QuotaKind::Project, raw.project_quota_inode.get()),
        ];
        let is_there = move |(kind, nr): &(QuotaKind, u32)| {
            has_quota && *nr != 0 && (*kind != QuotaKind::Project || has_project)
        };
        let files = files.into_iter().filter(is_there);
        files.map(|(kind, nr)| (kind, InodeNr::new(nr)))
    }

    /// Returns the seed of the hashes of such values.
    pub(crate) fn value_seed(&self) -> u32 {
        layout::checksum::metadata::seed(&self.raw)
    }

    /// Returns true if block numbers have 64 bits.
    pub fn is_64bit(&self) -> bool {
        self.features.incompatible.contains(Incompatible::IS_64BIT)
    }

    /// Returns true if the volume was closed cleanly and has no known errors.
    pub fn is_clean(&self) -> bool {
        let state = self.raw.state();
        state.contains(disk::State::VALID) && !state.contains(disk::State::ERROR)
    }
}

/// Returns the feature words; the original revision has none.
fn features_of(raw: &disk::Superblock) -> Result<Features> {
    let revision = raw.revision.get();
    match revision {
        disk::GOOD_OLD_REVISION => Ok(Features::default()),
        disk::DYNAMIC_REVISION => Ok(raw.features()),
        _ => Err(Error::Unsupported(format!(
            "the superblock's revision {revision} is unknown"
        ))),
    }
}

fn check_features(features: Features) -> Result<()> {
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        return Err(Error::Unsupported(
            "this is a journal device; open the file system that it belongs to".to_owned(),
        ));
    }
    let unknown = [
        (
            Word::Incompatible,
            features.incompatible.bits() & !INCOMPATIBLE,
        ),
        (
            Word::ReadOnlyCompatible,
            features.read_only_compatible.bits() & REFUSED,
        ),
    ];
    let names = unknown
        .into_iter()
        .flat_map(|(word, bits)| word_names(word, bits));
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        return Err(Error::Unsupported(format!(
            "unsupported features: {}{}",
            names.join(", "),
            advice(&unknown)
        )));
    }
    let has_journal = features.compatible.contains(Compatible::HAS_JOURNAL);
    if features.incompatible.contains(Incompatible::NEEDS_RECOVERY) && !has_journal {
        let bits = u64::from(features.incompatible.bits());
        return Err(bad(
            "s_feature_incompat",
            bits,
            "needs_recovery is set without has_journal",
        ));
    }
    Ok(())
}

/// Returns the programs that read a volume with these features.
fn advice(unknown: &[(Word, u32)]) -> &'static str {
    let set = unknown.iter().flat_map(|(word, bits)| {
        let bits = (0..u32::BITS).map(move |number| 1 << number & bits);
        bits.filter(|bit| *bit != 0).map(|bit| (*word, bit))
    });
    let mut oracles = Oracles::all();
    for (word, bit) in set {
        let mut rows = FEATURES.iter();
        let row = rows.find(|row| (row.word, row.bit) == (word, bit));
        oracles &= row.map_or(Oracles::empty(), |row| row.oracles);
    }
    match oracles.contains(Oracles::E2FSCK_1_47_0) {
        true => "; Linux's ext4 mounts it, fuse2fs and debugfs read it",
        false => "",
    }
}

fn check_checksum_type(raw: &disk::Superblock, features: Features) -> Result<()> {
    let found = raw.checksum_type;
    let has_checksums = features
        .read_only_compatible
        .contains(ReadOnlyCompatible::METADATA_CSUM);
    if has_checksums && found != disk::CHECKSUM_CRC32C {
        return Err(Error::Unsupported(format!(
            "checksums of type {found} are not supported"
        )));
    }
    Ok(())
}

/// Returns the internal journal's inode, or the external journal's UUID.
fn journal(
    raw: &disk::Superblock,
    features: Features,
    geometry: &Geometry,
) -> Result<(Option<InodeNr>, Option<[u8; 16]>)> {
    if !features.compatible.contains(Compatible::HAS_JOURNAL) {
        return Ok((None, None));
    }
    let inode = raw.journal_inode.get();
    let uuid = raw.journal_uuid;
    match (inode, uuid != [0; 16]) {
        (0, true) => Ok((None, Some(uuid))),
        (0, false) => Err(bad(
            "s_journal_inum",
            0,
            "has_journal is set, but there is no journal",
        )),
        (_, true) if raw.journal_device.get() != 0 => Err(bad(
            "s_journal_inum",
            inode.into(),
            "there is an external journal, too",
        )),
        _ if inode > geometry.inode_count => Err(bad(
            "s_journal_inum",
            inode.into(),
            "there is no such inode",
        )),
        _ => Ok((Some(InodeNr::new(inode)), None)),
    }
}

fn hash_version(raw: &disk::Superblock, has_dir_index: bool) -> Result<u8> {
    let version = raw.default_hash_version;
    if version > HASH_VERSION_MAX {
        if has_dir_index {
            return Err(bad("s_def_hash_version", version.into(), "an unknown hash"));
        }
        return Ok(0);
    }
    let is_unsigned = raw.misc_flags().contains(disk::MiscFlags::UNSIGNED_HASH);
    let is_unsigned = is_unsigned && !rt::mutant!("directory/hash-always-signed");
    Ok(if is_unsigned && version < HASH_UNSIGNED {
        version + HASH_UNSIGNED
    } else {
        version
    })
}

fn bad(field: &'static str, value: u64, why: &'static str) -> Error {
    Corrupt::Superblock { field, value, why }.into()
}

#[cfg(test)]
mod tests;
