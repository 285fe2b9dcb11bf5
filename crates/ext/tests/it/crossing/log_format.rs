//! The format of an image's log: version, checksums, size of tags. It is set by a change of the
//! journal's superblock, because mke2fs creates only one kind.

use std::sync::Arc;

use ext::Volume;
use jbd2::format::Checksums;
use jbd2::recovery::Inspection;
use jbd2::{Location, LogExtent};
use layout::journal::{
    BlockType, ChecksumType, Header, JournalCompatible, JournalIncompatible, JournalSuperblock,
};
use layout::{Block, InodeNr, checksum};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::image::{Image, look_at};

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFormat {
    pub block_bytes: u32,
    /// Version of the journal's superblock; 1 has no features.
    pub version: u8,
    pub checksums: Checksums,
    pub is_64bit: bool,
}

const fn format(block_bytes: u32, version: u8, checksums: Checksums, is_64bit: bool) -> LogFormat {
    LogFormat {
        block_bytes,
        version,
        checksums,
        is_64bit,
    }
}

/// Version 1 of the superblock.
pub const OLD: LogFormat = format(1024, 1, Checksums::None, false);

/// The format that mke2fs creates for ext3.
pub const PLAIN: LogFormat = format(1024, 2, Checksums::None, false);

/// The same with large blocks.
pub const LARGE: LogFormat = format(4096, 2, Checksums::None, false);

/// The first format with checksums.
pub const V1: LogFormat = format(1024, 2, Checksums::V1, false);
pub const V2: LogFormat = format(1024, 2, Checksums::V2, false);
pub const V3: LogFormat = format(1024, 2, Checksums::V3, false);

/// All formats with small blocks, and each kind of tag with large ones.
pub const ALL: &[LogFormat] = &[
    OLD,
    PLAIN,
    format(1024, 2, Checksums::None, true),
    V1,
    format(1024, 2, Checksums::V1, true),
    V2,
    format(1024, 2, Checksums::V2, true),
    V3,
    format(1024, 2, Checksums::V3, true),
    LARGE,
    format(4096, 2, Checksums::V2, true),
    format(4096, 2, Checksums::V3, false),
];

/// Returns the place of an image's log.
pub fn location(image: &Image) -> Location {
    let block_bytes = image.block_bytes;
    if let Some(journal) = &image.journal_path {
        let device = look_at(journal);
        let found = jbd2::format::external_superblock(&device).expect("a journal device");
        return jbd2::format::open_external(device, block_bytes, found.uuid)
            .expect("the journal is good");
    }
    let device = look_at(&image.path);
    let as_it_lies = ext::MountOptions {
        read_only: true,
        no_recovery: true,
        ..Default::default()
    };
    let volume =
        Volume::open(Arc::clone(&device), None, as_it_lies).expect("the volume opens as it lies");
    let blocks = volume
        .blocks_of(InodeNr::JOURNAL)
        .expect("the journal is mapped");
    volume.close().expect("close");
    let data = blocks.iter().filter(|extent| extent.file_block.is_some());
    let extents = data.map(|extent| LogExtent {
        first: extent.first,
        count: extent.count,
    });
    Location {
        device,
        block_bytes,
        extents: extents.collect(),
    }
}

/// Returns the contents of an image's log.
pub fn inspect(image: &Image) -> Inspection {
    jbd2::recovery::inspect(&location(image)).expect("the journal's superblock is good")
}

/// Returns the names of the log's features except revokes, which a log has when it needs them.
pub fn features(image: &Image) -> Vec<&'static str> {
    let mut names = inspect(image).features;
    names.retain(|name| *name != "journal_incompat_revoke");
    names
}

impl LogFormat {
    /// Returns the names of its features.
    pub fn features(&self) -> Vec<&'static str> {
        let mut names = match self.checksums {
            Checksums::V1 => vec!["journal_checksum"],
            _ => vec![],
        };
        if self.is_64bit {
            names.push("journal_64bit");
        }
        match self.checksums {
            Checksums::None | Checksums::V1 => {}
            Checksums::V2 => names.push("journal_checksum_v2"),
            Checksums::V3 => names.push("journal_checksum_v3"),
        }
        names
    }

    /// Returns true if debugfs and the kernel use it only with metadata checksums.
    pub fn wants_metadata_checksums(&self) -> bool {
        matches!(self.checksums, Checksums::V2 | Checksums::V3)
    }

    /// Sets the format of an empty log.
    pub fn set(&self, image: &Image) {
        let log = location(image);
        let offset = log.extents[0].first.get() * u64::from(log.block_bytes);
        let block = log
            .device
            .read_block(offset, log.block_bytes)
            .expect("the image is there");
        let mut bytes = Block::copy_from(&block);
        let (raw, _) = JournalSuperblock::mut_from_prefix(&mut bytes).expect("a block is longer");
        self.change(raw);
        log.device
            .write_blocks(offset, vec![bytes.into_arc()])
            .expect("the image can be written");
    }

    fn change(&self, raw: &mut JournalSuperblock) {
        if self.version == 1 {
            let mut old = JournalSuperblock::new_zeroed();
            let length = core::mem::offset_of!(JournalSuperblock, compatible_bits);
            old.as_mut_bytes()[..length].copy_from_slice(&raw.as_bytes()[..length]);
            old.header = Header::new(BlockType::SuperblockV1, 0);
            *raw = old;
            return;
        }
        let mut compatible = JournalCompatible::empty();
        compatible.set(JournalCompatible::CHECKSUM, self.checksums == Checksums::V1);
        let mut incompatible = JournalIncompatible::empty();
        incompatible.set(JournalIncompatible::IS_64BIT, self.is_64bit);
        let (v2, v3) = (
            self.checksums == Checksums::V2,
            self.checksums == Checksums::V3,
        );
        incompatible.set(JournalIncompatible::CHECKSUM_V2, v2);
        incompatible.set(JournalIncompatible::CHECKSUM_V3, v3);
        raw.compatible_bits = compatible.bits().into();
        raw.incompatible_bits = incompatible.bits().into();
        if v2 || v3 {
            raw.checksum_type = ChecksumType::Crc32c.raw();
            raw.checksum = checksum::journal_superblock(raw).into();
        }
    }
}
