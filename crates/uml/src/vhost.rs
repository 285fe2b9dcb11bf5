//! [`Backend`]: the vhost-user protocol of a block device, as UML's `virtio_uml` speaks it.
//!
//! A message is a header of three 32-bit words (request, flags, size of the payload) and a payload,
//! in the byte order of the machine. With *in-band notifications* nothing else wakes the device or
//! the driver:
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `VRING_KICK` | driver | the available ring has new chains |
//! | `VRING_CALL` | device, on the back-end channel | the used ring has new chains |
//!
//! This module does no I/O but for the guest's memory.

use std::os::fd::OwnedFd;

use crate::GuestError;
use crate::memory::{GuestMemory, Region};
use crate::virtqueue::Virtqueue;

/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 12;
/// Maximum size of a payload in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 4096;

const VERSION: u32 = 1;
const IS_REPLY: u32 = 1 << 2;
const NEEDS_REPLY: u32 = 1 << 3;

/// The back-end's protocol features: replies on request, back-end channel, configuration space,
/// in-band notifications.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9 | 1 << 14;

const FEATURE_SEGMENTS_MAX: u64 = 1 << 2;
const FEATURE_BLOCK_SIZE: u64 = 1 << 6;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_INDIRECT: u64 = 1 << 28;
const FEATURE_PROTOCOL: u64 = 1 << 30;
const FEATURE_VERSION_1: u64 = 1 << 32;

/// Maximum number of data buffers of a request.
const SEGMENTS_MAX: u32 = 254;

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;
const SET_BACKEND_CHANNEL: u32 = 21;
const GET_CONFIG: u32 = 24;
const SET_CONFIG: u32 = 25;
const VRING_KICK: u32 = 35;

/// The message of the back-end channel that reports chains in the used ring.
const BACKEND_VRING_CALL: u32 = 4;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    request: u32,
    flags: u32,
    size: u32,
}

impl Header {
    /// Returns the header in its bytes.
    ///
    /// # Errors
    /// Fails if the version or the size is not supported.
    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Result<Self, GuestError> {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
        let header = Self {
            request: word(0),
            flags: word(4),
            size: word(8),
        };
        if header.flags & 3 != VERSION || header.size as usize > PAYLOAD_BYTES_MAX {
            return Err(GuestError::Protocol(format!(
                "an invalid header: {header:?}"
            )));
        }
        Ok(header)
    }

    /// Returns the size of the payload in bytes.
    #[must_use]
    pub fn payload_bytes(self) -> usize {
        self.size as usize
    }

    fn message(self, flags: u32, payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).expect("a small payload");
        let words = [self.request, flags, size];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend_from_slice(payload);
        bytes
    }
}

/// The properties of a disk that its driver needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskShape {
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// True if the driver has to flush a cache.
    pub has_cache: bool,
}

/// The consequences of a message.
#[derive(Debug)]
pub struct Handled {
    /// The reply to send.
    pub reply: Option<Vec<u8>>,
    /// True if the available ring has new chains.
    pub is_kick: bool,
}

/// The device's end of the protocol.
#[derive(Debug)]
pub struct Backend {
    shape: DiskShape,
    // The features that the driver accepted.
    features: u64,
    memory: GuestMemory,
    queue: Virtqueue,
    channel: Option<OwnedFd>,
}

impl Backend {
    /// Returns the device's end for a disk.
    #[must_use]
    pub fn new(shape: DiskShape) -> Self {
        Self {
            shape,
            features: 0,
            memory: GuestMemory::default(),
            queue: Virtqueue::default(),
            channel: None,
        }
    }

    /// Returns the guest's memory, and the queue in it.
    pub fn queue(&mut self) -> (&GuestMemory, &mut Virtqueue) {
        (&self.memory, &mut self.queue)
    }

    /// Returns true if completed writes have to be durable: the disk has a cache, and the driver
    /// did not accept that it has to flush it. Virtual I/O Device Version 1.1, section 5.2.6.2.
    #[must_use]
    pub fn is_write_through(&self) -> bool {
        self.shape.has_cache && self.features & FEATURE_FLUSH == 0
    }

    /// Returns the back-end channel.
    ///
    /// # Errors
    /// Fails if the driver has not set it.
    pub fn channel(&self) -> Result<&OwnedFd, GuestError> {
        let missing = || GuestError::Protocol("no back-end channel".to_owned());
        self.channel.as_ref().ok_or_else(missing)
    }

    /// Drops the back-end channel, after the driver has closed it.
    pub fn close(&mut self) {
        self.channel = None;
    }

    /// Returns the message that reports chains in the used ring; the driver replies to it.
    #[must_use]
    pub fn call() -> Vec<u8> {
        let header = Header {
            request: BACKEND_VRING_CALL,
            flags: 0,
            size: 0,
        };
        header.message(VERSION | NEEDS_REPLY, &[0; 8])
    }

    /// Checks the driver's reply to [`call`](Self::call).
    ///
    /// # Errors
    /// Fails if the driver refuses the call.
    pub fn check_call(header: Header, payload: &[u8]) -> Result<(), GuestError> {
        let is_reply = header.request == BACKEND_VRING_CALL && header.flags & IS_REPLY != 0;
        if is_reply && payload == [0; 8] {
            return Ok(());
        }
        let what = format!("an invalid answer to a call: {header:?} {payload:?}");
        Err(GuestError::Protocol(what))
    }

    /// Handles a message of the driver.
    ///
    /// # Errors
    /// Fails if the message is invalid or unknown.
    pub fn handle(
        &mut self,
        header: Header,
        payload: &[u8],
        files: Vec<OwnedFd>,
    ) -> Result<Handled, GuestError> {
        let fields = Fields(payload);
        let mut is_kick = false;
        let answer = match header.request {
            GET_FEATURES => Some(self.features().to_ne_bytes().to_vec()),
            GET_PROTOCOL_FEATURES => Some(PROTOCOL_FEATURES.to_ne_bytes().to_vec()),
            GET_CONFIG => Some(self.config(&fields)?),
            SET_OWNER | SET_VRING_ENABLE | SET_CONFIG => None,
            SET_FEATURES => {
                self.features = self.accepted(fields.u64(0)?)?;
                None
            }
            SET_PROTOCOL_FEATURES => {
                if fields.u64(0)? != PROTOCOL_FEATURES {
                    return Err(GuestError::Protocol("too few protocol features".to_owned()));
                }
                None
            }
            SET_MEM_TABLE => {
                self.memory = GuestMemory::new(regions(&fields, files)?);
                None
            }
            SET_BACKEND_CHANNEL => {
                self.channel = files.into_iter().next();
                None
            }
            SET_VRING_NUM => {
                let size = u16::try_from(fields.of_queue()?).unwrap_or(u16::MAX);
                self.queue.size = size;
                None
            }
            SET_VRING_BASE => {
                let base = fields.of_queue()? & u32::from(u16::MAX);
                self.queue.start_at(base as u16);
                None
            }
            SET_VRING_ADDR => {
                fields.of_queue()?;
                self.queue.descriptors = fields.u64(8)?;
                self.queue.used = fields.u64(16)?;
                self.queue.available = fields.u64(24)?;
                None
            }
            VRING_KICK => {
                fields.of_queue()?;
                is_kick = true;
                None
            }
            _ => {
                let what = format!("an unknown request to a disk: {header:?}");
                return Err(GuestError::Protocol(what));
            }
        };
        // A message without an answer of its own is acknowledged on request.
        let is_asked = header.flags & NEEDS_REPLY != 0;
        let answer = answer.or_else(|| is_asked.then(|| vec![0; 8]));
        let reply = answer.map(|answer| header.message(VERSION | IS_REPLY, &answer));
        Ok(Handled { reply, is_kick })
    }

    /// Checks the features that a driver accepts.
    fn accepted(&self, features: u64) -> Result<u64, GuestError> {
        let unknown = features & !self.features();
        if unknown != 0 || features & FEATURE_VERSION_1 == 0 {
            let what = format!("features that its disk does not have ({features:#x})");
            return Err(GuestError::Protocol(what));
        }
        Ok(features)
    }

    fn features(&self) -> u64 {
        let flush = match self.shape.has_cache {
            true => FEATURE_FLUSH,
            false => 0,
        };
        FEATURE_SEGMENTS_MAX
            | FEATURE_BLOCK_SIZE
            | FEATURE_INDIRECT
            | FEATURE_PROTOCOL
            | FEATURE_VERSION_1
            | flush
    }

    /// Returns the requested part of the configuration space after a copy of the request.
    fn config(&self, fields: &Fields<'_>) -> Result<Vec<u8>, GuestError> {
        let (offset, size) = (fields.u32(0)? as usize, fields.u32(4)? as usize);
        let end = offset.saturating_add(size);
        if end > PAYLOAD_BYTES_MAX {
            return Err(GuestError::Protocol(
                "a request beyond the configuration".to_owned(),
            ));
        }
        // Virtual I/O Device Version 1.1, section 5.2.4; the rest is zero.
        let mut space = vec![0; end.max(64)];
        space[..8].copy_from_slice(&self.shape.sectors.to_le_bytes());
        space[12..16].copy_from_slice(&SEGMENTS_MAX.to_le_bytes());
        space[20..24].copy_from_slice(&self.shape.block_bytes.to_le_bytes());
        let mut answer = fields.0[..12.min(fields.0.len())].to_vec();
        answer.extend_from_slice(&space[offset..end]);
        Ok(answer)
    }
}

/// The fields of a payload.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> Result<u32, GuestError> {
        let bytes = self.0.get(at..at + 4).ok_or_else(short)?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }

    fn u64(&self, at: usize) -> Result<u64, GuestError> {
        let bytes = self.0.get(at..at + 8).ok_or_else(short)?;
        Ok(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// Returns a number of the only queue.
    fn of_queue(&self) -> Result<u32, GuestError> {
        match self.u32(0)? {
            0 => self.u32(4),
            other => Err(GuestError::Protocol(format!(
                "a queue that is not there ({other})"
            ))),
        }
    }
}

fn short() -> GuestError {
    GuestError::Protocol("a short payload".to_owned())
}

fn regions(fields: &Fields<'_>, files: Vec<OwnedFd>) -> Result<Vec<Region>, GuestError> {
    const FIRST: usize = 8;
    const BYTES: usize = 32;
    let count = fields.u32(0)? as usize;
    if count != files.len() {
        let what = format!("{count} regions of memory with {} files", files.len());
        return Err(GuestError::Protocol(what));
    }
    let region = |(number, file): (usize, OwnedFd)| {
        let at = FIRST + number * BYTES;
        Ok(Region {
            guest_address: fields.u64(at)?,
            bytes: fields.u64(at + 8)?,
            file_offset: fields.u64(at + 24)?,
            file,
        })
    };
    files.into_iter().enumerate().map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend() -> Backend {
        Backend::new(DiskShape {
            sectors: 2048,
            block_bytes: 512,
            has_cache: true,
        })
    }

    fn send(backend: &mut Backend, request: u32, flags: u32, payload: &[u8]) -> Handled {
        let header = Header {
            request,
            flags: VERSION | flags,
            size: payload.len() as u32,
        };
        let handled = backend.handle(header, payload, Vec::new());
        handled.expect("the message is valid")
    }

    #[test]
    fn the_driver_learns_the_features() {
        for (has_cache, flush) in [(true, FEATURE_FLUSH), (false, 0)] {
            let mut backend = backend();
            backend.shape.has_cache = has_cache;
            let reply = send(&mut backend, GET_FEATURES, 0, &[]).reply;
            let reply = reply.expect("an answer");
            let features = u64::from_ne_bytes(reply[HEADER_BYTES..].try_into().expect("a word"));
            assert_eq!(features & FEATURE_FLUSH, flush);
            assert_ne!(features & FEATURE_VERSION_1, 0);
        }
    }

    /// A driver that does not flush must not lose what it was told is written.
    #[test]
    fn a_driver_without_flushes_writes_through() {
        for (has_cache, accepted, is_through) in [
            (true, FEATURE_VERSION_1 | FEATURE_FLUSH, false),
            (true, FEATURE_VERSION_1, true),
            (false, FEATURE_VERSION_1, false),
        ] {
            let mut backend = backend();
            backend.shape.has_cache = has_cache;
            send(&mut backend, SET_FEATURES, 0, &accepted.to_ne_bytes());
            assert_eq!(backend.is_write_through(), is_through, "{accepted:#x}");
        }
    }

    #[test]
    fn the_configuration_has_the_size() {
        let request = [0_u32, 8, 0].map(u32::to_ne_bytes).concat();
        let reply = send(&mut backend(), GET_CONFIG, 0, &request).reply;
        let reply = reply.expect("an answer");
        assert_eq!(&reply[HEADER_BYTES + 12..], 2048_u64.to_le_bytes());
    }

    #[test]
    fn messages_are_acknowledged_on_request() {
        let mut backend = backend();
        assert!(send(&mut backend, SET_OWNER, 0, &[]).reply.is_none());
        let handled = send(&mut backend, VRING_KICK, NEEDS_REPLY, &[0; 8]);
        assert!(handled.is_kick);
        let reply = handled.reply.expect("an acknowledgement");
        let header = Header::from_bytes(reply[..HEADER_BYTES].try_into().expect("a header"));
        let header = header.expect("a valid header");
        assert_eq!(header.flags, VERSION | IS_REPLY);
        assert_eq!(&reply[HEADER_BYTES..], [0; 8]);
    }

    #[test]
    fn a_call_is_answered() {
        let answer = |payload: u64| {
            let header = Header {
                request: BACKEND_VRING_CALL,
                flags: VERSION | IS_REPLY,
                size: 8,
            };
            Backend::check_call(header, &payload.to_ne_bytes())
        };
        assert!(answer(0).is_ok());
        assert!(answer(1).is_err());
    }

    #[test]
    fn invalid_messages_are_refused() {
        let mut backend = backend();
        for (request, payload) in [
            (99, &[0; 8][..]),
            (SET_VRING_NUM, &[0; 4]),
            (SET_VRING_ADDR, &[1; 40]),
            (VRING_KICK, &[1; 8]),
            (SET_FEATURES, &[255; 8]),
            (SET_FEATURES, &[0; 8]),
            (SET_VRING_NUM, &[1; 8]),
            (SET_MEM_TABLE, &[1; 40]),
            (SET_PROTOCOL_FEATURES, &[0; 8]),
            (GET_CONFIG, &[255; 12]),
        ] {
            let header = Header {
                request,
                flags: VERSION,
                size: payload.len() as u32,
            };
            assert!(
                backend.handle(header, payload, Vec::new()).is_err(),
                "{request}"
            );
        }
        let version_2 = [GET_FEATURES, 2, 0].map(u32::to_ne_bytes).concat();
        assert!(Header::from_bytes(version_2.try_into().expect("a header")).is_err());
    }
}
