//! Systems and programs that use a volume, and the features that each accepts. As of November 2026.
//!
//! Sources: `EXT4_FEATURE_*_SUPP` of Linux 6.1, 6.12; `grub-core/fs/ext2.c` of GRUB 2.06, 2.12;
//! `mke2fs.conf` of Debian 12 and 13, of Ubuntu's packages 1.47.0-2.4~exp1ubuntu4 and
//! 1.47.2-3ubuntu4, of Android's `ext4_utils`, and of e2fsprogs 1.47, which Fedora and Yocto leave
//! as it is.

use super::{Features, Incompatible, ReadOnlyCompatible, Word, word_names};

/// A system or program that uses volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Its parts and their versions.
    pub what: &'static str,
    /// Size of the largest blocks that it accepts, in bytes: those of a page for Linux before 6.19,
    /// on a processor with pages of 4 KiB.
    pub block_bytes_max: u32,
    /// The incompatible features that it accepts.
    pub incompatible: Incompatible,
    /// The read-only compatible features that it writes; none if it only reads.
    pub written: Option<ReadOnlyCompatible>,
    /// The changes that make the features of its own mke2fs from those of Debian 12, as for `-O`.
    pub edits: &'static str,
}

/// The use that a target has for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The target reads and writes the volume.
    Writes,
    /// The target reads the volume. These features keep it from writing; none if it never writes.
    Reads(Vec<String>),
    /// The target refuses the volume because of these features, or because of its blocks.
    Refuses(Vec<String>),
}

/// The incompatible features of ext4 since Linux 4.13, and those of `casefold` since 5.2.
const LINUX: Incompatible = Incompatible::FILETYPE
    .union(Incompatible::NEEDS_RECOVERY)
    .union(Incompatible::META_BG)
    .union(Incompatible::EXTENTS)
    .union(Incompatible::IS_64BIT)
    .union(Incompatible::FLEX_BG)
    .union(Incompatible::EA_INODE)
    .union(Incompatible::MMP)
    .union(Incompatible::INLINE_DATA)
    .union(Incompatible::ENCRYPT)
    .union(Incompatible::CASEFOLD)
    .union(Incompatible::METADATA_CSUM_SEED)
    .union(Incompatible::LARGE_DIR);
/// The read-only compatible features of ext4 since Linux 5.15.
const LINUX_WRITTEN: ReadOnlyCompatible = ReadOnlyCompatible::SPARSE_SUPER
    .union(ReadOnlyCompatible::LARGE_FILE)
    .union(ReadOnlyCompatible::BTREE_DIR)
    .union(ReadOnlyCompatible::HUGE_FILE)
    .union(ReadOnlyCompatible::UNINIT_BG)
    .union(ReadOnlyCompatible::DIR_NLINK)
    .union(ReadOnlyCompatible::EXTRA_ISIZE)
    .union(ReadOnlyCompatible::QUOTA)
    .union(ReadOnlyCompatible::BIGALLOC)
    .union(ReadOnlyCompatible::METADATA_CSUM)
    .union(ReadOnlyCompatible::PROJECT)
    .union(ReadOnlyCompatible::VERITY)
    .union(ReadOnlyCompatible::ORPHAN_PRESENT);
/// The incompatible features that GRUB 2.06 supports or ignores.
const GRUB: Incompatible = Incompatible::FILETYPE
    .union(Incompatible::NEEDS_RECOVERY)
    .union(Incompatible::META_BG)
    .union(Incompatible::EXTENTS)
    .union(Incompatible::IS_64BIT)
    .union(Incompatible::FLEX_BG)
    .union(Incompatible::MMP)
    .union(Incompatible::ENCRYPT);

/// The features that e2fsprogs adds since 1.47.0, and Debian 12 does not.
const UPSTREAM: &str = "orphan_file,metadata_csum_seed";

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::linux("debian-12", "Linux 6.1, e2fsprogs 1.47.0", ""),
    Target::linux("debian-13", "Linux 6.12, e2fsprogs 1.47.2", UPSTREAM),
    Target::linux("ubuntu-24.04", "Linux 6.8, e2fsprogs 1.47.0", ""),
    Target {
        block_bytes_max: 65_536,
        ..Target::linux("ubuntu-26.04", "Linux 7.0, e2fsprogs 1.47.2", UPSTREAM)
    },
    Target::linux("fedora-43", "Linux 6.17, e2fsprogs 1.47.3", UPSTREAM),
    Target::linux("yocto-5.0", "Linux 6.6, e2fsprogs 1.47.0", UPSTREAM),
    Target::linux(
        "android-16",
        "Linux 6.12, mke2fs of the platform",
        "^resize_inode,^flex_bg,^64bit,^metadata_csum,uninit_bg",
    ),
    Target {
        name: "grub-2.06",
        what: "GRUB 2.06, which reads; Debian 12 adds metadata_csum_seed",
        block_bytes_max: 65_536,
        incompatible: GRUB,
        written: None,
        edits: "",
    },
    Target {
        name: "grub-2.12",
        what: "GRUB 2.12, which reads",
        block_bytes_max: 65_536,
        incompatible: GRUB
            .union(Incompatible::METADATA_CSUM_SEED)
            .union(Incompatible::LARGE_DIR),
        written: None,
        edits: "",
    },
];

impl Target {
    /// Returns a system whose kernel supports what Linux supported by 5.15.
    const fn linux(name: &'static str, what: &'static str, edits: &'static str) -> Self {
        Self {
            name,
            what,
            block_bytes_max: 4096,
            incompatible: LINUX,
            written: Some(LINUX_WRITTEN),
            edits,
        }
    }

    /// Returns the target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Returns the use that it has for a volume with these features and blocks.
    pub fn judge(&self, features: Features, block_bytes: u32) -> Verdict {
        let refused = features.incompatible.difference(self.incompatible).bits();
        let mut refused = word_names(Word::Incompatible, refused);
        if block_bytes > self.block_bytes_max {
            refused.push(format!("blocks of {block_bytes} bytes"));
        }
        if !refused.is_empty() {
            return Verdict::Refuses(refused);
        }
        let Some(written) = self.written else {
            return Verdict::Reads(Vec::new());
        };
        let mut only_read = features.read_only_compatible.difference(written);
        only_read |= features.read_only_compatible & ReadOnlyCompatible::READ_ONLY;
        match only_read.bits() {
            0 => Verdict::Writes,
            bits => Verdict::Reads(word_names(Word::ReadOnlyCompatible, bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(target: &str, incompatible: u32, read_only: u32) -> Verdict {
        let target = Target::named(target).unwrap();
        target.judge(Features::from_raw(0, incompatible, read_only), 4096)
    }

    #[test]
    fn targets_judge_by_their_features() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(judge("debian-12", 0x2242, 0x46b), Verdict::Writes);
        assert_eq!(
            judge("debian-12", 0x3, 0),
            Verdict::Refuses(names(&["compression"]))
        );
        assert_eq!(
            judge("debian-13", 0x2, 0x5001),
            Verdict::Reads(names(&["read-only", "shared_blocks"]))
        );
        assert_eq!(
            judge("grub-2.06", 0x6242, 0),
            Verdict::Refuses(names(&["metadata_csum_seed", "large_dir"]))
        );
        assert_eq!(judge("grub-2.12", 0x6242, 0xFFFF), Verdict::Reads(vec![]));
        let large = |target: &str| {
            let target = Target::named(target).unwrap();
            target.judge(Features::from_raw(0, 0x8002, 0), 8192)
        };
        let refused = Verdict::Refuses(names(&["blocks of 8192 bytes"]));
        assert_eq!(large("debian-13"), refused);
        assert_eq!(large("ubuntu-26.04"), Verdict::Writes);
    }

    #[test]
    fn targets_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/features.md");
        let text = std::fs::read_to_string(path).unwrap();
        for target in TARGETS {
            let row = format!("| `{}` | {} |", target.name, target.what);
            assert!(text.contains(&row), "{row}");
        }
    }
}
