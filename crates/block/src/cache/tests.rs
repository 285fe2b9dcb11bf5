//! Tests of the volatile cache.

use super::*;
use crate::memory::MemoryDevice;
use crate::meter::MeterDevice;
use crate::payload::payload_from_bytes;

const SIZE: u64 = 64 * 512;

fn device(capacity: u64) -> (Arc<MemoryDevice>, CacheDevice) {
    let memory = Arc::new(MemoryDevice::new(SIZE));
    (Arc::clone(&memory), CacheDevice::new(memory, capacity))
}

fn write(cache: &CacheDevice, sector: u64, sectors: usize, byte: u8, force_unit_access: bool) {
    let payload = payload_from_bytes(&vec![byte; sectors * 512], 512);
    let request = Request::Write {
        sector: SectorNr::new(sector),
        payload,
        force_unit_access,
    };
    cache
        .submit(vec![request])
        .wait_all()
        .expect("memory does not fail");
}

fn firsts(memory: &MemoryDevice) -> Vec<u8> {
    memory
        .to_bytes()
        .chunks(512)
        .map(|sector| sector[0])
        .collect()
}

#[test]
fn writes_stay_until_a_flush() {
    let (memory, cache) = device(SIZE);
    write(&cache, 0, 2, 1, false);
    write(&cache, 1, 2, 2, false);
    assert_eq!(firsts(&memory)[..4], [0, 0, 0, 0]);
    let device: &dyn BlockDevice = &cache;
    let read = device
        .read_blocks(0, 2, 1024)
        .expect("memory does not fail");
    assert_eq!(
        (read[0][0], read[0][512], read[1][0], read[1][512]),
        (1, 2, 2, 0)
    );
    let counts: Vec<usize> = cache
        .unflushed()
        .iter()
        .map(|(_, list)| list.len())
        .collect();
    assert_eq!(counts, [1, 2, 1]);
    device.flush().expect("memory does not fail");
    assert!(cache.unflushed().is_empty());
    assert_eq!(firsts(&memory)[..4], [1, 2, 2, 0]);
}

#[test]
fn a_forced_write_is_durable_alone() {
    let (memory, cache) = device(SIZE);
    write(&cache, 0, 2, 1, false);
    write(&cache, 1, 1, 2, true);
    assert_eq!(firsts(&memory)[..3], [0, 2, 0]);
    assert_eq!(cache.unflushed().count(), 1);
}

#[test]
fn a_full_cache_evicts_and_reads_stay_right() {
    let (memory, cache) = device(8 * 512);
    for round in 1..4 {
        for sector in 0..64 {
            write(&cache, sector, 1, round * 64 + sector as u8, false);
            assert!(cache.unflushed().count() <= 8);
        }
    }
    let device: &dyn BlockDevice = &cache;
    for sector in 0..64 {
        let block = device
            .read_block(sector * 512, 512)
            .expect("memory does not fail");
        assert_eq!(u64::from(block[0]), 192 + sector);
    }
    assert!(firsts(&memory).iter().any(|byte| *byte != 0));
}

#[test]
fn after_a_cut_everything_is_gone() {
    let (_, cache) = device(SIZE);
    write(&cache, 0, 1, 1, false);
    cache.cut();
    let device: &dyn BlockDevice = &cache;
    assert_eq!(device.flush(), Err(DeviceError::Gone));
    assert_eq!(device.read_block(0, 512), Err(DeviceError::Gone));
}

#[test]
fn a_power_cut_leaves_any_unflushed_version_of_each_sector() {
    let mut seen = vec![std::collections::BTreeSet::new(); 4];
    for seed in 0..64 {
        let (memory, cache) = device(SIZE);
        write(&cache, 0, 4, 1, false);
        (&cache as &dyn BlockDevice)
            .flush()
            .expect("memory does not fail");
        write(&cache, 0, 2, 2, false);
        write(&cache, 0, 1, 3, false);
        write(&cache, 3, 1, 4, true);
        cache.power_cut(seed).expect("memory does not fail");
        for (sector, byte) in firsts(&memory)[..4].iter().enumerate() {
            seen[sector].insert(*byte);
        }
    }
    let seen: Vec<Vec<u8>> = seen
        .into_iter()
        .map(|set| set.into_iter().collect())
        .collect();
    assert_eq!(seen, [vec![1, 2, 3], vec![1, 2], vec![1], vec![4]]);
}

#[test]
fn large_sectors_are_kept_whole() {
    for seed in 0..32 {
        let memory = MemoryDevice::new(SIZE).with_geometry(|geometry| geometry.sector_bytes = 4096);
        let memory = Arc::new(memory);
        let cache = CacheDevice::new(Arc::clone(&memory) as _, SIZE);
        write(&cache, 0, 16, 1, false);
        write(&cache, 0, 16, 2, false);
        cache.power_cut(seed).expect("memory does not fail");
        for unit in firsts(&memory)[..16].chunks(8) {
            assert!(unit.iter().all(|byte| *byte == unit[0]), "{unit:?}");
        }
    }
}

#[test]
fn a_flush_writes_neighbours_together() {
    let memory = Arc::new(MemoryDevice::new(SIZE));
    let meter = Arc::new(MeterDevice::new(memory));
    let cache = CacheDevice::new(Arc::clone(&meter) as _, SIZE);
    for sector in [3, 1, 2, 9] {
        write(&cache, sector, 1, 1, false);
    }
    (&cache as &dyn BlockDevice)
        .flush()
        .expect("memory does not fail");
    let counts = meter.counts();
    assert_eq!(
        (counts.writes, counts.write_sectors, counts.flushes),
        (2, 4, 1)
    );
}
