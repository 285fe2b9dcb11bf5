//! Feature words of the superblock: what an implementation must support before it may use the file
//! system.
//!
//! An unknown *compatible* feature can be ignored, an unknown *read-only compatible* one forbids
//! writing, an unknown *incompatible* one forbids any use. The words keep unknown bits. Names are
//! those that e2fsprogs prints and that `-O` takes; [`table`] lists all features.
//!
//! Source: Linux `Documentation/filesystems/ext4/super.rst`; `ext4(5)` for the names.

pub mod table;
pub mod target;

use core::fmt;

use bitflags::bitflags;

use table::{FEATURES, Feature};

bitflags! {
    /// `s_feature_compat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Compatible: u32 {
        /// Blocks are preallocated for directories.
        const DIR_PREALLOC = 0x0001;
        /// AFS inodes.
        const IMAGIC_INODES = 0x0002;
        /// There is a journal.
        const HAS_JOURNAL = 0x0004;
        /// There may be extended attributes.
        const EXT_ATTR = 0x0008;
        /// An inode holds the reserved GDT blocks, for online growth.
        const RESIZE_INODE = 0x0010;
        /// Directories may be indexed.
        const DIR_INDEX = 0x0020;
        /// Groups may be uninitialised (never merged).
        const LAZY_BG = 0x0040;
        /// Snapshots (never merged).
        const SNAPSHOT_BITMAP = 0x0100;
        /// At most two groups hold copies of the superblock.
        const SPARSE_SUPER2 = 0x0200;
        /// The journal may hold fast commits.
        const FAST_COMMIT = 0x0400;
        /// Inode numbers never change.
        const STABLE_INODES = 0x0800;
        /// There is an orphan file.
        const ORPHAN_FILE = 0x1000;
    }
}

bitflags! {
    /// `s_feature_incompat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Incompatible: u32 {
        /// Compression (never merged).
        const COMPRESSION = 0x0001;
        /// Directory entries record the file type.
        const FILETYPE = 0x0002;
        /// The journal has to be replayed.
        const NEEDS_RECOVERY = 0x0004;
        /// The device is an external journal.
        const JOURNAL_DEV = 0x0008;
        /// Descriptors lie in meta block groups.
        const META_BG = 0x0010;
        /// Files may be mapped by extents.
        const EXTENTS = 0x0040;
        /// Block numbers have 64 bits.
        const IS_64BIT = 0x0080;
        /// Protection against mounting twice.
        const MMP = 0x0100;
        /// Groups are packed; their metadata may lie outside the group.
        const FLEX_BG = 0x0200;
        /// Inodes hold large attribute values.
        const EA_INODE = 0x0400;
        /// Data in directory entries (never merged).
        const DIRDATA = 0x1000;
        /// The checksum seed is stored.
        const METADATA_CSUM_SEED = 0x2000;
        /// Directories above 2 GiB or with three levels.
        const LARGE_DIR = 0x4000;
        /// Small files lie in their inode.
        const INLINE_DATA = 0x8000;
        /// Encrypted files.
        const ENCRYPT = 0x1_0000;
        /// Names are looked up without regard to case.
        const CASEFOLD = 0x2_0000;
    }
}

bitflags! {
    /// `s_feature_ro_compat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ReadOnlyCompatible: u32 {
        /// Only some groups hold copies of the superblock.
        const SPARSE_SUPER = 0x0001;
        /// Files above 2 GiB.
        const LARGE_FILE = 0x0002;
        /// B-tree directories (never written).
        const BTREE_DIR = 0x0004;
        /// Files above 2 TiB of blocks.
        const HUGE_FILE = 0x0008;
        /// Descriptors have checksums; groups may be uninitialised.
        const UNINIT_BG = 0x0010;
        /// Directories with more than 64998 directories.
        const DIR_NLINK = 0x0020;
        /// Inodes have an extra part.
        const EXTRA_ISIZE = 0x0040;
        /// The file system has a snapshot (never merged).
        const HAS_SNAPSHOT = 0x0080;
        /// Quotas in hidden inodes.
        const QUOTA = 0x0100;
        /// Allocation in clusters.
        const BIGALLOC = 0x0200;
        /// All metadata has checksums.
        const METADATA_CSUM = 0x0400;
        /// Replicas (never merged).
        const REPLICA = 0x0800;
        /// The file system must not be written.
        const READ_ONLY = 0x1000;
        /// Project quotas.
        const PROJECT = 0x2000;
        /// Blocks are shared (Android).
        const SHARED_BLOCKS = 0x4000;
        /// Files may be protected by verity.
        const VERITY = 0x8000;
        /// The orphan file must be processed.
        const ORPHAN_PRESENT = 0x1_0000;
    }
}

/// One of the three feature words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// `s_feature_compat`.
    Compatible,
    /// `s_feature_incompat`.
    Incompatible,
    /// `s_feature_ro_compat`.
    ReadOnlyCompatible,
}

/// The three feature words together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features {
    /// Features that may be ignored.
    pub compatible: Compatible,
    /// Features that must be supported for any use.
    pub incompatible: Incompatible,
    /// Features that must be supported for writing.
    pub read_only_compatible: ReadOnlyCompatible,
}

impl Features {
    /// Creates the features from the words as stored.
    pub const fn from_raw(compatible: u32, incompatible: u32, read_only_compatible: u32) -> Self {
        Self {
            compatible: Compatible::from_bits_retain(compatible),
            incompatible: Incompatible::from_bits_retain(incompatible),
            read_only_compatible: ReadOnlyCompatible::from_bits_retain(read_only_compatible),
        }
    }

    /// Returns one word as stored.
    pub const fn word(&self, word: Word) -> u32 {
        match word {
            Word::Compatible => self.compatible.bits(),
            Word::Incompatible => self.incompatible.bits(),
            Word::ReadOnlyCompatible => self.read_only_compatible.bits(),
        }
    }

    /// Returns the parts of a volume with these features that this project does not read or change,
    /// one sentence each.
    pub fn limits(&self) -> Vec<&'static str> {
        let all = [
            (
                self.incompatible.contains(Incompatible::ENCRYPT),
                "encrypted files are listed and removed, and not read: there are no keys",
            ),
            (
                self.incompatible.contains(Incompatible::CASEFOLD),
                "directories that ignore case are read and not changed, and names are found only as they are written",
            ),
            (
                self.read_only_compatible
                    .contains(ReadOnlyCompatible::VERITY),
                "files with verity are read without verification, and not written",
            ),
        ];
        let present = all.into_iter().filter(|(is_present, _)| *is_present);
        present.map(|(_, limit)| limit).collect()
    }

    /// Sets or clears bits of one word.
    pub fn set(&mut self, word: Word, bits: u32, on: bool) {
        let bits = if on {
            self.word(word) | bits
        } else {
            self.word(word) & !bits
        };
        match word {
            Word::Compatible => self.compatible = Compatible::from_bits_retain(bits),
            Word::Incompatible => self.incompatible = Incompatible::from_bits_retain(bits),
            Word::ReadOnlyCompatible => {
                self.read_only_compatible = ReadOnlyCompatible::from_bits_retain(bits);
            }
        }
    }

    /// Returns the names of all features that are set, word by word, lowest bit first.
    pub fn names(&self) -> Vec<String> {
        let words = [
            Word::Compatible,
            Word::Incompatible,
            Word::ReadOnlyCompatible,
        ];
        words
            .into_iter()
            .flat_map(|word| word_names(word, self.word(word)))
            .collect()
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}

/// Returns the names of the bits set in one word, lowest first. A bit without a name is
/// `FEATURE_C12`, `FEATURE_I12` or `FEATURE_R12`, as in e2fsprogs.
pub fn word_names(word: Word, bits: u32) -> Vec<String> {
    let set = (0..u32::BITS).filter(|number| bits & (1 << number) != 0);
    set.map(|number| bit_name(word, number)).collect()
}

fn bit_name(word: Word, number: u32) -> String {
    let is_named = |feature: &&Feature| feature.word == word && feature.bit == 1 << number;
    if let Some(feature) = FEATURES.iter().find(is_named) {
        return feature.name.to_owned();
    }
    let letter = match word {
        Word::Compatible => 'C',
        Word::Incompatible => 'I',
        Word::ReadOnlyCompatible => 'R',
    };
    format!("FEATURE_{letter}{number}")
}

/// Returns the word and the bit of a feature name, or of an older name that e2fsprogs still
/// accepts.
pub fn lookup(name: &str) -> Option<(Word, u32)> {
    let names = FEATURES.iter().map(|row| (row.word, row.bit, row.name));
    let mut names = names.chain(ALIASES.iter().copied());
    let known = names.find(|(_, _, known)| known.eq_ignore_ascii_case(name));
    if let Some((word, bit, _)) = known {
        return Some((word, bit));
    }
    let number = name.strip_prefix("FEATURE_")?;
    let word = match number.chars().next()? {
        'C' => Word::Compatible,
        'I' => Word::Incompatible,
        'R' => Word::ReadOnlyCompatible,
        _ => return None,
    };
    let number: u32 = number[1..].parse().ok()?;
    1u32.checked_shl(number).map(|bit| (word, bit))
}

/// Alternative names that `-O` takes.
const ALIASES: &[(Word, u32, &str)] = &[
    (Word::Incompatible, Incompatible::EXTENTS.bits(), "extents"),
    (
        Word::ReadOnlyCompatible,
        ReadOnlyCompatible::UNINIT_BG.bits(),
        "uninit_groups",
    ),
    (
        Word::ReadOnlyCompatible,
        ReadOnlyCompatible::UNINIT_BG.bits(),
        "gdt_csum",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_bit_and_back() {
        for row in FEATURES {
            assert_eq!(lookup(row.name), Some((row.word, row.bit)));
            assert_eq!(word_names(row.word, row.bit), [row.name]);
        }
        for word in [
            Word::Compatible,
            Word::Incompatible,
            Word::ReadOnlyCompatible,
        ] {
            for number in 0..u32::BITS {
                let names = word_names(word, 1 << number);
                assert_eq!(lookup(&names[0]), Some((word, 1 << number)), "{names:?}");
            }
        }
    }

    #[test]
    fn older_names_and_nonsense() {
        let extent = Some((Word::Incompatible, Incompatible::EXTENTS.bits()));
        assert_eq!(lookup("extents"), extent);
        assert_eq!(lookup("Extent"), extent);
        for name in [
            "",
            "FEATURE_",
            "FEATURE_C",
            "FEATURE_C32",
            "FEATURE_X1",
            "FEATURE_é1",
        ] {
            assert_eq!(lookup(name), None, "{name}");
        }
    }

    #[test]
    fn features_print_as_e2fsprogs_does() {
        let features = Features::from_raw(0x8000_0004, 0x6, 0x3);
        assert_eq!(
            features.to_string(),
            "has_journal FEATURE_C31 filetype needs_recovery sparse_super large_file"
        );
    }

    #[test]
    fn bits_are_set_and_cleared_in_their_word() {
        let mut features = Features::default();
        for row in FEATURES {
            features.set(row.word, row.bit, true);
        }
        assert_eq!(features.names().len(), FEATURES.len());
        features.set(Word::Compatible, Compatible::HAS_JOURNAL.bits(), false);
        assert!(!features.compatible.contains(Compatible::HAS_JOURNAL));
        assert_eq!(features.names().len(), FEATURES.len() - 1);
    }
}
