//! Arrays of simulated disks, measured and compared with calculations; and the state of RAID 5
//! after a power cut.

use std::sync::Arc;

use block::raid::{ParityDevice, RaidLevel, assemble};
use block::{DeviceText, Event, FaultDevice, FaultPlan, MemoryDevice, OpenOptions, Replay, Trace};
use rt::split_mix::SplitMix;

use super::*;

const CHUNK: u64 = 64 << 10;

fn made(text: &str) -> Arc<dyn BlockDevice> {
    let parsed: DeviceText = text.parse().expect("the text is right");
    block::text::open(&parsed, &OpenOptions::default(), &factory).expect("the device exists")
}

fn measured(text: &'static str) -> Measured {
    in_world(Config::fair(0), || {
        measure(&made(text)).expect("the device works")
    })
}

#[track_caller]
fn near(what: &str, value: u64, wanted: u64, percent: u64) {
    let off = value.abs_diff(wanted) * 100;
    assert!(off <= wanted * percent, "{what}: {value}, not {wanted}");
}

/// Checks the media rate x track / (track + skew), the means of the arm and the platters, and the
/// duration of a revolution.
#[test]
fn a_disk_does_what_its_geometry_says() {
    let one = measured("sim:atlas-v-18");
    let sustained = |track: u64| {
        let head_switch_sectors = (800 * track).div_ceil(8_333);
        track * 512 * 120 * track / (track + head_switch_sectors)
    };
    near(
        "outside",
        one.read_outer.expect("a rate"),
        sustained(480),
        2,
    );
    near("inside", one.read_inner.expect("a rate"), sustained(300), 2);
    near(
        "written",
        one.write_outer.expect("a rate"),
        sustained(480),
        4,
    );
    // Seek 6.3 over random cylinders, half a turn, the command.
    near(
        "random read",
        one.random_read.get(),
        (6_300 + 4_167 + 350) * 1_000,
        6,
    );
    // Gain from sorting 32 requests by time over one at a time, as for such drives.
    let singly = 1_000_000_000 / one.random_read.get();
    let gain = one.random_reads_queued.expect("a rate") * 100 / singly;
    assert!((180..=250).contains(&gain), "{gain} %");
}

/// Checks the sustained rate against the product manual: 83 to 175 MB/s. Before each span of 64 MiB
/// the arm crosses the whole disk, and waits half a revolution on average, which is 5 % of the time
/// of such a fast disk.
#[test]
fn a_disk_of_the_2010s_streams_as_its_manual_says() {
    let one = measured("sim:constellation-es3");
    let with_approach = |sustained: u64| {
        let span: u64 = 64 << 20;
        let streaming_us = span * 1_000_000 / sustained;
        span * 1_000_000 / (streaming_us + 16_000 + 4_167)
    };
    let (outer, inner) = (with_approach(175_000_000), with_approach(83_000_000));
    near("outside", one.read_outer.expect("a rate"), outer, 2);
    near("inside", one.read_inner.expect("a rate"), inner, 2);
}

#[test]
fn stripes_add_up() {
    let one = measured("sim:atlas-v-18");
    for (text, count) in [
        ("raid0(sim:atlas-v-18 x2)", 2),
        ("raid0(sim:atlas-v-18 x4)", 4),
    ] {
        let array = measured(text);
        let times = |rate: Option<u64>| rate.expect("a rate") * count;
        let is = |rate: Option<u64>| rate.expect("a rate");
        near(text, array.size_bytes, one.size_bytes * count, 1);
        near(text, is(array.read_outer), times(one.read_outer), 8);
        near(text, is(array.write_outer), times(one.write_outer), 8);
        near(text, array.random_read.get(), one.random_read.get(), 6);
        let (queued, alone) = (is(array.random_reads_queued), is(one.random_reads_queued));
        // Each arm has fewer requests to choose from than a single disk, and more than one at a
        // time.
        let singly = count * 1_000_000_000 / one.random_read.get();
        assert!(queued > singly, "{text}: {queued} of {singly}");
        assert!(queued < alone * count, "{text}: {queued} of {alone}");
    }
}

#[test]
fn parity_gives_what_its_data_disks_give() {
    let one = measured("sim:atlas-v-18");
    for (text, data) in [
        ("raid5(sim:atlas-v-18 x3)", 2),
        ("raid5(sim:atlas-v-18 x5)", 4),
        ("raid6(sim:atlas-v-18 x6)", 4),
        ("raid50(sim:atlas-v-18 x6)", 4),
    ] {
        let array = measured(text);
        near(text, array.size_bytes, one.size_bytes * data, 1);
        let read = array.read_outer.expect("a rate");
        let single = one.read_outer.expect("a rate");
        assert!(read > single * data * 8 / 10, "{text}: {read}");
        assert!(read < single * (data + 2), "{text}: {read}");
        near(text, array.random_read.get(), one.random_read.get(), 6);
        // A small write reads and then writes: at least a revolution more than a write alone.
        let turn = 8_333_333;
        let least = one.durable_write.get() + turn * 8 / 10;
        assert!(
            array.durable_write.get() > least,
            "{text}: {:?}",
            array.durable_write
        );
    }
}

/// Returns the members' reads and writes for one request of the host.
fn requests_for(level: RaidLevel, members: usize, sector: u64, bytes: usize) -> (u64, u64) {
    in_world(Config::fair(0), move || {
        let disks: Vec<_> = (0..members).map(|_| disk("barracuda", &[])).collect();
        let devices = disks.iter().map(|disk| Arc::clone(disk) as _).collect();
        let array = assemble(level, devices, CHUNK).expect("an array");
        let request = Request::Write {
            sector: SectorNr::new(sector),
            payload: page(1, bytes),
            force_unit_access: false,
        };
        submit_and_wait(&*array, request);
        submit_and_wait(&*array, Request::Flush);
        let mut sum = DiskStats::default();
        disks.iter().for_each(|disk| sum += &disk.stats());
        assert_eq!(sum.flushes, members as u64, "a flush reaches all members");
        (sum.reads, sum.writes)
    })
}

#[test]
fn a_write_costs_as_many_requests_as_its_level_says() {
    let chunk = CHUNK as usize;
    let cases = [
        (RaidLevel::Raid0, 4, 0, 4_096, (0, 1)),
        (RaidLevel::Raid1, 2, 0, 4_096, (0, 2)),
        (RaidLevel::Raid10, 4, 0, 4_096, (0, 2)),
        // Read the old block and the old parity, write both.
        (RaidLevel::Raid5, 5, 0, 4_096, (2, 2)),
        (RaidLevel::Raid5, 8, 0, 4_096, (2, 2)),
        (RaidLevel::Raid50, 10, 0, 4_096, (2, 2)),
        // With three members, reading the other block is cheaper than reading the old one and the
        // old parity.
        (RaidLevel::Raid5, 3, 0, 4_096, (1, 2)),
        // More than half of the stripe: the rest is read.
        (RaidLevel::Raid5, 5, 0, 3 * chunk, (1, 4)),
        // Less than half of it: the replaced data is read.
        (RaidLevel::Raid5, 8, 0, 2 * chunk, (3, 3)),
        (RaidLevel::Raid5, 5, 0, 4 * chunk, (0, 5)),
        (RaidLevel::Raid5, 5, 0, 8 * chunk, (0, 10)),
        (RaidLevel::Raid50, 10, 0, 8 * chunk, (0, 10)),
        // Two parities: both are read and written, or the rest of the stripe is read.
        (RaidLevel::Raid6, 8, 0, 4_096, (3, 3)),
        (RaidLevel::Raid6, 5, 0, 4_096, (2, 3)),
        (RaidLevel::Raid6, 6, 0, 4 * chunk, (0, 6)),
        // The end of one stripe and the start of the next.
        (RaidLevel::Raid5, 5, 4 * CHUNK / 512 - 8, 8_192, (4, 4)),
    ];
    for (level, members, sector, bytes, expected) in cases {
        let found = requests_for(level, members, sector, bytes);
        assert_eq!(
            found, expected,
            "{bytes} bytes at {sector} of {level} over {members}"
        );
    }
}

/// Reads at random, one at a time or several. Returns the members' statistics.
fn mirrored_reads(members: usize, tasks: u64) -> Vec<DriveStats> {
    in_world(Config::fair(0), move || {
        let disks: Vec<_> = (0..members).map(|_| disk("barracuda", &[])).collect();
        let devices: Vec<Arc<dyn BlockDevice>> =
            disks.iter().map(|disk| Arc::clone(disk) as _).collect();
        let array = match members {
            1 => Arc::clone(&devices[0]),
            _ => assemble(RaidLevel::Raid1, devices, CHUNK).expect("an array"),
        };
        let readers: Vec<_> = (0..tasks)
            .map(|task| {
                let array = Arc::clone(&array);
                rt::spawn("reader", move || {
                    let mut random = SplitMix::new(task);
                    for _ in 0..1_000 {
                        submit_and_wait(&*array, read(random.below(4_000_000) / 8 * 8));
                    }
                })
            })
            .collect();
        for reader in readers {
            reader.join().expect("no reader fails");
        }
        disks.iter().map(|disk| disk.stats().drive).collect()
    })
}

#[test]
fn mirrors_read_where_the_arm_is_near_and_share_the_work() {
    let mean = |drives: &[DriveStats]| {
        let cylinders: u64 = drives.iter().map(|drive| drive.seek_cylinders).sum();
        let accesses: u64 = drives.iter().map(|drive| drive.accesses).sum();
        cylinders * 1_000 / accesses
    };
    // Two arms move 5/8 as far as one, calculated for arms at random positions; less, because each
    // stays in its region.
    let (one, two) = (mean(&mirrored_reads(1, 1)), mean(&mirrored_reads(2, 1)));
    assert!(two * 8 <= one * 5, "{two} of {one}");
    assert!(two * 2 > one * 9 / 10, "{two} of {one}");
    let shares = mirrored_reads(2, 2);
    near("share", shares[0].accesses, 1_000, 5);
    near("share", shares[1].accesses, 1_000, 5);
}

/// Checks that an array with eight hosts gives the same times for the same seed, with and without a
/// controller.
#[test]
fn arrays_are_as_deterministic_as_disks() {
    for text in [
        "bbu(raid5(sim:barracuda x4),cache=256KiB)",
        "raid10(sim:barracuda x4,chunk=16KiB)",
        "raid50(sim:barracuda x6)",
    ] {
        let run = || {
            let report = sim::run(Config::random(7), move || load(&made(text)));
            let report = report.expect("nothing goes wrong");
            (report.value, report.trace_hash, report.elapsed)
        };
        assert_eq!(run(), run(), "{text}");
    }
}

fn load(array: &Arc<dyn BlockDevice>) -> u64 {
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let array = Arc::clone(array);
            rt::spawn("load", move || {
                for _ in 0..20 {
                    let own = task * 400_000 + rt::random_u64() % 40_000 * 8;
                    let request = match rt::random_u64() % 4 {
                        0 => Request::Flush,
                        1 => read(own),
                        _ => write(own, 1),
                    };
                    submit_and_wait(&*array, request);
                }
                rt::monotonic().get()
            })
        })
        .collect();
    let ends = tasks
        .into_iter()
        .map(|task| task.join().expect("no task fails"));
    ends.fold(0, |sum, end| sum.rotate_left(7) ^ end)
}

/// Returns the requests to the members of a RAID 5 of three during an overwrite of block 0. Before
/// it, block 0 holds byte 1 (later 3); its neighbour in the stripe, on another member, holds byte
/// 2.
fn overwrite() -> (Vec<Event>, block::Geometry) {
    in_world(Config::fair(0), || {
        let trace = Trace::new();
        let members = (0..3)
            .map(|_| Arc::new(trace.attach(disk("barracuda", &[]))) as _)
            .collect();
        let geometry = disk("barracuda", &[]).geometry();
        let array = ParityDevice::new(members, 4_096).expect("an array");
        for request in [write(0, 1), write(8, 2), Request::Flush] {
            submit_and_wait(&array, request);
        }
        trace.mark(0);
        submit_and_wait(&array, write(0, 3));
        submit_and_wait(&array, Request::Flush);
        (trace.events(), geometry)
    })
}

/// Returns the contents of blocks 0 and 1 after a power cut before event `cut`, with all members
/// and without the second one.
fn after_cut(events: &[Event], geometry: &block::Geometry, cut: usize, seed: u64) -> [[u8; 2]; 2] {
    let images: Vec<MemoryDevice> = (0..3)
        .map(|member| {
            let empty = MemoryDevice::new(geometry.size_bytes);
            let mut replay = Replay::new(member, geometry.clone(), &empty);
            events[..cut].iter().for_each(|event| replay.apply(event));
            replay.image(seed + 1_000 * member as u64)
        })
        .collect();
    [None, Some(1)].map(|lost| {
        let members = images.iter().enumerate().map(|(number, image)| {
            let member = FaultDevice::new(Arc::new(image.snapshot()), FaultPlan::default());
            if lost == Some(number) {
                member.remove();
            }
            Arc::new(member) as Arc<dyn BlockDevice>
        });
        let array = ParityDevice::new(members.collect(), 4_096).expect("an array");
        let array: &dyn BlockDevice = &array;
        [0, 4_096].map(|offset| array.read_block(offset, 512).expect("it can be read")[0])
    })
}

/// Cuts the power of an array whose members keep their own states. With all members it behaves as a
/// disk: old or new data in the written range, and no change elsewhere. Its parity may be wrong, so
/// that the loss of another member destroys an unwritten neighbour: the write hole, which a
/// completed flush closes.
#[test]
fn a_power_cut_leaves_raid_5_its_write_hole() {
    let (events, geometry) = overwrite();
    let start = events
        .iter()
        .position(|event| matches!(event, Event::Mark(0)))
        .expect("it is marked");
    let (mut old, mut new, mut holes) = (0, 0, 0);
    for cut in start..=events.len() {
        for seed in 0..16 {
            let [whole, degraded] = after_cut(&events, &geometry, cut, seed);
            assert_eq!(whole[1], 2, "cut {cut}, seed {seed}: a neighbour changed");
            match whole[0] {
                1 => old += 1,
                3 => new += 1,
                other => panic!("cut {cut}, seed {seed}: {other} was never written"),
            }
            let is_hole = degraded[1] != 2;
            holes += usize::from(is_hole);
            if cut == start || cut == events.len() {
                assert!(!is_hole, "cut {cut}, seed {seed}: nothing was in flight");
            }
        }
    }
    assert!(old > 0 && new > 0 && holes > 0, "{old}, {new}, {holes}");
}

/// Runs the same array behind a controller: small writes run at memory speed, and a power cut loses
/// none of them.
#[test]
fn a_controller_takes_small_writes_at_its_own_speed() {
    let bare = measured("raid5(sim:atlas-v-18 x5)");
    let behind = measured("bbu(raid5(sim:atlas-v-18 x5),cache=128MiB)");
    assert_eq!(behind.durable_write, Nanos::new(100_000 + 20_480));
    assert!(behind.durable_write * 100 < bare.durable_write);
    near("size", behind.size_bytes, bare.size_bytes, 0);
    near(
        "random read",
        behind.random_read.get(),
        bare.random_read.get(),
        4,
    );
    let (slow, fast) = (
        bare.write_outer.expect("a rate"),
        behind.write_outer.expect("a rate"),
    );
    assert!(fast > slow, "{fast}, {slow}");
}
