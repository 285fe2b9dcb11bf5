//! The effects of faults: torn writes, flipped bits, misdirected requests, bad sectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::device::Request;
use crate::payload::{Cutter, Payload, payload_bytes};
use rt::split_mix::SplitMix;

/// Returns some of a write's sectors of `unit` bytes, each kept or dropped at random.
pub(super) fn tear(
    sector: SectorNr,
    payload: &[Arc<Block>],
    unit: u64,
    random: &mut SplitMix,
) -> Vec<Request> {
    let mut kept = Vec::new();
    let mut cutter = Cutter::new(payload.to_vec());
    let (mut at, end) = (
        sector.byte_offset(),
        sector.byte_offset() + payload_bytes(payload),
    );
    while at < end {
        let bytes = (unit - at % unit).min(end - at);
        let payload = cutter.take(bytes);
        if random.below(2) == 1 {
            let sector = SectorNr::from_byte_offset(at);
            kept.push(Request::Write {
                sector,
                payload,
                force_unit_access: false,
            });
        }
        at += bytes;
    }
    kept
}

/// Returns the payload with one bit flipped.
pub(super) fn flip_bit(mut payload: Payload, draw: u64) -> Payload {
    let bits = payload_bytes(&payload) * 8;
    if bits == 0 {
        return payload;
    }
    let mut bit = draw % bits;
    for block in &mut payload {
        let length = block.len() as u64 * 8;
        if bit < length {
            Arc::make_mut(block)[(bit / 8) as usize] ^= 1 << (bit % 8);
            break;
        }
        bit -= length;
    }
    payload
}

/// Returns the request at another location of the device, at least its own length away if there is
/// room.
pub(super) fn misdirect(mut request: Request, draw: u64, size_bytes: u64) -> Request {
    let (_, sectors) = request.range();
    let places = (size_bytes / SectorNr::SIZE)
        .checked_div(sectors)
        .unwrap_or(0);
    if let Request::Read { sector, .. }
    | Request::Write { sector, .. }
    | Request::Discard { sector, .. } = &mut request
        && places > 2
    {
        let own = sector.get() / sectors;
        // The own location and the next, which an unaligned request also touches, are excluded.
        let other = (own + 2 + draw % (places - 2)) % places;
        *sector = SectorNr::new(other * sectors);
    }
    request
}

/// Ranges of bad sectors.
#[derive(Debug, Default)]
pub(super) struct BadSectors {
    /// End by start; disjoint.
    ranges: BTreeMap<u64, u64>,
}

impl BadSectors {
    pub(super) fn add(&mut self, from: u64, to: u64) {
        self.remove(from, to);
        if from < to {
            self.ranges.insert(from, to);
        }
    }

    pub(super) fn remove(&mut self, from: u64, to: u64) {
        let touched: Vec<(u64, u64)> = self.overlapping(from, to).collect();
        for (start, end) in touched {
            self.ranges.remove(&start);
            if start < from {
                self.ranges.insert(start, from);
            }
            if to < end {
                self.ranges.insert(to, end);
            }
        }
    }

    pub(super) fn touches(&self, from: u64, to: u64) -> bool {
        self.overlapping(from, to).next().is_some()
    }

    fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.ranges.range(..to.max(from)).rev();
        ranges
            .map(|(start, end)| (*start, *end))
            .take_while(move |(_, end)| *end > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_sectors_are_a_set() {
        let mut bad = BadSectors::default();
        let mut model = [false; 64];
        let mut random = SplitMix::new(3);
        for _ in 0..2000 {
            let from = random.below(64);
            let to = from + random.below(64 - from + 1);
            let is_added = random.below(2) == 0;
            if is_added {
                bad.add(from, to);
            } else {
                bad.remove(from, to);
            }
            model[from as usize..to as usize].fill(is_added);
            let (from, to) = (random.below(32), 32 + random.below(32));
            assert_eq!(
                bad.touches(from, to),
                model[from as usize..to as usize].contains(&true)
            );
        }
    }
}
