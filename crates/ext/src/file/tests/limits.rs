//! Space that runs out, devices that fail, and the number of device flushes.

use std::sync::Arc;

use block::fault::Operations;
use block::meter::MeterDevice;

use testkit::Random;

use super::testing::{self, Bench, check, image};
use crate::file::{self, WriteOptions};
use crate::options::MountOptions;
use crate::{Error, writeback};

#[test]
fn a_full_volume_takes_what_fits_and_gives_it_back() {
    for kind in ["ext2", "ext3", "ext4"] {
        let device = image(8 << 20, &["-t", kind, "-b", "1024"]);
        let options = MountOptions {
            privileged: true,
            ..MountOptions::default()
        };
        let bench = Bench::open(device.clone(), options);
        let inode = bench.create("big");
        let bytes = Random::new(1).bytes(100_000);
        let mut size = 0;
        loop {
            let options = WriteOptions::default();
            match file::write(&bench.core, &inode, size, &bytes, options) {
                Ok(count) => size += count as u64,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(size > 4 << 20, "{size} bytes fit");
        assert_eq!(bench.core.usage().blocks_free, 0);
        let last = bench.read(&inode, size - 1000, 2000);
        assert_eq!(last.len(), 1000);
        // Freed blocks are available at once, or after the commit that the write waits for.
        file::truncate(&bench.core, &inode, size / 2).unwrap();
        let other = bench.create("other");
        bench.write(&other, 0, &bytes);
        bench.unlink("big");
        bench.write(&other, bytes.len() as u64, &Random::new(2).bytes(3 << 20));
        bench.close();
        check(&device);
    }
}

#[test]
fn a_failed_write_is_told_and_tried_again() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let fault = testing::failing(&device, Operations::WRITES);
    let bench = Bench::open(fault.clone(), MountOptions::default());
    let inode = bench.create("file");
    let bytes = Random::new(1).bytes(50_000);
    bench.write(&inode, 0, &bytes);
    fault.set_armed(true);
    for _ in 0..2 {
        let error = writeback::sync(&bench.core, &inode, false).unwrap_err();
        assert!(matches!(error, Error::DataLost { .. }), "{error}");
    }
    assert!(inode.pages.error_count() >= 2);
    fault.set_armed(false);
    writeback::sync(&bench.core, &inode, false).unwrap();
    bench.close();
    let bench = Bench::open(device.clone(), MountOptions::default());
    assert!(bench.read(&bench.find("file"), 0, 60_000) == bytes);
    bench.close();
    check(&device);
}

#[test]
fn an_overwrite_and_fdatasync_cost_one_flush_and_no_commit() {
    let device = image(16 << 20, &["-t", "ext3", "-b", "4096"]);
    let device = Arc::new(
        Arc::try_unwrap(device)
            .unwrap_or_else(|_| unreachable!("nobody else has it"))
            .with_geometry(|geometry| geometry.has_volatile_cache = true),
    );
    let meter = Arc::new(MeterDevice::new(device));
    let bench = Bench::open(meter.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 8192]);
    writeback::sync(&bench.core, &inode, false).unwrap();
    let before = meter.counts();
    writeback::sync(&bench.core, &inode, false).unwrap();
    assert_eq!(
        meter.counts().flushes,
        before.flushes,
        "nothing has changed"
    );
    bench.write(&inode, 4096, &[2; 4096]);
    writeback::sync(&bench.core, &inode, true).unwrap();
    let after = meter.counts();
    assert_eq!(after.flushes - before.flushes, 1);
    assert_eq!(after.writes - before.writes, 1);
    writeback::sync(&bench.core, &inode, true).unwrap();
    assert_eq!(meter.counts().flushes, after.flushes);
    bench.close();
}
