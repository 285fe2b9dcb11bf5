//! Every format: what is committed is recovered, what is closed is home, and the log wraps.

use std::sync::Arc;

use block::BlockDevice;
use layout::Tid;
use testkit::Random;

use crate::harness::{Held, Kind, Small, check};

fn kinds() -> Vec<Kind> {
    let mut kinds = Kind::all();
    let external = |kind: &Kind| Kind {
        is_external: true,
        sequence: 0,
        ..*kind
    };
    kinds.extend(Kind::all().iter().map(external));
    kinds
}

/// Runs a script that makes the log wrap several times; the last transaction is committed, a
/// further one is not.
fn run(kind: Kind, seed: u64) -> (Small, Arc<block::MemoryDevice>, Arc<block::MemoryDevice>) {
    let (home, log_device) = kind.devices();
    let log = kind.format(Arc::<block::MemoryDevice>::clone(&log_device));
    let mut small = Small::open(kind, Arc::<block::MemoryDevice>::clone(&home), log);
    let mut random = Random::new(seed);
    for _ in 0..40 {
        for _ in 0..random.below(4) {
            small.step(&mut random);
        }
        small.commit();
        if random.below(3) == 0 {
            small.write_data();
        }
        if random.below(8) == 0 {
            let limit = random.below(20) as usize;
            small
                .journal
                .write_back(rt::monotonic(), limit)
                .expect("memory does not fail");
        }
    }
    (small, home, log_device)
}

/// All of a device, read in pieces of this size.
fn copy(device: &Arc<dyn BlockDevice>, piece_bytes: u32) -> block::MemoryDevice {
    let size = device.geometry().size_bytes;
    let copy = block::MemoryDevice::new(size);
    let target: &dyn BlockDevice = &copy;
    for offset in (0..size).step_by(16 * piece_bytes as usize) {
        let count = ((size - offset) / u64::from(piece_bytes)).min(16) as u32;
        let payload = device.read_blocks(offset, count, piece_bytes).unwrap();
        target.write_blocks(offset, payload).unwrap();
    }
    copy
}

#[test]
fn what_is_committed_is_recovered() {
    for (seed, kind) in kinds().into_iter().enumerate() {
        let (mut small, home, log_device) = run(kind, seed as u64);
        small.commit();
        let committed = small.model.clone();
        let last = *small
            .after
            .keys()
            .max_by_key(|tid| tid.wrapping_sub(kind.sequence.wrapping_sub(1)))
            .unwrap();
        small.step(&mut Random::new(1));
        let (home_image, log_image) = (Arc::new(home.snapshot()), Arc::new(log_device.snapshot()));
        let home_device: Arc<dyn BlockDevice> = Arc::<block::MemoryDevice>::clone(&home_image);
        let log = if kind.is_external {
            kind.location(log_image)
        } else {
            kind.location(Arc::clone(&home_device))
        };
        let before = home_image.snapshot();
        let view = jbd2::recovery::view(&log, &home_device).expect("the log is good");
        for piece_bytes in [512, 4096] {
            let seen = copy(&view, piece_bytes);
            check(kind, &seen, &committed, &format!("{kind:?} seen"));
        }
        let difference = home_image.first_difference(&before);
        assert_eq!(difference, None, "looking changes nothing");
        let recovered = jbd2::recovery::recover(&log, &home_device).expect("the log is good");
        // None if everything was home already.
        assert!(
            recovered.last.is_none_or(|found| found == Tid::new(last)),
            "{kind:?}"
        );
        assert_eq!(recovered.next, Tid::new(last.wrapping_add(2)));
        check(kind, &home_image, &committed, &format!("{kind:?}"));
        let again = jbd2::recovery::recover(&log, &home_device).expect("the log is good");
        assert!(again.was_clean);
        assert_eq!(again.next, recovered.next);
        check(kind, &home_image, &committed, &format!("{kind:?} again"));
        let statistics = small.journal.stats();
        assert!(statistics.tail_moves > 2, "the log wraps: {statistics:?}");
        assert!(statistics.escaped_blocks > 0);
        assert!(statistics.superseded_blocks > 0);
    }
}

#[test]
fn what_is_closed_is_home_and_the_log_is_empty() {
    for (seed, kind) in kinds().into_iter().enumerate() {
        let (small, home, log_device) = run(kind, 1000 + seed as u64);
        let model = small.model.clone();
        assert!(model.values().any(|held| matches!(held, Held::Data(_))));
        let journal = Arc::clone(&small.journal);
        drop(small);
        let tid = journal.commit_running().expect("it works");
        journal.close().expect("memory does not fail");
        check(kind, &home, &model, &format!("{kind:?}"));
        let log = kind.location(Arc::<block::MemoryDevice>::clone(&log_device));
        let inspection = jbd2::recovery::inspect(&log).expect("the log is good");
        assert_eq!(inspection.start, None);
        assert!(tid.is_none() || inspection.sequence.is_after(tid.unwrap_or_default()));
    }
}

#[test]
fn a_recovered_log_goes_on_with_higher_numbers() {
    let kind = Kind::default();
    let (home, _) = kind.devices();
    let home_device: Arc<dyn BlockDevice> = Arc::<block::MemoryDevice>::clone(&home);
    let log = kind.format(Arc::clone(&home_device));
    let mut random = Random::new(3);
    let mut last = Tid::new(kind.sequence);
    for round in 0..30u64 {
        let mut small = Small::open(kind, Arc::clone(&home_device), log.clone());
        for _ in 0..random.below(4) {
            small.write(round);
            let tid = small.commit().expect("something runs");
            assert!(tid.is_after(last), "numbers grow, across the wrap too");
            last = tid;
        }
        if round % 3 == 0 {
            Arc::clone(&small.journal)
                .close()
                .expect("memory does not fail");
        }
        drop(small);
        let recovered = jbd2::recovery::recover(&log, &home_device).expect("the log is good");
        assert!(recovered.next.is_after(last));
        assert_ne!(
            recovered.next,
            last.next(),
            "the number after the last is left out"
        );
    }
}
