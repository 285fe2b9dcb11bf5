//! Guests that break every rule: a thread plays the kernel on the other ends of the sockets.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockDevice, MemoryDevice, SliceDevice};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{Watcher, disks_in_real_time, in_virtual_time};
use crate::calendar::MESSAGE_BYTES;
use crate::{Guest, GuestError};

const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;

const SET_FEATURES: u32 = 2;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_BACKEND_CHANNEL: u32 = 21;
const VRING_KICK: u32 = 35;
const NEEDS_REPLY: u32 = 1 << 3;
const VERSION_1: u64 = 1 << 32;

/// Places in the guest's memory.
const MEMORY_BYTES: u64 = 1 << 20;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADERS: u64 = 0x4000;
const DATA: u64 = 0x10000;
const STATUS: u64 = 0x8000;
const QUEUE_SIZE: u16 = 64;

/// A watcher that cancels when it is told to.
#[derive(Default, Clone)]
struct Patience(Arc<AtomicBool>);

impl Watcher for Patience {
    fn report(&mut self, _text: &str) {}

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The kernel's ends.
struct Kernel {
    calendar: Option<UnixStream>,
    disk: UnixStream,
    channel: UnixStream,
    memory: File,
    chains: u16,
    patience: Patience,
    // Its end is the end of the guest.
    console: OwnedFd,
}

impl Kernel {
    /// Connects a kernel whose disk has a queue.
    fn new(folder: &Path, is_virtual: bool, console: OwnedFd, patience: Patience) -> Self {
        let connect = |name| UnixStream::connect(folder.join(name)).expect("it listens");
        let calendar = is_virtual.then(|| connect("calendar"));
        if let Some(calendar) = &calendar {
            send_time(calendar, START, 0);
            receive_time(calendar);
        }
        let (channel, other) = UnixStream::pair().expect("a socket");
        let memory = tempfile::tempfile().expect("a file");
        memory.set_len(MEMORY_BYTES).expect("space");
        let kernel = Self {
            calendar,
            disk: connect("disk"),
            channel,
            memory,
            chains: 0,
            patience,
            console,
        };
        let features = VERSION_1.to_ne_bytes();
        kernel.send(SET_FEATURES, 0, &features, &[]);
        let region = [1_u64, 0, MEMORY_BYTES, 0, 0]
            .map(u64::to_ne_bytes)
            .concat();
        kernel.send(SET_MEM_TABLE, 0, &region, &[kernel.memory.as_fd()]);
        kernel.send(SET_BACKEND_CHANNEL, 0, &[], &[other.as_fd()]);
        let size = [0, u32::from(QUEUE_SIZE)].map(u32::to_ne_bytes).concat();
        kernel.send(SET_VRING_NUM, 0, &size, &[]);
        let places = [0, 0, USED, AVAILABLE, 0].map(u64::to_ne_bytes).concat();
        kernel.send(SET_VRING_ADDR, 0, &places, &[]);
        if is_virtual {
            // At time zero there is nothing to limit.
            kernel.wait(1_000);
        }
        kernel
    }

    fn send(&self, request: u32, flags: u32, payload: &[u8], files: &[BorrowedFd<'_>]) {
        let header = [request, 1 | flags, payload.len() as u32].map(u32::to_ne_bytes);
        let bytes = [header.concat(), payload.to_vec()].concat();
        let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(files).size()];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(files)));
        let parts = [IoSlice::new(&bytes)];
        sendmsg(&self.disk, &parts, &mut ancillary, SendFlags::NOSIGNAL).expect("a reader");
    }

    fn put(&self, place: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, place).expect("space");
    }

    /// Offers a request: a header, a buffer of a sector, and a status.
    fn offer(&mut self, kind: u32, sector: u64) {
        let number = u64::from(self.chains);
        let header = HEADERS + 16 * number;
        self.put(header, &kind.to_le_bytes());
        self.put(header + 8, &sector.to_le_bytes());
        self.put(STATUS + number, &[9]);
        let data_flags = if kind == 0 { 3 } else { 1 };
        let descriptors = [
            (header, 16_u32, 1_u16),
            (DATA + 512 * number, 512, data_flags),
            (STATUS + number, 1, 2),
        ];
        let first = 3 * self.chains;
        for (next, (address, bytes, flags)) in (first + 1..).zip(descriptors) {
            let place = 16 * (u64::from(next) - 1);
            self.put(place, &address.to_le_bytes());
            self.put(place + 8, &bytes.to_le_bytes());
            self.put(place + 12, &flags.to_le_bytes());
            self.put(place + 14, &next.to_le_bytes());
        }
        self.put(AVAILABLE + 4 + 2 * number, &first.to_le_bytes());
        self.chains += 1;
        self.put(AVAILABLE + 2, &self.chains.to_le_bytes());
    }

    fn status(&self, number: u64) -> u8 {
        let mut status = [0];
        let read = self.memory.read_exact_at(&mut status, STATUS + number);
        read.expect("it is there");
        status[0]
    }

    /// Reports the requests, acknowledges the limit, and reads the reply.
    fn kick(&self) {
        self.send(VRING_KICK, NEEDS_REPLY, &[0; 8], &[]);
        if let Some(calendar) = &self.calendar {
            acknowledge(calendar, FREE_UNTIL);
        }
        read(&self.disk, 20);
    }

    /// Waits, answers the calls of the disk, and runs on.
    fn wait(&self, time: u64) {
        let calendar = self.calendar.as_ref().expect("virtual time");
        for (operation, time) in [(REQUEST, time), (WAIT, 0)] {
            send_time(calendar, operation, time);
            receive_time(calendar);
        }
        loop {
            let mut files = [&self.channel, calendar].map(|file| PollFd::new(file, PollFlags::IN));
            poll(&mut files, None).expect("poll");
            if !files[0].revents().is_empty() {
                self.answer_call();
                continue;
            }
            acknowledge(calendar, FREE_UNTIL);
            acknowledge(calendar, RUN);
            return;
        }
    }

    fn answer_call(&self) {
        let call = read(&self.channel, 20);
        let answer = [&call[..4], &(1_u32 | 4).to_ne_bytes(), &call[8..]].concat();
        (&self.channel).write_all(&answer).expect("a reader");
    }
}

fn read(mut socket: &UnixStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    socket.read_exact(&mut bytes).expect("a message");
    bytes
}

fn send_time(mut calendar: &UnixStream, operation: u32, time: u64) {
    let words = [operation, 1].map(u32::to_ne_bytes).concat();
    let bytes = [words, time.to_ne_bytes().to_vec()].concat();
    calendar.write_all(&bytes).expect("a reader");
}

fn receive_time(calendar: &UnixStream) -> [u32; 2] {
    let bytes = read(calendar, MESSAGE_BYTES);
    [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four")))
}

fn acknowledge(mut calendar: &UnixStream, expected: u32) {
    let [operation, sequence] = receive_time(calendar);
    assert_eq!(operation, expected);
    let words = [0, sequence, 0, 0].map(u32::to_ne_bytes).concat();
    calendar.write_all(&words).expect("a reader");
}

/// Returns 64 KiB in the middle of a device.
fn device() -> Arc<dyn BlockDevice> {
    let memory: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 20));
    Arc::new(SliceDevice::new(memory, 1 << 16, 2 << 16).expect("inside"))
}

/// Serves a scripted kernel; `script` runs on a thread of its own.
fn serve(
    is_virtual: bool,
    script: impl FnOnce(&mut Kernel) + Send + 'static,
) -> Result<(), GuestError> {
    let folder = tempfile::tempdir().expect("a folder");
    let listen = |name| UnixListener::bind(folder.path().join(name)).expect("a socket");
    let names = if is_virtual {
        &["calendar", "disk"][..]
    } else {
        &["disk"]
    };
    let listeners = names.iter().map(listen).collect();
    let (pipe, console) = std::io::pipe().expect("a pipe");
    let child = Command::new("true").spawn().expect("a process");
    let guest = Guest::of_parts(child, pipe.into(), listeners);
    let patience = Patience::default();
    let (place, mut watcher) = (folder.path().to_owned(), patience.clone());
    let kernel = std::thread::spawn(move || {
        script(&mut Kernel::new(
            &place,
            is_virtual,
            console.into(),
            patience,
        ));
    });
    let served = match is_virtual {
        false => disks_in_real_time(&guest, vec![device()], &mut watcher),
        true => {
            let config = sim::Config::fair(1);
            let world = move || in_virtual_time(&guest, vec![device()], &mut watcher);
            sim::run(config, world).expect("no task fails").value
        }
    };
    if kernel.join().is_err() {
        panic!("the script failed: {served:?}");
    }
    served
}

fn refusal(served: Result<(), GuestError>) -> String {
    match served {
        Err(GuestError::Protocol(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sectors_that_a_disk_does_not_have_are_errors() {
    for is_virtual in [true, false] {
        let served = serve(is_virtual, move |kernel| {
            for sector in [0, 127, 128, u64::MAX, u64::MAX / 512 + 1] {
                kernel.offer(0, sector);
                kernel.offer(1, sector);
            }
            kernel.kick();
            match is_virtual {
                true => kernel.wait(1_000_000),
                false => kernel.answer_call(),
            }
            let statuses: Vec<u8> = (0..10).map(|number| kernel.status(number)).collect();
            assert_eq!(statuses, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        });
        assert!(served.is_ok(), "{served:?}");
    }
}

#[test]
fn conflicting_writes_are_carried_out_one_after_another() {
    let served = serve(true, |kernel| {
        for number in 0..4 {
            kernel.put(DATA + 512 * number, &[number as u8 + 1; 512]);
            kernel.offer(1, 7);
        }
        kernel.offer(0, 7);
        kernel.kick();
        // Each is reported when it is complete.
        kernel.wait(1_000_000);
        assert_eq!(kernel.status(4), 0);
        let mut read = [0; 512];
        let place = DATA + 512 * 4;
        kernel
            .memory
            .read_exact_at(&mut read, place)
            .expect("there");
        assert_eq!(read, [4; 512]);
    });
    assert!(served.is_ok(), "{served:?}");
}

#[test]
fn a_guest_that_never_waits_can_be_cancelled() {
    let served = serve(true, |kernel| {
        let patience = kernel.patience.clone();
        let calendar = kernel.calendar.as_ref().expect("virtual time");
        let ask = || {
            let words = [GET, 1, 0, 0].map(u32::to_ne_bytes).concat();
            let mut socket = calendar;
            let sent = socket.write_all(&words).is_ok();
            sent && socket.read_exact(&mut [0; MESSAGE_BYTES]).is_ok()
        };
        for _ in 0..100 {
            assert!(ask());
        }
        patience.0.store(true, Ordering::SeqCst);
        while ask() {}
    });
    assert!(matches!(served, Err(GuestError::Cancelled)), "{served:?}");
}

#[test]
fn a_guest_that_writes_its_console_forever_can_be_cancelled() {
    let served = serve(true, |kernel| {
        let console = kernel.console.try_clone().expect("a pipe");
        let patience = kernel.patience.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            patience.0.store(true, Ordering::SeqCst);
        });
        let mut console = File::from(console);
        while console.write_all(&[b'x'; 1 << 16]).is_ok() && !kernel.patience.is_cancelled() {}
    });
    assert!(matches!(served, Err(GuestError::Cancelled)), "{served:?}");
}

#[test]
fn a_second_request_before_the_answer_to_the_first_is_refused() {
    let served = serve(true, |kernel| {
        kernel.offer(1, 0);
        kernel.send(VRING_KICK, NEEDS_REPLY, &[0; 8], &[]);
        kernel.offer(1, 1);
        kernel.send(VRING_KICK, NEEDS_REPLY, &[0; 8], &[]);
        // The limit is not acknowledged.
        let _ = (&kernel.disk).read(&mut [0; 1]);
    });
    assert!(refusal(served).contains("before it had the answer"));
}

#[test]
fn a_queue_that_becomes_invalid_under_way_is_refused() {
    for (number, value) in [(0_u16, "a queue of 0"), (3, "a queue of 3")] {
        let served = serve(true, move |kernel| {
            kernel.offer(1, 0);
            kernel.kick();
            let size = [0, u32::from(number)].map(u32::to_ne_bytes).concat();
            kernel.send(SET_VRING_NUM, NEEDS_REPLY, &size, &[]);
            read(&kernel.disk, 20);
            let calendar = kernel.calendar.as_ref().expect("virtual time");
            for (operation, time) in [(REQUEST, 1_000_000), (WAIT, 0)] {
                send_time(calendar, operation, time);
            }
            while (&kernel.disk)
                .read(&mut [0; 1])
                .is_ok_and(|count| count > 0)
            {}
        });
        assert!(refusal(served).contains(value));
    }
}

#[test]
fn a_guest_that_dies_while_it_has_the_turn_ends_the_run() {
    for is_virtual in [true, false] {
        let served = serve(is_virtual, |kernel| {
            kernel.offer(1, 0);
            // Neither the limit nor the reply is read.
            kernel.send(VRING_KICK, NEEDS_REPLY, &[0; 8], &[]);
        });
        assert!(served.is_ok(), "{served:?}");
    }
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let served = serve(true, |kernel| {
        kernel.offer(1, 0);
        kernel.memory.set_len(0x3000).expect("shorter");
        kernel.send(VRING_KICK, NEEDS_REPLY, &[0; 8], &[]);
        while (&kernel.disk)
            .read(&mut [0; 1])
            .is_ok_and(|count| count > 0)
        {}
    });
    assert!(refusal(served).contains("outside its memory"));
}
