//! Checksums of ext and of the journal. This module, [`metadata`] and [`fast_commit`] are the only
//! place of each formula: its range, its order, and the bytes taken as zero.
//!
//! There are three polynomials: crc32c (Castagnoli, reflected) for metadata and journal checksums
//! v2 and v3; crc32 (IEEE 802.3, most significant bit first) for journal checksums v1; crc16
//! (0x8005, reflected) for group descriptors. As in the kernel, the caller passes the initial
//! register and the result is not inverted, so a checksum can be continued over more bytes.
//!
//! Source: Linux `Documentation/filesystems/ext4/checksums.rst`, `journal.rst`.

pub mod fast_commit;
pub mod metadata;

use core::mem::offset_of;

use zerocopy::IntoBytes;

use crate::group::GroupDescriptor;
use crate::journal::{BlockTail, CommitBlock, JournalSuperblock};
use crate::superblock::Superblock;

/// Initial register, unless another one is named.
pub const START: u32 = !0;

/// Returns crc32c of `bytes`, continued from `seed`, without a final inversion.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Returns the seed of all v2 and v3 checksums of a journal: crc32c of the journal's `s_uuid` from
/// [`START`].
pub fn journal_seed(uuid: &[u8; 16]) -> u32 {
    crc32c(START, uuid)
}

/// Returns the journal superblock's `s_checksum` (v2, v3): crc32c of its 1024 bytes from [`START`],
/// with `s_checksum` as zero.
pub fn journal_superblock(superblock: &JournalSuperblock) -> u32 {
    let at = offset_of!(JournalSuperblock, checksum);
    crc32c_with_hole(START, superblock.as_bytes(), at)
}

/// Returns a commit block's `h_chksum[0]` (v2, v3): crc32c of the whole block from the journal's
/// seed, with `h_chksum[0]` as zero.
pub fn commit_block(seed: u32, block: &[u8]) -> u32 {
    crc32c_with_hole(seed, block, offset_of!(CommitBlock, checksums))
}

/// Returns the `t_checksum` at the end of a descriptor or revoke block (v2, v3): crc32c of the
/// whole block from the journal's seed, with the last four bytes as zero.
pub fn journal_block(seed: u32, block: &[u8]) -> u32 {
    crc32c_with_hole(seed, block, block.len() - size_of::<BlockTail>())
}

/// Returns a tag's `t_checksum` (v3; v2 keeps the lower 16 bits). It is crc32c from the journal's
/// seed of the big-endian transaction number, then of the block as logged, that is after escaping.
pub fn tag(seed: u32, sequence: u32, logged: &[u8]) -> u32 {
    crc32c(crc32c(seed, &sequence.to_be_bytes()), logged)
}

/// Returns crc32 with the polynomial 0x04C11DB7, most significant bit first, continued from `seed`.
///
/// A commit block's `h_chksum[0]` (v1) is this checksum, from [`START`], over all descriptor and
/// logged blocks of the transaction in log order. Revoke blocks are not covered.
pub fn crc32_be(seed: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<STRIDE>();
    let mut crc = seed;
    for chunk in chunks {
        let head = crc.to_be_bytes();
        // Only the first four lookups wait for the chunk before.
        let tail = (4..STRIDE).fold(0, |sum, i| {
            sum ^ CRC32_BE[STRIDE - 1 - i][usize::from(chunk[i])]
        });
        crc = (0..4).fold(tail, |sum, i| {
            sum ^ CRC32_BE[STRIDE - 1 - i][usize::from(chunk[i] ^ head[i])]
        });
    }
    for byte in rest {
        let index = usize::from((crc >> 24) as u8 ^ byte);
        crc = (crc << 8) ^ CRC32_BE[0][index];
    }
    crc
}

/// Returns crc16 with the polynomial 0x8005, least significant bit first (0xA001), continued from
/// `seed`.
pub fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, byte| {
        let index = usize::from(crc as u8 ^ byte);
        (crc >> 8) ^ CRC16[index]
    })
}

/// Returns the file system's `s_checksum` (`metadata_csum`): crc32c from [`START`] of the
/// superblock's bytes before it.
pub fn superblock(superblock: &Superblock) -> u32 {
    let at = offset_of!(Superblock, checksum);
    crc32c(START, &superblock.as_bytes()[..at])
}

/// Returns a group descriptor's `bg_checksum` with `uninit_bg` (`gdt_csum`) and without
/// `metadata_csum`.
///
/// It is crc16 from 0xFFFF of the file system's UUID, then of the little-endian group number, then
/// of the descriptor's 32 or 64 bytes except `bg_checksum` itself.
pub fn group_descriptor_crc16(uuid: &[u8; 16], group: u32, descriptor: &[u8]) -> u16 {
    let at = offset_of!(GroupDescriptor, checksum);
    let crc = crc16(crc16(0xFFFF, uuid), &group.to_le_bytes());
    let crc = crc16(crc, &descriptor[..at]);
    crc16(crc, &descriptor[at + 2..])
}

/// Returns crc32c with the four bytes at `at` taken as zero.
fn crc32c_with_hole(seed: u32, bytes: &[u8], at: usize) -> u32 {
    let crc = crc32c(crc32c(seed, &bytes[..at]), &[0; 4]);
    crc32c(crc, &bytes[at + 4..])
}

/// Number of bytes that [`crc32_be`] takes at a time.
const STRIDE: usize = 16;

/// `CRC32_BE[n][b]`: the register after the byte `b` and `n` zero bytes.
const CRC32_BE: [[u32; 256]; STRIDE] = crc32_be_tables();

const fn crc32_be_tables() -> [[u32; 256]; STRIDE] {
    const POLYNOMIAL: u32 = 0x04C1_1DB7;
    let mut tables = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000_0000 != 0 {
                (crc << 1) ^ POLYNOMIAL
            } else {
                crc << 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeroes = 1;
    while zeroes < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeroes - 1][byte];
            tables[zeroes][byte] = (crc << 8) ^ tables[0][(crc >> 24) as usize];
            byte += 1;
        }
        zeroes += 1;
    }
    tables
}

const CRC16: [u16; 256] = crc16_table();

const fn crc16_table() -> [u16; 256] {
    const POLYNOMIAL: u16 = 0xA001;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check string of the catalogue of parametrised CRC algorithms (reveng.sourceforge.io).
    const CHECK: &[u8] = b"123456789";

    #[test]
    fn check_values_of_the_catalogue() {
        // CRC-32/ISCSI is inverted at the end.
        assert_eq!(crc32c(START, CHECK), !0xE306_9283);
        // CRC-32/MPEG-2.
        assert_eq!(crc32_be(START, CHECK), 0x0376_E6E7);
        // CRC-16/ARC and CRC-16/MODBUS.
        assert_eq!(crc16(0, CHECK), 0xBB3D);
        assert_eq!(crc16(0xFFFF, CHECK), 0x4B37);
    }

    #[test]
    fn checksums_go_on_where_they_stopped() {
        let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(37)).collect();
        for at in 0..bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(crc32c(crc32c(7, head), tail), crc32c(7, &bytes));
            assert_eq!(crc32_be(crc32_be(7, head), tail), crc32_be(7, &bytes));
            assert_eq!(crc16(crc16(7, head), tail), crc16(7, &bytes));
        }
    }

    #[test]
    fn the_checksum_field_itself_does_not_count() {
        let mut block = vec![0x5A; 1024];
        let (commit, tail) = (commit_block(1, &block), journal_block(1, &block));
        block[16..20].fill(0);
        assert_eq!(commit_block(1, &block), commit);
        assert_eq!(crc32c(1, &block), commit);
        block[16..20].fill(0x5A);
        block[1020..].fill(0);
        assert_eq!(journal_block(1, &block), tail);
        assert_eq!(crc32c(1, &block), tail);

        let descriptor = [0x5A; 64];
        let mut other = descriptor;
        other[0x1E..0x20].fill(0xFF);
        let uuid = [3; 16];
        let crc = group_descriptor_crc16(&uuid, 5, &descriptor);
        assert_eq!(group_descriptor_crc16(&uuid, 5, &other), crc);
        assert_ne!(group_descriptor_crc16(&uuid, 6, &descriptor), crc);
        other[0x20] ^= 1;
        assert_ne!(group_descriptor_crc16(&uuid, 5, &other), crc);
    }
}
