//! The memory device: shared without copies, sparse, and used by many threads.

use std::sync::Arc;

use block::payload::payload_from_bytes;
use block::{BlockDevice, DeviceError, MemoryDevice, Payload, Request};
use layout::{Block, SectorNr};
use testkit::Random;

use crate::support::Modelled;

fn read(device: &MemoryDevice, offset: u64, count: u32, block_bytes: u32) -> Payload {
    let device: &dyn BlockDevice = device;
    device
        .read_blocks(offset, count, block_bytes)
        .expect("memory does not fail")
}

fn write(device: &MemoryDevice, offset: u64, payload: Payload) {
    let device: &dyn BlockDevice = device;
    device
        .write_blocks(offset, payload)
        .expect("memory does not fail");
}

#[test]
fn aligned_blocks_come_back_without_a_copy() {
    for block_bytes in [4096, 8192, 65_536] {
        let device = MemoryDevice::new(1 << 20);
        let payload = payload_from_bytes(&vec![1; block_bytes * 3], block_bytes);
        write(&device, 65_536, payload.clone());
        let back = read(&device, 65_536, 3, block_bytes as u32);
        for (own, theirs) in payload.iter().zip(&back) {
            assert!(Arc::ptr_eq(own, theirs), "{block_bytes}");
        }
    }
}

#[test]
fn the_device_does_not_see_later_changes_of_what_was_written() {
    let device = MemoryDevice::new(1 << 20);
    let mut block = Block::zeroed(4096).into_arc();
    write(&device, 0, vec![Arc::clone(&block)]);
    Arc::make_mut(&mut block)[0] = 1;
    assert_eq!(read(&device, 0, 1, 4096)[0][0], 0);
    let mut back = read(&device, 0, 1, 4096).remove(0);
    Arc::make_mut(&mut back)[0] = 2;
    assert_eq!(read(&device, 0, 1, 4096)[0][0], 0);
}

#[test]
fn small_writes_leave_the_rest_of_a_shared_page_alone() {
    let device = MemoryDevice::new(1 << 20);
    let whole = payload_from_bytes(&vec![1; 65_536], 65_536);
    write(&device, 0, whole.clone());
    write(
        &device,
        5 * 4096 + 1024,
        payload_from_bytes(&[2; 1024], 1024),
    );
    assert!(whole[0].iter().all(|byte| *byte == 1));
    let back = read(&device, 0, 1, 65_536).remove(0);
    let changed = 5 * 4096 + 1024..5 * 4096 + 2048;
    for (at, byte) in back.iter().enumerate() {
        assert_eq!(*byte, if changed.contains(&at) { 2 } else { 1 });
    }
}

#[test]
fn only_written_pages_take_memory() {
    let device = MemoryDevice::new(1 << 44);
    assert_eq!(device.populated_bytes(), 0);
    write(&device, (1 << 44) - 512, payload_from_bytes(&[1; 512], 512));
    write(&device, 1 << 30, payload_from_bytes(&[1; 8192], 4096));
    assert_eq!(device.populated_bytes(), 3 * 4096);
    assert_eq!(read(&device, 1 << 40, 2, 1 << 20)[1].len(), 1 << 20);
    assert_eq!(device.populated_bytes(), 3 * 4096);
    let discard = Request::Discard {
        sector: SectorNr::new(0),
        sectors: 1 << 30,
    };
    device
        .submit(vec![discard])
        .wait_all()
        .expect("memory does not fail");
    assert_eq!(device.populated_bytes(), 4096);
}

#[test]
fn discarded_ranges_read_as_zeroes() {
    let device = MemoryDevice::new(1 << 20);
    write(&device, 0, payload_from_bytes(&vec![1; 1 << 20], 65_536));
    let (from, to) = (3 * 512, 600 * 1024 + 512);
    let discard = Request::Discard {
        sector: SectorNr::from_byte_offset(from),
        sectors: (to - from) / 512,
    };
    device
        .submit(vec![discard])
        .wait_all()
        .expect("memory does not fail");
    for (at, byte) in device.to_bytes().iter().enumerate() {
        let is_inside = (from..to).contains(&(at as u64));
        assert_eq!(*byte, u8::from(!is_inside), "at {at}");
    }
}

#[test]
fn a_snapshot_goes_its_own_way() {
    let mut modelled = Modelled::new(Arc::new(MemoryDevice::new(1 << 20)), 1);
    let device = Arc::new(MemoryDevice::new(1 << 20));
    modelled.device = Arc::clone(&device) as _;
    (0..50).for_each(|_| modelled.step());
    let snapshot = device.snapshot();
    let then = modelled.bytes.clone();
    (0..50).for_each(|_| modelled.step());
    assert!(snapshot.to_bytes() == then);
    assert!(device.to_bytes() == modelled.bytes);
    device.restore(&snapshot);
    assert!(device.to_bytes() == then);
}

#[test]
fn requests_beyond_the_end_and_writes_to_read_only_memory_are_refused() {
    let device = MemoryDevice::new(8192).with_geometry(|geometry| geometry.is_read_only = true);
    let dynamic: &dyn BlockDevice = &device;
    let refused = dynamic.write_blocks(0, payload_from_bytes(&[1; 512], 512));
    assert_eq!(refused, Err(DeviceError::ReadOnly));
    let beyond = dynamic.read_blocks(4096, 2, 4096);
    assert_eq!(
        beyond,
        Err(DeviceError::OutOfRange {
            sector: SectorNr::new(8),
            sectors: 16
        })
    );
    assert!(dynamic.read_blocks(4096, 1, 4096).is_ok());
    let far = Request::Discard {
        sector: SectorNr::new(u64::MAX),
        sectors: 1,
    };
    assert!(matches!(
        device.submit(vec![far]).wait_all(),
        Err(DeviceError::OutOfRange { .. })
    ));
}

#[test]
fn sixteen_threads_do_not_disturb_each_other() {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let threads: Vec<_> = (0..16_u64)
        .map(|number| {
            let device = Arc::clone(&device);
            rt::spawn("writer", move || {
                let mut random = Random::new(number);
                let mut last = vec![0_u8; 1024];
                for _ in 0..3000 {
                    // Sectors of all threads lie next to each other, in the same pages.
                    let place = random.below(1024);
                    let byte = random.next() as u8;
                    let offset = (place * 16 + number) * 512;
                    write(&device, offset, payload_from_bytes(&[byte; 512], 512));
                    last[place as usize] = byte;
                    let check = random.below(1024);
                    let block = read(&device, (check * 16 + number) * 512, 1, 512).remove(0);
                    assert!(block.iter().all(|byte| *byte == last[check as usize]));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every thread reads what it wrote");
    }
}
