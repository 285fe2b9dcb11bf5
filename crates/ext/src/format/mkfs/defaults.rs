//! Defaults by profile and usage type.
//!
//! | usage | size of the volume | block | bytes per inode |
//! |---|---|---|---|
//! | floppy | below 3 MiB | 1024 | 8192 |
//! | small | below 512 MiB | 1024 | 4096 |
//! | default | below 4 TiB | 4096 | 16384 |
//! | big | below 16 TiB | 4096 | 32768 |
//! | huge | | 4096 | 65536 |
//!
//! Source: e2fsprogs' `mke2fs.conf` as Debian 12 has it.

use layout::feature::{Compatible, Features, Incompatible, ReadOnlyCompatible};

use super::{FileSystemType, Options};

/// Largest number of bytes for each inode (`-i`).
pub(super) const INODE_RATIO_MAX: u32 = 64 << 20;
const MIB: u64 = 1 << 20;
/// Number of blocks in a cluster (`bigalloc`).
const CLUSTER_BLOCKS: u32 = 16;

/// The origin of the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// e2fsprogs 1.47 in Debian 12.
    #[default]
    Debian12,
    /// e2fsprogs of 2002.
    Classic2002,
}

/// The intended use of the volume (`-T`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageType {
    /// Below 3 MiB.
    Floppy,
    /// Below 512 MiB.
    Small,
    /// Below 4 TiB.
    Default,
    /// Below 16 TiB.
    Big,
    /// Larger.
    Huge,
    /// Many small files.
    News,
    /// Files of megabytes.
    LargeFile,
    /// Files of several megabytes.
    LargeFile4,
}

impl UsageType {
    /// Returns the type for a size.
    pub fn of_size(bytes: u64) -> Self {
        match bytes / MIB {
            0..3 => Self::Floppy,
            3..512 => Self::Small,
            512..0x40_0000 => Self::Default,
            0x40_0000..0x100_0000 => Self::Big,
            _ => Self::Huge,
        }
    }

    /// Returns the type for a name that `-T` accepts.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "floppy" => Self::Floppy,
            "small" => Self::Small,
            "default" => Self::Default,
            "big" => Self::Big,
            "huge" => Self::Huge,
            "news" => Self::News,
            "largefile" => Self::LargeFile,
            "largefile4" => Self::LargeFile4,
            _ => return None,
        })
    }

    fn block_bytes(self) -> u32 {
        match self {
            Self::Floppy | Self::Small => 1024,
            _ => 4096,
        }
    }

    fn bytes_per_inode(self) -> u32 {
        match self {
            Self::Floppy => 8192,
            Self::Small | Self::News => 4096,
            Self::Default => 16384,
            Self::Big => 32768,
            Self::Huge => 65536,
            Self::LargeFile => 1 << 20,
            Self::LargeFile4 => 4 << 20,
        }
    }
}

/// The parameters that follow from the options and the size of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resolved {
    pub(super) block_bytes: u32,
    /// Size of a cluster: that of a block without `bigalloc`.
    pub(super) cluster_bytes: u32,
    pub(super) bytes_per_inode: u32,
    pub(super) inode_bytes: u16,
    pub(super) features: Features,
}

/// Chooses the parameters that the options leave open.
pub(super) fn resolve(options: &Options, device_bytes: u64) -> Resolved {
    let usage = options
        .usage
        .unwrap_or_else(|| UsageType::of_size(device_bytes));
    let (bytes_per_inode, inode_bytes) = match options.profile {
        Profile::Debian12 => (usage.bytes_per_inode(), 256),
        Profile::Classic2002 => (8192, 128),
    };
    let features = base_features(options);
    let block_bytes = options.block_bytes.unwrap_or(usage.block_bytes());
    let words = options.features.apply(features).read_only_compatible;
    let cluster_bytes = match words.contains(ReadOnlyCompatible::BIGALLOC) {
        true => options
            .cluster_bytes
            .unwrap_or(block_bytes.saturating_mul(CLUSTER_BLOCKS)),
        false => block_bytes,
    };
    // No more inodes than files with contents.
    let bytes_per_inode = bytes_per_inode.max(cluster_bytes).min(INODE_RATIO_MAX);
    Resolved {
        block_bytes,
        cluster_bytes,
        bytes_per_inode: options.bytes_per_inode.unwrap_or(bytes_per_inode),
        inode_bytes: options.inode_bytes.unwrap_or(inode_bytes),
        features,
    }
}

fn base_features(options: &Options) -> Features {
    let mut features = Features {
        compatible: Compatible::empty(),
        incompatible: Incompatible::FILETYPE,
        read_only_compatible: ReadOnlyCompatible::SPARSE_SUPER,
    };
    if options.profile == Profile::Debian12 {
        features.compatible =
            Compatible::RESIZE_INODE | Compatible::DIR_INDEX | Compatible::EXT_ATTR;
        features.read_only_compatible |= ReadOnlyCompatible::LARGE_FILE;
    }
    features.compatible.set(
        Compatible::HAS_JOURNAL,
        options.file_system != FileSystemType::Ext2,
    );
    if options.file_system == FileSystemType::Ext4 {
        features.incompatible |=
            Incompatible::EXTENTS | Incompatible::IS_64BIT | Incompatible::FLEX_BG;
        features.read_only_compatible |= ReadOnlyCompatible::HUGE_FILE
            | ReadOnlyCompatible::DIR_NLINK
            | ReadOnlyCompatible::EXTRA_ISIZE
            | ReadOnlyCompatible::METADATA_CSUM;
    }
    features
}

/// Returns the default number of blocks of the journal; none on a volume that is too small for one.
pub(crate) fn journal_blocks(profile: Profile, block_count: u64) -> Option<u32> {
    const THOUSAND: u64 = 1024;
    Some(match block_count {
        0..2048 => return None,
        2048..0x8000 => 1024,
        0x8000..0x4_0000 => 4096,
        _ if profile == Profile::Classic2002 => 8192,
        count if count < 512 * THOUSAND => 8192,
        count if count < 4096 * THOUSAND => 16384,
        count if count < 8192 * THOUSAND => 32768,
        count if count < 16384 * THOUSAND => 65536,
        count if count < 32768 * THOUSAND => 131_072,
        _ => 262_144,
    })
}
