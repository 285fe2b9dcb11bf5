//! A partition table (GPT) with one partition, without a boot loader.
//!
//! The protective MBR, the header and the table take the first 34 sectors, their copy the last 33.
//! The partition starts at 1 MiB, as partitioning programs place it.

use std::collections::BTreeMap;
use std::fs::File;

use gpt::disk::LogicalBlockSize;
use gpt::mbr::ProtectiveMBR;
use gpt::partition::Partition;
use gpt::partition_types::LINUX_FS;
use gpt::{GptConfig, GptError};
use uuid::Uuid;

use crate::error::Error;

/// Offset of the partition in bytes.
pub const START: u64 = 1 << 20;
/// Size of a sector in bytes.
const SECTOR: u64 = 512;
/// Unit of the sizes of the partition and of the disk in bytes.
pub(crate) const UNIT: u64 = 4096;
/// Space for the copy of the header and the table: 33 sectors, in whole units.
const COPY: u64 = (33 * SECTOR).next_multiple_of(UNIT);

/// UUIDs of a partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// UUID of the disk.
    pub disk: Uuid,
    /// UUID of the partition, by which Linux finds it (`PARTUUID=`).
    pub partition: Uuid,
}

/// Returns the size of a disk whose partition has at least this many bytes.
#[must_use]
pub const fn disk_bytes(partition_bytes: u64) -> u64 {
    START + partition_bytes.next_multiple_of(UNIT) + COPY
}

/// Writes the table of a partition to a file of [`disk_bytes`]. The partition has the type of
/// Linux file systems.
///
/// # Errors
/// Fails if the file has another size or cannot be written.
pub fn write(mut file: &File, partition_bytes: u64, identity: Identity) -> Result<(), Error> {
    let metadata = file.metadata().map_err(Error::io("the disk"))?;
    if metadata.len() != disk_bytes(partition_bytes) {
        return Err(Error::Invalid(
            "the disk has another size than its partition needs",
        ));
    }
    let sectors = metadata.len() / SECTOR;
    // The entry holds the length up to 2 TiB, and its maximum above.
    let mbr = ProtectiveMBR::with_lb_size(u32::try_from(sectors - 1).unwrap_or(u32::MAX));
    mbr.overwrite_lba0(&mut file)
        .map_err(|error| Error::Partition(error.to_string()))?;
    table(file, partition_bytes, identity).map_err(|error| Error::Partition(error.to_string()))
}

fn table(file: &File, partition_bytes: u64, identity: Identity) -> Result<(), GptError> {
    let config = GptConfig::new()
        .writable(true)
        .logical_block_size(LogicalBlockSize::Lb512);
    let mut disk = config.create_from_device(file, Some(identity.disk))?;
    let end = START + partition_bytes.next_multiple_of(UNIT);
    let partition = Partition {
        part_type_guid: LINUX_FS,
        part_guid: identity.partition,
        first_lba: START / SECTOR,
        last_lba: end / SECTOR - 1,
        flags: 0,
        name: String::new(),
    };
    disk.update_partitions(BTreeMap::from([(1, partition)]))?;
    disk.write()?;
    Ok(())
}
