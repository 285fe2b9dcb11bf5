//! A device whose storage is behind callbacks of C.
//!
//! The thread that submits a request calls them. With sectors of 4096 bytes they see whole sectors
//! only: a write of a part of one reads the sector first.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jext::device::{
    DetachedErrors, Geometry, Outcome, Payload, Request, Results, SectorNr, Ticket,
    payload_from_bytes, payload_to_bytes,
};
use jext::{BlockDevice, DeviceError};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::pointers;
use crate::process::Process;
use crate::versioned::Versioned;

/// `flags` of struct jext_device_callbacks: nothing is written.
pub const JEXT_DEVICE_READ_ONLY: u32 = 1;
/// `flags` of struct jext_device_callbacks: a write is durable when it returns, also after a power
/// cut. Such a device needs no flush.
pub const JEXT_DEVICE_WRITE_THROUGH: u32 = 2;
/// `flags` of struct jext_device_callbacks: several threads may be in callbacks at a time.
pub const JEXT_DEVICE_CONCURRENT: u32 = 4;

/// All flags of a device.
const FLAGS: u32 = JEXT_DEVICE_READ_ONLY | JEXT_DEVICE_WRITE_THROUGH | JEXT_DEVICE_CONCURRENT;
/// Sizes of a sector in bytes.
const SECTOR_SIZES: [u32; 2] = [SectorNr::SIZE as u32, 4096];

/// A block device of your own.
///
/// The callbacks return 0 or a negative errno. -ENOSPC from `write` or `discard` says that the
/// storage is full, and that the callback changed nothing else; from `read` or `flush` it is a
/// failure as any other, -EIO for calls of the library.
///
/// They are called by any thread that uses the volume and by threads of the library, one at a time
/// unless JEXT_DEVICE_CONCURRENT is set. They must not call the library for the same volume or
/// device, throw, or jump out.
///
/// Offsets and counts are multiples of the sector size, and lie within the device. After a power
/// cut, each sector has either its last flushed contents or any that were written since.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DeviceCallbacks {
    /// sizeof(struct jext_device_callbacks).
    pub struct_size: usize,
    /// Passed to all callbacks.
    pub context: *mut c_void,
    /// Name of the device for messages; NULL for "device".
    pub name: *const c_char,
    /// Size in bytes, a multiple of the sector size.
    pub size: u64,
    /// Size of the unit that a write changes as a whole: 512 or 4096; 0 for 512.
    pub sector_size: u32,
    /// JEXT_DEVICE_READ_ONLY, JEXT_DEVICE_WRITE_THROUGH, JEXT_DEVICE_CONCURRENT.
    pub flags: u32,
    /// Reads `count` bytes at `offset`: all of them, or it fails.
    pub read: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            buffer: *mut c_void,
            count: usize,
            offset: u64,
        ) -> c_int,
    >,
    /// Writes `count` bytes at `offset`: all of them, or it fails. NULL with JEXT_DEVICE_READ_ONLY.
    pub write: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            data: *const c_void,
            count: usize,
            offset: u64,
        ) -> c_int,
    >,
    /// Makes durable what was written. Without it, and without JEXT_DEVICE_WRITE_THROUGH, the
    /// device is only opened for reading.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// Discards `count` bytes at `offset`, whose contents become undefined. May be NULL.
    pub discard:
        Option<unsafe extern "C" fn(context: *mut c_void, offset: u64, count: u64) -> c_int>,
    /// Called once, after the last use of the device, and not in the child of a fork. May be NULL.
    pub close: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

// SAFETY: the size comes first, and zeros are null pointers and numbers.
unsafe impl Versioned for DeviceCallbacks {
    const NAME: &'static str = "struct jext_device_callbacks";
    const SIZE_MIN: usize = offset_of!(Self, close) + size_of::<usize>();
}

/// A device whose storage is behind callbacks.
pub(crate) struct CallbackDevice {
    calls: DeviceCallbacks,
    name: String,
    geometry: Geometry,
    is_concurrent: bool,
    process: Process,
    // [lock] Held during callbacks, unless they may run at the same time; and while a write of a
    // part of a sector reads and writes the sector.
    turn: Mutex<()>,
    detached: Arc<DetachedErrors>,
}

// SAFETY: the contract of the callbacks allows calls from any thread, and `turn` makes them one at
// a time unless the caller allows more.
unsafe impl Send for CallbackDevice {}
// SAFETY: as above.
unsafe impl Sync for CallbackDevice {}

impl CallbackDevice {
    /// Creates a device.
    ///
    /// # Safety
    /// The callbacks keep the contract in `jext.h`, and the name is a text or null.
    pub(crate) unsafe fn new(calls: DeviceCallbacks) -> Result<Self> {
        // SAFETY: the caller vouches for it.
        let name = unsafe { pointers::option(calls.name, "name") }?;
        let name = name.unwrap_or("device").to_owned();
        let geometry = geometry(&calls).map_err(|failure| failure.about(&name))?;
        Ok(Self {
            calls,
            name,
            geometry,
            is_concurrent: calls.flags & JEXT_DEVICE_CONCURRENT != 0,
            process: Process::current(),
            turn: Mutex::new(()),
            detached: Arc::default(),
        })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, request: &Request) -> Result<Outcome, DeviceError> {
        self.geometry.check(request)?;
        let done = match request {
            Request::Read { block_bytes, .. } => {
                let _turn = (!self.is_concurrent).then(|| self.turn());
                return match self.read(bytes_of(request)) {
                    Ok(bytes) => Ok(Outcome::Read(payload_from_bytes(
                        &bytes,
                        *block_bytes as usize,
                    ))),
                    Err(refusal) => Err(self.failed(request, refusal)),
                };
            }
            Request::Write {
                payload,
                force_unit_access,
                ..
            } => {
                let range = bytes_of(request);
                let is_whole = self.whole_sectors(&range) == range;
                let _turn = (!self.is_concurrent || !is_whole).then(|| self.turn());
                let written = match is_whole {
                    true => self.write(range.start, payload),
                    false => self.write_part(range, payload),
                };
                written.and_then(|()| match force_unit_access {
                    true => self.flush(),
                    false => Ok(()),
                })
            }
            Request::Flush => {
                let _turn = (!self.is_concurrent).then(|| self.turn());
                self.flush()
            }
            Request::Discard { .. } => {
                let _turn = (!self.is_concurrent).then(|| self.turn());
                self.discard(bytes_of(request))
            }
        };
        match done {
            Ok(()) => Ok(Outcome::Done),
            Err(refusal) => Err(self.failed(request, refusal)),
        }
    }

    /// Returns the smallest range of whole sectors around a range.
    fn whole_sectors(&self, range: &Range<u64>) -> Range<u64> {
        let unit = u64::from(self.geometry.sector_bytes);
        range.start - range.start % unit..range.end.next_multiple_of(unit)
    }

    /// Reads a range.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Refusal> {
        let whole = self.whole_sectors(&range);
        let mut bytes = vec![0; (whole.end - whole.start) as usize];
        let Some(read) = self.calls.read else {
            return Err(Refusal::of("read", Errno::IO));
        };
        // SAFETY: the buffer has as many bytes as the callback is asked for.
        let answer = unsafe {
            read(
                self.calls.context,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                whole.start,
            )
        };
        done("read", answer)?;
        if whole != range {
            bytes.truncate((range.end - whole.start) as usize);
            bytes.drain(..(range.start - whole.start) as usize);
        }
        Ok(bytes)
    }

    /// Writes whole sectors.
    fn write(&self, offset: u64, payload: &Payload) -> Result<(), Refusal> {
        match &payload[..] {
            [block] => self.write_bytes(offset, block),
            _ => self.write_bytes(offset, &payload_to_bytes(payload)),
        }
    }

    /// Writes a range that does not consist of whole sectors.
    fn write_part(&self, range: Range<u64>, payload: &Payload) -> Result<(), Refusal> {
        let whole = self.whole_sectors(&range);
        let mut bytes = self.read(whole.clone())?;
        let at = (range.start - whole.start) as usize;
        let new = payload_to_bytes(payload);
        bytes[at..at + new.len()].copy_from_slice(&new);
        self.write_bytes(whole.start, &bytes)
    }

    fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let Some(write) = self.calls.write else {
            return Err(Refusal::of("write", Errno::ROFS));
        };
        // SAFETY: the callback gets as many bytes as there are.
        let answer = unsafe {
            write(
                self.calls.context,
                bytes.as_ptr().cast(),
                bytes.len(),
                offset,
            )
        };
        done("write", answer)
    }

    fn flush(&self) -> Result<(), Refusal> {
        match self.calls.flush {
            // SAFETY: the contract of the callback.
            Some(flush) => done("flush", unsafe { flush(self.calls.context) }),
            None => Ok(()),
        }
    }

    fn discard(&self, range: Range<u64>) -> Result<(), Refusal> {
        let unit = u64::from(self.geometry.sector_bytes);
        let start = range.start.next_multiple_of(unit);
        let end = range.end - range.end % unit;
        match self.calls.discard {
            Some(discard) if start < end => {
                // SAFETY: the contract of the callback.
                done("discard", unsafe {
                    discard(self.calls.context, start, end - start)
                })
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, request: &Request, refusal: Refusal) -> DeviceError {
        let Refusal { callback, answer } = refusal;
        let number = answer.checked_neg().unwrap_or_default();
        let is_full = number == Errno::NOSPC.raw_os_error();
        if is_full && matches!(callback, "write" | "discard") {
            return DeviceError::NoSpace {
                device: self.name.clone(),
            };
        }
        let said = io::Error::from_raw_os_error(number);
        let cause = match number > 0 {
            true if is_full => {
                format!("{said}, from the callback {callback}; only write and discard can be full")
            }
            true => said.to_string(),
            false => format!("the callback returned {answer}, not 0 or a negative errno"),
        };
        request.failed(self.name.clone(), cause)
    }
}

/// The answer of a callback that failed.
struct Refusal {
    callback: &'static str,
    answer: c_int,
}

impl Refusal {
    /// Returns the answer of a callback that is not there.
    fn of(callback: &'static str, errno: Errno) -> Self {
        let answer = -errno.raw_os_error();
        Self { callback, answer }
    }
}

/// Returns the properties of a device of callbacks.
fn geometry(calls: &DeviceCallbacks) -> Result<Geometry> {
    let refuse = |text: String| Err(Failure::invalid(text));
    let has = |flag: u32| calls.flags & flag != 0;
    let sector_bytes = match calls.sector_size {
        0 => SectorNr::SIZE as u32,
        size => size,
    };
    if has(!FLAGS) {
        return refuse(format!("flags of the device are {:#x}", calls.flags));
    }
    if !SECTOR_SIZES.contains(&sector_bytes) {
        return refuse(format!("sector_size is {sector_bytes}, not 512 or 4096"));
    }
    if calls.size == 0 || !calls.size.is_multiple_of(u64::from(sector_bytes)) {
        let size = calls.size;
        return refuse(format!(
            "size is {size}, not a multiple of sectors of {sector_bytes} bytes"
        ));
    }
    if calls.read.is_none() {
        return refuse("the callback read is NULL".to_owned());
    }
    let is_read_only = has(JEXT_DEVICE_READ_ONLY);
    if calls.write.is_none() && !is_read_only {
        return refuse(
            "the callback write is NULL, and JEXT_DEVICE_READ_ONLY is not set".to_owned(),
        );
    }
    let is_write_through = has(JEXT_DEVICE_WRITE_THROUGH);
    Ok(Geometry {
        sector_bytes,
        atomic_write_bytes: sector_bytes,
        has_volatile_cache: !is_write_through,
        can_flush: is_write_through || calls.flush.is_some(),
        is_read_only,
        ..Geometry::new(calls.size)
    })
}

/// Returns the bytes that a request touches.
fn bytes_of(request: &Request) -> Range<u64> {
    let (sector, sectors) = request.range();
    let start = sector.byte_offset();
    start..start + sectors * SectorNr::SIZE
}

/// Returns the result of a callback.
fn done(callback: &'static str, answer: c_int) -> Result<(), Refusal> {
    match answer {
        0 => Ok(()),
        answer => Err(Refusal { callback, answer }),
    }
}

impl BlockDevice for CallbackDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let results: Results = batch
            .iter()
            .map(|request| self.carry_out(request))
            .collect();
        Ticket::ready_or_detached(results, &self.detached)
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}

impl Drop for CallbackDevice {
    fn drop(&mut self) {
        if let Some(close) = self.calls.close
            && self.process.is_current()
        {
            // SAFETY: the contract of the callback; nothing uses the device any more.
            unsafe { close(self.calls.context) };
        }
    }
}
