//! Recordings are replayed on equal devices in equal time, and on others in theirs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceText, Recording, Request};
use lab::replay::{Comparison, ReplaySetup};
use layout::SectorNr;
use rt::Nanos;
use rt::split_mix::SplitMix;
use workload::Control;

const DISK: &str = "slice(sim:atlas-v-18,0..64MiB)";
const LOG: &str = "nvram:8MiB";

fn device(text: &str) -> DeviceText {
    text.parse().expect("a device")
}

/// Records two tasks that write, read, flush and pause, each on one of two devices. The seed, and
/// with it the phase of the platters, is that of a replay.
fn record(path: &Path) -> Nanos {
    let file = BufWriter::new(File::create(path).expect("space"));
    let world = move || {
        let start = rt::monotonic();
        let recording = Recording::new(file);
        let attach = |text: &str| {
            let opened =
                block::text::open(&device(text), &block::OpenOptions::default(), &|wanted| {
                    diskmodel::make(wanted).map(|made| -> Arc<dyn BlockDevice> { made })
                });
            Arc::new(recording.attach(opened.expect("a model")))
        };
        let tasks = [DISK, LOG].map(|text| {
            let device = attach(text);
            rt::spawn("writer", move || write(&*device))
        });
        for task in tasks {
            task.join().expect("no panic");
        }
        let end = rt::monotonic();
        recording.finish().expect("space");
        end.saturating_sub(start)
    };
    let report = sim::run(sim::Config::fair(1), world).expect("no deadlock");
    report.value
}

fn write(device: &dyn BlockDevice) {
    let mut numbers = SplitMix::new(device.geometry().size_bytes);
    for round in 0..60_u64 {
        let sector = SectorNr::new(numbers.below(8000) * 2);
        let bytes = vec![round as u8 + 1; 1024];
        let write = Request::Write {
            sector,
            payload: block::payload::payload_from_bytes(&bytes, 512),
            force_unit_access: round % 7 == 0,
        };
        let ticket = device.submit(vec![write]);
        rt::sleep(Nanos::new(numbers.below(2_000_000)));
        ticket.wait_all().expect("a healthy device");
        if round % 5 == 0 {
            device
                .submit(vec![Request::Flush])
                .wait_all()
                .expect("a healthy device");
        }
        let read = Request::Read {
            sector,
            blocks: 2,
            block_bytes: 512,
        };
        device
            .submit(vec![read])
            .wait_all()
            .expect("a healthy device");
    }
}

fn replay(path: &Path, devices: &[&str], has_pauses: bool) -> Result<Comparison, String> {
    let setup = ReplaySetup {
        path: path.to_owned(),
        devices: devices.iter().map(|text| device(text)).collect(),
        has_pauses,
        overwrites: false,
    };
    let replayed = setup.run(&Arc::new(Control::new()));
    replayed.map_err(|error| format!("{error:#}"))
}

#[test]
fn a_replay_on_equal_devices_takes_the_same_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording");
    let elapsed = record(&path);
    let same = replay(&path, &[DISK, LOG], true).expect("it fits");
    assert_eq!(same.recorded_ns, elapsed.get());
    assert_eq!(same.replayed_ns, elapsed.get());
    for device in &same.devices {
        assert_eq!(
            device.requests.keys().copied().collect::<Vec<_>>(),
            ["flush", "read", "write"]
        );
        for kind in device.requests.values() {
            assert!(kind.count >= 12);
            assert_eq!(kind.recorded, kind.replayed);
        }
    }
    // Other devices, other times; without pauses, less of it.
    let faster = replay(&path, &["nvram:64MiB", LOG], true).expect("it fits");
    assert!(faster.replayed_ns < elapsed.get(), "{faster:?}");
    let hurried = replay(&path, &[DISK, LOG], false).expect("it fits");
    assert!(hurried.replayed_ns < elapsed.get(), "{hurried:?}");
    let slower = replay(&path, &["sim:atlas-v-18", "sim:atlas-v-18"], true).expect("it fits");
    assert!(slower.replayed_ns > elapsed.get(), "{slower:?}");
}

#[test]
fn a_replay_on_files_leaves_the_contents() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording");
    record(&path);
    let images = ["disk.img", "log.img"].map(|name| folder.path().join(name));
    for (image, bytes) in images.iter().zip([64 << 20, 8 << 20]) {
        File::create(image)
            .expect("space")
            .set_len(bytes)
            .expect("space");
    }
    let texts = images.each_ref().map(|image| image.display().to_string());
    let texts = texts.each_ref().map(String::as_str);
    replay(&path, &texts, false).expect("it fits");
    let contents = std::fs::read(&images[0]).expect("it is there");
    let written = contents.chunks(512).filter(|sector| sector[0] != 0).count();
    assert!((60..=120).contains(&written), "{written}");
    let error = replay(&path, &texts, false).expect_err("they are full");
    assert!(
        error.contains("disk.img: contains something; --overwrite"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording");
    record(&path);
    let image = folder.path().join("disk.img");
    File::create(&image)
        .expect("space")
        .set_len(64 << 20)
        .expect("space");
    let image = image.display().to_string();
    for (devices, expected) in [
        (
            &[DISK][..],
            "recording: has 2 devices, and 1 are given for them",
        ),
        (&["nvram:1MiB", LOG], "the recording reaches to byte"),
        (&[&image, LOG], "is real and others are not"),
        (
            &["fault(nvram:64MiB,eio=1.0)", LOG],
            "a request that did not fail in the recording",
        ),
    ] {
        let error = replay(&path, devices, true).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes.truncate(bytes.len() / 2);
    File::create(&path)
        .expect("space")
        .write_all(&bytes)
        .expect("space");
    let error = replay(&path, &[DISK, LOG], true).expect_err("it is cut off");
    assert!(
        error.contains("recording: the recording was cut off"),
        "{error}"
    );
}
