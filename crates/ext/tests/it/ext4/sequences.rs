//! Seeded random sequences on volumes with features of ext4, whose files have block maps: remounted
//! at random, then read by all readers. The volumes lie on garbage, so that a structure used before
//! it is initialised does not go unnoticed.

use std::sync::Arc;

use block::BlockDevice;
use ext::mkfs::{FeatureEdits, FileSystemType, JournalOption, Options};
use ext::options::DataMode;
use testkit::privilege;

use crate::cell::{Cell, Journal};
use crate::image::Image;
use crate::sequences::{VOLUME_BYTES, run_on, sequences};

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
}

impl Format {
    /// Makes an image of the cell. mke2fs makes no volume with `64bit` and without extents.
    fn image(self, cell: Cell) -> Image {
        let is_external = matches!(cell.journal, Journal::External(_));
        let mut features = match self {
            Self::Sums => "^extent,^64bit",
            Self::Seed => "^extent,^64bit,^flex_bg,metadata_csum_seed",
            Self::Crc16 => "^extent,^64bit,^metadata_csum,uninit_bg",
            Self::Long => return made(cell),
        }
        .to_owned();
        if cell.journal == Journal::None {
            features.push_str(",^has_journal");
        }
        let more = ["-O", &features, "-g", "2048", "-N", "6000"];
        Image::over_garbage("ext4", cell.block_bytes, VOLUME_BYTES, is_external, &more)
    }
}

/// Makes an image with descriptors of 64 bytes.
fn made(cell: Cell) -> Image {
    let image = Image::empty("ext4", cell.block_bytes, VOLUME_BYTES, false);
    std::fs::write(&image.path, vec![0xA5; VOLUME_BYTES as usize]).unwrap();
    let device: Arc<dyn BlockDevice> = image.device();
    let (features, journal) = match cell.journal {
        Journal::None => ("^extent,^has_journal", JournalOption::Default),
        _ => ("^extent", JournalOption::Blocks(1024)),
    };
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(cell.block_bytes),
        blocks_per_group: Some(2048),
        inode_count: Some(6000),
        features: FeatureEdits::parse(features).unwrap(),
        journal,
        ..Options::default()
    };
    ext::mkfs::format(&device, &options).unwrap();
    image
}

fn run(cell: Cell, format: Format) {
    // mke2fs accepts only a block device for an external journal.
    if matches!(cell.journal, Journal::External(_)) && !privilege::is_granted() {
        return;
    }
    for seed in 0..sequences() {
        run_on(&format.image(cell), cell, seed);
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
}
