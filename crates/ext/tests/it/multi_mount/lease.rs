//! Renewals that fail or come late, and nodes that come at once.

use std::sync::Arc;

use block::fault::{Effect, FaultPlan, FaultRule, Operations, When};
use block::{BlockDevice, FaultDevice, Geometry, MemoryDevice, Request, Ticket};
use ext::Volume;
use ext::options::DataMode;
use layout::SectorNr;
use rt::Nanos;
use rt::atomic::{AtomicU64, Ordering};

use super::{BLOCK_BYTES, SEQUENCE, in_world, open, poke, rig, state};
use crate::damage::assert_notices;
use crate::rig::{Place, Rig, device, quiet};

/// A device that fails when it is armed.
fn faulty(rig: &Rig, operations: Operations, when: When, effect: Effect) -> Arc<FaultDevice> {
    let rule = FaultRule {
        operations,
        when,
        effect,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let faulty = Arc::new(FaultDevice::new(device(&rig.home), plan));
    faulty.set_armed(false);
    faulty
}

fn open_on<D: BlockDevice + 'static>(device: &Arc<D>) -> Volume {
    let device: Arc<dyn BlockDevice> = Arc::<D>::clone(device);
    Volume::open(device, None, quiet(DataMode::Ordered)).expect("the volume opens")
}

/// The next renewal has the number of the one that failed, or the one after it.
#[test]
fn a_renewal_that_fails_once_is_repeated() {
    in_world(|| {
        for effect in [Effect::Fail, Effect::NoSpace, Effect::Torn] {
            let rig = rig(Place::Internal, "mmp,metadata_csum");
            let faulty = faulty(&rig, Operations::WRITES, When::Nth(1), effect);
            let volume = open_on(&faulty);
            faulty.set_armed(true);
            rt::sleep(Nanos::from_secs(12));
            assert_eq!(faulty.strikes(), 1);
            volume.create_directory("/d").expect("it is still held");
            volume.close().expect("close");
            assert!(state(&rig.home).is_clean());
            rig.assert_fsck_clean("released");
        }
    });
}

/// Nothing is written by a volume from now on.
fn assert_stopped(rig: &Rig, volume: Volume) {
    let before = rig.home.snapshot();
    drop(volume.create_directory("/stopped"));
    volume.sync().expect_err("nothing is written");
    volume.close().expect_err("nothing is written");
    assert_eq!(rig.home.first_difference(&before), None);
}

#[test]
fn a_node_that_cannot_renew_its_number_stops_before_others_take_the_volume() {
    in_world(|| {
        for operations in [Operations::READS, Operations::WRITES] {
            let rig = rig(Place::Internal, "mmp");
            let block = state(&rig.home).block;
            let sector = |block: u64| SectorNr::from_byte_offset(block * u64::from(BLOCK_BYTES));
            let when = When::Sectors {
                from: sector(block),
                to: sector(block + 1),
            };
            let faulty = faulty(&rig, operations, when, Effect::Fail);
            let volume = open_on(&faulty);
            faulty.set_armed(true);
            rt::sleep(Nanos::from_secs(8));
            volume.create_directory("/d").expect("it is still held");
            volume.sync().expect("it is still held");
            rt::sleep(Nanos::from_secs(3));
            assert!(volume.is_read_only());
            faulty.set_armed(false);
            assert_stopped(&rig, volume);
        }
    });
}

#[test]
fn a_node_stops_when_the_block_is_damaged() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp,metadata_csum");
        for (at, byte) in [(0, 0), (1023, 0x55)] {
            let volume = open(&rig);
            poke(&rig.home, at, &[byte]);
            rt::sleep(Nanos::from_secs(6));
            assert!(volume.is_read_only());
            assert_stopped(&rig, volume);
            poke(&rig.home, 0, &layout::multi_mount::MAGIC.to_le_bytes());
        }
    });
}

/// A device that takes its time: milliseconds for all requests, for reads of one sector, and for
/// the next write of it.
struct Slow {
    inner: Arc<dyn BlockDevice>,
    most: u64,
    sector: SectorNr,
    stall: AtomicU64,
    next_write: AtomicU64,
}

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let is_stalled = |request: &Request| matches!(request, Request::Read { sector, .. } if *sector == self.sector);
        let mut pause = match self.most {
            0 => 0,
            most => rt::random_u64() % most,
        };
        if batch.iter().any(is_stalled) {
            pause += self.stall.load(Ordering::Relaxed);
        }
        let is_write = |request: &Request| matches!(request, Request::Write { sector, .. } if *sector == self.sector);
        if batch.iter().any(is_write) {
            pause += self.next_write.swap(0, Ordering::Relaxed);
        }
        if pause > 0 {
            rt::sleep(Nanos::from_millis(pause));
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

fn slow(memory: &Arc<MemoryDevice>, most: u64) -> Arc<Slow> {
    let offset = state(memory).block * u64::from(BLOCK_BYTES);
    Arc::new(Slow {
        inner: device(memory),
        most,
        sector: SectorNr::from_byte_offset(offset),
        stall: AtomicU64::new(0),
        next_write: AtomicU64::new(0),
    })
}

/// The node is away for longer than others wait, and its next change comes before its renewal.
#[test]
fn a_change_after_a_long_absence_first_looks_at_the_block() {
    in_world(|| {
        for is_taken in [true, false] {
            let rig = rig(Place::Internal, "mmp");
            let slow = slow(&rig.home, 0);
            let volume = open_on(&slow);
            slow.stall.store(60_000, Ordering::Relaxed);
            rt::sleep(Nanos::from_secs(6));
            if is_taken {
                poke(&rig.home, SEQUENCE, &[1, 2, 3, 4]);
            }
            slow.stall.store(0, Ordering::Relaxed);
            rt::sleep(Nanos::from_secs(10));
            if is_taken {
                assert_stopped(&rig, volume);
            } else {
                volume.create_directory("/d").expect("it is still held");
                volume.close().expect("close");
                rig.assert_fsck_clean("released");
            }
        }
    });
}

/// Two nodes that open a released volume at once, on a device that needs some milliseconds.
#[test]
fn one_of_two_gets_a_released_volume() {
    for seed in 0..30 {
        let work = move || {
            let rig = rig(Place::Internal, "mmp");
            let (one, two) = (slow(&rig.home, 30), slow(&rig.home, 30));
            let open = |device: Arc<Slow>| Volume::open(device, None, quiet(DataMode::Ordered));
            let other = rt::spawn("other", move || {
                rt::sleep(Nanos::from_millis(seed));
                open(two)
            });
            let results = [open(one), other.join().expect("no panic")];
            let opened = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(opened, 1, "{results:?}");
        };
        sim::run(sim::Config::random(seed), work).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// A node looks at a released volume, is held up, and writes its number when another one has come.
#[test]
fn a_node_that_comes_late_does_not_write_beside_another() {
    assert_notices("multi-mount/late-taken-at-once", || {
        for pause_ms in [150, 1_000, 3_600_000] {
            let rig = rig(Place::Internal, "mmp");
            let late = slow(&rig.home, 0);
            late.next_write.store(pause_ms, Ordering::Relaxed);
            let home = Arc::clone(&rig.home);
            let other = rt::spawn("other", move || {
                rt::sleep(Nanos::from_millis(pause_ms.min(300)));
                Volume::open(device(&home), None, quiet(DataMode::Ordered))
            });
            let writes = |opened: ext::Result<Volume>| {
                let volume = opened.ok().filter(|volume| !volume.is_read_only());
                volume.is_some_and(|volume| {
                    let made = volume.create_directory("/d");
                    made.and_then(|_| volume.sync()).is_ok()
                })
            };
            let first = Volume::open(late, None, quiet(DataMode::Ordered));
            let second = other.join().expect("no panic");
            let writers = [first, second].map(writes);
            assert_ne!(writers, [true, true], "{pause_ms} ms: two nodes write");
            assert_ne!(writers, [false, false], "{pause_ms} ms: nobody has it");
        }
    });
}
