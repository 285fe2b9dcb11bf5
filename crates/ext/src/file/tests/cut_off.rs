//! Truncations that a device failure interrupts, and truncations of files without links.

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{FaultDevice, FaultPlan};
use block::memory::MemoryDevice;
use layout::SectorNr;
use layout::time::InodeTime;
use rt::atomic::Ordering;

use testkit::Random;

use super::testing::{Bench, check, image};
use crate::file;
use crate::options::MountOptions;

const BLOCK_BYTES: u64 = 1024;
const FILE_BYTES: usize = 40 << 10;
const SHORT_BYTES: usize = 700;
/// Size to which the files grow afterwards.
const LONG_BYTES: u64 = 30_000;

fn volume() -> Arc<MemoryDevice> {
    image(8 << 20, &["-t", "ext3", "-b", "1024", "-J", "size=1"])
}

/// Opens a volume whose device cannot read the file's indirect block, and finds the file.
fn open_without_map(
    device: &Arc<MemoryDevice>,
) -> (Arc<FaultDevice>, Bench, Arc<crate::cache::inode::Inode>) {
    let failing = Arc::new(FaultDevice::new(device.clone(), FaultPlan::default()));
    let opened: Arc<dyn BlockDevice> = Arc::<FaultDevice>::clone(&failing);
    let bench = Bench::open(opened, MountOptions::default());
    let inode = bench.find("file");
    let map = u64::from(inode.state.read().words.to_raw()[12]);
    let sector = |block: u64| SectorNr::from_byte_offset(block * BLOCK_BYTES);
    failing.add_bad_sectors(sector(map), sector(map + 1));
    (failing, bench, inode)
}

/// Truncates a file while its indirect block cannot be read for a time. Then it is used.
fn check_after_failure(then: impl Fn(&Bench, &Arc<crate::cache::inode::Inode>), size: u64) {
    let device = volume();
    let bytes = Random::new(3).bytes(FILE_BYTES);
    let bench = Bench::open(device.clone(), MountOptions::default());
    bench.write(&bench.create("file"), 0, &bytes);
    bench.close();
    let (failing, bench, inode) = open_without_map(&device);
    assert!(file::truncate(&bench.core, &inode, SHORT_BYTES as u64).is_err());
    failing.set_armed(false);
    then(&bench, &inode);
    let mut wanted = bytes[..SHORT_BYTES].to_vec();
    wanted.resize(size as usize, 0);
    assert!(bench.read(&inode, 0, FILE_BYTES) == wanted, "to {size}");
    drop(inode);
    bench.close();
    check(&device);
}

#[test]
fn what_a_failed_truncation_left_never_shows() {
    let to = |size: u64| {
        move |bench: &Bench, inode: &Arc<_>| file::truncate(&bench.core, inode, size).unwrap()
    };
    // Closing the volume completes the truncation.
    check_after_failure(|_, _| (), SHORT_BYTES as u64);
    check_after_failure(to(SHORT_BYTES as u64), SHORT_BYTES as u64);
    check_after_failure(to(LONG_BYTES), LONG_BYTES);
    check_after_failure(
        |bench, inode| bench.write(inode, LONG_BYTES - 1, &[0]),
        LONG_BYTES,
    );
}

/// A deletion that a device failure interrupted is completed when the volume is closed.
#[test]
fn what_a_failed_deletion_left_is_deleted_at_close() {
    let device = volume();
    let bench = Bench::open(device.clone(), MountOptions::default());
    bench.write(&bench.create("file"), 0, &[1; FILE_BYTES]);
    bench.close();
    let (failing, bench, inode) = open_without_map(&device);
    bench.unlink("file");
    failing.set_armed(false);
    assert!(bench.core.orphans.lock().contains(inode.nr));
    drop(inode);
    bench.close();
    check(&device);
}

/// The file stays on the orphan list, so that it is deleted after its last use, or at the next
/// open.
#[test]
fn a_file_without_a_name_is_cut_off_and_deleted() {
    let device = volume();
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.core.inodes.pin(&inode);
    bench.write(&inode, 0, &[1; FILE_BYTES]);
    bench.unlink("file");
    file::truncate(&bench.core, &inode, SHORT_BYTES as u64).unwrap();
    bench.write(&inode, 0, &[2; SHORT_BYTES]);
    assert!(bench.core.orphans.lock().contains(inode.nr));
    bench.core.inodes.unpin(&inode);
    file::truncate::delete(&bench.core, &inode).unwrap();
    assert!(!bench.core.orphans.lock().contains(inode.nr));
    drop(inode);
    bench.close();
    check(&device);
}

/// Continuing a truncation does not change the file. Its times are those of the truncation, even if
/// the write or truncation that had to continue it fails, and when the volume is closed.
#[test]
fn going_on_with_a_truncation_keeps_its_time() {
    let device = volume();
    let bench = Bench::open(device.clone(), MountOptions::default());
    bench.write(&bench.create("file"), 0, &[1; FILE_BYTES]);
    bench.close();
    let (failing, bench, inode) = open_without_map(&device);
    assert!(file::truncate(&bench.core, &inode, SHORT_BYTES as u64).is_err());
    let long_ago = InodeTime {
        seconds: 1_000_000_000,
        nanos: 0,
    };
    {
        let mut state = inode.state.write();
        (state.mtime, state.ctime) = (long_ago, long_ago);
    }
    assert!(file::truncate(&bench.core, &inode, LONG_BYTES).is_err());
    assert_eq!(inode.state.read().mtime, long_ago);
    failing.set_armed(false);
    drop(inode);
    bench.close();
    check(&device);
    let bench = Bench::open(device, MountOptions::default());
    assert_eq!(bench.find("file").state.read().ctime, long_ago);
    bench.close();
}

/// A kernel counts its look-ups with 64 bits, and each listing of a directory is a look-up of every
/// name in it.
#[test]
fn pins_are_counted_beyond_32_bits() {
    let bench = Bench::open(volume(), MountOptions::default());
    let inode = bench.create("file");
    let inodes = &bench.core.inodes;
    inode.pins.store(u32::MAX.into(), Ordering::Relaxed);
    inodes.pin(&inode);
    assert!(inodes.is_pinned(&inode));
    assert!(!inodes.unpin_many(&inode, u32::MAX.into()));
    assert!(inodes.is_pinned(&inode));
    assert!(inodes.unpin_many(&inode, 1));
    drop(inode);
    bench.close();
}
