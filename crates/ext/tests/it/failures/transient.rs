//! Devices that fail for a moment, and devices whose writes all fail: the order of data and commit
//! holds, and calls end.

use std::sync::Arc;

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::{DataMode, Memory};
use ext::volume::{NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use layout::InodeNr;

use super::OnDemand;
use crate::damage::assert_notices;
use crate::rig::{Place, Rig, device, quiet};

/// Options under which a write reaches the device before it returns.
fn written_at_once(abort_on_data_error: bool) -> MountOptions {
    let options = quiet(DataMode::Ordered);
    MountOptions {
        abort_on_data_error,
        memory: Memory {
            dirty_percent: 0,
            dirty_background_percent: 0,
            ..options.memory
        },
        ..options
    }
}

/// A write of ordered data fails in the background, once. The commit still waits for the data:
/// after a power cut, the new file does not expose the contents of a deleted file in its blocks.
#[test]
fn ordered_data_outlives_a_failed_background_write() {
    assert_notices("error/ordered-pin-lost", fail_in_the_background);
}

fn fail_in_the_background() {
    for aborts in [false, true] {
        let options = written_at_once(aborts);
        let case = OnDemand::new(Place::External, Operations::WRITES, When::Nth(1), options);
        let volume = &case.volume;
        volume
            .write_file("/secret", &[b'S'; 40_960])
            .expect("write");
        volume.sync().expect("sync");
        volume.remove_file("/secret").expect("unlink");
        volume.sync().expect("sync");
        let nr = volume
            .create(InodeNr::ROOT, b"f", &NewInode::default())
            .expect("create");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        case.device.set_armed(true);
        volume.write(file, 0, &[b'F'; 40_960]).expect("write");
        assert_eq!(case.device.strikes(), 1, "the write-back failed");
        volume
            .sync_directory(InodeNr::ROOT)
            .expect("the device works again");
        let rig = case.rig.copy();
        let found = rig.open(quiet(DataMode::Ordered)).read_file("/f");
        assert!(
            found.expect("read") == [b'F'; 40_960],
            "data_err=abort is {aborts}: the blocks show another file's data"
        );
        assert!(!volume.is_read_only());
    }
}

/// The same for a write that fails while the commit waits for it, and for data truncated meanwhile.
#[test]
fn a_commit_writes_ordered_data_again() {
    let options = MountOptions {
        abort_on_data_error: true,
        ..quiet(DataMode::Ordered)
    };
    let case = OnDemand::new(Place::External, Operations::WRITES, When::Nth(1), options);
    case.volume
        .write_file("/f", &[b'F'; 40_960])
        .expect("write");
    case.device.set_armed(true);
    case.volume
        .sync_directory(InodeNr::ROOT)
        .expect("the second attempt succeeds");
    assert_eq!(case.device.strikes(), 1);
    let rig = case.rig.copy();
    let found = rig.open(quiet(DataMode::Ordered)).read_file("/f");
    assert!(found.expect("read") == [b'F'; 40_960]);
}

/// All writes fail while a file has more dirty pages than two batches hold: every call that waits
/// for them ends.
#[test]
fn calls_end_when_all_writes_fail() {
    assert!(fail_all_writes(None).is_none());
    if rt::mutant::IS_POSSIBLE {
        let mutant = Some("error/failed-pages-taken-again");
        assert!(fail_all_writes(mutant).is_some(), "a call that never ends");
    }
}

/// Returns the reason for which the run has failed, if it has.
fn fail_all_writes(mutant: Option<&'static str>) -> Option<String> {
    const BYTES: usize = 8 << 20;
    /// Number of failures, more than the calls may try. A call that would never end does so after
    /// these.
    const FAILURES: u64 = 600;
    let config = sim::Config {
        mutant,
        ..sim::Config::fair(1)
    };
    sim::run(config, || {
        let rig = Rig::new(Place::External, 1024, 16 << 20);
        let rule = |number| FaultRule {
            operations: Operations::WRITES,
            when: When::Nth(number),
            effect: Effect::Fail,
        };
        let plan = FaultPlan {
            seed: 1,
            rules: (1..=FAILURES).map(rule).collect(),
            bad_sectors: Vec::new(),
        };
        let faulty = Arc::new(FaultDevice::new(device(&rig.home), plan));
        faulty.set_armed(false);
        let home = Arc::<FaultDevice>::clone(&faulty);
        let volume = Volume::open(home, rig.log_device(), quiet(DataMode::Ordered))
            .expect("the volume opens");
        volume.write_file("/f", &vec![1; BYTES]).expect("write");
        let nr = volume.resolve("/f", true).expect("it is there");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        faulty.set_armed(true);
        volume.sync_file(file, false).expect_err("fsync");
        volume.sync_file(file, true).expect_err("fdatasync");
        volume.sync().expect_err("sync");
        volume
            .sync_directory(InodeNr::ROOT)
            .expect("data errors are the file's");
        assert!(faulty.strikes() < FAILURES, "the calls go on and on");
        faulty.set_armed(false);
        volume.sync().expect("the pages are still dirty");
        let copy = rig.copy();
        let found = copy.open(quiet(DataMode::Ordered)).read_file("/f");
        assert!(found.expect("read") == vec![1; BYTES]);
    })
    .err()
    .map(|error| error.to_string())
}
