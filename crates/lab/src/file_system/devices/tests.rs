//! Counts of a file system's and a journal's device.

use layout::Block;

use super::*;

/// The readings of a file system and a journal after each wrote a number of blocks.
fn written(home: &'static str, log: &'static str) -> (Reading, Reading) {
    let report = sim::run(sim::Config::fair(1), move || {
        let mut maker = DeviceMaker::default();
        let mut open = |text: &str| {
            let text = text.parse().expect("a device text");
            maker.open(&text).expect("a device")
        };
        let (mut log, home) = (open(log), open(home));
        log.leave_out(&home);
        for (counted, count) in [(&home, 3), (&log, 5)] {
            for block in 0..count {
                let device: &dyn BlockDevice = &*counted.device;
                let blocks = vec![Block::zeroed(4096).into_arc()];
                device.write_blocks(block * 8192, blocks).expect("it works");
            }
        }
        (home.read(), log.read())
    });
    report.expect("nothing goes wrong").value
}

fn accesses(reading: &Reading) -> Option<u64> {
    reading.disk.as_ref().map(|disk| disk.drive.accesses)
}

#[test]
fn a_shared_disk_is_counted_once() {
    let (home, log) = written(
        "slice(disk(sim(atlas-v-18,wcache=off)),0..1MiB)",
        "slice(disk(sim(atlas-v-18,wcache=off)),1MiB..2MiB)",
    );
    assert_eq!((home.requests.writes, log.requests.writes), (3, 5));
    assert_eq!((accesses(&home), accesses(&log)), (Some(8), None));
    let (home, log) = written(
        "slice(sim(atlas-v-18,wcache=off),0..1MiB)",
        "slice(sim(atlas-v-18,wcache=off),1MiB..2MiB)",
    );
    assert_eq!((accesses(&home), accesses(&log)), (Some(3), Some(5)));
}

#[test]
fn a_disk_beside_a_shared_one_is_counted_for_its_own_device() {
    let (home, log) = written(
        "slice(disk(sim(atlas-v-18,wcache=off)),0..1MiB)",
        "raid1(slice(disk(sim(atlas-v-18,wcache=off)),1MiB..2MiB),sim(atlas-v-18,wcache=off))",
    );
    assert_eq!((accesses(&home), accesses(&log)), (Some(8), Some(5)));
}

#[test]
fn a_shared_controller_is_counted_once() {
    let (home, log) = written(
        "slice(disk(bbu(disk(sim:atlas-v-18))),0..1MiB)",
        "slice(disk(bbu(disk(sim:atlas-v-18))),1MiB..2MiB)",
    );
    assert!(home.controller.is_some() && home.disk.is_some());
    assert!(log.controller.is_none() && log.disk.is_none());
    let (home, log) = written("bbu(sim:atlas-v-18)", "sim:atlas-v-18");
    assert!(home.controller.is_some() && log.controller.is_none());
}
