//! Tests of recordings.

use std::io::{self, Write};
use std::sync::Arc;

use layout::{Block, SectorNr};

use super::*;
use crate::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use crate::memory::MemoryDevice;
use crate::payload::{payload_from_bytes, payload_to_bytes};
use crate::trace::{Replay, Trace};

const SIZE: u64 = 1 << 20;

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(sector: u64, bytes: &[u8], force_unit_access: bool) -> Request {
    Request::Write {
        sector: SectorNr::new(sector),
        payload: payload_from_bytes(bytes, 512),
        force_unit_access,
    }
}

/// Submits requests of every kind to two devices, the second of which fails.
fn work(first: &dyn BlockDevice, second: &dyn BlockDevice, mark: &dyn Fn(u64)) {
    let pattern: Vec<u8> = (0..4096_u32).map(|at| (at % 251) as u8).collect();
    let read = Request::Read {
        sector: SectorNr::new(8),
        blocks: 2,
        block_bytes: 4096,
    };
    let discard = Request::Discard {
        sector: SectorNr::new(64),
        sectors: 16,
    };
    first
        .submit(vec![write(8, &pattern, false), write(40, &[0; 1024], true)])
        .wait_all()
        .expect("memory does not fail");
    mark(7);
    first
        .submit(vec![read, Request::Flush, discard])
        .wait_all()
        .expect("memory does not fail");
    let half = [[0; 512], [5; 512], [0; 512]].concat();
    assert!(
        second
            .submit(vec![write(3, &half, false)])
            .wait_all()
            .is_err()
    );
    drop(first.submit(vec![write(100, &[1; 512], false)]));
}

fn failing() -> Arc<dyn BlockDevice> {
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::Nth(1),
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    Arc::new(FaultDevice::new(Arc::new(MemoryDevice::new(SIZE)), plan))
}

/// Returns the recording of the work, and the events of the same work in memory.
fn recorded() -> (Vec<u8>, Vec<Event>) {
    let output = Shared::default();
    let recording = Recording::new(output.clone());
    let first = recording.attach(Arc::new(MemoryDevice::new(SIZE)));
    let second = recording.attach(failing());
    work(&first, &second, &|mark| recording.mark(mark));
    recording.finish().expect("memory");
    let trace = Trace::new();
    let first = trace.attach(Arc::new(MemoryDevice::new(SIZE)));
    let second = trace.attach(failing());
    work(&first, &second, &|mark| trace.mark(mark));
    (output.bytes(), trace.events())
}

fn read(bytes: &[u8]) -> Result<Vec<Event>, RecordingError> {
    let reader = RecordingReader::new(bytes)?;
    reader
        .map(|recorded| recorded.map(|recorded| recorded.event))
        .collect()
}

/// Returns an event as text, with the contents of its writes.
fn text(event: &Event) -> String {
    match event {
        Event::Submitted {
            device,
            batch,
            requests,
        } => {
            let request = |request: &Request| match request {
                Request::Write {
                    sector,
                    payload,
                    force_unit_access,
                } => {
                    let bytes = payload_to_bytes(payload);
                    format!("write {sector} {force_unit_access} {bytes:?}")
                }
                other => format!("{other:?}"),
            };
            let requests: Vec<String> = requests.iter().map(request).collect();
            format!("submitted {device} {batch} {}", requests.join("; "))
        }
        Event::Completed {
            device,
            batch,
            results,
        } => {
            let results: Vec<bool> = results.iter().map(Result::is_ok).collect();
            format!("completed {device} {batch} {results:?}")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_recording_has_the_events_of_the_trace() {
    let (bytes, expected) = recorded();
    let found = read(&bytes).expect("it is whole");
    let is_wait = |event: &&Event| matches!(event, Event::Awaited { .. });
    let texts = |events: &[Event]| {
        let events = events.iter().filter(|event| !is_wait(event));
        events.map(text).collect::<Vec<_>>()
    };
    assert_eq!(texts(&found), texts(&expected));
    assert_eq!(found.iter().filter(is_wait).count(), 3);
    let mut reader = RecordingReader::new(&bytes[..]).expect("a recording");
    assert!(reader.by_ref().all(|recorded| recorded.is_ok()));
    let [(_, geometry), (name, _)] = reader.devices() else {
        panic!("{:?}", reader.devices());
    };
    assert_eq!(*geometry, MemoryDevice::new(SIZE).geometry());
    assert_eq!(*name, failing().name());
    let error = found.iter().find_map(|event| match event {
        Event::Completed { results, .. } => results.iter().find_map(|result| result.clone().err()),
        _ => None,
    });
    let error = error.expect("one failed").to_string();
    assert!(error.contains("write of 3 sectors at sector 3"), "{error}");
}

/// The exploration of crashes starts from the same states.
#[test]
fn a_recording_leads_to_the_images_of_its_trace() {
    let (bytes, expected) = recorded();
    let found = read(&bytes).expect("it is whole");
    let initial = MemoryDevice::new(SIZE);
    for device in [0, 1] {
        let images = |events: &[Event]| {
            let mut replay = Replay::new(device, initial.geometry(), &initial);
            let mut images = Vec::new();
            let is_wait = |event: &&Event| matches!(event, Event::Awaited { .. });
            for event in events.iter().filter(|event| !is_wait(event)) {
                replay.apply(event);
                images.extend((0..3).map(|seed| replay.image(seed).to_bytes()));
            }
            images
        };
        assert!(images(&found) == images(&expected));
    }
}

#[test]
fn a_recording_that_was_cut_off_or_damaged_is_refused() {
    let (bytes, events) = recorded();
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).expect_err("it is cut off");
        match error {
            RecordingError::Foreign => assert!(length < MAGIC.len()),
            RecordingError::CutOff { events: found } => assert!(found <= events.len() as u64 + 3),
            other => panic!("{length}: {other}"),
        }
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
    let longer = [&bytes[..], &[0]].concat();
    let error = read(&longer).expect_err("it has ended").to_string();
    assert!(error.contains("something after its end"), "{error}");
}

/// Checksums protect against accidents only: whatever a frame says, it is refused or valid.
#[test]
fn frames_that_lie_are_refused() {
    let head = encode::device("disk", &MemoryDevice::new(SIZE).geometry());
    let submitted = |request: &[u8]| {
        let mut body = vec![encode::SUBMITTED];
        body.extend([0; 8]);
        body.extend([0; 2]);
        body.extend([0; 8]);
        body.extend(request);
        body
    };
    let huge = u32::MAX.to_le_bytes();
    let far = (u64::MAX / 512).to_le_bytes();
    for (name, body) in [
        ("an empty frame", vec![]),
        ("an unknown kind", [&[9][..], &[0; 18]].concat()),
        ("an unknown request", submitted(&[9; 9])),
        (
            "a write that is too long",
            submitted(&[&[1][..], &[0; 8], &huge].concat()),
        ),
        (
            "a write without contents",
            submitted(&[&[1][..], &[0; 8], &1_u32.to_le_bytes(), &[1]].concat()),
        ),
        (
            "a read that is too long",
            submitted(&[&[0][..], &[0; 8], &huge, &512_u32.to_le_bytes()].concat()),
        ),
        (
            "a read of half a sector",
            submitted(
                &[
                    &[0][..],
                    &[0; 8],
                    &1_u32.to_le_bytes(),
                    &7_u32.to_le_bytes(),
                ]
                .concat(),
            ),
        ),
        (
            "a discard beyond every device",
            submitted(&[&[4][..], &far, &2_u64.to_le_bytes()].concat()),
        ),
        (
            "an event of another device",
            [&[encode::DETACHED][..], &[0; 8], &[1, 0], &[0; 8]].concat(),
        ),
        ("a device without sectors", vec![0; 22]),
    ] {
        let mut bytes = MAGIC.to_vec();
        for body in [&head, &body] {
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend(checksum(body).to_le_bytes());
            bytes.extend(body);
        }
        let error = read(&bytes).expect_err(name).to_string();
        assert!(error.contains("damaged at byte"), "{name}: {error}");
    }
    assert!(matches!(read(b"JEXTREC9"), Err(RecordingError::Foreign)));
}

/// Zeroes take next to no space in a file, so that it may say that gigabytes of them were written.
#[test]
fn zeroes_of_a_recording_share_their_memory() {
    let sectors = (BODY_BYTES_MAX / 512) as u32;
    let write = [
        &[encode::WRITE][..],
        &[0; 8],
        &sectors.to_le_bytes(),
        &vec![0; sectors as usize / 8][..],
    ]
    .concat();
    let body = |count: usize| {
        let head = [&[encode::SUBMITTED][..], &[0; 18]].concat();
        [head, write.repeat(count)].concat()
    };
    let Ok(decode::Frame::Event(recorded)) = decode::frame(&body(16)) else {
        panic!("it writes 4 GiB");
    };
    let Event::Submitted { requests, .. } = recorded.event else {
        panic!("it is a batch");
    };
    for request in requests.iter() {
        let Request::Write { payload, .. } = request else {
            panic!("it writes");
        };
        assert_eq!(payload.len(), BODY_BYTES_MAX / 4096);
        let is_shared = |piece: &Arc<Block>| Arc::ptr_eq(piece, &payload[0]);
        assert!(payload.iter().all(is_shared));
    }
    let error = decode::frame(&body(17)).err();
    assert_eq!(error, Some("a batch that writes more than 4 GiB"));
}

/// Zeroes, which file systems write often, take no space.
#[test]
fn sectors_of_zeroes_take_no_space() {
    let output = Shared::default();
    let recording = Recording::new(output.clone());
    let device = recording.attach(Arc::new(MemoryDevice::new(SIZE)));
    let payload = vec![Block::zeroed(1 << 19).into_arc()];
    let zeroes = Request::Write {
        sector: SectorNr::new(0),
        payload,
        force_unit_access: false,
    };
    device.submit(vec![zeroes]).wait_all().expect("memory");
    recording.finish().expect("memory");
    assert!(output.bytes().len() < 500, "{}", output.bytes().len());
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let recording = Recording::new(Full(100));
    let device = recording.attach(Arc::new(MemoryDevice::new(SIZE)));
    for _ in 0..3 {
        let written = device.submit(vec![write(0, &[1; 512], false)]).wait_all();
        written.expect("the device is well");
    }
    let error = recording.finish().expect_err("it is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
