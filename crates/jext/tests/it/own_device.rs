//! Devices implemented by a user of the library: one that encrypts, one with its own thread, one
//! that fails.

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use jext::device::{
    BlockDevice, Completer, DetachedErrors, DeviceError, Geometry, Outcome, Payload, Request,
    SectorNr, Ticket, payload_to_bytes,
};
use jext::{Error, MountOptions, Volume, fsck, mkfs};

use testkit::tool;

const BYTES: u64 = 16 << 20;
const SECRET: &[u8] = b"of no use to anybody else";

struct Encrypted {
    below: Arc<dyn BlockDevice>,
}

fn apply(sector: SectorNr, payload: &mut Payload) {
    let mut at = sector.byte_offset();
    for block in payload {
        for byte in Arc::make_mut(block).iter_mut() {
            *byte ^= (at % 251) as u8 | 1;
            at += 1;
        }
    }
}

impl BlockDevice for Encrypted {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn submit(&self, mut batch: Vec<Request>) -> Ticket {
        for request in &mut batch {
            if let Request::Write {
                sector, payload, ..
            } = request
            {
                apply(*sector, payload);
            }
        }
        let sectors: Vec<_> = batch.iter().map(|request| request.range().0).collect();
        Ticket::joined(vec![self.below.submit(batch)], move |mut parts| {
            let mut results = parts.pop().unwrap();
            for (result, sector) in results.iter_mut().zip(sectors) {
                if let Ok(Outcome::Read(payload)) = result {
                    apply(sector, payload);
                }
            }
            results
        })
    }

    fn name(&self) -> String {
        "encrypted".to_owned()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.below.reserve(ranges)
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.below.take_detached_error()
    }
}

#[test]
fn a_device_that_encrypts_holds_a_volume_through_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    jext::create_image(path("cipher.img"), BYTES).unwrap();
    let open = || -> Arc<dyn BlockDevice> {
        let below = jext::open_image(path("cipher.img")).unwrap();
        Arc::new(Encrypted { below })
    };
    mkfs::format(&open(), &mkfs::Options::default()).unwrap();
    let volume = Volume::open(open(), None, MountOptions::default()).unwrap();
    volume.write_file("/secret", SECRET).unwrap();
    volume.sync().unwrap();
    drop(volume);
    // Threads that are about to end may still hold the image.
    let cut_off = fs::read(path("cipher.img")).unwrap();
    fs::remove_file(path("cipher.img")).unwrap();
    fs::write(path("cipher.img"), cut_off).unwrap();

    let (volume, report) = Volume::open_with_report(open(), None, MountOptions::default()).unwrap();
    assert!(report.replayed_transactions > 0);
    assert_eq!(volume.read_file("/secret").unwrap(), SECRET);
    volume.close().unwrap();

    let hidden = fs::read(path("cipher.img")).unwrap();
    assert!(!hidden.windows(SECRET.len()).any(|bytes| bytes == SECRET));
    let plain = open().read_blocks(0, (BYTES >> 12) as u32, 4096).unwrap();
    fs::write(path("plain.img"), payload_to_bytes(&plain)).unwrap();
    let image = path("plain.img");
    tool::run_well("e2fsck", &["-fn".as_ref(), image.as_os_str()]);
    let arguments = ["-R".as_ref(), "cat /secret".as_ref(), image.as_os_str()];
    assert_eq!(tool::run_well("debugfs", &arguments).as_bytes(), SECRET);
}

/// Executes batches in its own thread.
struct Threaded {
    below: Arc<dyn BlockDevice>,
    batches: mpsc::Sender<(Vec<Request>, Completer)>,
    detached: Arc<DetachedErrors>,
}

impl Threaded {
    fn new(below: Arc<dyn BlockDevice>) -> Self {
        let (batches, received) = mpsc::channel::<(Vec<Request>, Completer)>();
        let device = Arc::clone(&below);
        std::thread::spawn(move || {
            for (batch, completer) in received {
                completer.complete(device.submit(batch).wait());
            }
        });
        Self {
            below,
            batches,
            detached: Arc::default(),
        }
    }
}

impl BlockDevice for Threaded {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&self.detached));
        self.batches.send((batch, completer)).unwrap();
        ticket
    }

    fn name(&self) -> String {
        "threaded".to_owned()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}

#[test]
fn a_device_with_a_thread_of_its_own_holds_a_volume() {
    let below = jext::memory(BYTES);
    let device: Arc<dyn BlockDevice> = Arc::new(Threaded::new(below.clone()));
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    let volume = Volume::open(device, None, MountOptions::default()).unwrap();
    let large = vec![7; 3 << 20];
    volume.write_file("/large", &large).unwrap();
    volume.sync().unwrap();
    assert!(volume.read_file("/large").unwrap() == large);
    volume.close().unwrap();
    let report = fsck::check(&*below, None, &Default::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.kinds());
}

/// Fails all requests once it is broken.
struct Breakable {
    below: Arc<dyn BlockDevice>,
    is_broken: AtomicBool,
}

impl BlockDevice for Breakable {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if !self.is_broken.load(Ordering::Relaxed) {
            return self.below.submit(batch);
        }
        let failed = |request: &Request| Err(request.failed(self.name(), "it is broken"));
        Ticket::ready(batch.iter().map(failed).collect())
    }

    fn name(&self) -> String {
        "breakable".to_owned()
    }
}

#[test]
fn errors_of_a_device_reach_the_caller_in_its_words() {
    let breakable = Arc::new(Breakable {
        below: jext::memory(BYTES),
        is_broken: AtomicBool::new(false),
    });
    let device: Arc<dyn BlockDevice> = Arc::clone(&breakable) as _;
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    breakable.is_broken.store(true, Ordering::Relaxed);
    let error = Volume::open(device, None, MountOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::Failed { .. })));
    let text = error.to_string();
    assert!(
        text.contains("breakable") && text.contains("it is broken"),
        "{text}"
    );
    assert_eq!(error.raw_os_error(), 5);
}

#[test]
fn a_geometry_of_ones_own_is_that_of_a_plain_disk() {
    let geometry = Geometry::new(1_000_000);
    assert_eq!(geometry.size_bytes, 1_000_000 - 1_000_000 % 512);
    assert!(geometry.can_flush && geometry.has_volatile_cache && !geometry.is_read_only);
    let beyond = Request::Discard {
        sector: SectorNr::new(geometry.size_bytes / 512),
        sectors: 1,
    };
    assert!(geometry.check(&beyond).is_err());
}
