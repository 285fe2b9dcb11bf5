//! Edits of an image in the form of bytes, so that a fuzzer can create, join and cut them.
//!
//! ```text
//! edit := offset (3 bytes, little endian; taken modulo the size) length-1 (1 byte) bytes
//! ```
//!
//! A truncated edit writes the bytes that are present.

use block::{BlockDevice, MemoryDevice};
use layout::Block;

/// Size of an edit's header in bytes.
const HEAD_BYTES: usize = 4;
/// Size of an edit created by [`of`] in bytes.
const PIECE_BYTES: u64 = 256;
/// Unit of reads and writes around an edit in bytes.
const SECTOR_BYTES: u64 = 512;

/// Applies edits to a part of a device.
pub(crate) fn apply(device: &MemoryDevice, start: u64, length: u64, mut edits: &[u8]) {
    while edits.len() > HEAD_BYTES {
        let offset = u64::from(u32::from_le_bytes([edits[0], edits[1], edits[2], 0])) % length;
        let count = (usize::from(edits[3]) + 1).min(edits.len() - HEAD_BYTES);
        let bytes = &edits[HEAD_BYTES..HEAD_BYTES + count];
        let count = count.min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        put(device, start + offset, &bytes[..count]);
        edits = &edits[HEAD_BYTES + bytes.len()..];
    }
}

/// Returns edits that write the present contents of a part of a device; blocks of zeroes are
/// skipped.
pub(crate) fn of(device: &MemoryDevice, start: u64, length: u64) -> Vec<u8> {
    let device: &dyn BlockDevice = device;
    let mut edits = Vec::new();
    for offset in (0..length).step_by(PIECE_BYTES as usize) {
        let sector = (start + offset) - (start + offset) % SECTOR_BYTES;
        let block = device.read_block(sector, SECTOR_BYTES as u32);
        let within = (start + offset - sector) as usize;
        let piece = &block.expect("memory does not fail")[within..within + PIECE_BYTES as usize];
        if piece.iter().any(|byte| *byte != 0) {
            edits.extend_from_slice(&(offset as u32).to_le_bytes()[..3]);
            edits.push((PIECE_BYTES - 1) as u8);
            edits.extend_from_slice(piece);
        }
    }
    edits
}

/// Writes bytes at any offset; bytes beyond the end are dropped.
pub(crate) fn put(device: &MemoryDevice, offset: u64, bytes: &[u8]) {
    let size = device.geometry().size_bytes;
    let bytes = &bytes[..bytes
        .len()
        .min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX))];
    if bytes.is_empty() {
        return;
    }
    let first = offset - offset % SECTOR_BYTES;
    let end = (offset + bytes.len() as u64).next_multiple_of(SECTOR_BYTES);
    let device: &dyn BlockDevice = device;
    let length = u32::try_from(end - first).expect("an input of a fuzzer is short");
    let old = device
        .read_block(first, length)
        .expect("memory does not fail");
    let mut block = Block::copy_from(&old);
    let within = usize::try_from(offset - first).expect("within a sector");
    block[within..within + bytes.len()].copy_from_slice(bytes);
    device
        .write_blocks(first, vec![block.into_arc()])
        .expect("memory does not fail");
}
