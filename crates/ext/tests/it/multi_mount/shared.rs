//! A device of several machines, each with a cache of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, DeviceError, Geometry, MemoryDevice, Request, Ticket};
use ext::Volume;
use ext::options::DataMode;
use layout::Block;
use rt::{Mutex, Nanos};
use testkit::Loop;

use super::{LONG_WAIT, NODE, SEQUENCE, in_use, in_world, kernel_image, poke, rig, seconds, state};
use crate::image::look_at;
use crate::rig::{Place, device, quiet};

const SECTOR: u64 = 512;

/// The page cache of one machine: writes pass through, reads come from it if it has them.
struct Cached {
    inner: Arc<dyn BlockDevice>,
    sectors: Mutex<BTreeMap<u64, Arc<Block>>>, // [cached] leaf
}

impl Cached {
    fn new(memory: &Arc<MemoryDevice>) -> Arc<Self> {
        Arc::new(Self {
            inner: device(memory),
            sectors: Mutex::default(),
        })
    }

    fn keep(&self, from: u64, sectors: u64) {
        for sector in from..from + sectors {
            let block = self.inner.read_block(sector * SECTOR, SECTOR as u32);
            let block = block.expect("memory");
            self.sectors.lock().insert(sector, block);
        }
    }
}

impl BlockDevice for Cached {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let memory = Arc::new(MemoryDevice::new(self.geometry().size_bytes));
        let answers: Vec<Ticket> = batch
            .into_iter()
            .map(|request| {
                let (sector, sectors) = request.range();
                if !matches!(request, Request::Read { .. }) {
                    let ticket = self.inner.submit(vec![request]);
                    self.keep(sector.get(), sectors);
                    return ticket;
                }
                for at in sector.get()..sector.get() + sectors {
                    let is_held = self.sectors.lock().contains_key(&at);
                    if !is_held {
                        self.keep(at, 1);
                    }
                    let block = Arc::clone(&self.sectors.lock()[&at]);
                    device(&memory)
                        .write_blocks(at * SECTOR, vec![block])
                        .expect("memory");
                }
                memory.submit(vec![request])
            })
            .collect();
        Ticket::joined(answers, |parts| parts.into_iter().flatten().collect())
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        self.inner.read_fresh(byte_offset, block_bytes)
    }

    fn drop_cached(&self) {
        self.sectors.lock().clear();
    }
}

fn open(device: &Arc<Cached>) -> Result<Volume, ext::Error> {
    let device: Arc<dyn BlockDevice> = Arc::<Cached>::clone(device);
    Volume::open(device, None, quiet(DataMode::Ordered))
}

#[test]
fn the_block_is_read_past_the_cache() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp");
        let (one, two) = (Cached::new(&rig.home), Cached::new(&rig.home));
        // Each has read everything when the volume was empty and released.
        one.keep(0, rig.home.geometry().size_bytes / SECTOR);
        two.keep(0, rig.home.geometry().size_bytes / SECTOR);
        let volume = open(&one).expect("it is released");
        volume.create_directory("/d").expect("mkdir");
        rt::sleep(Nanos::from_secs(60));
        let start = seconds();
        in_use(open(&two));
        assert_eq!(seconds() - start, LONG_WAIT);
        volume.close().expect("close");
        assert!(state(&rig.home).is_clean());
        let volume = open(&two).expect("it is released");
        volume.resolve("/d", false).expect("the other has made it");
        poke(&rig.home, SEQUENCE, &[1, 2, 3, 4]);
        poke(&rig.home, NODE, b"thief\0");
        rt::sleep(Nanos::from_secs(6));
        assert!(volume.is_read_only());
    });
}

/// Two loop devices on one image: the kernel has a page cache for each, as two machines have.
#[test]
fn two_block_devices_do_not_share_their_caches() {
    let Some(image) = kernel_image("metadata_csum") else {
        return;
    };
    let (one, two) = (Loop::attach(&image.path), Loop::attach(&image.path));
    let (first, second) = (look_at(one.path().as_ref()), look_at(two.path().as_ref()));
    let look = |device: &Arc<dyn BlockDevice>| {
        let blocks = (device.geometry().size_bytes / 4096) as u32;
        device.read_blocks(0, blocks, 4096).expect("it is read");
    };
    look(&first);
    look(&second);
    let volume = Volume::open(first, None, quiet(DataMode::Ordered)).expect("it is released");
    volume.create_directory("/d").expect("mkdir");
    in_use(Volume::open(
        Arc::clone(&second),
        None,
        quiet(DataMode::Ordered),
    ));
    volume.close().expect("close");
    let volume = Volume::open(second, None, quiet(DataMode::Ordered)).expect("it is released");
    volume.resolve("/d", false).expect("the other has made it");
    volume.close().expect("close");
}

/// A device that notes, at each write of the superblock, if the label is there and what the block
/// of the protection says; nothing while there is none.
pub struct Watched {
    inner: Arc<dyn BlockDevice>,
    memory: Arc<MemoryDevice>,
    seen: Mutex<Vec<(bool, u32)>>, // [watched] leaf
}

impl Watched {
    pub fn new(memory: &Arc<MemoryDevice>) -> Self {
        Self {
            inner: device(memory),
            memory: Arc::clone(memory),
            seen: Mutex::default(),
        }
    }

    pub fn seen(&self) -> Vec<(bool, u32)> {
        self.seen.lock().clone()
    }
}

impl BlockDevice for Watched {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        for request in &batch {
            if let Request::Write {
                sector, payload, ..
            } = request
                && sector.byte_offset() == 1024
            {
                let is_labelled = payload[0][0x78] != 0;
                let found = ext::multi_mount::status(&device(&self.memory)).expect("it is sound");
                let sequence = found.map_or(0, |status| status.sequence);
                self.seen.lock().push((is_labelled, sequence));
            }
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}
