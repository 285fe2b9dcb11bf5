//! Names, options and their errors.

use core::cell::RefCell;

use block::MemoryDevice;
use block::text::SharedDisks;
use layout::Block;

use super::*;
use crate::{DriveStats, Firmware, Order};

#[test]
fn everything_in_the_catalogue_opens() {
    let report = sim::run(sim::Config::fair(1), || {
        for entry in catalogue() {
            let device = open(entry.name, &[("capacity", "1GiB")]).expect("it is in the catalogue");
            assert_eq!(device.geometry().size_bytes, 1 << 30);
            let device: Arc<dyn BlockDevice> = device;
            device.read_block(4096, 4096).expect("the device works");
        }
    });
    report.expect("nothing goes wrong");
}

#[test]
fn options_set_what_they_say() {
    let builder = Builder::new("atlas-v-18").expect("it is in the catalogue");
    let pairs = [
        ("wcache", "off"),
        ("elevator", "noop"),
        ("requests", "4096"),
        ("requests", "512MiB"),
        ("bomb", "6"),
        ("tcq", "7"),
        ("reorder", "clook"),
        ("window", "4"),
        ("destage", "fifo"),
        ("age", "800ms"),
        ("stroke", "14"),
        ("track", "1.0"),
        ("buffer", "2MiB"),
        ("wsegments", "8"),
        ("seek", "6.9"),
        ("capacity", "9GB"),
    ];
    let builder = pairs
        .into_iter()
        .try_fold(builder, |builder, (key, value)| builder.option(key, value))
        .expect("the options are right");
    let model = builder.model().expect("it is a hard disk");
    assert!(!model.has_write_cache);
    assert_eq!(model.queue_depth, 7);
    let firmware = Firmware {
        reorder: Order::Clook,
        window: Some(4),
        destage: Some(Order::Fifo),
        age: Some(rt::Nanos::from_millis(800)),
    };
    assert_eq!(model.firmware, firmware);
    assert_eq!(model.capacity_sectors * 512, 9_000_000_000 / 4096 * 4096);
    let curve = crate::SeekCurve::new(model.seek, model.cylinders);
    assert!(curve.mean().get().abs_diff(6_900_000) < 10);
    assert_eq!(curve.full_stroke().as_millis(), 14);
    assert_eq!(curve.time(1).as_millis(), 1);
    assert_eq!(
        model.zones[0].cylinder_skew, 58,
        "a millisecond of 480 sectors"
    );
    assert_eq!(
        (model.buffer.segments, model.buffer.cache_sectors),
        (8, 4_096)
    );
    assert_eq!(model.buffer.write_segments, Some(8));
}

#[test]
fn any_number_of_write_segments_shares_the_buffer() {
    let builder = Builder::new("ibm-dnes").expect("it is in the catalogue");
    let builder = builder.option("wsegments", "any").expect("it is a value");
    let buffer = builder.model().expect("it is a hard disk").buffer;
    assert_eq!(buffer.write_segments, None);
    assert_eq!(
        buffer.cache_sectors,
        buffer.segments * buffer.segment_sectors
    );
}

#[test]
fn mistakes_are_named() {
    let check = |name: &str, key: &str, value: &str, message: &str| {
        let result = Builder::new(name).and_then(|builder| builder.option(key, value));
        let error = result.err().expect("it is a mistake").to_string();
        assert!(error.contains(message), "{error}");
    };
    check(
        "atlas-6",
        "",
        "",
        "no simulated device is called atlas-6; there are atlas-v-9",
    );
    check(
        "atlas-iii",
        "color",
        "red",
        "atlas-iii has no option color; it takes wcache",
    );
    check(
        "atlas-iii",
        "wcache",
        "maybe",
        "wcache=maybe: expected on or off",
    );
    check(
        "atlas-iii",
        "seek",
        "6",
        "the seek curve of this drive was measured",
    );
    check(
        "atlas-v-18",
        "seek",
        "0.5",
        "not 0.8 ms to the next track, 0.5 ms",
    );
    check("atlas-v-18", "seek", "fast", "milliseconds such as 6.9");
    check("atlas-v-18", "seek", "NaN", "a curve that rises");
    check("atlas-v-18", "stroke", "6", "a curve that rises");
    check("atlas-v-18", "stroke", "101", "up to 100 ms");
    check("atlas-v-18", "track", "-1", "a curve that rises");
    check("atlas-v-18", "buffer", "4KiB", "262144 to");
    check("atlas-v-18", "wsegments", "17", "1 to 16, or any");
    check("atlas-v-18", "tcq", "300", "1 to 256");
    check(
        "atlas-v-18",
        "reorder",
        "elevator",
        "sptf, sstf, clook or fifo",
    );
    check(
        "atlas-v-18",
        "destage",
        "ascending",
        "sptf, sstf, clook or fifo",
    );
    check("atlas-v-18", "window", "0", "1 to 256");
    check("atlas-v-18", "age", "1", "a time such as 800ms");
    check("atlas-v-18", "requests", "31", "32 to 65536");
    check("atlas-v-18", "requests", "many", "such as 512MiB");
    check("atlas-v-18", "bomb", "-1", "segments such as 6");
    check("atlas-v-18", "capacity", "19GB", "4096 to");
    check("nvram", "latency", "10", "a time such as 10us");
    check("nvram", "wcache", "off", "nvram has no option wcache");
    check("ramdisk", "latency", "1us", "ramdisk has no option latency");
}

#[test]
fn the_real_world_and_missing_sizes_are_refused() {
    let refused = open("atlas-v-18", &[]).err();
    assert_eq!(
        refused,
        Some(OpenError::NotSimulated {
            device: "sim:atlas-v-18".to_owned()
        })
    );
    let report = sim::run(sim::Config::fair(1), || {
        let refused = open("nvram", &[]).err();
        assert_eq!(
            refused,
            Some(OpenError::NoCapacity {
                device: "sim:nvram".to_owned()
            })
        );
        let small: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 20));
        let builder = Builder::new("atlas-v-18")
            .expect("it is in the catalogue")
            .store(small);
        assert!(matches!(
            builder.open(),
            Err(OpenError::StoreTooSmall { .. })
        ));
    });
    report.expect("nothing goes wrong");
}

#[test]
fn device_texts_lead_here() {
    let report = sim::run(sim::Config::fair(1), || {
        let texts = [
            "sim:atlas-v-18",
            "sim(barracuda,wcache=off,elevator=deadline)",
            "nvram:128MiB",
            "sim(pmem,capacity=1GiB)",
            "sim(nvme,capacity=1GiB,plp=off)",
            "bbu(sim:atlas-v-18)",
            "bbu(raid5(sim:barracuda x4),cache=8MiB,latency=20us,bandwidth=1GiB,high=50,idle=5ms)",
        ];
        for text in texts {
            let text: block::DeviceText = text.parse().expect("it is a device text");
            let options = block::OpenOptions::default();
            block::text::open(&text, &options, &factory).expect("the device exists");
        }
        for (text, reason) in [
            ("sim:floppy", "no simulated device is called floppy"),
            (
                "bbu(sim:barracuda,cash=1MiB)",
                "has no option cash; it takes cache, latency",
            ),
            ("bbu(sim:barracuda,cache=100)", "at least 4096 bytes"),
            ("bbu(sim:barracuda,high=101)", "expected 1 to 100"),
            ("bbu(sim:barracuda,idle=5)", "a time such as 10us"),
        ] {
            let wrong: block::DeviceText = text.parse().expect("it is a device text");
            let refused = block::text::open(&wrong, &block::OpenOptions::default(), &factory);
            let error = refused.expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    });
    report.expect("nothing goes wrong");
}

/// Writes to both ends of a disk in turn.
fn alternate(texts: [&'static str; 2]) -> (rt::Nanos, Vec<DriveStats>) {
    let report = sim::run(sim::Config::fair(1), move || {
        let made = RefCell::new(Vec::new());
        let factory = |wanted: Simulated<'_>| {
            let device = make(wanted)?;
            made.borrow_mut().push(Arc::clone(&device));
            Ok(device as _)
        };
        let mut disks = SharedDisks::default();
        let devices = texts.map(|text| {
            let text = text.parse().expect("it is a device text");
            let device = disks.open(&text, &block::OpenOptions::default(), &factory);
            device.expect("the device exists")
        });
        let start = rt::monotonic();
        for block in 0..50 {
            for device in &devices {
                let written =
                    device.write_blocks(block * 4096, vec![Block::zeroed(4096).into_arc()]);
                written.expect("the disk works");
            }
        }
        let disks = made.into_inner();
        let drives = disks.iter().map(|disk| disk.stats().drive).collect();
        (rt::monotonic().saturating_sub(start), drives)
    });
    report.expect("nothing goes wrong").value
}

/// A full stroke of the arm takes more than a turn of the platters.
#[test]
fn partitions_of_a_shared_disk_share_its_arm() {
    let (alone, two) = alternate([
        "slice(sim(atlas-v-18,wcache=off),0..1GiB)",
        "slice(sim(atlas-v-18,wcache=off),16GiB..17GiB)",
    ]);
    let (together, one) = alternate([
        "slice(disk(sim(atlas-v-18,wcache=off)),0..1GiB)",
        "slice(disk(sim(atlas-v-18,wcache=off)),16GiB..17GiB)",
    ]);
    assert_eq!((two.len(), one.len()), (2, 1));
    assert!(two.iter().all(|drive| drive.seeks <= 2), "{two:?}");
    assert!(one[0].seeks >= 99, "{one:?}");
    let (turn, stroke) = (8_400_000, 9_000_000);
    assert!(alone.get() < 101 * turn, "{alone}");
    assert!(together.get() > 99 * stroke, "{together}");
}
