//! The controller in front of a disk and of arrays: times, contents, the requests to the array,
//! durability.

use block::raid::ParityDevice;
use block::{MemoryDevice, Replay, Trace};
use layout::Block;

use super::*;
use crate::Builder;
use sim::Config;

const DISK: &str = "barracuda";
const CHUNK: u64 = 64 << 10;

fn in_world<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(Config::fair(0), body)
        .expect("nothing goes wrong")
        .value
}

fn disks(count: usize) -> Vec<Arc<dyn SimulatedDevice>> {
    let disk = || {
        Builder::new(DISK)
            .and_then(Builder::open)
            .expect("it is in the catalogue")
    };
    (0..count).map(|_| disk()).collect()
}

fn parity(disks: &[Arc<dyn SimulatedDevice>]) -> Arc<ParityDevice> {
    let members = disks.iter().map(|disk| Arc::clone(disk) as _).collect();
    Arc::new(ParityDevice::new(members, CHUNK).expect("it is an array"))
}

fn controller(array: Arc<dyn BlockDevice>, model: ControllerModel) -> Controller {
    let stripe = 3 * CHUNK;
    Controller::new(model, array, Some(stripe), "bbu".to_owned())
}

fn write(sector: u64, sectors: u64, byte: u8) -> Request {
    let bytes = vec![byte; (sectors * SectorNr::SIZE) as usize];
    Request::Write {
        sector: SectorNr::new(sector),
        payload: vec![Block::copy_from(&bytes).into_arc()],
        force_unit_access: false,
    }
}

fn time(action: impl FnOnce()) -> Nanos {
    let began = rt::monotonic();
    action();
    rt::monotonic() - began
}

fn done(device: &dyn BlockDevice, request: Request) -> Nanos {
    let wait = || device.submit(vec![request]).wait_all();
    time(|| wait().expect("the device works"))
}

#[test]
fn a_write_takes_the_command_and_the_bus_and_a_flush_the_command() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel::default();
        let device = controller(Arc::clone(&disks[0]) as _, model);
        let geometry = device.geometry();
        assert!(!geometry.has_volatile_cache && geometry.has_force_unit_access);
        let bus = Nanos::new(4_096 * 1_000_000_000 / model.bus_bytes_per_second);
        assert_eq!(done(&device, write(8, 8, 1)), model.command + bus);
        assert_eq!(done(&device, Request::Flush), model.command);
        let read = Request::Read {
            sector: SectorNr::new(8),
            blocks: 1,
            block_bytes: 4_096,
        };
        assert_eq!(done(&device, read), model.command + bus);
        assert_eq!(device.stats().controller.read_hits, 1);
        assert_eq!(disks[0].stats().writes, 0, "nobody was idle");
        rt::sleep(model.idle * 3);
        let stats = disks[0].stats();
        assert_eq!(
            (stats.writes, stats.force_unit_access_writes),
            (1, 1),
            "what leaves the controller is durable, whatever the drive's cache"
        );
    });
}

#[test]
fn writes_are_taken_at_the_speed_of_the_array_once_the_cache_is_full() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel {
            cache_bytes: 1 << 20,
            ..ControllerModel::default()
        };
        let device = controller(Arc::clone(&disks[0]) as _, model);
        let mut last = 1_u64;
        let mut next = || {
            last = last * 1_103_515_245 % 4_000_037;
            last / 8 * 8
        };
        let fast = time(|| {
            for _ in 0..150 {
                done(&device, write(next(), 8, 1));
            }
        });
        assert_eq!(fast / 150, model.command + Nanos::new(20_480));
        let slow = time(|| {
            for _ in 0..600 {
                done(&device, write(next(), 8, 1));
            }
        });
        let each = slow / 600;
        // The arm sorts the cached writes, but moves for each block all the same.
        assert!(each > Nanos::from_millis(2), "{each:?}");
        assert!(each < Nanos::from_millis(10), "{each:?}");
        assert!(device.stats().controller.throttled_writes > 0);
    });
}

#[test]
fn a_stream_reaches_the_array_in_whole_stripes() {
    in_world(|| {
        let disks = disks(4);
        let array = parity(&disks);
        let device = controller(
            Arc::clone(&array) as _,
            ControllerModel {
                cache_bytes: 4 << 20,
                ..ControllerModel::default()
            },
        );
        let stripes = 200;
        let blocks = stripes * 3 * CHUNK / 4_096;
        for block in 0..blocks {
            done(&device, write(block * 8, 8, block as u8));
        }
        rt::sleep(Nanos::from_secs(2));
        let members: Vec<DiskStats> = disks.iter().map(|disk| disk.stats()).collect();
        let reads: u64 = members.iter().map(|member| member.sectors_read).sum();
        let written: u64 = members.iter().map(|member| member.sectors_written).sum();
        assert_eq!(reads, 0, "whole stripes need no old contents");
        assert_eq!(written, stripes * 4 * CHUNK / 512);
        assert_eq!(array.scrub().expect("it can be read"), Vec::<u64>::new());
    });
}

#[test]
fn a_block_that_is_written_again_and_again_reaches_the_array_once() {
    in_world(|| {
        let disks = disks(4);
        let device = controller(parity(&disks), ControllerModel::default());
        for round in 0..1_000_u64 {
            done(&device, write(8, 8, round as u8));
        }
        rt::sleep(Nanos::from_secs(1));
        let stats = device.stats().controller;
        assert_eq!((stats.destaged_sectors, stats.replaced_sectors), (8, 7_992));
        let members: u64 = disks.iter().map(|disk| disk.stats().writes).sum();
        assert_eq!(members, 2, "data and parity");
        let device: &dyn BlockDevice = &device;
        let block = device.read_block(4_096, 4_096).expect("it can be read");
        assert_eq!(block[0], 999_u64 as u8);
    });
}

/// Writes, reads and flushes from eight hosts through a small cache, each on its own sectors. The
/// trace checks that no two requests to the array overlap, and that acknowledged data is durable.
#[test]
fn contents_are_right_whatever_is_on_its_way() {
    for seed in 0..6 {
        let config = match seed {
            0 | 1 => Config::fair(seed),
            _ => Config::random(seed),
        };
        let report = sim::run(config, || mixed(mixed_model()));
        report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn mixed_model() -> ControllerModel {
    ControllerModel {
        cache_bytes: 64 << 10,
        idle: Nanos::from_millis(3),
        ..ControllerModel::default()
    }
}

fn mixed(model: ControllerModel) {
    let disks = disks(4);
    let below = Trace::new();
    let array = Arc::new(below.attach(parity(&disks)));
    let above = Trace::new();
    let device = Arc::new(above.attach(Arc::new(controller(array, model))));
    let hosts: Vec<_> = (0..8_u64)
        .map(|host| {
            let device = Arc::clone(&device);
            rt::spawn("host", move || host_of(&*device, host))
        })
        .collect();
    for host in hosts {
        host.join().expect("no host fails");
    }
    // Behind write-through the disks have caches of their own.
    done(&*device, Request::Flush);
    let size = device.geometry().size_bytes;
    let mut replay = Replay::new(device.number(), device.geometry(), &MemoryDevice::new(size));
    above.events().iter().for_each(|event| replay.apply(event));
    assert!(replay.versions().is_empty(), "what is done is durable");
}

fn host_of(device: &dyn BlockDevice, host: u64) {
    const SECTORS: u64 = 48;
    // Adjacent to the sectors of other hosts, so that blocks and stripes are shared.
    let mut expected = vec![0_u8; SECTORS as usize];
    for round in 0..60_u64 {
        let first = rt::random_u64() % SECTORS;
        let sectors = 1 + rt::random_u64() % (SECTORS - first).min(20);
        let at = host * SECTORS + first;
        match rt::random_u64() % 8 {
            0 => {
                done(device, Request::Flush);
            }
            1 => rt::sleep(Nanos::from_millis(5)),
            2..5 => {
                let blocks = device.read_blocks(at * 512, sectors as u32, 512);
                let blocks = blocks.expect("it can be read");
                for (block, sector) in blocks.iter().zip(first..) {
                    assert_eq!(block[7], expected[sector as usize], "{host}: {sector}");
                }
            }
            _ => {
                let byte = (round + 1) as u8;
                expected[first as usize..(first + sectors) as usize].fill(byte);
                done(device, write(at, sectors, byte));
            }
        }
    }
}

#[test]
fn what_the_array_cannot_take_is_said_to_whoever_flushes_next() {
    in_world(|| {
        let plan = block::FaultPlan {
            rules: vec![block::fault::FaultRule {
                operations: block::fault::Operations::WRITES,
                when: block::fault::When::Nth(1),
                effect: block::fault::Effect::Fail,
            }],
            ..block::FaultPlan::default()
        };
        let memory = Arc::new(MemoryDevice::new(1 << 20));
        let faulty = block::FaultDevice::new(memory, plan);
        let device = controller(Arc::new(faulty), ControllerModel::default());
        done(&device, write(0, 8, 1));
        assert_eq!(device.take_detached_error(), None);
        rt::sleep(Nanos::from_secs(1));
        assert!(device.take_detached_error().is_some());
    });
}

fn read(sector: u64, sectors: u64) -> Request {
    Request::Read {
        sector: SectorNr::new(sector),
        blocks: 1,
        block_bytes: (sectors * SectorNr::SIZE) as u32,
    }
}

/// Returns the time of a request that the controller answers by itself.
fn hit_time(model: ControllerModel, sectors: u64) -> Nanos {
    let bytes = sectors * SectorNr::SIZE;
    model.command + Nanos::new(bytes * 1_000_000_000 / model.bus_bytes_per_second)
}

#[test]
fn what_was_read_is_answered_from_the_cache() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel::default();
        let device = controller(Arc::clone(&disks[0]) as _, model);
        assert!(done(&device, read(40_000, 8)) > Nanos::from_millis(1));
        assert_eq!(done(&device, read(40_000, 8)), hit_time(model, 8));
        assert_eq!(done(&device, read(40_002, 4)), hit_time(model, 4));
        assert_eq!(disks[0].stats().reads, 1);
        assert_eq!(device.stats().controller.read_hits, 2);
        // A part is here, the rest is on the array.
        assert!(done(&device, read(40_004, 8)) > model.command);
        assert_eq!(disks[0].stats().sectors_read, 12);
    });
}

#[test]
fn what_was_written_replaces_what_was_read_and_stays_when_it_is_on_the_array() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel {
            read_ahead: ReadAhead::Off,
            ..ControllerModel::default()
        };
        let device = controller(Arc::clone(&disks[0]) as _, model);
        done(&device, read(8, 16));
        done(&device, write(16, 8, 7));
        rt::sleep(Nanos::from_secs(1));
        assert_eq!(device.stats().controller.destaged_sectors, 8);
        let blocks = |at: u64| {
            let device: &dyn BlockDevice = &device;
            device.read_block(at * 512, 4_096).expect("it can be read")[0]
        };
        assert_eq!((blocks(8), blocks(16)), (0, 7));
        assert_eq!(disks[0].stats().reads, 1, "both are here");
    });
}

#[test]
fn without_a_read_cache_each_read_goes_to_the_array() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel {
            keeps_reads: false,
            read_ahead: ReadAhead::Off,
            ..ControllerModel::default()
        };
        let device = controller(Arc::clone(&disks[0]) as _, model);
        for round in 1..4 {
            done(&device, read(40_000, 8));
            assert_eq!(disks[0].stats().reads, round);
        }
    });
}

/// Reads 4 MiB in requests of 4 KiB, with 2 ms of work between them.
fn stream(read_ahead: ReadAhead) -> (Nanos, DiskStats, DiskStats) {
    in_world(move || {
        let disks = disks(1);
        let model = ControllerModel {
            read_ahead,
            ..ControllerModel::default()
        };
        let device = controller(Arc::clone(&disks[0]) as _, model);
        let mut waited = Nanos::ZERO;
        for block in 0..1_024 {
            waited += done(&device, read(40_000 + block * 8, 8));
            rt::sleep(Nanos::from_millis(2));
        }
        (waited, device.stats(), disks[0].stats())
    })
}

#[test]
fn a_sequential_reader_finds_what_was_read_ahead() {
    let (without, none, below) = stream(ReadAhead::Off);
    assert_eq!(none.controller.read_ahead_sectors, 0);
    assert_eq!((none.controller.read_hits, below.reads), (0, 1_024));
    let (with, stats, below) = stream(ReadAhead::Adaptive);
    // The drive reads ahead too, and is slower to answer.
    assert!(with < without, "{with:?} of {without:?}");
    // Two reads show the sequence.
    assert!(stats.controller.read_hits >= 1_022 - 2, "{stats:?}");
    assert!(below.reads < 60, "{below:?}");
    let ahead = stats.controller.read_ahead_sectors;
    let stripe = 3 * CHUNK / 512;
    let read = 1_024 * 8;
    assert!((read - 16..=read + 2 * stripe).contains(&ahead), "{ahead}");
}

#[test]
fn scattered_reads_are_not_read_ahead() {
    in_world(|| {
        let disks = disks(1);
        let device = controller(Arc::clone(&disks[0]) as _, ControllerModel::default());
        for number in 0..50 {
            done(&device, read(number * 7_919 % 64 * 60_000, 8));
        }
        assert_eq!(device.stats().controller.read_ahead_sectors, 0);
        assert_eq!(disks[0].stats().sectors_read, 50 * 8);
    });
}

#[test]
fn a_read_waits_for_the_sectors_that_are_being_read_ahead() {
    in_world(|| {
        let disks = disks(1);
        let device = controller(Arc::clone(&disks[0]) as _, ControllerModel::default());
        done(&device, read(40_000, 8));
        done(&device, read(40_008, 8));
        done(&device, read(40_016, 8));
        let stripe = 3 * CHUNK / 512;
        let to = (40_016 / stripe + 2) * stripe;
        rt::sleep(Nanos::from_secs(1));
        assert_eq!(disks[0].stats().sectors_read, to - 40_000, "none twice");
    });
}

#[test]
fn a_controller_that_reads_is_not_idle() {
    in_world(|| {
        let disks = disks(1);
        let model = ControllerModel {
            idle: Nanos::from_millis(2),
            ..ControllerModel::default()
        };
        let device = controller(Arc::clone(&disks[0]) as _, model);
        done(&device, write(8, 8, 1));
        for number in 1..20 {
            let took = done(&device, read(number * 200_000, 8));
            assert!(took > model.idle, "{took:?}");
        }
        assert_eq!(disks[0].stats().writes, 0);
        rt::sleep(model.idle * 10);
        assert_eq!(disks[0].stats().writes, 1);
    });
}

#[test]
fn destaging_stops_at_the_low_water_mark() {
    let left = |low_water_percent: u32| {
        in_world(move || {
            let disks = disks(1);
            let model = ControllerModel {
                cache_bytes: 8 << 20,
                high_water_percent: 75,
                low_water_percent,
                idle: Nanos::from_secs(1_000),
                ..ControllerModel::default()
            };
            let device = controller(Arc::clone(&disks[0]) as _, model);
            for chunk in 0..100 {
                done(&device, write(chunk * 128, 128, 1));
            }
            rt::sleep(Nanos::from_secs(100));
            12_800 - device.stats().controller.destaged_sectors
        })
    };
    // Marks of 12,288 and 8,192 of 16,384 sectors; two batches of 1,024 may be on their way.
    assert!(
        (12_288 - 2_048..=12_288).contains(&left(75)),
        "{}",
        left(75)
    );
    assert!((8_192 - 2_048..=8_192).contains(&left(50)), "{}", left(50));
}

#[test]
fn with_write_through_nothing_is_acknowledged_before_the_array_has_it() {
    in_world(|| {
        let model = ControllerModel {
            is_write_back: false,
            ..ControllerModel::default()
        };
        for has_cache in [false, true] {
            let disk = Builder::new(DISK).expect("it is in the catalogue");
            let disk = disk.write_cache(has_cache).open().expect("it opens");
            let below = Trace::new();
            let array = Arc::new(below.attach(Arc::clone(&disk) as _));
            let geometry = array.geometry();
            let device = controller(array, model);
            assert_eq!(
                device.geometry().has_volatile_cache,
                geometry.has_volatile_cache
            );
            let mut byte = 0;
            let mut check = |forced: bool| {
                byte += 1;
                let mut request = write(4_000 * u64::from(byte), 8, byte);
                if let Request::Write {
                    force_unit_access, ..
                } = &mut request
                {
                    *force_unit_access = forced;
                }
                let took = done(&device, request);
                let stats = disk.stats();
                assert_eq!(stats.writes, u64::from(byte), "the disk has it");
                took
            };
            assert_eq!(check(false) < Nanos::from_millis(2), has_cache);
            assert!(check(true) > Nanos::from_millis(2));
            let flushes = disk.stats().flushes;
            done(&device, Request::Flush);
            assert_eq!(disk.stats().flushes, flushes + 1);
            let events = below.events().len();
            rt::sleep(Nanos::from_secs(1));
            assert_eq!(below.events().len(), events, "nothing is left to destage");
        }
    });
}

/// Checks the contents behind a controller that writes through, with its read cache and read-ahead,
/// and that nothing is durable before the array says so.
#[test]
fn contents_are_right_with_write_through() {
    for seed in 0..4 {
        let config = match seed {
            0 => Config::fair(seed),
            _ => Config::random(seed),
        };
        let report = sim::run(config, || {
            mixed(ControllerModel {
                is_write_back: false,
                read_ahead: ReadAhead::On,
                ..mixed_model()
            });
        });
        report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn contents_are_right_with_read_ahead_and_the_oldest_first() {
    for seed in 0..4 {
        let report = sim::run(Config::random(seed), || {
            mixed(ControllerModel {
                read_ahead: ReadAhead::On,
                destage: DestageOrder::Fifo,
                low_water_percent: 20,
                ..mixed_model()
            });
        });
        report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Checks that a controller is dropped with its world, in any state of its devices.
#[test]
fn nothing_is_left_of_a_controller_that_was_busy_when_its_world_ended() {
    let check = |what: &str, work: fn(&Controller)| {
        let store = in_world(move || {
            let store = Arc::new(MemoryDevice::new(4 << 30));
            let disk = Builder::new(DISK)
                .map(|builder| builder.store(Arc::clone(&store) as _))
                .and_then(Builder::open)
                .expect("it is in the catalogue");
            let device = controller(disk as _, ControllerModel::default());
            work(&device);
            Arc::downgrade(&store)
        });
        assert!(store.upgrade().is_none(), "{what}");
    };
    check("idle", |_| {});
    check("dirty", |device| {
        done(device, write(8, 8, 1));
    });
    check("destaging", |device| {
        for at in 0..100 {
            done(device, write(at * 1_000, 8, 1));
        }
        rt::sleep(ControllerModel::default().idle + Nanos::from_millis(1));
    });
    check("reading", |device| {
        let read = Request::Read {
            sector: SectorNr::new(8),
            blocks: 1,
            block_bytes: 4_096,
        };
        drop(device.submit(vec![read]));
    });
}
