//! Tests of the cache of metadata blocks.

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use block::memory::MemoryDevice;
use rt::JoinHandle;

use super::*;
use crate::disk::metadata::Kind;
use crate::disk::metadata::tests::checks;

const BYTES: u32 = 1024;
const LABEL: Label = Kind::Contents.of_volume();

fn cache(has_journal: bool) -> (Arc<MemoryDevice>, Arc<BufferCache>) {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let shared: Arc<dyn BlockDevice> = Arc::clone(&device) as Arc<dyn BlockDevice>;
    (
        device,
        Arc::new(BufferCache::new(shared, checks(BYTES), has_journal)),
    )
}

fn on_device(device: &Arc<MemoryDevice>, block: u64) -> u8 {
    let device: &dyn BlockDevice = &**device;
    device
        .read_block(block * u64::from(BYTES), BYTES)
        .expect("in range")[0]
}

#[test]
fn a_block_has_one_buffer() {
    let (_, cache) = cache(true);
    let block = BlockNr::new(5);
    assert!(cache.peek(block).is_none());
    let first = cache.get(block, LABEL).expect("in range");
    assert!(Arc::ptr_eq(
        &first,
        &cache.get(block, LABEL).expect("in memory")
    ));
    assert!(Arc::ptr_eq(&first, &cache.get_new(block, LABEL)));
    assert!(Arc::ptr_eq(
        &first,
        &cache.remove(block).expect("in memory")
    ));
    assert!(cache.peek(block).is_none());
    assert_eq!(cache.bytes(), (0, 0));
}

#[test]
fn a_failed_read_leaves_nothing_behind() {
    let (_, cache) = cache(true);
    let block = BlockNr::new(1024);
    assert!(cache.get(block, LABEL).is_err());
    assert!(cache.get(block, LABEL).is_err());
    assert!(
        cache
            .prefetch(&[(BlockNr::new(1), LABEL), (block, LABEL)])
            .is_err()
    );
    assert_eq!(cache.bytes().0, 1024);
}

#[test]
fn dirty_buffers_are_written_when_they_are_old_enough() {
    let (device, cache) = cache(false);
    // The clock may have started with this reading: until it moves, a changed buffer has the same
    // age.
    let before = rt::monotonic();
    while rt::monotonic() == before {}
    for block in [9, 3, 4, 700] {
        let buffer = cache.get(BlockNr::new(block), LABEL).expect("in range");
        cache.write_plain(&buffer)[0] = block as u8;
    }
    assert_eq!(cache.bytes(), (4096, 4096));
    assert_eq!(cache.write_back(before, 10).expect("works"), 0);
    assert_eq!(cache.write_back(rt::monotonic(), 2).expect("works"), 2);
    assert_eq!(
        (
            on_device(&device, 3),
            on_device(&device, 4),
            on_device(&device, 9)
        ),
        (3, 4, 0)
    );
    assert_eq!(cache.bytes(), (4096, 2048));
    cache
        .write_now(&[BlockNr::new(9), BlockNr::new(3), BlockNr::new(8)])
        .expect("works");
    assert_eq!((on_device(&device, 9), cache.bytes().1), (9, 1024));
    cache.remove(BlockNr::new(700));
    assert_eq!(cache.bytes(), (3072, 0));
    assert_eq!(cache.write_back(rt::monotonic(), 10).expect("works"), 0);
}

#[test]
fn a_failed_write_leaves_the_buffer_dirty() {
    let (_, cache) = cache(false);
    let buffer = cache.get_new(BlockNr::new(5000), LABEL);
    cache.write_plain(&buffer)[0] = 1;
    assert!(cache.write_back(rt::monotonic(), 10).is_err());
    assert_eq!(cache.bytes(), (1024, 1024));
    assert!(cache.write_now(&[BlockNr::new(5000)]).is_err());
    cache.remove(BlockNr::new(5000));
    assert_eq!(
        cache
            .write_back(rt::monotonic(), 10)
            .expect("nothing is dirty"),
        0
    );
}

/// A write that fails keeps no other block from being written.
#[test]
fn blocks_behind_a_failed_write_are_written() {
    let memory = Arc::new(MemoryDevice::new(4 << 20));
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::Nth(1),
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        seed: 1,
        rules: vec![rule],
        bad_sectors: Vec::new(),
    };
    let inner: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let cache = BufferCache::new(
        Arc::new(FaultDevice::new(inner, plan)),
        checks(BYTES),
        false,
    );
    // More than go to the device at a time.
    for block in (0..4000).step_by(2) {
        let buffer = cache.get_new(BlockNr::new(block), LABEL);
        cache.write_plain(&buffer)[0] = 7;
    }
    assert!(cache.write_everything().is_err());
    assert_eq!((on_device(&memory, 0), on_device(&memory, 3998)), (0, 7));
    cache.write_everything().expect("the device works again");
    assert_eq!((on_device(&memory, 0), cache.bytes().1), (7, 0));
}

#[test]
fn only_clean_buffers_without_references_are_evicted() {
    let (_, cache) = cache(false);
    let all: Vec<BlockNr> = (0..64).map(BlockNr::new).collect();
    let labelled: Vec<_> = all.iter().map(|block| (*block, LABEL)).collect();
    cache.prefetch(&labelled).expect("in range");
    assert_eq!(cache.bytes().0, 64 * 1024);
    let held = cache.get(all[7], LABEL).expect("in memory");
    cache.write_plain(&cache.get(all[8], LABEL).expect("in memory"))[0] = 1;
    cache.shrink(32 * 1024);
    assert_eq!(cache.bytes().0, 32 * 1024);
    cache.shrink(0);
    assert_eq!(cache.bytes().0, 2 * 1024);
    drop(held);
    cache.write_back(rt::monotonic(), 10).expect("works");
    cache.shrink(0);
    assert_eq!(cache.bytes(), (0, 0));
}

/// Increments bytes of the same blocks in several threads that also write and evict; no increment
/// is lost.
fn count_together(rounds: u64) {
    const THREADS: u8 = 4;
    let (device, cache) = cache(false);
    let adders: Vec<JoinHandle<()>> = (0..THREADS)
        .map(|thread| {
            let cache = Arc::clone(&cache);
            rt::spawn("adder", move || {
                for round in 0..rounds {
                    let buffer = cache
                        .get(BlockNr::new(round % 50), LABEL)
                        .expect("in range");
                    let mut bytes = cache.write_plain(&buffer);
                    let at = usize::from(thread) * 8;
                    let count = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                    bytes[at..at + 8].copy_from_slice(&(count + 1).to_le_bytes());
                    drop(bytes);
                    drop(buffer);
                    match round % 16 {
                        3 => drop(cache.write_back(rt::monotonic(), 20).expect("works")),
                        7 => cache.shrink(10 * 1024),
                        11 => cache.write_now(&[BlockNr::new(round % 50)]).expect("works"),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        assert!(adder.join().is_ok());
    }
    cache
        .write_back(rt::monotonic(), usize::MAX)
        .expect("works");
    let device: &dyn BlockDevice = &*device;
    let mut total = 0;
    for block in 0..50 {
        let bytes = device
            .read_block(block * u64::from(BYTES), BYTES)
            .expect("in range");
        total += bytes[..32]
            .chunks(8)
            .map(|count| u64::from(count[0]) + u64::from(count[1]) * 256)
            .sum::<u64>();
    }
    assert_eq!(total, u64::from(THREADS) * rounds);
}

#[test]
fn threads_that_read_change_write_and_evict_agree() {
    count_together(2000);
}

#[test]
fn tasks_that_read_change_write_and_evict_agree_in_any_order() {
    for seed in 0..20 {
        let world = move || count_together(60);
        sim::run(sim::Config::random(seed), world).expect("no task waits for ever");
    }
}

#[test]
fn a_damaged_block_stays_outside_and_one_of_another_kind_is_refused() {
    let (device, cache) = cache(true);
    let block = BlockNr::new(5);
    let directory = |nr| Kind::Directory.of_inode(layout::InodeNr::new(nr), 1);
    for _ in 0..2 {
        let Err(Refused::Damaged(damaged)) = cache.get(block, directory(12)) else {
            panic!("a block of zeroes has no entries")
        };
        assert_eq!(damaged.bad.offset, 0);
        assert!(cache.peek(block).is_none());
    }
    let shared: &dyn BlockDevice = &*device;
    let form = crate::disk::entry::BlockForm {
        size: BYTES as usize,
        has_tail: false,
    };
    let sound = crate::disk::entry::packed(form, &[]).into_arc();
    let written = shared.write_blocks(5 * u64::from(BYTES), vec![sound]);
    written.expect("in range");
    let found = cache.get(block, directory(12)).expect("it is sound");
    let other = cache.get(block, directory(13)).expect("another owner");
    assert!(Arc::ptr_eq(&found, &other));
    let indirect = Kind::Indirect.of_inode(layout::InodeNr::new(12), 1);
    for refused in [cache.get(block, indirect), cache.hold(block, indirect)] {
        assert!(matches!(refused, Err(Refused::Damaged(_))));
    }
    assert!(Arc::ptr_eq(&found, &cache.get_new(block, indirect)));
    assert!(cache.get(block, indirect).is_ok(), "it has a new owner");
}
