//! The bodies of frames, decoded. What they say is believed only as far as their length.

use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::Nanos;

use super::encode::{
    AWAITED, CAN_FLUSH, COMPLETED, DETACHED, DEVICE, DISCARD, END, FLUSH, FORCE_UNIT_ACCESS,
    FORCED_WRITE, MARK, READ, READ_ONLY, SECTOR, SUBMITTED, VOLATILE_CACHE, WRITE,
};
use super::{BODY_BYTES_MAX, Event, Recorded};
use crate::device::{Geometry, Request};
use crate::error::DeviceError;
use crate::payload::{Payload, payload_bytes};

/// Maximum size of what the writes of one batch write, in bytes. Zeroes take next to no space in a
/// body, so that its length is no limit.
const WRITTEN_BYTES_MAX: u64 = 4 << 30;
/// Size of the pieces of a payload in bytes, one byte of the map each, where the data fills them.
const PAGE: usize = 4096;
/// The name of a device in the errors of a recording.
const RECORDED: &str = "the recorded device";

/// A frame.
pub(super) enum Frame {
    Device(String, Geometry),
    Event(Recorded),
    /// The time, and the number of events.
    End(Nanos, u64),
}

type Decoded<T> = Result<T, &'static str>;

/// Decodes the body of a frame.
pub(super) fn frame(body: &[u8]) -> Decoded<Frame> {
    let mut fields = Fields(body);
    match fields.u8()? {
        DEVICE => device(fields),
        END => {
            let frame = Frame::End(fields.time()?, fields.u64()?);
            fields.end().map(|()| frame)
        }
        kind => {
            let time = fields.time()?;
            let event = event(kind, &mut fields)?;
            fields.end()?;
            Ok(Frame::Event(Recorded { time, event }))
        }
    }
}

fn device(mut fields: Fields<'_>) -> Decoded<Frame> {
    let size_bytes = fields.u64()?;
    let sector_bytes = fields.u32()?;
    let atomic_write_bytes = fields.u32()?;
    let queue_depth = fields.u32()?;
    let properties = fields.u8()?;
    let has = |bit| properties & bit != 0;
    let name = std::str::from_utf8(fields.0).map_err(|_| "a name that is not text")?;
    if !sector_bytes.is_multiple_of(SECTOR as u32) || sector_bytes == 0 {
        return Err("a device with invalid sectors");
    }
    if !size_bytes.is_multiple_of(u64::from(sector_bytes)) {
        return Err("a device with half a sector");
    }
    let geometry = Geometry {
        size_bytes,
        sector_bytes,
        has_volatile_cache: has(VOLATILE_CACHE),
        has_force_unit_access: has(FORCE_UNIT_ACCESS),
        can_flush: has(CAN_FLUSH),
        atomic_write_bytes,
        queue_depth,
        is_read_only: has(READ_ONLY),
    };
    Ok(Frame::Device(name.to_owned(), geometry))
}

fn event(kind: u8, fields: &mut Fields<'_>) -> Decoded<Event> {
    if kind == MARK {
        return Ok(Event::Mark(fields.u64()?));
    }
    let device = usize::from(fields.u16()?);
    let batch = fields.u64()?;
    Ok(match kind {
        SUBMITTED => {
            let mut requests = Vec::new();
            let mut written = 0;
            while !fields.0.is_empty() {
                let request = request(fields)?;
                if let Request::Write { payload, .. } = &request {
                    written += payload_bytes(payload);
                }
                if written > WRITTEN_BYTES_MAX {
                    return Err("a batch that writes more than 4 GiB");
                }
                requests.push(request);
            }
            Event::Submitted {
                device,
                batch,
                requests: Arc::new(requests),
            }
        }
        COMPLETED => {
            let mut results = Vec::new();
            while !fields.0.is_empty() {
                results.push(result(fields)?);
            }
            Event::Completed {
                device,
                batch,
                results,
            }
        }
        AWAITED => Event::Awaited { device, batch },
        DETACHED => Event::Detached { device, batch },
        _ => return Err("an unknown event"),
    })
}

fn result(fields: &mut Fields<'_>) -> Decoded<Result<(), DeviceError>> {
    if fields.u8()? == 0 {
        return Ok(Ok(()));
    }
    let length = usize::from(fields.u16()?);
    let text = fields.bytes(length)?;
    Ok(Err(DeviceError::Failed {
        operation: "request",
        sector: SectorNr::new(0),
        sectors: 0,
        device: RECORDED.to_owned(),
        cause: String::from_utf8_lossy(text).into_owned(),
    }))
}

fn request(fields: &mut Fields<'_>) -> Decoded<Request> {
    let kind = fields.u8()?;
    if kind == FLUSH {
        return Ok(Request::Flush);
    }
    let sector = SectorNr::new(fields.u64()?);
    let request = match kind {
        READ => {
            let (blocks, block_bytes) = (fields.u32()?, fields.u32()?);
            let bytes = u64::from(blocks) * u64::from(block_bytes);
            let is_valid = block_bytes > 0 && block_bytes.is_multiple_of(SECTOR as u32);
            if !is_valid || bytes > BODY_BYTES_MAX as u64 {
                return Err("a read of an invalid size");
            }
            Request::Read {
                sector,
                blocks,
                block_bytes,
            }
        }
        WRITE | FORCED_WRITE => Request::Write {
            sector,
            payload: payload(fields)?,
            force_unit_access: kind == FORCED_WRITE,
        },
        DISCARD => Request::Discard {
            sector,
            sectors: fields.u64()?,
        },
        _ => return Err("an unknown request"),
    };
    let (first, sectors) = request.range();
    match first.get().checked_add(sectors) {
        Some(end) if end <= u64::MAX / SectorNr::SIZE => Ok(request),
        _ => Err("a request beyond the end of any device"),
    }
}

fn payload(fields: &mut Fields<'_>) -> Decoded<Payload> {
    let sectors = fields.u32()? as usize;
    if sectors > BODY_BYTES_MAX / SECTOR {
        return Err("a write that is too long");
    }
    let map = fields.bytes(sectors.div_ceil(8))?;
    let in_piece = match (sectors * SECTOR).is_multiple_of(PAGE) {
        true => PAGE / SECTOR,
        false => 1,
    };
    let is_data = |sector: usize| map[sector / 8] & 1 << (sector % 8) != 0;
    let zeroes = Block::zeroed(in_piece * SECTOR).into_arc();
    let mut payload = Payload::with_capacity(sectors / in_piece);
    for first in (0..sectors).step_by(in_piece) {
        let own = first..first + in_piece;
        // All pieces of zeroes share the memory of one.
        let is_hole = match in_piece {
            1 => !is_data(first),
            _ => map[first / 8] == 0,
        };
        if is_hole {
            payload.push(Arc::clone(&zeroes));
            continue;
        }
        let mut piece = Block::zeroed(in_piece * SECTOR);
        for (sector, bytes) in own.zip(piece.chunks_mut(SECTOR)) {
            if is_data(sector) {
                bytes.copy_from_slice(fields.bytes(SECTOR)?);
            }
        }
        payload.push(piece.into_arc());
    }
    Ok(payload)
}

/// The rest of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or("a short frame")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("as many bytes"))
    }

    fn u8(&mut self) -> Decoded<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Decoded<Nanos> {
        self.u64().map(Nanos::new)
    }

    fn end(&self) -> Decoded<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err("a long frame"),
        }
    }
}
