//! [`Recording`]: a trace as a file, with the time of each event.
//!
//! A recording starts with the eight bytes `JEXTREC1`; after them there are frames up to the end.
//! All numbers are little-endian.
//!
//! | frame | bytes |
//! |---|---|
//! | length of the body | 4 |
//! | CRC-32C of the body | 4 |
//! | body | as many |
//!
//! | body | contents |
//! |---|---|
//! | a device | 0; size (8), sector size (4), atomic write size (4), queue depth (4), properties |
//! | a batch was submitted | 1; time (8), device (2), batch (8); requests |
//! | a batch is waited for | 2; time (8), device (2), batch (8) |
//! | a batch is completed | 3; time (8), device (2), batch (8); for each request 0 or an error |
//! | its ticket was dropped | 4; time (8), device (2), batch (8) |
//! | a mark | 5; time (8), mark (8) |
//! | the end | 6; time (8), number of events (8) |
//!
//! | request | contents |
//! |---|---|
//! | read | 0; sector (8), pieces (4), size of a piece (4) |
//! | write | 1, or 2 with forced unit access; sector (8), sectors (4), map, contents |
//! | flush | 3 |
//! | discard | 4; sector (8), sectors (8) |
//!
//! Sizes of devices are in bytes. Properties are bits in one byte: 0 volatile cache, 1 forced unit
//! access, 2 flushes, 3 read-only; the name of the device follows. A map has a bit for each sector,
//! least significant first; sectors whose bit is clear are zeroes and not in the contents. An error
//! is 1, the length of its text (2) and the text.
//!
//! Devices are numbered in the order of their frames, and each precedes its events. Times are those
//! of [`rt::monotonic`] since the recording was made, in nanoseconds. A recording without an end
//! was cut off.

mod decode;
mod encode;

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use rt::{Mutex, Nanos};

use super::{Event, Log, TraceDevice};
use crate::device::{BlockDevice, Geometry, Request};

/// The first bytes of a recording.
const MAGIC: [u8; 8] = *b"JEXTREC1";
/// Maximum size of a body in bytes.
const BODY_BYTES_MAX: usize = 256 << 20;
/// Size of the length and the checksum of a frame in bytes.
const FRAME_BYTES: usize = 8;

/// A recording in progress.
///
/// An error in writing does not disturb the devices: the first one is kept until
/// [`finish`](Self::finish).
pub struct Recording {
    start: Nanos,
    state: Mutex<State>,
}

struct State {
    output: Box<dyn Write + Send>,
    error: Option<io::Error>,
    devices: usize,
    batches: u64,
    events: u64,
}

impl Recording {
    /// Starts a recording. `output` should have a buffer.
    pub fn new(output: impl Write + Send + 'static) -> Arc<Self> {
        let mut state = State {
            output: Box::new(output),
            error: None,
            devices: 0,
            batches: 0,
            events: 0,
        };
        state.write(&MAGIC);
        Arc::new(Self {
            start: rt::monotonic(),
            state: Mutex::new(state),
        })
    }

    /// Records a device from now on. Devices are numbered from 0 in the order of these calls.
    pub fn attach(self: &Arc<Self>, inner: Arc<dyn BlockDevice>) -> TraceDevice {
        let mut state = self.state.lock();
        let number = state.devices;
        state.devices += 1;
        state.frame(&encode::device(&inner.name(), &inner.geometry()));
        drop(state);
        TraceDevice::new(inner, Arc::<Self>::clone(self), number)
    }

    /// Records a mark.
    pub fn mark(&self, mark: u64) {
        self.event(&Event::Mark(mark));
    }

    /// Writes the end of the recording.
    ///
    /// # Errors
    /// Fails with the first error in writing it.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let end = encode::end(self.now(), state.events);
        state.frame(&end);
        match state.error.take() {
            Some(error) => Err(error),
            None => state.output.flush(),
        }
    }

    /// Returns the time since the start. The clock may belong to another world.
    fn now(&self) -> Nanos {
        rt::monotonic().saturating_sub(self.start)
    }

    fn event(&self, event: &Event) {
        let mut state = self.state.lock();
        state.events += 1;
        state.frame(&encode::event(self.now(), event));
    }
}

impl Log for Recording {
    fn submitted(&self, device: usize, requests: &Arc<Vec<Request>>) -> u64 {
        let mut state = self.state.lock();
        let batch = state.batches;
        state.batches += 1;
        state.events += 1;
        let event = Event::Submitted {
            device,
            batch,
            requests: Arc::clone(requests),
        };
        state.frame(&encode::event(self.now(), &event));
        batch
    }

    fn keeps_waits(&self) -> bool {
        true
    }

    fn awaited(&self, event: Event) {
        self.event(&event);
    }

    fn settled(&self, event: Event, _batch: u64) {
        self.event(&event);
    }
}

impl State {
    fn frame(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.write(&length.to_le_bytes());
        self.write(&checksum(body).to_le_bytes());
        self.write(body);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.output.write_all(bytes).err();
        }
    }
}

fn checksum(body: &[u8]) -> u32 {
    layout::checksum::crc32c(layout::checksum::START, body)
}

/// The error of a recording that is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a recording: it does not start with JEXTREC1")]
    Foreign,
    /// It has no end.
    #[error("the recording was cut off after {events} events")]
    CutOff {
        /// Number of events that are there.
        events: u64,
    },
    /// A frame is invalid.
    #[error("the recording is damaged at byte {offset}: {cause}")]
    Damaged {
        /// Place of the frame.
        offset: u64,
        /// The damage.
        cause: &'static str,
    },
}

/// An event and its time.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The time since the start of the recording.
    pub time: Nanos,
    /// The event.
    pub event: Event,
}

/// A reader of a recording: the events in order. After an error there are no more.
pub struct RecordingReader<R> {
    input: R,
    devices: Vec<(String, Geometry)>,
    offset: u64,
    events: u64,
    elapsed: Nanos,
    has_ended: bool,
}

impl<R: BufRead> RecordingReader<R> {
    /// Opens a recording.
    ///
    /// # Errors
    /// Fails if it cannot be read, or if it is something else.
    pub fn new(mut input: R) -> Result<Self, RecordingError> {
        let mut magic = [0; MAGIC.len()];
        match input.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            _ if magic != MAGIC => return Err(RecordingError::Foreign),
            _ => {}
        }
        Ok(Self {
            input,
            devices: Vec::new(),
            offset: MAGIC.len() as u64,
            events: 0,
            elapsed: Nanos::ZERO,
            has_ended: false,
        })
    }

    /// Returns names and geometries of the devices so far.
    pub fn devices(&self) -> &[(String, Geometry)] {
        &self.devices
    }

    /// Returns the time of the last event so far, or of the end.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        loop {
            let offset = self.offset;
            let damaged = |cause| RecordingError::Damaged { offset, cause };
            let body = self.frame()?;
            let frame = decode::frame(&body).map_err(damaged)?;
            match frame {
                decode::Frame::Device(name, geometry) => self.devices.push((name, geometry)),
                decode::Frame::Event(recorded) => {
                    let device = match recorded.event {
                        Event::Submitted { device, .. }
                        | Event::Awaited { device, .. }
                        | Event::Completed { device, .. }
                        | Event::Detached { device, .. } => Some(device),
                        Event::Mark(_) => None,
                    };
                    if device.is_some_and(|device| device >= self.devices.len()) {
                        return Err(damaged("an event of a device that is not there"));
                    }
                    if recorded.time < self.elapsed {
                        return Err(damaged("an event before the one before it"));
                    }
                    self.elapsed = recorded.time;
                    self.events += 1;
                    return Ok(Some(recorded));
                }
                decode::Frame::End(time, events) => {
                    if events != self.events {
                        return Err(damaged("another number of events than at its end"));
                    }
                    self.elapsed = self.elapsed.max(time);
                    return match self.input.fill_buf()? {
                        [] => Ok(None),
                        _ => Err(damaged("something after its end")),
                    };
                }
            }
        }
    }

    /// Reads the next frame; returns its body.
    fn frame(&mut self) -> Result<Vec<u8>, RecordingError> {
        let head = self.bytes(FRAME_BYTES)?;
        let word = |at: usize| {
            let word = head[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(word)
        };
        let (length, expected) = (word(0) as usize, word(4));
        let offset = self.offset;
        let damaged = |cause| RecordingError::Damaged { offset, cause };
        if length > BODY_BYTES_MAX {
            return Err(damaged("a frame that is too long"));
        }
        let body = self.bytes(length)?;
        if checksum(&body) != expected {
            return Err(damaged("a checksum that does not match"));
        }
        self.offset += (FRAME_BYTES + length) as u64;
        Ok(body)
    }

    /// Reads a number of bytes. A wrong number costs no memory: it grows as they arrive.
    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, RecordingError> {
        let mut bytes = Vec::new();
        self.input
            .by_ref()
            .take(count as u64)
            .read_to_end(&mut bytes)?;
        match bytes.len() == count {
            true => Ok(bytes),
            false => Err(RecordingError::CutOff {
                events: self.events,
            }),
        }
    }
}

impl<R: BufRead> Iterator for RecordingReader<R> {
    type Item = Result<Recorded, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read().transpose();
        self.has_ended = !matches!(read, Some(Ok(_)));
        read
    }
}

#[cfg(test)]
mod tests;
