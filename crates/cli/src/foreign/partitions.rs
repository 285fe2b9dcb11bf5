//! Partition tables: recognises a whole disk by its MBR or GPT, and returns the device text of a
//! partition that holds an ext file system.
//!
//! Sources: UEFI Specification 2.10, chapter 5; `block/partitions/{msdos,efi}.c` of Linux for the
//! checks that a table has to pass.

use std::sync::Arc;

use block::BlockDevice;
use block::text::Size;

use super::{bytes, has, has_ext};

const SECTOR: u64 = 512;
/// Alignment of slices in device texts, in bytes.
const SLICE_BYTES: u64 = 4096;
/// MBR: number of entries, offset of the first entry, and entry size in bytes.
const MBR_ENTRIES: u64 = 4;
const MBR_FIRST: u64 = 446;
const MBR_ENTRY_BYTES: usize = 16;
/// Partition type of the only MBR entry of a GPT disk.
const MBR_PROTECTIVE: u8 = 0xEE;
/// GPT: maximum number of entries that are read, and valid entry sizes in bytes.
const GPT_ENTRIES_MAX: u64 = 128;
const GPT_ENTRY_BYTES: core::ops::RangeInclusive<u64> = 128..=4096;

/// A partition, as a byte range of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    number: u64,
    start: u64,
    end: u64,
}

/// Returns the text for a whole disk, or `None` if it has no partition table.
pub(super) fn describe(device: &Arc<dyn BlockDevice>) -> Option<String> {
    let (kind, partitions) = match gpt(device) {
        Some(partitions) => ("GPT", partitions),
        None => ("MBR", mbr(device)?),
    };
    let disk = device.name();
    let found = partitions
        .iter()
        .find(|partition| has_ext(device, partition.start));
    let next = match found {
        None => format!("losetup -P -f --show {disk} makes devices of the partitions"),
        Some(Partition { number, start, end }) => {
            let what = format!("partition {number} holds ext");
            let next = next_for(device, "the partitions", *start, Some(*end));
            format!("{what}: {next}")
        }
    };
    Some(format!(
        "is a whole disk with a partition table ({kind}): {next}"
    ))
}

/// Returns how to reach a file system that starts at `start` on a disk, and ends at `end` or with
/// the disk.
pub(super) fn next_for(
    device: &Arc<dyn BlockDevice>,
    what: &str,
    start: u64,
    end: Option<u64>,
) -> String {
    let disk = device.name();
    if !start.is_multiple_of(SLICE_BYTES) {
        let limit = end.map_or_else(String::new, |end| format!(" --sizelimit {}", end - start));
        return format!("losetup -f --show -o {start}{limit} {disk} makes a device of it");
    }
    let first = Size::from(start);
    let slice = match end {
        Some(end) => format!(
            "slice({disk},{first}..{})",
            Size::from(end - end % SLICE_BYTES)
        ),
        None => format!("slice({disk},{first}..)"),
    };
    let by_loop = match end {
        Some(_) => format!("losetup -P -f --show {disk} makes devices of {what}"),
        None => format!("losetup -f --show -o {start} {disk} makes a device of {what}"),
    };
    format!("give '{slice}' in its place, or {by_loop}")
}

/// Returns the primary partitions of an MBR.
fn mbr(device: &Arc<dyn BlockDevice>) -> Option<Vec<Partition>> {
    if !has(device, 510, b"\x55\xAA") {
        return None;
    }
    let mut partitions = Vec::new();
    for index in 0..MBR_ENTRIES {
        let at = MBR_FIRST + index * MBR_ENTRY_BYTES as u64;
        let entry = bytes(device, at, MBR_ENTRY_BYTES)?;
        // Any other value is boot sector code, not a table.
        if entry[0] & 0x7F != 0 {
            return None;
        }
        let (start, count) = (u64::from(word(&entry, 8)?), u64::from(word(&entry, 12)?));
        if entry[4] != 0 && start != 0 && count != 0 {
            partitions.push(Partition {
                number: index + 1,
                start: start * SECTOR,
                end: (start + count) * SECTOR,
            });
        }
    }
    (!partitions.is_empty()).then_some(partitions)
}

/// Returns the partitions of a GPT with sectors of 512 or 4096 bytes.
fn gpt(device: &Arc<dyn BlockDevice>) -> Option<Vec<Partition>> {
    let sectors = [SECTOR, SLICE_BYTES];
    let sector = sectors
        .into_iter()
        .find(|sector| has(device, *sector, b"EFI PART"))?;
    if bytes(device, MBR_FIRST + 4, 1)? != [MBR_PROTECTIVE] {
        return None;
    }
    let header = bytes(device, sector, 92)?;
    let table = long(&header, 72)?.checked_mul(sector)?;
    let (count, each) = (u64::from(word(&header, 80)?), u64::from(word(&header, 84)?));
    let mut partitions = Vec::new();
    if !GPT_ENTRY_BYTES.contains(&each) {
        return Some(partitions);
    }
    for index in 0..count.min(GPT_ENTRIES_MAX) {
        let at = table.checked_add(index * each)?;
        let Some(entry) = bytes(device, at, 48) else {
            break;
        };
        if entry[..16] == [0; 16] {
            continue;
        }
        let end = long(&entry, 40)?.checked_add(1)?.checked_mul(sector)?;
        partitions.push(Partition {
            number: index + 1,
            start: long(&entry, 32)?.checked_mul(sector)?,
            end,
        });
    }
    partitions.retain(|partition| partition.start < partition.end);
    Some(partitions)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
