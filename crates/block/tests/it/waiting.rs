//! Files with I/O threads: what is left to the waiting thread, and tickets that end in any way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::file::create_sparse;
use block::payload::payload_from_bytes;
use block::raid::MirrorDevice;
use block::{BlockDevice, DeviceError, FileDevice, OpenOptions, Request, Ticket};
use layout::SectorNr;
use rt::Nanos;
use tempfile::TempDir;

const SIZE: u64 = 1 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        threads: 2,
        ..OpenOptions::default()
    }
}

fn image() -> (TempDir, PathBuf, FileDevice) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("image");
    create_sparse(&path, SIZE).expect("the folder is writable");
    let device = FileDevice::open(&path, &options()).expect("it is there");
    (folder, path, device)
}

/// Writes `count` blocks that are not adjacent.
fn writes(count: u64, byte: u8) -> Vec<Request> {
    let write = |place: u64| Request::Write {
        sector: SectorNr::from_byte_offset(place * 8192),
        payload: payload_from_bytes(&[byte; 4096], 4096),
        force_unit_access: false,
    };
    (0..count).map(write).collect()
}

/// Returns the number of blocks of [`writes`] that are in the file.
fn written(path: &Path, byte: u8) -> usize {
    let bytes = fs::read(path).expect("it is there");
    let blocks = bytes.chunks(8192);
    blocks.filter(|block| block[..4096] == [byte; 4096]).count()
}

/// Waits until a condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = rt::monotonic() + Nanos::from_secs(60);
    while !holds() {
        assert!(rt::monotonic() < end, "{what}");
        rt::sleep(Nanos::from_millis(1));
    }
}

#[test]
fn a_single_request_is_left_to_the_waiting_thread() {
    let (_folder, path, device) = image();
    let ticket = device.submit(writes(1, 1));
    rt::sleep(Nanos::from_millis(20));
    assert_eq!(written(&path, 1), 0, "no thread was woken for it");
    ticket.wait_all().expect("the file system works");
    assert_eq!(written(&path, 1), 1);
    let ticket = device.submit(writes(1, 2));
    ticket.start();
    until("it is started", || written(&path, 2) == 1);
    ticket.wait_all().expect("the file system works");
    let ticket = device.submit(writes(1, 3));
    until("a question starts it", || ticket.is_ready());
    assert_eq!(written(&path, 3), 1);
    ticket.wait_all().expect("the file system works");
}

#[test]
fn larger_batches_are_started() {
    let (_folder, path, device) = image();
    let ticket = device.submit(writes(20, 1));
    until("all are started", || written(&path, 1) == 20);
    ticket.wait_all().expect("the file system works");
}

/// The requests of a dropped ticket are executed, and the last one unlocks the file.
#[test]
fn what_a_dropped_ticket_leaves_is_done() {
    let leave: [fn(Ticket); 2] = [drop, |ticket| {
        let thread = rt::spawn("left by a panic", move || {
            let _ticket = ticket;
            panic!("on purpose");
        });
        thread.join().map(|(): ()| ()).expect_err("it panics");
    }];
    for leave in leave {
        for count in [1, 20] {
            let (_folder, path, device) = image();
            let ticket = device.submit(writes(count, 1));
            drop(device);
            leave(ticket);
            until("it is unlocked", || {
                FileDevice::open(&path, &options()).is_ok()
            });
            assert_eq!(written(&path, 1) as u64, count);
        }
    }
}

#[test]
fn a_ticket_may_outlive_its_device() {
    for count in [1, 20] {
        let (_folder, path, device) = image();
        let ticket = device.submit(writes(count, 1));
        let started = device.submit(vec![Request::Flush]);
        drop(device);
        rt::sleep(Nanos::from_millis(5));
        started.start();
        until("the threads are still there", || started.is_ready());
        started.wait_all().expect("the file system works");
        ticket.wait_all().expect("the file system works");
        assert_eq!(written(&path, 1) as u64, count);
        FileDevice::open(&path, &options()).expect("it is unlocked");
    }
}

#[test]
fn errors_of_dropped_tickets_are_kept() {
    let (_folder, path, device) = image();
    let file = fs::OpenOptions::new().write(true).open(&path);
    let file = file.expect("it is there");
    file.set_len(SIZE / 2).expect("the file system works");
    let read = || {
        device.submit(vec![Request::Read {
            sector: SectorNr::from_byte_offset(SIZE / 2),
            blocks: 1,
            block_bytes: 4096,
        }])
    };
    let mut error = None;
    drop(read());
    until("the error is kept", || {
        error = device.take_detached_error();
        error.is_some()
    });
    let is_read =
        |error| matches!(error, Some(DeviceError::Failed { operation, .. }) if operation == "read");
    assert!(is_read(error));
    let ready = read();
    until("it is done", || ready.is_ready());
    assert_eq!(device.take_detached_error(), None);
    drop(ready);
    assert!(is_read(device.take_detached_error()));
}

#[test]
fn batches_of_many_threads_pass_a_queue_of_one() {
    let (_folder, path, device) = image();
    drop(device);
    let options = OpenOptions {
        queue_depth: 1,
        ..options()
    };
    let device = FileDevice::open(&path, &options).expect("it is there");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let threads: Vec<_> = (0..8_u64)
        .map(|number| {
            let device = Arc::clone(&device);
            rt::spawn("writer", move || {
                for round in 0..40_u8 {
                    let offset = |place: u64| (number * 16 + place * 2) * 4096;
                    let byte = round ^ (number as u8) << 5;
                    let write = |place| Request::Write {
                        sector: SectorNr::from_byte_offset(offset(place)),
                        payload: payload_from_bytes(&[byte; 4096], 4096),
                        force_unit_access: place == 3,
                    };
                    let ticket = device.request((0..5).map(write).collect());
                    if round % 3 == 0 {
                        ticket.start();
                    }
                    ticket.wait_all().expect("the file system works");
                    for place in 0..5 {
                        let read = device.read_block(offset(place), 4096);
                        let read = read.expect("the file system works");
                        assert!(read.iter().all(|own| *own == byte));
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every thread reads what it wrote");
    }
}

#[test]
fn a_start_reaches_the_members_of_an_array() {
    let images = [image(), image()];
    let paths = images.each_ref().map(|(_, path, _)| path.clone());
    let (_folders, devices): (Vec<_>, Vec<_>) = images
        .into_iter()
        .map(|(folder, _, device)| (folder, Arc::new(device) as Arc<dyn BlockDevice>))
        .unzip();
    let array = MirrorDevice::new(devices).expect("both are of one size");
    let ticket = array.submit(writes(1, 1));
    rt::sleep(Nanos::from_millis(20));
    assert_eq!(paths.each_ref().map(|path| written(path, 1)), [0, 0]);
    ticket.start();
    until("both are started", || {
        paths.iter().all(|path| written(path, 1) == 1)
    });
    ticket.wait_all().expect("the file system works");
}
