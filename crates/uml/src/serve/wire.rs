//! [`Wire`]: the sockets of a guest in real time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{Disk, Watcher};
use crate::calendar::{MESSAGE_BYTES, Message};
use crate::socket::{POLL_INTERVAL, receive, send, timespec};
use crate::vhost::{Backend, HEADER_BYTES, Header};
use crate::watchdog::Watchdog;
use crate::{Guest, GuestError};

/// Number of reads of the console between two looks at the sockets: a guest may write faster than
/// it is read.
const CONSOLE_READS: u32 = 16;

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
        match self.poll(&mut files, false, watcher)? {
            None => Ok(None),
            Some(_) => {
                let (socket, _) = listener.accept().map_err(GuestError::at("the calendar"))?;
                Ok(Some(socket))
            }
        }
    }

    /// Waits for the next message; without a calendar, the console shows that the guest is alive.
    pub(super) fn next(
        &mut self,
        calendar: Option<&UnixStream>,
        disks: &[Disk],
        watcher: &mut dyn Watcher,
    ) -> Result<Source, GuestError> {
        let (mut files, mut sources) = (Vec::new(), Vec::new());
        if let Some(calendar) = calendar {
            files.push(calendar.as_fd());
            sources.push(Source::Calendar);
        }
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
        let ready = self.poll(&mut files, calendar.is_none(), watcher)?;
        Ok(ready.map_or(Source::Ended, |index| sources[index]))
    }

    /// Reads the console until the guest has ended.
    pub(super) fn listen_to_console(
        &mut self,
        watcher: &mut dyn Watcher,
    ) -> Result<(), GuestError> {
        self.poll(&mut Vec::new(), true, watcher).map(drop)
    }

    /// Waits until one of the files is readable; `None` if the guest has ended. Reads the console
    /// meanwhile; `is_heard` says whether its output shows that the guest is alive.
    fn poll(
        &mut self,
        files: &mut Vec<BorrowedFd<'_>>,
        is_heard: bool,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<usize>, GuestError> {
        let mut watchdog = Watchdog::new(self.guest.process());
        loop {
            if watcher.is_cancelled() {
                return Err(GuestError::Cancelled);
            }
            let mut console = self.guest.console();
            let flags = PollFlags::IN;
            let mut polled: Vec<PollFd<'_>> = files
                .iter()
                .map(|file| PollFd::from_borrowed_fd(*file, flags))
                .collect();
            polled.push(PollFd::from_borrowed_fd(console.pipe().as_fd(), flags));
            match poll(&mut polled, Some(&timespec(POLL_INTERVAL))) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(GuestError::at("poll")(error)),
            }
            let is_ready = |file: &PollFd<'_>| !file.revents().is_empty();
            let has_output = polled.pop().is_some_and(|file| is_ready(&file));
            let first = polled.iter().position(is_ready);
            drop(polled);
            if has_output {
                (0..CONSOLE_READS).all(|_| console.read_some());
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
            if has_output && is_heard {
                watchdog.hear();
            }
            if let Some(silence) = watchdog.hung() {
                return Err(self.hung(silence));
            }
        }
    }

    /// Returns the error of a guest that does nothing, or that gets no further.
    pub(super) fn hung(&self, span: std::time::Duration) -> GuestError {
        GuestError::Hung {
            seconds: span.as_secs(),
            console: self.tail(),
        }
    }
}

/// Receives a message of the calendar's protocol; `None` if the kernel has closed it.
pub(super) fn receive_time(socket: &UnixStream) -> Result<Option<Message>, GuestError> {
    let bytes = receive(socket, MESSAGE_BYTES, &mut Vec::new())?;
    Ok(bytes.map(|bytes| Message::from_bytes(bytes.try_into().expect("a message"))))
}

/// Sends messages of the calendar's protocol.
pub(super) fn send_times(socket: &UnixStream, messages: &[Message]) -> Result<(), GuestError> {
    let bytes: Vec<u8> = messages
        .iter()
        .flat_map(|message| message.to_bytes())
        .collect();
    send(socket, &bytes)
}

/// Sends a reply to a disk's driver.
pub(super) fn reply(socket: &UnixStream, bytes: &[u8]) -> Result<(), GuestError> {
    send(socket, bytes)
}

/// Reports chains in the used ring.
pub(super) fn send_call(channel: &OwnedFd) -> Result<(), GuestError> {
    send(channel, &Backend::call())
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
    Ok(Some((header, payload, files)))
}
