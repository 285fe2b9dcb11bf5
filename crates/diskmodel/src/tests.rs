//! Whole devices in simulated worlds: contents, queues, time and determinism.

use std::sync::Arc;

use block::{DeviceError, Outcome, Payload, Request, Ticket};
use layout::{Block, SectorNr};
use rt::Nanos;

use super::*;
use sim::Config;

mod arrays;
mod flash;
mod power_cuts;

const MS: u64 = 1_000_000;

fn in_world<T: Send + 'static>(config: Config, body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(config, body).expect("nothing goes wrong").value
}

fn disk(name: &str, options: &[(&str, &str)]) -> Arc<dyn SimulatedDevice> {
    open(name, options).expect("the device exists")
}

fn page(byte: u8, length: usize) -> Payload {
    vec![Block::copy_from(&vec![byte; length]).into_arc()]
}

fn write(sector: u64, byte: u8) -> Request {
    let sector = SectorNr::new(sector);
    Request::Write {
        sector,
        payload: page(byte, 4096),
        force_unit_access: false,
    }
}

fn forced(sector: u64) -> Request {
    let sector = SectorNr::new(sector);
    Request::Write {
        sector,
        payload: page(9, 4096),
        force_unit_access: true,
    }
}

fn read(sector: u64) -> Request {
    Request::Read {
        sector: SectorNr::new(sector),
        blocks: 1,
        block_bytes: 4096,
    }
}

/// Runs `action` and returns its duration in nanoseconds.
fn time(action: impl FnOnce()) -> u64 {
    let begin = rt::monotonic();
    action();
    (rt::monotonic() - begin).get()
}

fn submit_and_wait(device: &dyn BlockDevice, request: Request) -> u64 {
    time(|| {
        device
            .submit(vec![request])
            .wait_all()
            .expect("the device works")
    })
}

#[test]
fn contents_come_back_whatever_the_size_of_the_pieces() {
    for seed in 0..4 {
        in_world(
            if seed == 0 {
                Config::fair(0)
            } else {
                Config::random(seed)
            },
            || {
                let device = disk("atlas-v-18", &[]);
                let sizes = [512, 1024, 2048, 4096, 8192];
                let mut tickets = Vec::new();
                for (index, size) in sizes.into_iter().enumerate() {
                    let sector = SectorNr::new(1000 * index as u64);
                    let payload: Payload = (0..5).flat_map(|byte| page(byte, size)).collect();
                    let request = Request::Write {
                        sector,
                        payload,
                        force_unit_access: false,
                    };
                    tickets.push(device.submit(vec![request]));
                }
                tickets
                    .into_iter()
                    .for_each(|ticket| ticket.wait_all().expect("the device works"));
                let device: &dyn BlockDevice = &*device;
                for (index, size) in sizes.into_iter().enumerate() {
                    let from = 1000 * index as u64 * 512;
                    let bytes = device.read_blocks(from, 5 * (size / 512) as u32, 512);
                    let bytes = bytes.expect("the device works");
                    let expected = (0..5_u8).flat_map(|byte| vec![byte; size / 512]);
                    assert!(
                        bytes
                            .iter()
                            .zip(expected)
                            .all(|(block, byte)| block[511] == byte)
                    );
                }
            },
        );
    }
}

#[test]
fn pages_are_shared_and_not_copied() {
    in_world(Config::fair(0), || {
        let device = disk("barracuda", &[]);
        let device: &dyn BlockDevice = &*device;
        // An equal page that a device had before is kept in place of this one.
        device
            .write_blocks(8192, page(1, 4096))
            .expect("the device works");
        let [first, second] =
            [(); 2].map(|()| device.read_block(8192, 4096).expect("the device works"));
        assert!(Arc::ptr_eq(&first, &second));
    });
}

#[test]
fn synchronous_writes_cost_a_turn_without_the_cache_and_little_with_it() {
    in_world(Config::fair(0), || {
        for (setting, low, high) in [("off", 8 * MS, 9 * MS), ("on", 0, MS)] {
            let device = disk("atlas-v-18", &[("wcache", setting)]);
            assert_eq!(device.geometry().has_volatile_cache, setting == "on");
            submit_and_wait(&*device, write(0, 1));
            for number in 1..20 {
                let nanos = submit_and_wait(&*device, write(number * 8, 1));
                assert!((low..high).contains(&nanos), "wcache={setting}: {nanos}");
            }
            let nanos = submit_and_wait(&*device, forced(160));
            assert!(nanos > MS, "wcache={setting}: {nanos}");
        }
    });
}

#[test]
fn a_flush_waits_for_dirty_sectors() {
    in_world(Config::fair(0), || {
        let device = disk("atlas-v-18", &[]);
        submit_and_wait(&*device, write(20_000_000, 1));
        assert!(submit_and_wait(&*device, Request::Flush) > MS);
        assert!(submit_and_wait(&*device, Request::Flush) < MS);
        let stats = device.stats();
        assert_eq!(
            (stats.flushes, stats.writes, stats.drive.destages),
            (2, 1, 1)
        );
    });
}

#[test]
fn requests_that_come_one_by_one_are_merged_before_the_drive_sees_them() {
    in_world(Config::fair(0), || {
        for (elevator, commands) in [("linux24", 2), ("deadline", 1), ("noop", 1)] {
            let device = disk("atlas-v-18", &[("elevator", elevator)]);
            let tickets: Vec<Ticket> = (0..62)
                .map(|number| device.submit(vec![write(number * 8, 1)]))
                .collect();
            tickets
                .into_iter()
                .for_each(|ticket| ticket.wait_all().expect("the device works"));
            let stats = device.stats();
            assert_eq!(
                (stats.commands, stats.merged),
                (commands, 62 - commands),
                "{elevator}"
            );
        }
    });
}

#[test]
fn a_plugged_queue_unplugs_itself() {
    in_world(Config::fair(0), || {
        let device = disk("atlas-v-18", &[("wcache", "off")]);
        drop(device.submit(vec![write(0, 1)]));
        rt::sleep(Nanos::from_millis(2));
        assert_eq!(device.stats().commands, 0);
        rt::sleep(Nanos::from_millis(2));
        assert_eq!(device.stats().commands, 1);
        rt::sleep(Nanos::from_millis(20));
        assert_eq!(device.stats().request_nanos.count(), 1);
    });
}

#[test]
fn submit_blocks_while_the_queue_is_full() {
    in_world(Config::fair(0), || {
        let device = disk("atlas-v-18", &[("wcache", "off"), ("tcq", "4")]);
        let begin = rt::monotonic();
        let requests = (0..132).map(|number| write(number * 100_000, 1)).collect();
        let first = device.submit(requests);
        let second = device.submit((0..64).map(|n| write(n * 100_000 + 50_000, 1)).collect());
        let blocked = (rt::monotonic() - begin).get();
        assert!(blocked > 100 * MS, "{blocked}");
        first.wait_all().expect("the device works");
        second.wait_all().expect("the device works");
        let stats = device.stats();
        assert!(stats.submit_waits > 0);
        assert_eq!(stats.commands, 196);
        assert_eq!(stats.request_nanos.count(), 196);
    });
}

#[test]
fn long_requests_are_cut_and_answered_once() {
    in_world(Config::fair(0), || {
        let device = disk("atlas-v-18", &[("wcache", "off")]);
        let payload: Payload = (0..=255).flat_map(|byte| page(byte, 4096)).collect();
        let device: &dyn BlockDevice = &*device;
        let nanos = time(|| device.write_blocks(0, payload).expect("the device works"));
        assert!(nanos > 30 * MS, "a megabyte takes four turns: {nanos}");
        let back = device.read_blocks(0, 256, 4096).expect("the device works");
        assert!(
            back.iter()
                .enumerate()
                .all(|(index, block)| usize::from(block[0]) == index)
        );
    });
}

#[test]
fn errors_and_odd_requests_are_answered() {
    in_world(Config::fair(0), || {
        let device = disk("barracuda", &[]);
        let nothing = Request::Read {
            sector: SectorNr::new(0),
            blocks: 0,
            block_bytes: 4096,
        };
        let discard = Request::Discard {
            sector: SectorNr::new(0),
            sectors: 8,
        };
        let batch = vec![
            write(0, 1),
            read(4_110_000),
            nothing,
            discard,
            Request::Flush,
        ];
        let results = device.submit(batch).wait();
        assert!(matches!(results[1], Err(DeviceError::OutOfRange { .. })));
        assert!(matches!(&results[2], Ok(Outcome::Read(payload)) if payload.is_empty()));
        assert!(results.iter().filter(|result| result.is_ok()).count() == 4);
        assert!(device.submit(Vec::new()).wait().is_empty());
        drop(device.submit(vec![read(4_110_000)]));
        assert!(matches!(
            device.take_detached_error(),
            Some(DeviceError::OutOfRange { .. })
        ));
    });
}

#[test]
fn errors_of_the_store_come_out_of_the_ticket() {
    in_world(Config::fair(0), || {
        let store = block::MemoryDevice::new(4 << 30)
            .with_geometry(|geometry| geometry.is_read_only = true);
        let builder = Builder::new("barracuda")
            .expect("it exists")
            .store(Arc::new(store));
        let device = builder.open().expect("the store is large enough");
        let failed = device.submit(vec![write(0, 1)]).wait_all();
        assert_eq!(failed, Err(DeviceError::ReadOnly));
        drop(device.submit(vec![write(0, 1)]));
        rt::sleep(Nanos::from_secs(1));
        assert_eq!(device.take_detached_error(), Some(DeviceError::ReadOnly));
    });
}

/// Runs eight tasks that read, write and flush at random. Returns a digest of the completion times.
fn mixed_load(config: Config) -> (u64, u64, DiskStats) {
    let report = sim::run(config, || {
        let device = disk("atlas-v-18", &[]);
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let device = Arc::clone(&device);
                rt::spawn("load", move || {
                    let mut digest = 0_u64;
                    for round in 0..40_u64 {
                        let own = task * 4_000_000 + rt::random_u64() % 400_000 * 8;
                        let request = match rt::random_u64() % 8 {
                            0 => Request::Flush,
                            1 => forced(own),
                            2..5 => read(own),
                            _ => write(own, 1),
                        };
                        submit_and_wait(&*device, request);
                        digest = digest.rotate_left(9) ^ rt::monotonic().get() ^ round;
                    }
                    digest
                })
            })
            .collect();
        let digests = tasks
            .into_iter()
            .map(|task| task.join().expect("no task fails"));
        (digests.fold(0, |sum, digest| sum ^ digest), device.stats())
    });
    let report = report.expect("nothing goes wrong");
    (report.value.0, report.trace_hash, report.value.1)
}

#[test]
fn the_same_seed_gives_the_same_times() {
    for config in [Config::fair(5), Config::random(5), Config::pct(5, 3)] {
        assert_eq!(mixed_load(config.clone()), mixed_load(config));
    }
    assert_ne!(mixed_load(Config::fair(5)).0, mixed_load(Config::fair(6)).0);
}

#[test]
fn nvram_takes_its_latency_and_its_bandwidth() {
    in_world(Config::fair(0), || {
        let options = [
            ("capacity", "128MiB"),
            ("latency", "10us"),
            ("bandwidth", "4096000"),
        ];
        let device = disk("nvram", &options);
        assert!(!device.geometry().has_volatile_cache);
        assert_eq!(submit_and_wait(&*device, write(0, 1)), 1_010_000);
        assert_eq!(submit_and_wait(&*device, Request::Flush), 10_000);
        let nanos = time(|| {
            let both = [
                device.submit(vec![write(8, 1)]),
                device.submit(vec![read(0)]),
            ];
            both.into_iter()
                .for_each(|ticket| ticket.wait_all().expect("the device works"));
        });
        assert_eq!(nanos, 2_010_000);
    });
}

#[test]
fn a_ram_disk_takes_the_hosts_time_and_no_other() {
    let run = |host: sim::HostProfile| {
        let mut config = Config::fair(0);
        config.host = host;
        in_world(config, || {
            let device = disk("ramdisk", &[("capacity", "16MiB")]);
            time(|| {
                for number in 0..100 {
                    submit_and_wait(&*device, write(number * 8, 1));
                }
                sim::settle();
            })
        })
    };
    assert_eq!(run(sim::ZERO), 0);
    assert!(run(sim::P4_2_66_2003) > 100_000);
}

#[test]
fn the_host_pays_for_requests_and_the_disk_does_not() {
    let mut config = Config::fair(0);
    config.host = sim::P4_2_66_2003;
    let nanos = in_world(config, || {
        let device = disk("atlas-v-18", &[("wcache", "off")]);
        let tickets: Vec<_> = (0..8)
            .map(|n| device.submit(vec![write(n * 8, 1)]))
            .collect();
        let waited = time(|| tickets.into_iter().for_each(|ticket| drop(ticket.wait())));
        (waited, device.stats().commands)
    });
    assert_eq!(nanos.1, 1, "all eight were there before anybody waited");
    assert!(nanos.0 < 20 * MS);
}

/// A daemon waits for a device several times before it wakes a task, and another thread waits for
/// that daemon: nothing is stuck.
#[test]
fn a_daemon_that_waits_for_a_device_is_not_stuck() {
    in_world(Config::fair(0), || {
        let ssd = disk("ssd", &[("capacity", "64MiB")]);
        let end = Arc::new((rt::Mutex::new(false), rt::Condvar::new()));
        let told = Arc::clone(&end);
        let daemon = rt::spawn_daemon("writer", move || {
            for place in 0..10 {
                let requests = vec![write(place * 8, 1), Request::Flush];
                ssd.submit(requests).wait_all().expect("the device works");
            }
            *told.0.lock() = true;
            told.1.notify_all();
        });
        let mut is_over = end.0.lock();
        while !*is_over {
            end.1.wait(&mut is_over);
        }
        drop(is_over);
        daemon.join().expect("no panic");
    });
}
