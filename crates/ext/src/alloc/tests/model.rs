//! The block allocator compared with a model: the set of allocated blocks.

use super::*;

/// Allocates and frees at random, and compares with a model: the set of allocated blocks and the
/// set of blocks that are not reusable yet.
fn run_against_model(volume: Volume, seed: u64) {
    let core = Arc::clone(volume.core());
    let mut seed = seed;
    let before = taken_blocks(&core);
    let mut ours = BTreeSet::new();
    let mut pending: BTreeSet<u64> = BTreeSet::new();
    let mut runs: Vec<Run> = Vec::new();
    let windows: Vec<Mutex<Window>> = (0..4).map(|_| Mutex::default()).collect();
    for step in 0..3000 {
        let has_much = core.usage().blocks_free < 200;
        if runs.is_empty() || (next(&mut seed) % 100 < 60 && !has_much) {
            let goal = next(&mut seed) % core.geometry().block_count;
            let count_max = 1 + (next(&mut seed) % 40) as u32;
            let window = windows.get((next(&mut seed) % 6) as usize);
            let sequential = window
                .map(|window| window.lock().first.get())
                .filter(|goal| *goal > 0);
            let goal = if !next(&mut seed).is_multiple_of(3) {
                sequential.unwrap_or(goal)
            } else {
                goal
            };
            let from = next(&mut seed) % 40;
            let place = FilePlace {
                from,
                size_blocks: from + next(&mut seed) % 3 * 20,
                is_final: next(&mut seed).is_multiple_of(5),
                is_delayed: from.is_multiple_of(2),
            };
            let wanted = BlockRequest {
                owner: InodeNr::new(1 + (next(&mut seed) % 200) as u32),
                goal: BlockNr::new(goal),
                count_max,
                window,
                place: window.map(|_| place),
                is_narrow: false,
            };
            match request(&core, &wanted) {
                Ok(run) => {
                    assert!((1..=count_max).contains(&run.count));
                    assert!(core.is_data_run(run));
                    for block in blocks_of(run) {
                        assert!(!before.contains(&block) && !pending.contains(&block));
                        assert!(ours.insert(block), "block {block} is allocated twice");
                    }
                    runs.push(run);
                }
                Err(Error::NoSpace) => assert!(core.usage().blocks_free <= pending.len() as u64),
                Err(error) => panic!("{error}"),
            }
        } else {
            let at = (next(&mut seed) % runs.len() as u64) as usize;
            let run = runs.swap_remove(at);
            let is_pending = free(&core, run).is_some();
            for block in blocks_of(run) {
                assert!(ours.remove(&block));
                if is_pending {
                    pending.insert(block);
                }
            }
        }
        if step % 97 == 0 {
            let window = &windows[(next(&mut seed) % 4) as usize];
            core.discard_window(window);
            assert_eq!(core.wait_for_freed().expect("works"), !pending.is_empty());
            pending.clear();
        }
        if step % 500 == 0 {
            check_bitmaps(&core, &before, &ours);
            check_longest(&core);
        }
    }
    check_bitmaps(&core, &before, &ours);
    for run in runs {
        free(&core, run);
    }
    windows
        .iter()
        .for_each(|window| core.discard_window(window));
    core.wait_for_freed().expect("works");
    check_bitmaps(&core, &before, &BTreeSet::new());
    for group in core.space.groups() {
        assert_eq!(
            group.usable_clusters.load(Ordering::Relaxed),
            group.free_clusters.load(Ordering::Relaxed)
        );
    }
    drop(core);
    volume.close().expect("works");
}

/// Checks that no group has a longer free extent than it says.
fn check_longest(core: &Core) {
    for group in core.space.groups() {
        let bitmap = core.block_bitmap(group).expect("readable");
        let mut maps = group.maps.lock();
        let blocks = group.blocks(&mut maps, &bitmap, core.space.zones());
        let longest = blocks.expect("sound").open().longest();
        assert!(longest <= group.longest_max(), "group {}", group.nr);
    }
}

#[test]
fn without_a_journal_the_allocator_agrees_with_a_model() {
    for profile in PROFILES {
        for seed in 0..5 {
            run_against_model(
                open(4 << 20, &small(FileSystemType::Ext2), with_profile(profile)),
                seed,
            );
        }
    }
}

#[test]
fn with_a_journal_the_allocator_agrees_with_a_model() {
    for profile in PROFILES {
        for seed in 10..13 {
            run_against_model(
                open(6 << 20, &small(FileSystemType::Ext3), with_profile(profile)),
                seed,
            );
        }
    }
}
