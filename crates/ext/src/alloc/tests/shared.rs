//! The block allocator shared by threads, and by tasks in every order.

use super::*;

/// Combinations of file system and profile to test with threads.
const SHARED: [(FileSystemType, AllocationProfile); 5] = [
    (FileSystemType::Ext2, AllocationProfile::MultiBlock),
    (FileSystemType::Ext3, AllocationProfile::MultiBlock),
    (FileSystemType::Ext2, AllocationProfile::Modern),
    (FileSystemType::Ext3, AllocationProfile::Modern),
    (FileSystemType::Ext3, AllocationProfile::Ext3Linux24),
];

/// Allocates and frees from several threads. The blocks held at the end must not overlap and must
/// match the bitmaps.
fn share(volume: Volume, steps: u32) {
    const THREADS: u64 = 4;
    let before = taken_blocks(volume.core());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let core = Arc::clone(volume.core());
            rt::spawn("allocator", move || work(&core, thread, steps))
        })
        .collect();
    let mut ours = BTreeSet::new();
    for thread in threads {
        for run in thread
            .join()
            .unwrap_or_else(|_| panic!("a thread panicked"))
        {
            for block in blocks_of(run) {
                assert!(!before.contains(&block));
                assert!(ours.insert(block), "block {block} is allocated twice");
            }
        }
    }
    volume.core().wait_for_freed().expect("works");
    check_bitmaps(volume.core(), &before, &ours);
    volume.close().expect("works");
}

/// Allocates and frees at random. Returns the blocks held at the end.
fn work(core: &Core, thread: u64, steps: u32) -> Vec<Run> {
    let mut seed = thread;
    let mut runs: Vec<Run> = Vec::new();
    let window = Mutex::default();
    for _ in 0..steps {
        if next(&mut seed) % 100 < 55 {
            let goal = next(&mut seed) % core.geometry().block_count;
            match allocate(core, goal, 1 + (next(&mut seed) % 16) as u32, Some(&window)) {
                Ok(run) => runs.push(run),
                Err(Error::NoSpace) => drop(core.wait_for_freed().expect("works")),
                Err(error) => panic!("{error}"),
            }
        } else if let Some(run) = runs.pop() {
            free(core, run);
        }
    }
    core.discard_window(&window);
    runs
}

#[test]
fn threads_take_and_give_back_without_overlap() {
    for (file_system, profile) in SHARED {
        share(
            open(8 << 20, &small(file_system), with_profile(profile)),
            3000,
        );
    }
}

#[test]
fn tasks_take_and_give_back_without_overlap_in_any_order() {
    for (file_system, profile) in SHARED {
        for seed in 0..6 {
            let config = match seed % 2 {
                0 => sim::Config::random(seed),
                _ => sim::Config::pct(seed, 3),
            };
            let run = || {
                let world = move || {
                    share(
                        open(4 << 20, &small(file_system), with_profile(profile)),
                        150,
                    )
                };
                sim::run(config.clone(), world)
                    .expect("no task waits for ever")
                    .trace_hash
            };
            let hash = run();
            if seed == 0 {
                assert_eq!(run(), hash, "the same seed gives the same run");
            }
        }
    }
}
