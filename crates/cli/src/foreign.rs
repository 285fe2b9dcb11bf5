//! Recognises images that hold no ext file system, by magic numbers and partition tables, and
//! advises what to do with them.
//!
//! Sources of the magic numbers:
//! - the modules `src/superblocks` and `src/partitions` of libblkid (util-linux);
//! - Linux headers (`include/uapi/linux/magic.h`, `fs/*`).
//!
//! Sources for contents other than file systems:
//! - RFC 1952 (gzip), RFC 8878 (zstd), the specifications of xz, bzip2, lz4 and zip;
//! - QEMU's `docs/interop/{qcow2,qed_spec}.txt`, "VMware Virtual Disk Format 1.1", "Virtual Hard
//!   Disk Image Format" and MS-VHDX (Microsoft), `libsparse/sparse_format.h` (Android);
//! - POSIX `pax` (ustar, cpio), the LUKS on-disk formats 1 and 2, `lib/format_text/layout.h` of
//!   LVM2.

mod partitions;

use std::sync::Arc;

use block::BlockDevice;
use layout::SectorNr;
use layout::superblock as ext;

/// A file system, volume or archive that is recognised by bytes at fixed offsets.
struct Kind {
    /// Offsets and the bytes expected there. One match is enough.
    magics: &'static [(u64, &'static [u8])],
    what: &'static str,
    next: &'static str,
}

/// Advice for another file system.
const OTHER: &str = "jext reads ext2, ext3 and ext4; mount it with a driver of its own";
/// Advice for compressed contents and archives.
const PACKED: &str = "unpack it first";
/// Advice for an image of a virtual machine's disk.
const CONVERT: &str = "make it raw first, as with qemu-img convert -O raw IMAGE RAW";
/// Advice for a member of an array.
const ARRAY: &str = "assemble the array with mdadm, and give that";

const fn kind(magics: &'static [(u64, &'static [u8])], what: &'static str) -> Kind {
    Kind {
        magics,
        what,
        next: OTHER,
    }
}

const fn packed(magics: &'static [(u64, &'static [u8])], what: &'static str) -> Kind {
    Kind {
        magics,
        what,
        next: PACKED,
    }
}

const fn virtual_disk(magics: &'static [(u64, &'static [u8])], what: &'static str) -> Kind {
    Kind {
        magics,
        what,
        next: CONVERT,
    }
}

/// All kinds that are recognised. A kind that may contain the magic number of another precedes it.
const KINDS: &[Kind] = &[
    kind(&[(0, b"XFSB")], "an XFS file system"),
    kind(&[(65_600, b"_BHRfS_M")], "a btrfs file system"),
    kind(
        &[(1024, &0xF2F5_2010_u32.to_le_bytes())],
        "an F2FS file system",
    ),
    kind(
        &[(1024, &0xE0F5_E1E2_u32.to_le_bytes())],
        "an EROFS file system",
    ),
    kind(
        &[
            (65_588, b"ReIsErFs"),
            (65_588, b"ReIsEr2Fs"),
            (65_588, b"ReIsEr3Fs"),
            (8244, b"ReIsErFs"),
        ],
        "a ReiserFS file system",
    ),
    kind(&[(32_768, b"JFS1")], "a JFS file system"),
    kind(
        &[
            (
                4120,
                b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81",
            ),
            (
                4120,
                b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF",
            ),
        ],
        "a bcache or bcachefs device",
    ),
    kind(&[(0, b"hsqs"), (0, b"sqsh")], "a squashfs file system"),
    kind(
        &[(0, &0x28CD_3D45_u32.to_le_bytes())],
        "a cramfs file system",
    ),
    kind(&[(3, b"NTFS    ")], "an NTFS file system"),
    kind(&[(3, b"EXFAT   ")], "an exFAT file system"),
    kind(
        &[(54, b"FAT12   "), (54, b"FAT16   "), (82, b"FAT32   ")],
        "a FAT file system",
    ),
    kind(
        &[(1024, b"H+\x00\x04"), (1024, b"HX\x00\x05")],
        "an HFS+ file system",
    ),
    kind(&[(32, b"NXSB")], "an APFS container"),
    kind(&[(32_769, b"CD001")], "an ISO 9660 file system"),
    kind(&[(32_769, b"BEA01")], "a UDF file system"),
    Kind {
        magics: &[
            (4086, b"SWAPSPACE2"),
            (4086, b"SWAP-SPACE"),
            (8182, b"SWAPSPACE2"),
            (16_374, b"SWAPSPACE2"),
            (32_758, b"SWAPSPACE2"),
            (65_526, b"SWAPSPACE2"),
        ],
        what: "swap space",
        next: "there are no files in it",
    },
    Kind {
        magics: &[(0, b"LUKS\xBA\xBE"), (0x4000, b"SKUL\xBA\xBE")],
        what: "a device encrypted with LUKS",
        next: "open it with cryptsetup open, and give the device below /dev/mapper",
    },
    Kind {
        magics: &[
            (0, b"LABELONE"),
            (512, b"LABELONE"),
            (1024, b"LABELONE"),
            (1536, b"LABELONE"),
        ],
        what: "a physical volume of LVM2",
        next: "activate its group with vgchange -ay, and give a logical volume below /dev",
    },
    Kind {
        magics: &[
            (0, &0xA92B_4EFC_u32.to_le_bytes()),
            (4096, &0xA92B_4EFC_u32.to_le_bytes()),
        ],
        what: "a member of a Linux RAID array",
        next: ARRAY,
    },
    virtual_disk(&[(0, b"QFI\xFB")], "a disk image of the format qcow2"),
    virtual_disk(&[(0, b"QED\0")], "a disk image of the format QED"),
    virtual_disk(
        &[(0, b"KDMV"), (0, b"COWD"), (0, b"# Disk DescriptorFile")],
        "a disk image of the format VMDK",
    ),
    virtual_disk(
        &[(64, &0xBEDA_107F_u32.to_le_bytes())],
        "a disk image of the format VDI",
    ),
    virtual_disk(
        &[(0, b"vhdxfile"), (0, b"conectix")],
        "a disk image of the format VHD or VHDX",
    ),
    Kind {
        magics: &[(0, &0xED26_FF3A_u32.to_le_bytes())],
        what: "a sparse image of Android",
        next: "make it raw first, with simg2img",
    },
    packed(&[(0, b"\x1F\x8B")], "packed with gzip"),
    packed(&[(0, b"\xFD7zXZ\0")], "packed with xz"),
    packed(&[(0, b"\x28\xB5\x2F\xFD")], "packed with zstd"),
    packed(&[(0, b"BZh")], "packed with bzip2"),
    packed(&[(0, b"\x04\x22\x4D\x18")], "packed with lz4"),
    packed(&[(0, b"PK\x03\x04")], "a zip archive"),
    packed(&[(0, b"7z\xBC\xAF\x27\x1C")], "a 7z archive"),
    packed(
        &[(0, b"070701"), (0, b"070702"), (0, b"070707")],
        "a cpio archive",
    ),
    Kind {
        magics: &[(257, b"ustar")],
        what: "a tar archive",
        next: "jext build makes an image of it",
    },
];

/// Superblock backup in group 1, by block size: byte offset of its block, and the block number for
/// `e2fsck -b`.
const COPIES: [(u64, u32); 3] = [
    (8193 * 1024, 8193),
    (16_384 * 2048, 16_384),
    (32_768 * 4096, 32_768),
];
/// Offset of the magic number within a superblock, in bytes.
const EXT_MAGIC_OFFSET: u64 = 56;
/// Number of leading bytes that are examined for zeroes.
const EMPTY_BYTES: u32 = 64 << 10;

/// Returns the contents of a device if they are recognised: compressed data, another file system, a
/// whole disk.
pub(crate) fn recognise(device: &Arc<dyn BlockDevice>) -> Option<String> {
    let found = KINDS.iter().find(|kind| {
        let magics = kind.magics.iter();
        magics
            .into_iter()
            .any(|(at, magic)| has(device, *at, magic))
    });
    match found {
        Some(Kind { what, next, .. }) => Some(format!("is {what}: {next}")),
        None => partitions::describe(device).or_else(|| displaced(device)),
    }
}

/// Returns why a device without the magic number of ext cannot be used, with advice.
pub(crate) fn describe(device: &Arc<dyn BlockDevice>) -> String {
    if let Some(text) = recognise(device) {
        return text;
    }
    let copy = COPIES
        .iter()
        .find(|(at, _)| has(device, at + EXT_MAGIC_OFFSET, &ext::MAGIC.to_le_bytes()));
    if let Some((_, block)) = copy {
        return format!(
            "its superblock is lost, but block {block} holds a copy: e2fsck -b {block} brings it back"
        );
    }
    if is_empty(device) {
        return "holds nothing, only zeroes: jext mkfs makes a file system on it".to_owned();
    }
    let magic = bytes(device, ext::OFFSET + EXT_MAGIC_OFFSET, 2);
    let magic = magic.and_then(|bytes| Some(u16::from_le_bytes(bytes.try_into().ok()?)));
    format!(
        "holds no ext file system (magic is {:#06x}, not {:#06x}), nor anything else that is known",
        magic.unwrap_or_default(),
        ext::MAGIC
    )
}

/// Usual partition starts in bytes, for disks without a partition table: 1 MiB (since 2010), sector
/// 63 (before), and other powers of two.
const USUAL_STARTS: [u64; 9] = [
    1 << 20,
    63 * 512,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
    32 << 20,
    64 << 20,
    4096 * 63,
];

/// Returns the text for a device whose ext file system starts at a usual partition start.
fn displaced(device: &Arc<dyn BlockDevice>) -> Option<String> {
    let start = USUAL_STARTS
        .into_iter()
        .find(|start| has_ext(device, *start) && is_first(device, *start))?;
    let next = partitions::next_for(device, "that", start, None);
    Some(format!(
        "has no file system at its start, and no partition table, but one of ext at byte {start}: {next}"
    ))
}

/// True if the superblock is the primary one: a backup holds the number of its group.
fn is_first(device: &Arc<dyn BlockDevice>, start: u64) -> bool {
    const GROUP_OFFSET: u64 = 0x5A;
    bytes(device, start + ext::OFFSET + GROUP_OFFSET, 2).is_some_and(|bytes| bytes == [0, 0])
}

/// True if an ext file system starts at the offset.
pub(crate) fn has_ext(device: &Arc<dyn BlockDevice>, start: u64) -> bool {
    let at = start.checked_add(ext::OFFSET + EXT_MAGIC_OFFSET);
    at.is_some_and(|at| has(device, at, &ext::MAGIC.to_le_bytes()))
}

fn has(device: &Arc<dyn BlockDevice>, offset: u64, magic: &[u8]) -> bool {
    bytes(device, offset, magic.len()).is_some_and(|bytes| bytes == magic)
}

/// Returns bytes of a device, or `None` if they lie beyond its end or cannot be read.
fn bytes(device: &Arc<dyn BlockDevice>, offset: u64, length: usize) -> Option<Vec<u8>> {
    let first = offset - offset % SectorNr::SIZE;
    let end = offset
        .checked_add(length as u64)?
        .checked_next_multiple_of(SectorNr::SIZE)?;
    if end > device.geometry().size_bytes {
        return None;
    }
    let block = device
        .read_block(first, u32::try_from(end - first).ok()?)
        .ok()?;
    let start = (offset - first) as usize;
    Some(block.get(start..start + length)?.to_vec())
}

/// True if the device starts with zeroes only.
pub(crate) fn is_empty(device: &Arc<dyn BlockDevice>) -> bool {
    let size = device.geometry().size_bytes;
    let looked_at = size.min(EMPTY_BYTES.into());
    bytes(device, 0, looked_at as usize).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use block::MemoryDevice;
    use layout::Block;

    use super::*;

    /// Returns a device of zeroes except for the pieces.
    fn device(pieces: &[(u64, &[u8])]) -> Arc<dyn BlockDevice> {
        let mut bytes = vec![0; 1 << 20];
        for (at, piece) in pieces {
            let at = *at as usize;
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 20));
        let image = vec![Block::copy_from(&bytes).into_arc()];
        device.write_blocks(0, image).expect("it is memory");
        device
    }

    #[test]
    fn every_kind_is_known_by_each_of_its_magic_numbers() {
        for kind in KINDS {
            for (at, magic) in kind.magics {
                let said = recognise(&device(&[(*at, magic)]));
                let expected = format!("is {}: {}", kind.what, kind.next);
                assert_eq!(said, Some(expected));
            }
        }
    }

    #[test]
    fn what_is_empty_or_unknown_is_said() {
        assert!(describe(&device(&[])).starts_with("holds nothing"));
        let said = describe(&device(&[(1080, b"\x34\x12")]));
        assert!(said.contains("magic is 0x1234, not 0xef53"), "{said}");
        let tiny: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(4096));
        assert!(describe(&tiny).starts_with("holds nothing"));
    }
}
