//! Messages and files through sockets, and how long they are waited for.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::GuestError;

/// Real time without a message after which a guest counts as hung.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Time between two looks at things that nothing reports.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Size of the buffer for passed files.
const FILES_SPACE: usize = 256;

/// Receives the files that a cage passes.
pub(crate) fn receive_files(socket: &UnixStream) -> Result<Vec<OwnedFd>, GuestError> {
    let mut files = Vec::new();
    match receive(socket, 1, &mut files)? {
        Some(_) => Ok(files),
        None => Err(GuestError::Ended(String::new())),
    }
}

/// Receives a number of bytes and the files that come with them; `None` at the end.
pub(crate) fn receive(
    socket: impl AsFd,
    count: usize,
    files: &mut Vec<OwnedFd>,
) -> Result<Option<Vec<u8>>, GuestError> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let mut space = [MaybeUninit::uninit(); FILES_SPACE];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes[done..])];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(&socket, &mut buffers, &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(message) => done += message.bytes,
            Err(Errno::INTR) => continue,
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(GuestError::at("a socket of the guest")(error)),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                files.extend(passed);
            }
        }
    }
    Ok(Some(bytes))
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
