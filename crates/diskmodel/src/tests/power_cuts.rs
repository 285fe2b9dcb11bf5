//! Contents after a power cut: what was acknowledged from a volatile cache may be gone, what was
//! flushed is there.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, Request};
use layout::{Block, SectorNr};
use rt::Nanos;

use crate::{Builder, SimulatedDevice};

const BLOCK: u64 = 4096;

/// A disk, and the store of its contents.
struct Disk {
    device: Arc<dyn SimulatedDevice>,
    store: Arc<MemoryDevice>,
}

impl Disk {
    fn new(write_cache: bool) -> Self {
        // The write cache of this drive has several segments: no write waits for the one before.
        let builder = Builder::new("cheetah9lp").expect("it is in the catalogue");
        let size_bytes = builder.size_bytes().expect("a disk has a size");
        let store = Arc::new(MemoryDevice::new(size_bytes));
        let builder = builder.write_cache(write_cache).keeps_overwritten();
        let device = builder.store(Arc::<MemoryDevice>::clone(&store)).open();
        Self {
            device: device.expect("the store is large enough"),
            store,
        }
    }

    fn write(&self, block: u64, byte: u8, force_unit_access: bool) -> block::Ticket {
        self.device.submit(vec![Request::Write {
            sector: SectorNr::from_byte_offset(block * BLOCK),
            payload: vec![Block::copy_from(&[byte; BLOCK as usize]).into_arc()],
            force_unit_access,
        }])
    }

    fn put(&self, block: u64, byte: u8) {
        self.write(block, byte, false).wait_all().expect("it works");
    }

    fn flush(&self) {
        let device: &dyn BlockDevice = &*self.device;
        device.flush().expect("it works");
    }

    /// Returns the first byte of each sector of a block after a power cut now.
    fn found(&self, block: u64) -> [u8; 8] {
        let image = self.store.snapshot();
        let lost = self.device.lost_by_power_cut().expect("a disk knows");
        let image: &dyn BlockDevice = &image;
        for (sector, old) in lost {
            image
                .write_blocks(sector.byte_offset(), vec![old])
                .expect("it is memory");
        }
        let block = image
            .read_block(block * BLOCK, BLOCK as u32)
            .expect("it is memory");
        core::array::from_fn(|sector| block[sector * 512])
    }
}

fn in_world(seed: u64, body: impl FnOnce() + Send + 'static) {
    let report = sim::run(sim::Config::fair(seed), body);
    report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn a_volatile_cache_loses_what_it_has_not_destaged() {
    in_world(0, || {
        let disk = Disk::new(true);
        disk.put(7, 1);
        assert_eq!(disk.found(7), [0; 8], "it is in the cache only");
        disk.flush();
        assert_eq!(disk.found(7), [1; 8]);
        disk.put(7, 2);
        disk.put(7, 3);
        assert_eq!(disk.found(7), [1; 8]);
        rt::sleep(Nanos::from_secs(1));
        assert_eq!(disk.found(7), [3; 8], "an idle drive destages");
        disk.put(7, 4);
        disk.write(7, 5, true).wait_all().expect("it works");
        assert_eq!(disk.found(7), [5; 8], "a forced write is on the platters");
    });
}

#[test]
fn without_a_cache_nothing_acknowledged_is_lost() {
    in_world(0, || {
        let disk = Disk::new(false);
        disk.put(7, 1);
        assert_eq!(disk.found(7), [1; 8]);
        let under_way = disk.write(7, 2, false);
        assert_eq!(disk.found(7), [1; 8], "it has not been acknowledged");
        under_way.wait_all().expect("it works");
        assert_eq!(disk.found(7), [2; 8]);
    });
}

/// Numbered writes to a few blocks, with flushes and pauses, and power cuts in between: each block
/// has a number that was written, and none older than at the last flush.
#[test]
fn what_was_flushed_is_never_lost() {
    for seed in 0..10 {
        in_world(seed, || {
            const BLOCKS: u64 = 5;
            let disk = Disk::new(true);
            let mut newest = [0_u8; BLOCKS as usize];
            let mut flushed = newest;
            for round in 1..=120 {
                let at = rt::random_u64() % BLOCKS;
                let is_through = rt::random_u64().is_multiple_of(8);
                // Neighbours share extents of the cache, strangers do not.
                let place = |at: u64| at % 3 + at / 3 * 100_000;
                disk.write(place(at), round, is_through)
                    .wait_all()
                    .expect("it works");
                newest[at as usize] = round;
                if is_through {
                    flushed[at as usize] = round;
                }
                match rt::random_u64() % 6 {
                    0 => {
                        disk.flush();
                        flushed = newest;
                    }
                    1 | 2 => rt::sleep(Nanos::from_micros(rt::random_u64() % 20_000)),
                    _ => {}
                }
                for at in 0..BLOCKS {
                    let index = at as usize;
                    for sector in disk.found(place(at)) {
                        let range = flushed[index]..=newest[index];
                        assert!(
                            range.contains(&sector),
                            "{at}: {sector} is not in {range:?}"
                        );
                    }
                }
            }
        });
    }
}
