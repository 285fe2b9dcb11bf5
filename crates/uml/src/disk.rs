//! Requests of a virtio disk as requests of a [`block`] device.
//!
//! A chain is a header of 16 bytes (type, reserved, sector), data, and a byte of status that the
//! device writes. Virtual I/O Device Version 1.1, section 5.2.6.

use block::{DeviceError, Outcome, Payload, Request};
use layout::SectorNr;

use crate::GuestError;
use crate::memory::GuestMemory;
use crate::virtqueue::{Buffer, Chain};

const HEADER_BYTES: usize = 16;
/// Size of the pieces of a payload in bytes, where the data fills them.
const PAGE_BYTES: usize = 4096;
/// Maximum size of the data of a request in bytes.
const DATA_BYTES_MAX: usize = 16 << 20;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;

const STATUS_OK: u8 = 0;
const STATUS_ERROR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

/// A request in flight: the place of its result.
#[derive(Debug, Default)]
pub struct Pending {
    head: u16,
    data: Vec<Buffer>,
    status: u64,
}

/// A request that was taken from a queue.
#[derive(Debug)]
pub struct Taken {
    /// The place of its result.
    pub pending: Pending,
    /// The request; `None` if the device has no such request.
    pub request: Option<Request>,
}

/// Decodes a chain, and copies the data of a write out of the guest's memory. `is_through` makes
/// writes durable on completion.
///
/// # Errors
/// Fails if the chain is not a request.
pub fn decode(memory: &GuestMemory, chain: Chain, is_through: bool) -> Result<Taken, GuestError> {
    let wrong = |what: &str| GuestError::Protocol(format!("a disk request {what}"));
    let [first, data @ .., last] = chain.buffers.as_slice() else {
        return Err(wrong("without header or status"));
    };
    if first.is_writable || (first.bytes as usize) < HEADER_BYTES {
        return Err(wrong("without a header"));
    }
    if !last.is_writable || last.bytes != 1 {
        return Err(wrong("without a status"));
    }
    let mut header = [0; HEADER_BYTES];
    memory.read(first.address, &mut header)?;
    let kind = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
    let sector = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
    let sector = SectorNr::new(sector);
    let bytes: usize = data.iter().map(|buffer| buffer.bytes as usize).sum();
    let is_data = matches!(kind, READ | WRITE);
    if is_data && (bytes == 0 || !bytes.is_multiple_of(512) || bytes > DATA_BYTES_MAX) {
        return Err(wrong(&format!("of {bytes} bytes")));
    }
    if is_data
        && data
            .iter()
            .any(|buffer| buffer.is_writable != (kind == READ))
    {
        return Err(wrong("with buffers of the other direction"));
    }
    let piece = match bytes.is_multiple_of(PAGE_BYTES) {
        true => PAGE_BYTES,
        false => 512,
    };
    let request = match kind {
        READ => Some(Request::Read {
            sector,
            blocks: (bytes / piece) as u32,
            block_bytes: piece as u32,
        }),
        WRITE => Some(Request::Write {
            sector,
            payload: gather(memory, data, bytes, piece)?,
            force_unit_access: is_through,
        }),
        FLUSH => Some(Request::Flush),
        _ => None,
    };
    let pending = Pending {
        head: chain.head,
        data: data.to_vec(),
        status: last.address,
    };
    Ok(Taken { pending, request })
}

impl Pending {
    /// Writes the result of a request into the guest's memory; `None` is the result of a request
    /// that the device does not have. Returns the head of the chain and the number of bytes
    /// written.
    ///
    /// # Errors
    /// Fails if a buffer is outside the guest's memory.
    pub fn finish(
        self,
        memory: &GuestMemory,
        result: Option<Result<Outcome, DeviceError>>,
    ) -> Result<(u16, u32), GuestError> {
        let mut written = 1;
        let status = match result {
            Some(Ok(Outcome::Read(payload))) => {
                written += scatter(memory, &self.data, &payload)?;
                STATUS_OK
            }
            Some(Ok(Outcome::Done)) => STATUS_OK,
            Some(Err(_)) => STATUS_ERROR,
            None => STATUS_UNSUPPORTED,
        };
        memory.write(self.status, &[status])?;
        Ok((self.head, written))
    }
}

/// Copies data out of the guest's memory.
fn gather(
    memory: &GuestMemory,
    buffers: &[Buffer],
    bytes: usize,
    piece: usize,
) -> Result<Payload, GuestError> {
    let mut all = vec![0; bytes];
    let mut rest = &mut all[..];
    for buffer in buffers {
        let (part, after) = rest.split_at_mut(buffer.bytes as usize);
        memory.read(buffer.address, part)?;
        rest = after;
    }
    Ok(block::payload::payload_from_bytes(&all, piece))
}

/// Copies data into the guest's memory; returns the number of bytes.
fn scatter(memory: &GuestMemory, buffers: &[Buffer], payload: &Payload) -> Result<u32, GuestError> {
    let all = block::payload::payload_to_bytes(payload);
    let mut rest = &all[..];
    for buffer in buffers {
        let count = rest.len().min(buffer.bytes as usize);
        let (part, after) = rest.split_at(count);
        memory.write(buffer.address, part)?;
        rest = after;
    }
    Ok((all.len() - rest.len()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::zeroes;

    const GET_ID: u32 = 8;

    fn buffer(address: u64, bytes: u32, is_writable: bool) -> Buffer {
        Buffer {
            address,
            bytes,
            is_writable,
        }
    }

    fn chain(memory: &GuestMemory, kind: u32, sector: u64, data: &[Buffer]) -> Chain {
        memory.write(0, &kind.to_le_bytes()).expect("inside");
        memory.write(8, &sector.to_le_bytes()).expect("inside");
        let ends = (buffer(0, 16, false), buffer(16, 1, true));
        let mut buffers = vec![ends.0];
        buffers.extend_from_slice(data);
        buffers.push(ends.1);
        Chain { head: 3, buffers }
    }

    fn status(memory: &GuestMemory) -> u8 {
        let mut status = [9];
        memory.read(16, &mut status).expect("inside");
        status[0]
    }

    #[test]
    fn a_write_carries_its_data() {
        let memory = zeroes(0, 0x4000);
        memory.write(0x1000, &[1; 512]).expect("inside");
        memory.write(0x2000, &[2; 512]).expect("inside");
        let data = [buffer(0x1000, 512, false), buffer(0x2000, 512, false)];
        let taken = decode(&memory, chain(&memory, WRITE, 8, &data), false).expect("valid");
        let Some(Request::Write {
            sector, payload, ..
        }) = taken.request
        else {
            panic!("it is a write");
        };
        assert_eq!(sector, SectorNr::new(8));
        let bytes = block::payload::payload_to_bytes(&payload);
        assert_eq!(bytes, [[1; 512], [2; 512]].concat());
        let done = taken.pending.finish(&memory, Some(Ok(Outcome::Done)));
        assert_eq!(done.expect("inside"), (3, 1));
        assert_eq!(status(&memory), STATUS_OK);
    }

    #[test]
    fn a_write_through_is_forced() {
        let memory = zeroes(0, 0x4000);
        for is_through in [false, true] {
            let data = [buffer(0x1000, 512, false)];
            let taken = decode(&memory, chain(&memory, WRITE, 8, &data), is_through);
            let Some(Request::Write {
                force_unit_access, ..
            }) = taken.expect("valid").request
            else {
                panic!("it is a write");
            };
            assert_eq!(force_unit_access, is_through);
        }
    }

    #[test]
    fn a_read_returns_its_data() {
        let memory = zeroes(0, 0x4000);
        let data = [buffer(0x1000, 512, true), buffer(0x2000, 512, true)];
        let taken = decode(&memory, chain(&memory, READ, 8, &data), false).expect("valid");
        assert!(matches!(
            taken.request,
            Some(Request::Read {
                blocks: 2,
                block_bytes: 512,
                ..
            })
        ));
        let payload = block::payload::payload_from_bytes(&[[1; 512], [2; 512]].concat(), 512);
        let done = taken
            .pending
            .finish(&memory, Some(Ok(Outcome::Read(payload))));
        assert_eq!(done.expect("inside"), (3, 1025));
        let mut second = [0; 512];
        memory.read(0x2000, &mut second).expect("inside");
        assert_eq!(second, [2; 512]);
    }

    #[test]
    fn unknown_requests_and_errors_have_a_status() {
        let memory = zeroes(0, 0x4000);
        let data = [buffer(0x1000, 20, true)];
        let taken = decode(&memory, chain(&memory, GET_ID, 0, &data), false).expect("valid");
        assert!(taken.request.is_none());
        taken.pending.finish(&memory, None).expect("inside");
        assert_eq!(status(&memory), STATUS_UNSUPPORTED);
        let taken = decode(&memory, chain(&memory, FLUSH, 0, &[]), false).expect("valid");
        let failed = Some(Err(DeviceError::Gone));
        taken.pending.finish(&memory, failed).expect("inside");
        assert_eq!(status(&memory), STATUS_ERROR);
    }

    #[test]
    fn invalid_requests_are_refused() {
        let memory = zeroes(0, 0x4000);
        for (kind, data) in [
            (READ, buffer(0x1000, 512, false)),
            (WRITE, buffer(0x1000, 512, true)),
            (READ, buffer(0x1000, 100, true)),
            (WRITE, buffer(0x9000, 512, false)),
        ] {
            let chain = chain(&memory, kind, 0, &[data]);
            assert!(decode(&memory, chain, false).is_err(), "{kind} {data:?}");
        }
        let no_status = Chain {
            head: 0,
            buffers: vec![buffer(0, 16, false)],
        };
        assert!(decode(&memory, no_status, false).is_err());
    }
}
