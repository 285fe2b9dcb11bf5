//! Seeded random sequences on volumes with features of ext4: remounted at random, then read by all
//! readers. The volumes lie on garbage, so that a structure used before
//! it is initialised does not go unnoticed.

use ext::options::DataMode;
use layout::InodeNr;
use testkit::{privilege, tool};

use crate::cell::{Cell, Journal};
use crate::image::Image;
use crate::sequences::{Turn, VOLUME_BYTES, run_on, sequences};

/// The features of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Checksums of all metadata.
    Sums,
    /// The same, from a seed of their own, in groups without `flex_bg`.
    Seed,
    /// crc16 of group descriptors.
    Crc16,
    /// Checksums of all metadata, and descriptors of 64 bytes.
    Long,
    /// Extents, and no other feature of ext4.
    Extents,
    /// All that mke2fs gives to ext4.
    Full,
    /// The same in meta block groups, of which there are several with blocks of 1 KiB.
    MetaGroups,
    /// The same, and an orphan file.
    Orphans,
    /// The same, and values of attributes of up to 64 KiB.
    Values,
    /// Such values in files with block maps.
    ValuesOfExt3,
    /// Files and directories within their inodes.
    Inline,
    /// The same, and such values.
    InlineValues,
    /// The same as `Inline`, where other files have block maps.
    InlineOfExt3,
    /// The same as `Full`, with quotas of users, groups and projects.
    Quota,
    /// The same as `Inline`, with such quotas.
    QuotaInline,
    /// The same as `Quota`, with values of attributes of up to 64 KiB.
    QuotaValues,
    /// Quotas of users and groups in files with block maps.
    QuotaOfExt3,
    /// Clusters of four blocks, an orphan file, and values of attributes of up to 64 KiB.
    Clusters,
    /// Clusters of 16 blocks.
    LargeClusters,
}

impl Format {
    /// Makes an image of the cell.
    fn image(self, cell: Cell) -> Image {
        let is_external = matches!(cell.journal, Journal::External(_));
        let mut features = match self {
            Self::Sums => "^extent,^64bit",
            Self::Seed => "^extent,^64bit,^flex_bg,metadata_csum_seed",
            Self::Crc16 => "^extent,^64bit,^metadata_csum,uninit_bg",
            Self::Long => return long(cell),
            Self::Extents => "^64bit,^metadata_csum,^flex_bg,^huge_file,^dir_nlink,^extra_isize",
            Self::Full => "extent",
            Self::MetaGroups => "meta_bg,^resize_inode,large_dir",
            Self::Orphans => "extent,orphan_file",
            Self::Values => "extent,orphan_file,ea_inode",
            Self::ValuesOfExt3 => "^extent,^64bit,^metadata_csum,uninit_bg,ea_inode",
            Self::Inline => "extent,inline_data",
            Self::InlineValues => "extent,orphan_file,ea_inode,inline_data",
            Self::InlineOfExt3 => "^extent,^64bit,^metadata_csum,uninit_bg,inline_data",
            Self::Quota => "extent,quota,project",
            Self::QuotaInline => "extent,inline_data,quota,project",
            Self::QuotaValues => "extent,ea_inode,quota,project",
            Self::QuotaOfExt3 => "^extent,^64bit,^metadata_csum,uninit_bg,quota",
            Self::Clusters => "extent,bigalloc,orphan_file,ea_inode",
            Self::LargeClusters => "extent,bigalloc",
        }
        .to_owned();
        if cell.journal == Journal::None {
            features.push_str(",^has_journal");
            if self == Self::Clusters {
                features.push_str(",^orphan_file");
            }
        }
        let per_group = match self {
            Self::MetaGroups => "256",
            _ => "2048",
        };
        let cluster_bytes = match self {
            Self::Clusters => Some(cell.block_bytes * 4),
            Self::LargeClusters => Some(cell.block_bytes * 16),
            _ => None,
        };
        let cluster = cluster_bytes.map(|bytes| bytes.to_string());
        let more = match &cluster {
            Some(bytes) => ["-O", &features, "-C", bytes, "-N", "6000"],
            None => ["-O", &features, "-g", per_group, "-N", "6000"],
        };
        Image::over_garbage("ext4", cell.block_bytes, VOLUME_BYTES, is_external, &more)
    }
}

/// Makes an image with descriptors of 64 bytes, whose files have block maps.
fn long(cell: Cell) -> Image {
    let more = ["-O", "^has_journal,64bit", "-g", "2048", "-N", "6000"];
    let image = Image::over_garbage("ext4", cell.block_bytes, VOLUME_BYTES, false, &more);
    let mut requests = vec!["feature -extent".to_owned()];
    for inode in [InodeNr::ROOT.get(), 11] {
        let blocks = debugfs(&image, &format!("blocks <{inode}>"));
        let blocks = blocks.split_whitespace().chain(std::iter::repeat("0"));
        requests.push(format!("sif <{inode}> flags 0"));
        for (index, block) in blocks.take(12).enumerate() {
            requests.push(format!("sif <{inode}> block[{index}] {block}"));
        }
        for word in ["IND", "DIND", "TIND"] {
            requests.push(format!("sif <{inode}> block[{word}] 0"));
        }
    }
    for request in &requests {
        debugfs(&image, request);
    }
    if cell.journal != Journal::None {
        let size = format!("size={}", cell.block_bytes / 1024);
        let path = image.path.to_str().unwrap();
        tool::run_well("tune2fs", &["-j", "-J", &size, path]);
    }
    image
}

fn debugfs(image: &Image, request: &str) -> String {
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", request, path])
}

fn run(cell: Cell, format: Format) {
    // mke2fs accepts only a block device for an external journal.
    if matches!(cell.journal, Journal::External(_)) && !privilege::is_granted() {
        return;
    }
    for seed in 0..sequences() {
        let image = format.image(cell);
        // The tools take 64bit without extents for damage.
        let turn = |turn| match (format, turn) {
            (Format::Long, Turn::Engine) => drop(debugfs(&image, "feature -extent")),
            (Format::Long, Turn::Others) => drop(debugfs(&image, "feature extent")),
            _ => {}
        };
        run_on(&image, cell, seed, &turn);
    }
}

macro_rules! cells {
    ($($name:ident: $block_bytes:expr, $journal:expr, $format:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let cell = Cell {
                    block_bytes: $block_bytes,
                    journal: $journal,
                };
                run(cell, $format);
            }
        )*
    };
}

const NONE: Journal = Journal::None;
const ORDERED: Journal = Journal::Internal(DataMode::Ordered);
const WRITEBACK: Journal = Journal::Internal(DataMode::Writeback);
const JOURNALED: Journal = Journal::Internal(DataMode::Journal);
const EXTERNAL_ORDERED: Journal = Journal::External(DataMode::Ordered);
const EXTERNAL_WRITEBACK: Journal = Journal::External(DataMode::Writeback);
const EXTERNAL_JOURNALED: Journal = Journal::External(DataMode::Journal);

cells! {
    sums_1k_no_journal: 1024, NONE, Format::Sums;
    sums_1k_ordered: 1024, ORDERED, Format::Sums;
    sums_1k_writeback: 1024, WRITEBACK, Format::Sums;
    sums_1k_journal: 1024, JOURNALED, Format::Sums;
    sums_1k_external_ordered: 1024, EXTERNAL_ORDERED, Format::Sums;
    sums_1k_external_writeback: 1024, EXTERNAL_WRITEBACK, Format::Sums;
    sums_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Sums;
    sums_4k_no_journal: 4096, NONE, Format::Sums;
    sums_4k_ordered: 4096, ORDERED, Format::Sums;
    sums_4k_writeback: 4096, WRITEBACK, Format::Sums;
    sums_4k_journal: 4096, JOURNALED, Format::Sums;
    sums_4k_external_ordered: 4096, EXTERNAL_ORDERED, Format::Sums;
    sums_4k_external_writeback: 4096, EXTERNAL_WRITEBACK, Format::Sums;
    sums_4k_external_journal: 4096, EXTERNAL_JOURNALED, Format::Sums;
    seed_1k_ordered: 1024, ORDERED, Format::Seed;
    seed_4k_no_journal: 4096, NONE, Format::Seed;
    crc16_1k_no_journal: 1024, NONE, Format::Crc16;
    crc16_1k_ordered: 1024, ORDERED, Format::Crc16;
    crc16_4k_external_journal: 4096, EXTERNAL_JOURNALED, Format::Crc16;
    long_1k_no_journal: 1024, NONE, Format::Long;
    long_1k_ordered: 1024, ORDERED, Format::Long;
    long_4k_journal: 4096, JOURNALED, Format::Long;
    extents_1k_no_journal: 1024, NONE, Format::Extents;
    extents_1k_ordered: 1024, ORDERED, Format::Extents;
    extents_1k_writeback: 1024, WRITEBACK, Format::Extents;
    extents_1k_journal: 1024, JOURNALED, Format::Extents;
    extents_1k_external_ordered: 1024, EXTERNAL_ORDERED, Format::Extents;
    extents_1k_external_writeback: 1024, EXTERNAL_WRITEBACK, Format::Extents;
    extents_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Extents;
    extents_4k_no_journal: 4096, NONE, Format::Extents;
    extents_4k_ordered: 4096, ORDERED, Format::Extents;
    extents_4k_writeback: 4096, WRITEBACK, Format::Extents;
    extents_4k_journal: 4096, JOURNALED, Format::Extents;
    extents_4k_external_ordered: 4096, EXTERNAL_ORDERED, Format::Extents;
    extents_4k_external_writeback: 4096, EXTERNAL_WRITEBACK, Format::Extents;
    extents_4k_external_journal: 4096, EXTERNAL_JOURNALED, Format::Extents;
    full_1k_no_journal: 1024, NONE, Format::Full;
    full_1k_ordered: 1024, ORDERED, Format::Full;
    full_1k_writeback: 1024, WRITEBACK, Format::Full;
    full_1k_journal: 1024, JOURNALED, Format::Full;
    full_1k_external_ordered: 1024, EXTERNAL_ORDERED, Format::Full;
    full_1k_external_writeback: 1024, EXTERNAL_WRITEBACK, Format::Full;
    full_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Full;
    full_4k_no_journal: 4096, NONE, Format::Full;
    full_4k_ordered: 4096, ORDERED, Format::Full;
    full_4k_writeback: 4096, WRITEBACK, Format::Full;
    full_4k_journal: 4096, JOURNALED, Format::Full;
    full_4k_external_ordered: 4096, EXTERNAL_ORDERED, Format::Full;
    full_4k_external_writeback: 4096, EXTERNAL_WRITEBACK, Format::Full;
    full_4k_external_journal: 4096, EXTERNAL_JOURNALED, Format::Full;
    meta_groups_1k_no_journal: 1024, NONE, Format::MetaGroups;
    meta_groups_1k_ordered: 1024, ORDERED, Format::MetaGroups;
    meta_groups_4k_journal: 4096, JOURNALED, Format::MetaGroups;
    orphans_1k_ordered: 1024, ORDERED, Format::Orphans;
    orphans_1k_journal: 1024, JOURNALED, Format::Orphans;
    orphans_1k_external_writeback: 1024, EXTERNAL_WRITEBACK, Format::Orphans;
    orphans_4k_writeback: 4096, WRITEBACK, Format::Orphans;
    orphans_4k_external_ordered: 4096, EXTERNAL_ORDERED, Format::Orphans;
    values_1k_ordered: 1024, ORDERED, Format::Values;
    values_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Values;
    values_4k_writeback: 4096, WRITEBACK, Format::Values;
    values_1k_of_ext3_ordered: 1024, ORDERED, Format::ValuesOfExt3;
    values_4k_of_ext3_no_journal: 4096, NONE, Format::ValuesOfExt3;
    inline_1k_no_journal: 1024, NONE, Format::Inline;
    inline_1k_ordered: 1024, ORDERED, Format::Inline;
    inline_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Inline;
    inline_2k_writeback: 2048, WRITEBACK, Format::Inline;
    inline_4k_ordered: 4096, ORDERED, Format::Inline;
    inline_4k_journal: 4096, JOURNALED, Format::Inline;
    inline_4k_external_writeback: 4096, EXTERNAL_WRITEBACK, Format::Inline;
    inline_values_1k_ordered: 1024, ORDERED, Format::InlineValues;
    inline_values_4k_journal: 4096, JOURNALED, Format::InlineValues;
    inline_of_ext3_1k_ordered: 1024, ORDERED, Format::InlineOfExt3;
    inline_of_ext3_4k_no_journal: 4096, NONE, Format::InlineOfExt3;
    quota_1k_ordered: 1024, ORDERED, Format::Quota;
    quota_1k_external_journal: 1024, EXTERNAL_JOURNALED, Format::Quota;
    quota_2k_writeback: 2048, WRITEBACK, Format::Quota;
    quota_4k_ordered: 4096, ORDERED, Format::Quota;
    quota_inline_1k_ordered: 1024, ORDERED, Format::QuotaInline;
    quota_inline_4k_journal: 4096, JOURNALED, Format::QuotaInline;
    quota_values_1k_ordered: 1024, ORDERED, Format::QuotaValues;
    quota_of_ext3_1k_ordered: 1024, ORDERED, Format::QuotaOfExt3;
    quota_of_ext3_4k_no_journal: 4096, NONE, Format::QuotaOfExt3;
    clusters_1k_no_journal: 1024, NONE, Format::Clusters;
    clusters_1k_ordered: 1024, ORDERED, Format::Clusters;
    clusters_1k_writeback: 1024, WRITEBACK, Format::Clusters;
    clusters_1k_journal: 1024, JOURNALED, Format::Clusters;
    clusters_1k_external_ordered: 1024, EXTERNAL_ORDERED, Format::Clusters;
    clusters_4k_no_journal: 4096, NONE, Format::Clusters;
    clusters_4k_ordered: 4096, ORDERED, Format::Clusters;
    clusters_4k_external_journal: 4096, EXTERNAL_JOURNALED, Format::Clusters;
    large_clusters_1k_no_journal: 1024, NONE, Format::LargeClusters;
    large_clusters_1k_ordered: 1024, ORDERED, Format::LargeClusters;
    large_clusters_1k_journal: 1024, JOURNALED, Format::LargeClusters;
    large_clusters_4k_writeback: 4096, WRITEBACK, Format::LargeClusters;
    large_clusters_4k_ordered: 4096, ORDERED, Format::LargeClusters;
}
