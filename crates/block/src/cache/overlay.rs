//! Cached sectors as payloads, and overlaid on payloads read from the device below.

use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::Cost;

use crate::device::Request;
use crate::payload::Payload;
use crate::versions::{Version, write_requests};

/// Assembles a read from cached sectors only.
pub(super) fn assemble(known: &[(u64, Version)], blocks: u32, block_bytes: u32) -> Payload {
    let per_block = u64::from(block_bytes) / SectorNr::SIZE;
    let pieces = known.chunks(per_block as usize).take(blocks as usize);
    pieces
        .map(|piece| {
            let mut requests = write_requests(piece);
            match requests.pop() {
                Some(Request::Write { mut payload, .. }) if payload.len() == 1 => {
                    payload.pop().expect("there is one")
                }
                _ => {
                    let mut block = Block::zeroed(block_bytes as usize);
                    overlay(&mut block, piece[0].0, piece);
                    block.into_arc()
                }
            }
        })
        .collect()
}

/// Overlays cached sectors on a block that starts at a sector.
fn overlay(block: &mut Block, first: u64, known: &[(u64, Version)]) {
    rt::charge(Cost::Copy(known.len() as u64 * SectorNr::SIZE));
    for (sector, version) in known {
        let at = ((sector - first) * SectorNr::SIZE) as usize;
        block[at..at + version.bytes().len()].copy_from_slice(version.bytes());
    }
}

/// Overlays cached sectors on a payload.
pub(super) fn overlay_all(payload: &mut Payload, first: u64, known: &[(u64, Version)]) {
    let (mut start, mut rest) = (first, known);
    for block in payload {
        let end = start + block.len() as u64 / SectorNr::SIZE;
        let count = rest.partition_point(|(sector, _)| *sector < end);
        if count > 0 {
            overlay(Arc::make_mut(block), start, &rest[..count]);
        }
        rest = &rest[count..];
        start = end;
    }
}
