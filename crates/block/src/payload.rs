//! Cutting and joining of payloads; blocks of memory are shared wherever the boundaries allow it.

use std::sync::Arc;

use layout::Block;
use rt::Cost;

/// The data of a request: blocks of memory, contiguous on the device.
pub type Payload = Vec<Arc<Block>>;

/// Returns the length of a payload in bytes.
pub fn payload_bytes(payload: &[Arc<Block>]) -> u64 {
    payload.iter().map(|block| block.len() as u64).sum()
}

/// Returns a payload of `bytes`, cut into blocks of `block_bytes`.
///
/// # Panics
/// Panics if `block_bytes` is not a multiple of 512, or the length of `bytes` not one of
/// `block_bytes`.
pub fn payload_from_bytes(bytes: &[u8], block_bytes: usize) -> Payload {
    assert!(
        bytes.len().is_multiple_of(block_bytes),
        "the bytes fill the blocks"
    );
    bytes
        .chunks(block_bytes)
        .map(|piece| Block::copy_from(piece).into_arc())
        .collect()
}

/// Returns the bytes of a payload, one block after another.
pub fn payload_to_bytes(payload: &[Arc<Block>]) -> Vec<u8> {
    payload
        .iter()
        .flat_map(|block| block.iter().copied())
        .collect()
}

/// A cutter that takes a payload apart from front to back.
pub(crate) struct Cutter {
    rest: std::vec::IntoIter<Arc<Block>>,
    /// Block that the last cut divided, and the number of its bytes already taken.
    open: Option<(Arc<Block>, usize)>,
}

impl Cutter {
    pub(crate) fn new(payload: Payload) -> Self {
        Self {
            rest: payload.into_iter(),
            open: None,
        }
    }

    /// Returns the next `bytes` of the payload: whole blocks are shared, divided ones copied.
    ///
    /// # Panics
    /// Panics if fewer are left.
    pub(crate) fn take(&mut self, bytes: u64) -> Payload {
        let mut wanted = usize::try_from(bytes).expect("a payload fits into memory");
        let mut taken = Payload::new();
        while wanted > 0 {
            let (block, used) = self
                .open
                .take()
                .or_else(|| self.rest.next().map(|block| (block, 0)))
                .expect("the payload is as long as its parts");
            let length = (block.len() - used).min(wanted);
            wanted -= length;
            if length == block.len() {
                taken.push(block);
                continue;
            }
            rt::charge(Cost::Copy(length as u64));
            taken.push(Block::copy_from(&block[used..used + length]).into_arc());
            if used + length < block.len() {
                self.open = Some((block, used + length));
            }
        }
        taken
    }
}

/// Joins pieces of any sizes and cuts them into blocks of `block_bytes`; pieces that fit are
/// shared.
pub fn regroup(pieces: Payload, block_bytes: usize) -> Payload {
    if pieces.iter().all(|piece| piece.len() == block_bytes) {
        return pieces;
    }
    let mut grouped = Payload::new();
    let mut open: Option<(Block, usize)> = None;
    for piece in pieces {
        if open.is_none() && piece.len() == block_bytes {
            grouped.push(piece);
            continue;
        }
        rt::charge(Cost::Copy(piece.len() as u64));
        let mut used = 0;
        while used < piece.len() {
            let (mut block, filled) = open
                .take()
                .unwrap_or_else(|| (Block::zeroed(block_bytes), 0));
            let length = (block_bytes - filled).min(piece.len() - used);
            block[filled..filled + length].copy_from_slice(&piece[used..used + length]);
            used += length;
            if filled + length == block_bytes {
                grouped.push(block.into_arc());
            } else {
                open = Some((block, filled + length));
            }
        }
    }
    assert!(open.is_none(), "the pieces fill the blocks");
    grouped
}

/// Returns the number and size of pieces with which to read `length` bytes, `offset` bytes into a
/// request with pieces of `block_bytes`. If the boundaries do not match it is one piece, to be cut
/// by [`regroup`].
pub(crate) fn read_pieces(offset: u64, length: u64, block_bytes: u32) -> (u32, u32) {
    let size = u64::from(block_bytes);
    let narrow = |number: u64| u32::try_from(number).expect("a part of a request is below 4 GiB");
    if offset.is_multiple_of(size) && length.is_multiple_of(size) {
        (narrow(length / size), block_bytes)
    } else {
        (1, narrow(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| (index / 512) as u8).collect()
    }

    #[test]
    fn cuts_share_whole_blocks_and_copy_the_rest() {
        let payload = payload_from_bytes(&numbered(4096), 1024);
        let mut cutter = Cutter::new(payload.clone());
        let first = cutter.take(1024);
        assert!(Arc::ptr_eq(&first[0], &payload[0]));
        let second = cutter.take(512);
        let third = cutter.take(2560);
        assert_eq!(third.len(), 3);
        assert!(Arc::ptr_eq(&third[2], &payload[3]));
        let all: Payload = [first, second, third].concat();
        assert_eq!(payload_to_bytes(&all), numbered(4096));
    }

    #[test]
    fn regrouping_keeps_the_bytes_whatever_the_sizes() {
        for (from, to) in [
            (512, 4096),
            (4096, 512),
            (1024, 1024),
            (1536, 1024),
            (512, 1536),
        ] {
            let bytes = numbered(12288);
            let pieces = payload_from_bytes(&bytes, from);
            let grouped = regroup(pieces.clone(), to);
            assert!(grouped.iter().all(|block| block.len() == to));
            assert_eq!(payload_to_bytes(&grouped), bytes, "{from} to {to}");
            assert_eq!(Arc::ptr_eq(&grouped[0], &pieces[0]), from == to);
        }
    }

    #[test]
    fn parts_are_asked_for_in_pieces_only_where_borders_match() {
        assert_eq!(read_pieces(8192, 8192, 4096), (2, 4096));
        assert_eq!(read_pieces(512, 8192, 4096), (1, 8192));
        assert_eq!(read_pieces(4096, 512, 4096), (1, 512));
    }
}
