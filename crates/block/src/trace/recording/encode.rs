//! The bodies of frames, encoded.

use layout::SectorNr;
use rt::Nanos;

use super::Event;
use crate::device::{Geometry, Request};
use crate::payload::{Payload, payload_bytes};

pub(super) const DEVICE: u8 = 0;
pub(super) const SUBMITTED: u8 = 1;
pub(super) const AWAITED: u8 = 2;
pub(super) const COMPLETED: u8 = 3;
pub(super) const DETACHED: u8 = 4;
pub(super) const MARK: u8 = 5;
pub(super) const END: u8 = 6;

pub(super) const READ: u8 = 0;
pub(super) const WRITE: u8 = 1;
pub(super) const FORCED_WRITE: u8 = 2;
pub(super) const FLUSH: u8 = 3;
pub(super) const DISCARD: u8 = 4;

pub(super) const VOLATILE_CACHE: u8 = 1;
pub(super) const FORCE_UNIT_ACCESS: u8 = 1 << 1;
pub(super) const CAN_FLUSH: u8 = 1 << 2;
pub(super) const READ_ONLY: u8 = 1 << 3;

/// Size of a sector in bytes.
pub(super) const SECTOR: usize = SectorNr::SIZE as usize;

/// Returns the body of a device.
pub(super) fn device(name: &str, geometry: &Geometry) -> Vec<u8> {
    let mut properties = 0;
    for (is_set, bit) in [
        (geometry.has_volatile_cache, VOLATILE_CACHE),
        (geometry.has_force_unit_access, FORCE_UNIT_ACCESS),
        (geometry.can_flush, CAN_FLUSH),
        (geometry.is_read_only, READ_ONLY),
    ] {
        properties |= if is_set { bit } else { 0 };
    }
    let mut body = vec![DEVICE];
    body.extend(geometry.size_bytes.to_le_bytes());
    body.extend(geometry.sector_bytes.to_le_bytes());
    body.extend(geometry.atomic_write_bytes.to_le_bytes());
    body.extend(geometry.queue_depth.to_le_bytes());
    body.push(properties);
    body.extend(name.as_bytes());
    body
}

/// Returns the body of an event.
pub(super) fn event(time: Nanos, event: &Event) -> Vec<u8> {
    match event {
        Event::Submitted {
            device,
            batch,
            requests,
        } => {
            let mut body = batch_of(SUBMITTED, time, *device, *batch);
            requests
                .iter()
                .for_each(|request| add_request(&mut body, request));
            body
        }
        Event::Completed {
            device,
            batch,
            results,
        } => {
            let mut body = batch_of(COMPLETED, time, *device, *batch);
            for result in results {
                let Err(error) = result else {
                    body.push(0);
                    continue;
                };
                let text = error.to_string();
                let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
                body.push(1);
                body.extend(length.to_le_bytes());
                body.extend(&text.as_bytes()[..usize::from(length)]);
            }
            body
        }
        Event::Awaited { device, batch } => batch_of(AWAITED, time, *device, *batch),
        Event::Detached { device, batch } => batch_of(DETACHED, time, *device, *batch),
        Event::Mark(mark) => pair(MARK, time, *mark),
    }
}

/// Returns the body of the end.
pub(super) fn end(time: Nanos, events: u64) -> Vec<u8> {
    pair(END, time, events)
}

fn pair(kind: u8, time: Nanos, number: u64) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(time.get().to_le_bytes());
    body.extend(number.to_le_bytes());
    body
}

fn batch_of(kind: u8, time: Nanos, device: usize, batch: u64) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(time.get().to_le_bytes());
    body.extend((device as u16).to_le_bytes());
    body.extend(batch.to_le_bytes());
    body
}

fn add_request(body: &mut Vec<u8>, request: &Request) {
    match request {
        Request::Read {
            sector,
            blocks,
            block_bytes,
        } => {
            body.push(READ);
            body.extend(sector.get().to_le_bytes());
            body.extend(blocks.to_le_bytes());
            body.extend(block_bytes.to_le_bytes());
        }
        Request::Write {
            sector,
            payload,
            force_unit_access,
        } => {
            body.push(match force_unit_access {
                true => FORCED_WRITE,
                false => WRITE,
            });
            body.extend(sector.get().to_le_bytes());
            add_payload(body, payload);
        }
        Request::Flush => body.push(FLUSH),
        Request::Discard { sector, sectors } => {
            body.push(DISCARD);
            body.extend(sector.get().to_le_bytes());
            body.extend(sectors.to_le_bytes());
        }
    }
}

fn add_payload(body: &mut Vec<u8>, payload: &Payload) {
    let sectors = payload_bytes(payload) / SectorNr::SIZE;
    body.extend((sectors as u32).to_le_bytes());
    let contents = || payload.iter().flat_map(|block| block.chunks(SECTOR));
    let is_data = |sector: &&[u8]| sector.iter().any(|byte| *byte != 0);
    let map = body.len();
    body.resize(map + sectors.div_ceil(8) as usize, 0);
    for (number, sector) in contents().enumerate() {
        if is_data(&sector) {
            body[map + number / 8] |= 1 << (number % 8);
        }
    }
    contents()
        .filter(is_data)
        .for_each(|sector| body.extend(sector));
}
