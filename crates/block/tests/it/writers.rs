//! Arrays that many threads write to, while members leave.

use std::sync::Arc;

use block::fault::Effect;
use block::payload::payload_from_bytes;
use block::raid::ParityDevice;
use block::{
    BlockDevice, FaultDevice, Geometry, MemoryDevice, RaidLevel, Request, Results, Ticket, Work,
};
use layout::SectorNr;
use testkit::Random;

use crate::arrays::fails_write;

/// A device that executes requests only when they are waited for.
struct LazyDevice(Arc<MemoryDevice>);

impl LazyDevice {
    fn new(size: u64) -> Self {
        Self(Arc::new(MemoryDevice::new(size)))
    }
}

impl BlockDevice for LazyDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        Ticket::for_work(Arc::new(LateWork {
            memory: Arc::clone(&self.0),
            batch,
        }))
    }

    fn name(&self) -> String {
        "lazy".to_owned()
    }
}

struct LateWork {
    memory: Arc<MemoryDevice>,
    batch: Vec<Request>,
}

impl Work for LateWork {
    fn is_ready(&self) -> bool {
        false
    }

    fn wait(&self) -> Results {
        self.memory.submit(self.batch.clone()).wait()
    }

    fn abandon(&self) {
        self.wait();
    }
}

/// Threads write to different sectors of the same stripes, and members leave meanwhile: every
/// sector has what was written last, and without a loss data and parities agree.
#[test]
fn parity_is_right_while_many_threads_write_to_the_same_stripes() {
    for (level, failing) in [(RaidLevel::Raid5, 1), (RaidLevel::Raid6, 2)] {
        many_threads_write(level, &[]);
        for nth in [1, 20, 300] {
            let all = [(1, nth), (3, nth + 7)];
            many_threads_write(level, &all[..failing]);
        }
    }
}

/// Writes to an array on five members, some of which fail their n-th write.
fn many_threads_write(level: RaidLevel, failing: &[(usize, u64)]) {
    let member = |number| -> Arc<dyn BlockDevice> {
        let lazy = Arc::new(LazyDevice::new(64 * 1024));
        let fault = failing.iter().find(|(member, _)| *member == number);
        match fault {
            Some((_, nth)) => {
                let plan = fails_write(number, *nth, Effect::Fail)(number);
                Arc::new(FaultDevice::new(lazy, plan))
            }
            None => lazy,
        }
    };
    let devices = (0..5).map(member).collect();
    let array = match level {
        RaidLevel::Raid6 => ParityDevice::double(devices, 16 * 1024),
        _ => ParityDevice::new(devices, 16 * 1024),
    };
    let array = Arc::new(array.expect("an array"));
    let sectors = array.geometry().size_bytes / 512;
    let threads: Vec<_> = (0..8_u64)
        .map(|number| {
            let array = Arc::clone(&array);
            rt::spawn("writer", move || write_own_sectors(&array, number, sectors))
        })
        .collect();
    let written: Vec<Vec<u8>> = threads
        .into_iter()
        .map(|thread| thread.join().expect("it does not panic"))
        .collect();
    let expected: Vec<usize> = failing.iter().map(|(member, _)| *member).collect();
    assert_eq!(array.failed_members(), expected);
    if failing.is_empty() {
        assert_eq!(array.scrub(), Ok(vec![]));
    }
    let device: &dyn BlockDevice = &*array;
    let read = device
        .read_blocks(0, sectors as u32, 512)
        .expect("the array survives");
    for (sector, block) in read.iter().enumerate() {
        let expected = written[sector % 8][sector];
        assert!(
            block.iter().all(|byte| *byte == expected),
            "{level} {failing:?}: sector {sector}"
        );
    }
}

/// Writes sectors `n` with `n % 8 == number`, two of adjacent chunks in flight. Returns the last
/// byte of each sector.
fn write_own_sectors(array: &ParityDevice, number: u64, sectors: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut last = vec![0; sectors as usize];
    for _ in 0..150 {
        let place = random.below(sectors / 8);
        let tickets = [place, place ^ 4].map(|place| {
            let sector = place * 8 + number;
            let byte = random.next() as u8;
            last[sector as usize] = byte;
            let payload = payload_from_bytes(&[byte; 512], 512);
            let sector = SectorNr::new(sector);
            array.submit(vec![Request::Write {
                sector,
                payload,
                force_unit_access: false,
            }])
        });
        for ticket in tickets {
            ticket.wait_all().expect("memory does not fail");
        }
    }
    last
}
