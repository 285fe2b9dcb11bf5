//! Every feature: the treatment by this project, the test that proves it, and the programs that it
//! is compared with.
//!
//! The engine, mkfs, the tuner and the checker derive their feature masks from this table, and
//! `docs/features.md` repeats it. A bit without a row is treated as its word demands: see
//! [`outcome`].

use bitflags::bitflags;

use super::{Compatible, Incompatible, ReadOnlyCompatible, Word};

/// The outcome of opening a volume for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The feature is supported.
    Written,
    /// The feature has no effect, and the volume is written.
    Ignored,
    /// The volume can be read.
    ReadOnly,
    /// The volume is not opened; the error names the feature.
    Refused,
}

bitflags! {
    /// The programs of this project that know a feature, besides the engine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Uses: u8 {
        /// mkfs makes volumes with it.
        const MADE = 1;
        /// The checker knows it.
        const CHECKED = 2;
        /// The tuner sets it on a volume that exists.
        const SET = 4;
        /// The tuner clears it when nothing uses it.
        const CLEARED = 8;
    }
}

bitflags! {
    /// Programs of others that accept a volume with the feature.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Oracles: u8 {
        /// `e2fsck -fn` of e2fsprogs 1.47.0.
        const E2FSCK_1_47_0 = 1;
        /// `e2fsck -fn` of e2fsprogs 1.47.2.
        const E2FSCK_1_47_2 = 2;
        /// Linux 6.18, mounted for writing.
        const LINUX_WRITES = 4;
        /// Linux 6.18, mounted read-only.
        const LINUX_READS = 8;
        /// The crate `ext4-view`, which only reads.
        const EXT4_VIEW = 16;
    }
}

/// A feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// The word.
    pub word: Word,
    /// The bit.
    pub bit: u32,
    /// The name, as e2fsprogs prints it.
    pub name: &'static str,
    /// The outcome of opening a volume that has it.
    pub outcome: Outcome,
    /// The programs of this project that know it.
    pub uses: Uses,
    /// The programs of others that it is compared with.
    pub oracles: Oracles,
    /// The file of the test, below `crates`.
    pub test: &'static str,
    /// The reason for the outcome, or for a lack of programs to compare with.
    pub note: &'static str,
}

const NONE: Uses = Uses::empty();
const CHECKED: Uses = Uses::CHECKED;
const MADE_AND_CHECKED: Uses = Uses::MADE.union(Uses::CHECKED);
const MADE_SET: Uses = MADE_AND_CHECKED.union(Uses::SET);
const SET_AND_CHECKED: Uses = CHECKED.union(Uses::SET);
const SET_AND_CLEARED: Uses = SET_AND_CHECKED.union(Uses::CLEARED);
const ALL_USES: Uses = Uses::all();

const E2FSCK: Oracles = Oracles::E2FSCK_1_47_0.union(Oracles::E2FSCK_1_47_2);
const LINUX: Oracles = Oracles::LINUX_WRITES.union(Oracles::LINUX_READS);
const ALL: Oracles = Oracles::all();
const NO_VIEW: Oracles = E2FSCK.union(LINUX);
const LINUX_AND_VIEW: Oracles = LINUX.union(Oracles::EXT4_VIEW);
const READERS: Oracles = Oracles::LINUX_READS.union(Oracles::EXT4_VIEW);
const READERS_AND_E2FSCK: Oracles = READERS.union(E2FSCK);
const NO_PROGRAM: Oracles = Oracles::empty();

macro_rules! features {
    ($($word:ident $bit:ident $name:literal: $outcome:ident, $uses:ident, $oracles:ident, $test:literal, $note:literal;)*) => {
        /// All features with a name, word by word, lowest bit first.
        pub const FEATURES: &[Feature] = &[$(Feature {
            word: Word::$word,
            bit: $word::$bit.bits(),
            name: $name,
            outcome: Outcome::$outcome,
            uses: $uses,
            oracles: $oracles,
            test: $test,
            note: $note,
        },)*];
    };
}

features! {
    Compatible DIR_PREALLOC "dir_prealloc": Ignored, CHECKED, ALL, "ext/tests/it/features.rs", "a hint for allocation, which nothing heeds";
    Compatible IMAGIC_INODES "imagic_inodes": Ignored, CHECKED, ALL, "ext/tests/it/features.rs", "of AFS, whose inodes need no names; none is made";
    Compatible HAS_JOURNAL "has_journal": Written, ALL_USES, ALL, "ext/tests/it/sequences.rs", "";
    Compatible EXT_ATTR "ext_attr": Written, ALL_USES, ALL, "ext/tests/it/attributes.rs", "";
    Compatible RESIZE_INODE "resize_inode": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/sequences.rs", "its blocks stay reserved; a volume is not resized";
    Compatible DIR_INDEX "dir_index": Written, ALL_USES, ALL, "ext/tests/it/directories.rs", "";
    Compatible LAZY_BG "lazy_bg": Ignored, NONE, LINUX_AND_VIEW, "ext/tests/it/features.rs", "never merged into Linux; e2fsck refuses it";
    Compatible SNAPSHOT_BITMAP "snapshot_bitmap": Ignored, NONE, LINUX_AND_VIEW, "ext/tests/it/features.rs", "never merged into Linux; e2fsck refuses it";
    Compatible SPARSE_SUPER2 "sparse_super2": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/full.rs", "";
    Compatible FAST_COMMIT "fast_commit": Written, ALL_USES, ALL, "ext/tests/it/crossing/fast_commits.rs", "fast commits are replayed, and made in internal journals of volumes without `inline_data`, `bigalloc`, `quota` and `project`";
    Compatible STABLE_INODES "stable_inodes": Written, SET_AND_CHECKED, ALL, "ext/tests/it/features.rs", "inode numbers never change, as everywhere; the UUID stays";
    Compatible ORPHAN_FILE "orphan_file": Written, ALL_USES, ALL, "ext/tests/it/ext4/orphan_file.rs", "";
    Incompatible COMPRESSION "compression": Refused, NONE, NO_PROGRAM, "ext/tests/it/features.rs", "never merged into Linux; no program reads it";
    Incompatible FILETYPE "filetype": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/sequences.rs", "";
    Incompatible NEEDS_RECOVERY "needs_recovery": Written, CHECKED, NO_VIEW, "ext/tests/it/crossing.rs", "";
    Incompatible JOURNAL_DEV "journal_dev": Refused, NONE, NO_PROGRAM, "ext/tests/it/features.rs", "a journal without a file system: it is opened with the volume that it belongs to";
    Incompatible META_BG "meta_bg": Written, MADE_AND_CHECKED, NO_VIEW, "ext/tests/it/ext4/meta_groups.rs", "";
    Incompatible EXTENTS "extent": Written, ALL_USES, ALL, "ext/tests/it/ext4/sequences.rs", "";
    Incompatible IS_64BIT "64bit": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/ext4/large_volumes.rs", "at most 2^48 blocks";
    Incompatible MMP "mmp": Written, ALL_USES, NO_VIEW, "ext/tests/it/multi_mount.rs", "a writable open waits when another node may use the volume";
    Incompatible FLEX_BG "flex_bg": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/ext4/sequences.rs", "";
    Incompatible EA_INODE "ea_inode": Written, MADE_SET, NO_VIEW, "ext/tests/it/attributes/large.rs", "";
    Incompatible DIRDATA "dirdata": Refused, NONE, NO_PROGRAM, "ext/tests/it/features.rs", "of Lustre, never merged into Linux";
    Incompatible METADATA_CSUM_SEED "metadata_csum_seed": Written, ALL_USES, ALL, "ext/tests/it/ext4/sequences.rs", "";
    Incompatible LARGE_DIR "large_dir": Written, MADE_SET, NO_VIEW, "ext/tests/it/ext4/large_directories.rs", "";
    Incompatible INLINE_DATA "inline_data": Written, MADE_SET, NO_VIEW, "ext/tests/it/ext4/inline_data.rs", "set on volumes with inodes of 256 bytes or more";
    Incompatible ENCRYPT "encrypt": Written, SET_AND_CHECKED, ALL, "ext/tests/it/ext4/encrypted.rs", "without keys: names in the form of Linux, no contents, nothing is encrypted";
    Incompatible CASEFOLD "casefold": Written, SET_AND_CLEARED, E2FSCK, "ext/tests/it/ext4/case_folded.rs", "names of directories that ignore case are read and not changed; the kernel of the tests lacks CONFIG_UNICODE";
    ReadOnlyCompatible SPARSE_SUPER "sparse_super": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/sequences.rs", "";
    ReadOnlyCompatible LARGE_FILE "large_file": Written, ALL_USES, ALL, "ext/src/file/tests/sparse.rs", "";
    ReadOnlyCompatible BTREE_DIR "FEATURE_R2": ReadOnly, NONE, LINUX_AND_VIEW, "ext/tests/it/features.rs", "B-tree directories, which nothing ever wrote; e2fsck refuses it";
    ReadOnlyCompatible HUGE_FILE "huge_file": Written, ALL_USES, ALL, "ext/tests/it/ext4/sequences.rs", "";
    ReadOnlyCompatible UNINIT_BG "uninit_bg": Written, ALL_USES, ALL, "ext/tests/it/ext4/written.rs", "";
    ReadOnlyCompatible DIR_NLINK "dir_nlink": Written, ALL_USES, ALL, "ext/tests/it/ext4/sequences.rs", "";
    ReadOnlyCompatible EXTRA_ISIZE "extra_isize": Written, MADE_SET, ALL, "ext/tests/it/ext4/sequences.rs", "";
    ReadOnlyCompatible HAS_SNAPSHOT "FEATURE_R7": ReadOnly, NONE, READERS, "ext/tests/it/features.rs", "never merged into Linux; e2fsck refuses it";
    ReadOnlyCompatible QUOTA "quota": Written, ALL_USES, READERS_AND_E2FSCK, "ext/tests/it/quotas.rs", "counted, limits are not enforced; the kernel of the tests lacks CONFIG_QUOTA and only reads";
    ReadOnlyCompatible BIGALLOC "bigalloc": Written, MADE_AND_CHECKED, ALL, "ext/tests/it/ext4/clusters.rs", "of files with extents; fast commits are not made";
    ReadOnlyCompatible METADATA_CSUM "metadata_csum": Written, ALL_USES, ALL, "ext/tests/it/ext4/damaged.rs", "";
    ReadOnlyCompatible REPLICA "replica": ReadOnly, NONE, READERS, "ext/tests/it/features.rs", "never merged into Linux; e2fsck refuses it";
    ReadOnlyCompatible READ_ONLY "read-only": ReadOnly, NONE, READERS_AND_E2FSCK, "ext/tests/it/features.rs", "the volume asks not to be written";
    ReadOnlyCompatible PROJECT "project": Written, ALL_USES, READERS_AND_E2FSCK, "ext/tests/it/quotas.rs", "the kernel of the tests lacks CONFIG_QUOTA and only reads";
    ReadOnlyCompatible SHARED_BLOCKS "shared_blocks": ReadOnly, CHECKED, READERS_AND_E2FSCK, "ext/tests/it/features.rs", "of Android: files share blocks that a write would change in all";
    ReadOnlyCompatible VERITY "verity": Written, SET_AND_CHECKED, ALL, "ext/tests/it/ext4/verity.rs", "verified files are read without verification and not written; the kernel of the tests lacks CONFIG_FS_VERITY";
    ReadOnlyCompatible ORPHAN_PRESENT "orphan_present": Written, CHECKED, ALL, "ext/tests/it/ext4/orphan_file.rs", "";
}

/// Returns the outcome of opening a volume with a bit of a word.
pub fn outcome(word: Word, bit: u32) -> Outcome {
    let row = FEATURES
        .iter()
        .find(|row| row.word == word && row.bit == bit);
    row.map_or(unknown(word), |row| row.outcome)
}

/// Returns the outcome for a bit that is in no row.
const fn unknown(word: Word) -> Outcome {
    match word {
        Word::Compatible => Outcome::Ignored,
        Word::Incompatible => Outcome::Refused,
        Word::ReadOnlyCompatible => Outcome::ReadOnly,
    }
}

/// Returns the bits of a word that have an outcome.
pub const fn with_outcome(word: Word, outcome: Outcome) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < FEATURES.len() {
        let row = &FEATURES[index];
        if row.word as u8 == word as u8 && row.outcome as u8 == outcome as u8 {
            bits |= row.bit;
        }
        index += 1;
    }
    bits
}

/// Returns the bits of a word that have all of these uses.
pub const fn with_uses(word: Word, uses: Uses) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < FEATURES.len() {
        let row = &FEATURES[index];
        if row.word as u8 == word as u8 && row.uses.contains(uses) {
            bits |= row.bit;
        }
        index += 1;
    }
    bits
}
