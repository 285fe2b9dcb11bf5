//! The block of multiple mount protection: its place, and what it says.
//!
//! The block has two sectors, and its checksum lies in the second. A power cut can leave a write
//! half done: a wrong checksum is no damage, and only says that the sequence number is in doubt.

use std::sync::Arc;

use block::{BlockDevice, Request};
use layout::checksum::metadata;
use layout::feature::Incompatible;
use layout::multi_mount::{
    CHECK_SECONDS_MIN, INTERVAL_SECONDS_MAX, MAGIC, MultiMountBlock, SEQUENCE_CHECKED,
    SEQUENCE_CLEAN, UPDATE_SECONDS, wait_seconds,
};
use layout::{Block, BlockNr, SectorNr};
use rt::Nanos;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::checksums::Checksums;
use super::superblock::Superblock;
use crate::error::{Corrupt, OtherUser, Result};

/// Sizes of the names of a node and its device in bytes.
const NODE_BYTES: usize = 64;
const DEVICE_BYTES: usize = 32;

/// The place of the block, and the facts of the superblock about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) block: BlockNr,
    block_bytes: u32,
    /// Seed of the checksum, if there is one.
    seed: Option<u32>,
    /// `s_mmp_update_interval`.
    update_seconds: u16,
}

/// The contents of the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sequence: u32,
    pub(crate) seconds: u64,
    pub(crate) node: String,
    pub(crate) device: String,
    pub(crate) check_seconds: u16,
    /// False if the checksum is wrong: the last write of the block was torn.
    pub(crate) is_whole: bool,
}

impl Place {
    /// Returns the place; none without the feature.
    ///
    /// # Errors
    /// - [`Corrupt::MultiMount`] if the block cannot be where the superblock says.
    pub(crate) fn of(superblock: &Superblock) -> Result<Option<Self>> {
        let incompatible = superblock.features.incompatible;
        if !incompatible.contains(Incompatible::MMP) {
            return Ok(None);
        }
        let (geometry, raw) = (&superblock.geometry, &superblock.raw);
        let block = BlockNr::new(raw.mmp_block.get());
        if !geometry.contains(block) || block == geometry.superblock_place().0 {
            let why = "it is no block that can hold it";
            return Err(Corrupt::MultiMount { block, why }.into());
        }
        Ok(Some(Self::at(superblock, block)))
    }

    /// Returns the place of a block that the superblock does not name yet.
    pub(crate) fn at(superblock: &Superblock, block: BlockNr) -> Self {
        Self {
            block,
            block_bytes: superblock.geometry.block_bytes,
            seed: match superblock.checksums {
                Checksums::Metadata(seed) => Some(seed),
                _ => None,
            },
            update_seconds: superblock.raw.mmp_update_interval.get(),
        }
    }

    /// Returns the seconds between two renewals.
    pub(crate) fn update_seconds(&self) -> u16 {
        match self.update_seconds {
            0 => UPDATE_SECONDS,
            seconds => seconds.min(INTERVAL_SECONDS_MAX),
        }
    }

    /// Returns the time after a renewal for which no other node can take the volume: less than the
    /// shortest wait of another node.
    pub(crate) fn lease(&self) -> Nanos {
        let wait = wait_seconds(self.update_seconds(), CHECK_SECONDS_MIN);
        Nanos::from_secs(u64::from(wait) - 1)
    }

    /// Reads the block.
    ///
    /// # Errors
    /// - [`Corrupt::MultiMount`] if it has not the magic number.
    pub(crate) fn read(&self, device: &Arc<dyn BlockDevice>) -> Result<Record> {
        let bytes = device.read_fresh(self.offset(), self.block_bytes)?;
        let (raw, _) = MultiMountBlock::ref_from_prefix(&bytes).expect("a block holds it");
        if raw.magic.get() != MAGIC {
            let (block, why) = (self.block, "the magic number is wrong");
            return Err(Corrupt::MultiMount { block, why }.into());
        }
        let is_whole = |seed| raw.checksum.get() == metadata::multi_mount(seed, raw);
        Ok(Record {
            sequence: raw.sequence.get(),
            seconds: raw.seconds.get(),
            node: text(&raw.node),
            device: text(&raw.device),
            check_seconds: raw.check_seconds.get(),
            is_whole: self.seed.is_none_or(is_whole),
        })
    }

    /// Writes the block.
    pub(crate) fn write(&self, device: &Arc<dyn BlockDevice>, record: &Record) -> Result<()> {
        let image = encode(record, self.seed, self.block_bytes);
        let request = Request::Write {
            sector: SectorNr::from_byte_offset(self.offset()),
            payload: vec![image.into_arc()],
            // Other nodes see it only when it has left the caches of this one.
            force_unit_access: true,
        };
        Ok(device.request(vec![request]).wait_all()?)
    }

    fn offset(&self) -> u64 {
        self.block.get() * u64::from(self.block_bytes)
    }
}

/// Returns the image of a block.
pub(crate) fn encode(record: &Record, seed: Option<u32>, block_bytes: u32) -> Block {
    let mut raw = MultiMountBlock::new_zeroed();
    raw.magic.set(MAGIC);
    raw.sequence.set(record.sequence);
    raw.seconds.set(record.seconds);
    pad(&mut raw.node, &record.node);
    pad(&mut raw.device, &record.device);
    raw.check_seconds.set(record.check_seconds);
    if let Some(seed) = seed {
        raw.checksum.set(metadata::multi_mount(seed, &raw));
    }
    let mut block = Block::zeroed(block_bytes as usize);
    block[..size_of::<MultiMountBlock>()].copy_from_slice(raw.as_bytes());
    block
}

impl Record {
    /// Returns the record of this machine for a device.
    pub(crate) fn own(device: &Arc<dyn BlockDevice>, sequence: u32) -> Self {
        let name = device.name();
        let name = name.rsplit('/').next().unwrap_or(&name);
        Self::of(&rt::node_name(), name, sequence, 0)
    }

    /// Returns the record of a node at a time.
    pub(crate) fn of(node: &str, device: &str, sequence: u32, seconds: i64) -> Self {
        Self {
            sequence,
            seconds: seconds.max(0).cast_unsigned(),
            node: fitting::<NODE_BYTES>(node),
            device: fitting::<DEVICE_BYTES>(device),
            check_seconds: CHECK_SECONDS_MIN,
            is_whole: true,
        }
    }

    /// Returns true if no node uses the volume.
    pub(crate) fn is_clean(&self) -> bool {
        (self.is_whole || rt::mutant!("multi-mount/torn-taken-as-released"))
            && self.sequence == SEQUENCE_CLEAN
    }

    /// Returns true if a checker uses the volume, or another offline tool.
    pub(crate) fn is_checked(&self) -> bool {
        self.is_whole && self.sequence == SEQUENCE_CHECKED
    }

    /// Returns the seconds after which an unchanged block was abandoned.
    pub(crate) fn wait_seconds(&self, place: &Place) -> u16 {
        wait_seconds(place.update_seconds, self.check_seconds)
    }

    /// Returns the node that wrote the block.
    pub(crate) fn user(&self) -> OtherUser {
        OtherUser {
            node: self.node.clone(),
            device: self.device.clone(),
            seconds: self.seconds,
            is_checking: self.is_checked(),
        }
    }
}

/// Returns a name that is padded with NUL; bytes that no name has are replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    name.replace(char::is_control, "?")
}

/// Returns as much of a name as fits.
fn fitting<const BYTES: usize>(name: &str) -> String {
    name[..name.floor_char_boundary(BYTES)].to_owned()
}

/// Stores a name that fits.
fn pad(bytes: &mut [u8], name: &str) {
    bytes[..name.len()].copy_from_slice(name.as_bytes());
}
