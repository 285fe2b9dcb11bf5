//! Blocks that are cut from clusters which stay, while an earlier transaction cannot be committed.

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};

use ext::mkfs::FileSystemType;

use super::*;

const BLOCK: u64 = 4096;
/// Blocks of the journal, and of its device.
const LOG_BYTES: u64 = 1100 * BLOCK;

/// Makes a volume with clusters of four blocks and its journal on a device of its own.
fn with_journal(home: &Arc<MemoryDevice>, log: &Arc<MemoryDevice>) {
    mkfs::format_journal_device(&device(log), BLOCK as u32, [7; 16]).expect("the journal is made");
    let options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        features: FeatureEdits::parse("bigalloc").expect("a feature"),
        block_bytes: Some(BLOCK as u32),
        cluster_bytes: Some(4 * BLOCK as u32),
        ..mkfs::Options::default()
    };
    mkfs::format_with_journal(&device(home), &device(log), &options).expect("the volume is made");
}

/// Returns a device whose writes all fail while it is armed, which it is not yet.
fn failing(memory: &Arc<MemoryDevice>, effect: Effect) -> Arc<FaultDevice> {
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::Always,
        effect,
    };
    let plan = FaultPlan {
        seed: 1,
        rules: vec![rule],
        bad_sectors: Vec::new(),
    };
    let failing = Arc::new(FaultDevice::new(device(memory), plan));
    failing.set_armed(false);
    failing
}

/// Cuts the second of four blocks, whose transaction waits for room for the log, and writes it
/// again. Returns the first byte of that block after all is written. The home device fails during
/// the cut if `fails` is true.
fn cut_and_write(fails: bool, cut: fn(&Volume, InodeNr) -> Result<()>) -> u8 {
    let [home, log] = [32 * MIB, LOG_BYTES].map(|bytes| Arc::new(MemoryDevice::new(bytes)));
    with_journal(&home, &log);
    let broken = failing(&home, Effect::Fail);
    let full = failing(&log, Effect::NoSpace);
    let front = Arc::<FaultDevice>::clone(&full);
    let back = Arc::<FaultDevice>::clone(&broken);
    let options = MountOptions {
        delayed_allocation: false,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(back, Some(front), options).expect("the volume opens");
    let nr = volume
        .create(InodeNr::ROOT, b"f", &NewInode::default())
        .expect("create");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    let old = [b'a'; 4 * BLOCK as usize];
    volume.write_all(file, 0, &old).expect("write");
    full.set_armed(true);
    let held = volume.sync_directory(InodeNr::ROOT);
    assert!(held.is_err_and(|error| error.is_device_full()));
    broken.set_armed(fails);
    let done = cut(&volume, nr);
    broken.set_armed(false);
    assert_eq!(done.is_err(), fails, "{done:?}");
    volume
        .write_all(file, BLOCK, &[b'b'; BLOCK as usize])
        .expect("write");
    let held = volume.sync_file(file, false);
    // The error of the write that failed comes first.
    assert!(held.is_err_and(|error| fails || error.is_device_full()));
    full.set_armed(false);
    volume.sync_file(file, false).expect("there is room again");
    let [home, log] = [&home, &log].map(|memory| Arc::new(memory.snapshot()));
    let found = Volume::open(device(&home), Some(device(&log)), quiet(DataMode::Ordered));
    let found = found.expect("the copy opens");
    found.read_file("/f").expect("read")[BLOCK as usize]
}

fn punch(volume: &Volume, nr: InodeNr) -> Result<()> {
    volume.change_range(nr, BLOCK, BLOCK, RangeChange::PunchHole, true)
}

fn truncate(volume: &Volume, nr: InodeNr) -> Result<()> {
    let changes = ext::volume::SetAttributes {
        size: Some(BLOCK),
        ..Default::default()
    };
    volume.set_attributes(nr, &changes).map(drop)
}

#[test]
fn an_older_image_does_not_go_over_newer_data() {
    assert_notices("clusters/cut-pages-not-written", || {
        for cut in [punch, truncate] {
            let found = cut_and_write(false, cut);
            assert_eq!(found, b'b', "the data that was synced last");
        }
    });
}

/// The page that is cut cannot be written, so that the earlier transaction still owes it.
#[test]
fn a_page_that_cannot_be_written_is_not_cut_while_a_commit_waits_for_it() {
    for cut in [punch, truncate] {
        let found = cut_and_write(true, cut);
        assert_eq!(found, b'b', "the data that was synced last");
    }
}
