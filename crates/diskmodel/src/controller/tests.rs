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
        let report = sim::run(config, mixed);
        report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn mixed() {
    let disks = disks(4);
    let below = Trace::new();
    let array = Arc::new(below.attach(parity(&disks)));
    let model = ControllerModel {
        cache_bytes: 64 << 10,
        idle: Nanos::from_millis(3),
        ..ControllerModel::default()
    };
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
