//! [`Wire`]: the sockets of a guest in real time.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send as send_bytes};

use super::{Disk, Watcher};
use crate::calendar::{MESSAGE_BYTES, Message};
use crate::socket::{POLL_INTERVAL, SILENCE_MAX, receive, timespec};
use crate::vhost::{Backend, FILES_MAX, HEADER_BYTES, Header};
use crate::{Guest, GuestError};

/// The place of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Calendar,
    /// The kernel connects to a disk.
    Listener(usize),
    Disk(usize),
    /// The back-end channel of a disk.
    Channel(usize),
    /// The last process has ended.
    Ended,
}

/// The sockets and the console of a guest.
pub(super) struct Wire<'a> {
    guest: &'a Guest,
}

impl<'a> Wire<'a> {
    pub(super) fn new(guest: &'a Guest) -> Self {
        Self { guest }
    }

    pub(super) fn tail(&self) -> String {
        self.guest.console_tail()
    }

    /// Waits for the first connection; `None` if the guest has ended.
    pub(super) fn accept(
        &mut self,
        listener: &UnixListener,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<UnixStream>, GuestError> {
        let mut files = vec![listener.as_fd()];
        match self.poll(&mut files, watcher)? {
            None => Ok(None),
            Some(_) => {
                let (socket, _) = listener.accept().map_err(GuestError::at("the calendar"))?;
                limit_reads(&socket)?;
                Ok(Some(socket))
            }
        }
    }

    /// Waits for the next message.
    pub(super) fn next(
        &mut self,
        calendar: &UnixStream,
        disks: &[Disk],
        watcher: &mut dyn Watcher,
    ) -> Result<Source, GuestError> {
        let mut files = vec![calendar.as_fd()];
        let mut sources = vec![Source::Calendar];
        for (number, disk) in disks.iter().enumerate() {
            match &disk.socket {
                None if disk.is_gone => {}
                None => {
                    files.push(disk.listener.as_fd());
                    sources.push(Source::Listener(number));
                }
                Some(socket) => {
                    files.push(socket.as_fd());
                    sources.push(Source::Disk(number));
                    if let Ok(channel) = disk.backend.channel() {
                        files.push(channel.as_fd());
                        sources.push(Source::Channel(number));
                    }
                }
            }
        }
        let ready = self.poll(&mut files, watcher)?;
        Ok(ready.map_or(Source::Ended, |index| sources[index]))
    }

    /// Reads the console until the guest has ended.
    pub(super) fn listen_to_console(
        &mut self,
        watcher: &mut dyn Watcher,
    ) -> Result<(), GuestError> {
        self.poll(&mut Vec::new(), watcher).map(drop)
    }

    /// Waits until one of the files is readable; `None` if the guest has ended. Reads the console
    /// meanwhile.
    fn poll(
        &mut self,
        files: &mut Vec<std::os::fd::BorrowedFd<'_>>,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<usize>, GuestError> {
        let mut silence = std::time::Duration::ZERO;
        loop {
            let mut console = self.guest.console();
            let flags = PollFlags::IN;
            let mut polled: Vec<PollFd<'_>> = files
                .iter()
                .map(|file| PollFd::from_borrowed_fd(*file, flags))
                .collect();
            polled.push(PollFd::from_borrowed_fd(console.pipe().as_fd(), flags));
            let ready = match poll(&mut polled, Some(&timespec(POLL_INTERVAL))) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(GuestError::at("poll")(error)),
            };
            let is_ready = |file: &PollFd<'_>| !file.revents().is_empty();
            let has_output = polled.pop().is_some_and(|file| is_ready(&file));
            let first = polled.iter().position(is_ready);
            drop(polled);
            if has_output {
                while console.read_some() {}
            }
            let has_ended = console.has_ended();
            drop(console);
            while let Some(report) = self.guest.next_report() {
                watcher.report(&report);
            }
            if first.is_some() {
                return Ok(first);
            }
            if has_ended {
                return Ok(None);
            }
            if watcher.is_cancelled() {
                return Err(GuestError::Cancelled);
            }
            silence = match ready {
                0 => silence + POLL_INTERVAL,
                _ => std::time::Duration::ZERO,
            };
            if silence >= SILENCE_MAX {
                return Err(self.hung());
            }
        }
    }

    fn hung(&self) -> GuestError {
        GuestError::Hung {
            seconds: SILENCE_MAX.as_secs(),
            console: self.tail(),
        }
    }
}

/// Limits the time that a guest may take for the rest of a message.
pub(super) fn limit_reads(socket: &UnixStream) -> Result<(), GuestError> {
    let limited = socket.set_read_timeout(Some(SILENCE_MAX));
    limited.map_err(GuestError::at("a socket of the guest"))
}

/// Receives a message of the calendar's protocol; `None` if the kernel has closed it.
pub(super) fn receive_time(mut socket: &UnixStream) -> Result<Option<Message>, GuestError> {
    let mut bytes = [0; MESSAGE_BYTES];
    match socket.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Message::from_bytes(bytes))),
        Err(error) if is_end(&error) => Ok(None),
        Err(error) => Err(GuestError::at("the calendar")(error)),
    }
}

/// Sends messages of the calendar's protocol. A kernel that has gone is noticed when its next
/// message is read.
pub(super) fn send_times(socket: &UnixStream, messages: &[Message]) -> Result<(), GuestError> {
    let bytes: Vec<u8> = messages
        .iter()
        .flat_map(|message| message.to_bytes())
        .collect();
    send(socket, &bytes)
}

/// Sends bytes to the guest.
pub(super) fn send(mut socket: &UnixStream, bytes: &[u8]) -> Result<(), GuestError> {
    match socket.write_all(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(GuestError::at("a socket of the guest")(error))
        }
        _ => Ok(()),
    }
}

/// Reports chains in the used ring.
pub(super) fn send_call(channel: &OwnedFd) -> Result<(), GuestError> {
    let bytes = Backend::call();
    match send_bytes(channel, &bytes, SendFlags::NOSIGNAL) {
        Ok(count) if count == bytes.len() => Ok(()),
        // The end of the guest is noticed when the answer is read.
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Ok(_) => Err(GuestError::Protocol("too few bytes of a call".to_owned())),
        Err(error) => Err(GuestError::at("the back-end channel")(error)),
    }
}

/// Receives the answer to a call; `None` if the kernel has closed the channel.
pub(super) fn receive_answer(channel: &OwnedFd) -> Result<Option<(Header, Vec<u8>)>, GuestError> {
    let Some(header) = receive(channel, HEADER_BYTES, &mut Vec::new())? else {
        return Ok(None);
    };
    let header = Header::from_bytes(header.try_into().expect("a header"))?;
    let payload = receive(channel, header.payload_bytes(), &mut Vec::new())?;
    Ok(payload.map(|payload| (header, payload)))
}

/// A message of a disk's driver: header, payload and files.
type DriverMessage = (Header, Vec<u8>, Vec<OwnedFd>);

/// Receives a message of a disk's driver with its files; `None` if the kernel has closed it.
pub(super) fn receive_message(socket: &UnixStream) -> Result<Option<DriverMessage>, GuestError> {
    let mut files = Vec::new();
    let Some(header) = receive(socket, HEADER_BYTES, &mut files)? else {
        return Ok(None);
    };
    let header = Header::from_bytes(header.try_into().expect("a header"))?;
    let payload = receive(socket, header.payload_bytes(), &mut files)?;
    let Some(payload) = payload else {
        return Err(GuestError::Protocol("half a message".to_owned()));
    };
    if files.len() > FILES_MAX {
        return Err(GuestError::Protocol("too many files".to_owned()));
    }
    Ok(Some((header, payload, files)))
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
    )
}
