//! Messages and files through sockets, and how long they are waited for.
//!
//! The other end belongs to a guest, which may hold copies of both ends, may send half a message,
//! and may stop reading. So no call blocks on a socket: each waits with `poll`, up to a limit that
//! the guest cannot change.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send as send_some,
};

use crate::GuestError;

/// Real time without a message after which a guest counts as hung.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Real time in which messages arrive and virtual time stands still, after which a guest counts as
/// hung.
pub(crate) const STANDSTILL_MAX: Duration = Duration::from_secs(600);
/// Time between two looks at things that nothing reports.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Real time that the rest of a message may take, in either direction.
const MESSAGE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of files that come with a message.
const FILES_MAX: usize = 8;
/// Size of the buffer for passed files.
const FILES_SPACE: usize = 256;

/// Receives the files that a cage passes.
pub(crate) fn receive_files(socket: &UnixStream) -> Result<Vec<OwnedFd>, GuestError> {
    let mut files = Vec::new();
    match receive_within(socket, 1, &mut files, SILENCE_MAX)? {
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
    receive_within(socket, count, files, MESSAGE_MAX)
}

fn receive_within(
    socket: impl AsFd,
    count: usize,
    files: &mut Vec<OwnedFd>,
    limit: Duration,
) -> Result<Option<Vec<u8>>, GuestError> {
    let end = Instant::now() + limit;
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let mut space = [MaybeUninit::uninit(); FILES_SPACE];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes[done..])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match recvmsg(&socket, &mut buffers, &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(message) => done += message.bytes,
            Err(Errno::AGAIN) => match wait_for(&socket, PollFlags::IN, end)? {
                true => continue,
                false => return Err(GuestError::Protocol("half a message".to_owned())),
            },
            Err(Errno::INTR) => continue,
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(GuestError::at("a socket of the guest")(error)),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                files.extend(passed);
            }
        }
        if files.len() > FILES_MAX {
            return Err(GuestError::Protocol("too many files".to_owned()));
        }
    }
    Ok(Some(bytes))
}

/// Sends bytes. A guest that has gone is noticed when its next message is read.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> Result<(), GuestError> {
    send_within(socket, bytes, MESSAGE_MAX)
}

fn send_within(socket: impl AsFd, bytes: &[u8], limit: Duration) -> Result<(), GuestError> {
    let end = Instant::now() + limit;
    let mut rest = bytes;
    while !rest.is_empty() {
        match send_some(&socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::AGAIN) => {
                if !wait_for(&socket, PollFlags::OUT, end)? {
                    let what = "many messages and reads no answer";
                    return Err(GuestError::Protocol(what.to_owned()));
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
            Err(error) => return Err(GuestError::at("a socket of the guest")(error)),
        }
    }
    Ok(())
}

/// Waits until a socket is ready; returns false if it is not by `end`.
fn wait_for(socket: impl AsFd, flags: PollFlags, end: Instant) -> Result<bool, GuestError> {
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(false);
        }
        let mut files = [PollFd::new(&socket, flags)];
        match poll(&mut files, Some(&timespec(rest))) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(GuestError::at("poll")(error)),
        }
    }
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    /// A guest may keep a copy of the back-end channel and change its timeout.
    #[test]
    fn half_a_message_is_not_waited_for() {
        let (own, mut other) = UnixStream::pair().expect("a socket");
        other.write_all(&[1; 3]).expect("a reader");
        let received = receive_within(&own, 4, &mut Vec::new(), SOON);
        assert!(matches!(received, Err(GuestError::Protocol(_))));
        drop(other);
        let received = receive_within(&own, 4, &mut Vec::new(), SOON);
        assert!(matches!(received, Ok(None)));
    }

    #[test]
    fn a_guest_that_reads_nothing_stops_no_sender() {
        let (own, other) = UnixStream::pair().expect("a socket");
        let flood = vec![0; 8 << 20];
        let sent = send_within(&own, &flood, SOON);
        assert!(matches!(sent, Err(GuestError::Protocol(_))));
        drop(other);
        assert!(send_within(&own, &flood, SOON).is_ok());
    }

    #[test]
    fn files_are_limited_while_they_arrive() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

        let (own, other) = UnixStream::pair().expect("a socket");
        let files = [other.as_fd(); 5];
        for _ in 0..2 {
            let mut space =
                vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(&files).size()];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
            let bytes = [std::io::IoSlice::new(&[0])];
            sendmsg(&other, &bytes, &mut ancillary, SendFlags::empty()).expect("a reader");
        }
        // The message has more bytes to come: it is refused before they do.
        let received = receive_within(&own, 100, &mut Vec::new(), SOON);
        let Err(GuestError::Protocol(what)) = received else {
            panic!("{received:?}");
        };
        assert_eq!(what, "too many files");
    }
}
