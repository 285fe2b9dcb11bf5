//! Inodes that become larger while the power fails: afterwards all of them are small, or all of
//! them large, and no block is lost.

use block::CacheDevice;
use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use layout::SectorNr;
use testkit::{Mount, Random};

use super::*;
use crate::damage::assert_notices;

const FORMATS: [&str; 2] = ["extent", "^extent,^flex_bg,^metadata_csum,^64bit"];

/// Makes the change on a device whose power fails after a number of writes: what was not flushed
/// may be there or not, by pieces of so many sectors. Returns true if it was made.
fn change_until(memory: &Arc<MemoryDevice>, writes: u64, seed: u64, sectors: u64) -> bool {
    let cache = Arc::new(CacheDevice::new(device(memory), u64::MAX));
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::From(writes + 1),
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let below: Arc<dyn BlockDevice> = Arc::<CacheDevice>::clone(&cache);
    let failing: Arc<dyn BlockDevice> = Arc::new(FaultDevice::new(below, plan));
    let is_done = apply(&failing, None, &larger(256)).is_ok();
    let pick = &mut |sector: SectorNr, count: usize| {
        let mut random = Random::new(seed * 1_000_003 + sector.get() / sectors);
        random.below(count as u64 + 1) as usize
    };
    cache.power_cut_with(pick).expect("memory does not fail");
    is_done
}

/// Cuts the power after each write.
fn cut_everywhere(
    features: &str,
    seed: u64,
    sectors: u64,
    look: &mut dyn FnMut(&Arc<MemoryDevice>, u64),
) {
    let memory = in_a_volume(10 * MIB, 128, features);
    let before = tree_in(&memory);
    let mut sizes = Vec::new();
    for writes in 0.. {
        let copy = Arc::new(memory.snapshot());
        let is_done = change_until(&copy, writes, seed + writes, sectors);
        look(&copy, writes);
        let when = format!("{features}, {writes} writes");
        assert!(tree_in(&copy) == before, "{when}");
        let report = fsck::check_bytes(&copy.to_bytes(), None, &fsck::Options::default());
        let report = report.expect("it can be checked");
        assert!(report.is_clean(), "{when}: {:?}", report.problems);
        sizes.push(size_in(&copy));
        if is_done {
            break;
        }
    }
    sizes.dedup();
    assert_eq!(sizes, [128, 256], "{features}");
}

fn small_or_large() {
    for features in FORMATS {
        for seed in [0, 1000, 2000] {
            cut_everywhere(features, seed, 1, &mut |_, _| {});
        }
    }
}

#[test]
fn a_power_cut_leaves_small_inodes_or_large_ones() {
    assert_notices("inode-size/changed-in-place", small_or_large);
    if rt::mutant::IS_POSSIBLE {
        for mutant in [
            "inode-size/journal-inode-not-copied",
            "inode-size/superblock-first",
        ] {
            let config = sim::Config {
                mutant: Some(mutant),
                ..sim::Config::fair(1)
            };
            assert!(sim::run(config, small_or_large).is_err(), "{mutant}");
        }
    }
}

/// e2fsck -p completes it, too, and finds nothing but the log. Blocks are written as a whole: it
/// does not repair a superblock that is torn.
#[test]
fn e2fsck_completes_it() {
    for features in FORMATS {
        cut_everywhere(features, 0, 2, &mut |memory, writes| {
            for e2fsck in e2fscks().skip(writes as usize % 2).take(1) {
                let image = image_of(memory);
                let path = image.path.to_str().unwrap();
                let output = tool::run(&e2fsck, &["-fp", path]);
                let (code, said) = (output.status.code(), tool::said(&output));
                let when = format!("{features}, {writes} writes: {said}");
                assert!(matches!(code, Some(0 | 1)), "{when}");
                assert!(!said.contains("FIXED") && !said.contains("count"), "{when}");
            }
        });
    }
}

/// Linux reads the size of inodes before it replays the log. A mount that replays the transaction
/// fails, and the next one succeeds.
#[test]
fn the_second_mount_of_the_kernel_sees_the_new_inodes() {
    if !privilege::is_granted() {
        return;
    }
    let memory = in_a_volume(10 * MIB, 128, "^metadata_csum,uninit_bg");
    let found = (0..).find_map(|writes| {
        let copy = Arc::new(memory.snapshot());
        let is_done = change_until(&copy, writes, writes, 2);
        let replayed = Arc::new(copy.snapshot());
        tree_in(&replayed);
        let is_logged = size_in(&copy) == 128 && size_in(&replayed) == 256;
        (is_logged || is_done).then_some(copy)
    });
    let image = image_of(&found.unwrap());
    assert_eq!(
        superblock(&image).inode_size(),
        128,
        "the log has the new size"
    );
    let mount = || -> Result<Mount, String> { image.mount("noatime") };
    let why = mount().expect_err("the root directory is not where Linux looks for it");
    drop(mount().unwrap_or_else(|error| panic!("{why}, then {error}")));
    for e2fsck in e2fscks() {
        tool::run_well(&e2fsck, &["-fn", image.path.to_str().unwrap()]);
    }
    assert_eq!(superblock(&image).inode_size(), 256);
}
