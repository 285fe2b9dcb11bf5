//! Metadata that leaves the cache in the middle of an operation: the operation holds the blocks
//! that it will still change, because reading them again can fail after something has been changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use block::memory::MemoryDevice;
use block::{BlockDevice, DeviceError, Geometry, Request, Ticket};
use rt::Mutex;

use super::testing::{Bench, assert_notices, check, image};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::file;
use crate::options::MountOptions;

const BLOCK_BYTES: u64 = 1024;
/// The first block of a file below the double indirect block, and the number of blocks below each
/// indirect block.
const DOUBLE: u64 = 12 + WIDTH;
const WIDTH: u64 = 256;

/// A device with memory pressure: each time it reads, all clean buffers leave the cache. It reads
/// nothing twice.
struct Forgetful {
    inner: Arc<MemoryDevice>,
    /// The volume under memory pressure; none until the test starts.
    core: Mutex<Weak<Core>>,
    read: Mutex<BTreeSet<u64>>,
}

impl BlockDevice for Forgetful {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let Some(core) = self.core.lock().upgrade() else {
            return self.inner.submit(batch);
        };
        for request in &batch {
            let Request::Read { sector, blocks, .. } = request else {
                continue;
            };
            core.buffers.shrink(0);
            if !self.read.lock().insert(sector.get()) {
                let error = DeviceError::Failed {
                    operation: "second read",
                    sector: *sector,
                    sectors: u64::from(*blocks),
                    device: self.name(),
                    cause: "once is enough".to_owned(),
                };
                return Ticket::ready(batch.iter().map(|_| Err(error.clone())).collect());
            }
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        "forgetful".to_owned()
    }
}

/// Returns a volume with a file of `blocks` blocks below the double indirect block, of which only
/// the inode is in memory. From then on the volume is under memory pressure.
fn with_file(blocks: u64) -> (Arc<Forgetful>, Bench, Arc<Inode>) {
    let inner = image(16 << 20, &["-t", "ext3", "-b", "1024"]);
    let bench = Bench::open(inner.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.write(
        &inode,
        DOUBLE * BLOCK_BYTES,
        &vec![7; (blocks * BLOCK_BYTES) as usize],
    );
    bench.close();
    let device = Arc::new(Forgetful {
        inner,
        core: Mutex::default(),
        read: Mutex::default(),
    });
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.find("file");
    *device.core.lock() = Arc::downgrade(&bench.core);
    (device, bench, inode)
}

fn end(device: &Forgetful, bench: Bench) {
    *device.core.lock() = Weak::new();
    bench.close();
    check(&device.inner);
}

#[test]
fn a_map_block_whose_pointers_are_freed_is_held() {
    assert_notices("truncate/map-block-not-held", || {
        let (device, bench, inode) = with_file(4 * WIDTH);
        let size = (DOUBLE + WIDTH) * BLOCK_BYTES;
        let cut = file::truncate(&bench.core, &inode, size);
        end(&device, bench);
        cut.unwrap();
    });
}

#[test]
fn a_map_block_that_gets_a_pointer_is_held() {
    assert_notices("map/parent-not-held", || {
        let (device, bench, inode) = with_file(WIDTH);
        let options = file::WriteOptions::default();
        let offset = (DOUBLE + WIDTH) * BLOCK_BYTES;
        let written = file::write(&bench.core, &inode, offset, &[8; 3000], options);
        end(&device, bench);
        assert_eq!(written.unwrap(), 3000);
    });
}
