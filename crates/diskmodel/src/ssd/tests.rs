//! The SSD: latencies, parallel dies, the cache, flushes, and write amplification.

use layout::{Block, SectorNr};

use super::*;

fn write(slot: u64, force_unit_access: bool) -> Request {
    let payload = vec![Block::zeroed(4096).into_arc()];
    Request::Write {
        sector: SectorNr::new(slot * SLOT_SECTORS),
        payload,
        force_unit_access,
    }
}

fn read(slot: u64) -> Request {
    Request::Read {
        sector: SectorNr::new(slot * SLOT_SECTORS),
        blocks: 1,
        block_bytes: 4096,
    }
}

fn small() -> SsdModel {
    SsdModel {
        dies: 4,
        block_pages: 16,
        cache_slots: 32,
        ..SsdModel::default()
    }
}

/// A controller and its clock.
struct Bench {
    controller: Controller,
    now: Nanos,
}

impl Bench {
    fn new(model: SsdModel, slots: u64) -> Self {
        Self {
            controller: Controller::new(model, slots),
            now: Nanos::ZERO,
        }
    }

    /// Executes a request alone. Returns its duration in microseconds.
    fn run(&mut self, request: &Request) -> u64 {
        let done = self.controller.take(self.now, request);
        let time = done - self.now;
        self.now = done;
        time.as_micros()
    }
}

#[test]
fn writes_are_cached_and_flushes_program() {
    let mut bench = Bench::new(small(), 10_000);
    assert!(bench.run(&write(1, false)) < 20);
    assert!(bench.run(&read(1)) < 25, "it is in the cache");
    assert_eq!(bench.run(&Request::Flush), 10 + 25 + 750);
    assert_eq!(bench.run(&Request::Flush), 10);
    assert_eq!(bench.run(&read(1)), 75 + 25 + 10);
    assert!(bench.run(&read(2)) < 25, "it was never written");
    assert!(bench.run(&write(3, true)) >= 775);
    assert_eq!(bench.run(&Request::Flush), 10);
}

#[test]
fn protected_caches_need_no_flush() {
    let mut bench = Bench::new(
        SsdModel {
            has_power_loss_protection: true,
            ..small()
        },
        10_000,
    );
    assert!(bench.run(&write(1, true)) < 20);
    assert_eq!(bench.run(&Request::Flush), 30);
    assert_eq!(bench.controller.flash.programs, 0);
}

#[test]
fn a_full_cache_slows_writers_down_to_the_dies() {
    let mut bench = Bench::new(small(), 10_000);
    let count = 2_000;
    for slot in 0..count {
        bench.run(&write(slot, false));
    }
    // Four dies, two slots each, in 775 us.
    let expected = count * 775 / 8;
    let time = bench.now.as_micros();
    assert!(
        (expected * 9 / 10..expected * 11 / 10).contains(&time),
        "{time} not {expected}"
    );
    assert!(bench.controller.flash.throttled_writes > count / 10);
}

#[test]
fn garbage_collection_amplifies_random_writes_and_not_sequential_ones() {
    let slots = 64 * 1024;
    for (is_random, low, high) in [(false, 100, 110), (true, 200, 1_200)] {
        let mut bench = Bench::new(small(), slots);
        let mut word = 1_u64;
        for round in 0..4 * slots {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let slot = if is_random {
                (word >> 33) % slots
            } else {
                round % slots
            };
            bench.run(&write(slot, false));
        }
        bench.run(&Request::Flush);
        bench.controller.ftl.check();
        let amplification = bench.controller.flash.write_amplification_percent();
        assert!(
            (low..=high).contains(&amplification),
            "{is_random}: {amplification}"
        );
    }
}

/// Writes every other page once and the rest repeatedly, so that the former would accumulate on
/// every other die.
#[test]
fn dies_that_are_full_are_passed_over() {
    let slots = 16 * 1024;
    let mut bench = Bench::new(small(), slots);
    let mut hot = 0;
    for cold in 100..slots {
        bench.run(&write(cold, false));
        if cold % 2 == 1 {
            for _ in 0..2 {
                hot = (hot + 1) % 100;
                bench.run(&write(hot, false));
            }
        }
    }
    for round in 0..4 * slots {
        bench.run(&write(round % 100, false));
    }
    bench.controller.ftl.check();
}

#[test]
fn discarded_slots_are_not_moved() {
    let slots = 16 * 1024;
    let mut bench = Bench::new(small(), slots);
    for round in 0..6 {
        for slot in 0..slots {
            bench.run(&write(slot.wrapping_mul(7) % slots, false));
        }
        let discard = Request::Discard {
            sector: SectorNr::new(1),
            sectors: slots * SLOT_SECTORS - 1,
        };
        bench.run(&Request::Flush);
        bench.run(&discard);
        bench.controller.ftl.check();
        let kept = bench.controller.ftl.place(0);
        assert!(
            kept.is_some(),
            "round {round}: a slot covered in part keeps its contents"
        );
    }
    assert!(bench.controller.flash.moved_slots < slots / 10);
}

#[test]
fn a_device_in_a_world() {
    let report = sim::run(sim::Config::fair(3), || {
        let options = [("capacity", "64MiB")];
        let device = crate::open("ssd", &options).expect("it is in the catalogue");
        assert!(device.geometry().has_volatile_cache);
        let batch = (0..256).map(|slot| write(slot, false)).collect();
        device.submit(batch).wait_all().expect("the device works");
        device
            .submit(vec![Request::Flush])
            .wait_all()
            .expect("the device works");
        let begin = rt::monotonic();
        let batch = (0..256).map(read).collect();
        device.submit(batch).wait_all().expect("the device works");
        let time = (rt::monotonic() - begin).as_micros();
        // 128 pages on 64 dies: two reads each.
        assert!((200..800).contains(&time), "{time}");
        device.stats().flash.programs
    });
    assert_eq!(report.expect("nothing goes wrong").value, 128);
}
