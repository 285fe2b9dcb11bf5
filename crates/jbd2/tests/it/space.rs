//! Log space: the tail moves in large steps, no thread starves, and pinned blocks are known.

use std::sync::Arc;

use block::MemoryDevice;
use jbd2::{Credits, Journal};
use layout::Tid;
use rt::Nanos;

use crate::harness::{BLOCKS, Kind, Small};

fn small(log_blocks: u32) -> Small {
    let kind = Kind {
        log_blocks,
        ..Kind::default()
    };
    let (home, _) = kind.devices();
    let log = kind.format(Arc::<MemoryDevice>::clone(&home));
    Small::open(kind, home, log)
}

fn close(small: Small) {
    let journal: Arc<Journal> = Arc::clone(&small.journal);
    drop(small);
    journal.close().expect("memory does not fail");
}

#[test]
fn the_tail_moves_in_large_steps() {
    let mut small = small(120);
    for round in 0..500 {
        small.write(round % BLOCKS);
        small.commit();
    }
    let statistics = small.journal.stats();
    let logged = statistics.logged_blocks + statistics.descriptor_blocks + statistics.commits;
    // A caller that finds no space has it moved in smaller ones; a single one seldom does.
    assert!(statistics.tail_moves < logged / 10, "{statistics:?}");
    assert!(statistics.tail_moves > logged / 120, "{statistics:?}");
    close(small);
}

#[test]
fn overwritten_blocks_are_written_home_once() {
    let mut small = small(120);
    for _ in 0..8 {
        for nr in 0..3 {
            small.write(nr);
        }
        small.commit();
    }
    assert_eq!(small.journal.owed_bytes(), 3 * 1024);
    assert_eq!(small.journal.stats().superseded_blocks, 21);
    let written = small
        .journal
        .write_back(rt::monotonic(), 100)
        .expect("it works");
    assert_eq!(written, 3);
    assert_eq!(small.journal.stats().checkpoint_blocks, 3);
    close(small);
}

#[test]
fn freed_blocks_are_not_written_home() {
    let mut small = small(120);
    for nr in 0..4 {
        small.write(nr);
    }
    small.commit();
    small.free(2);
    assert_eq!(
        small.journal.owed_bytes(),
        4 * 1024,
        "owed until the freeing is durable"
    );
    small.commit();
    assert_eq!(small.journal.owed_bytes(), 3 * 1024);
    assert_eq!(small.journal.stats().cancelled_blocks, 1);
    close(small);
}

#[test]
fn the_age_based_writer_takes_the_oldest_first() {
    let mut small = small(120);
    small.write(50);
    small.commit();
    rt::sleep(Nanos::from_millis(2));
    let between = rt::monotonic();
    rt::sleep(Nanos::from_millis(2));
    small.write(10);
    small.commit();
    assert_eq!(small.journal.write_back(Nanos::new(0), 10), Ok(0));
    assert_eq!(small.journal.write_back(between, 10), Ok(1));
    assert_eq!(small.journal.owed_bytes(), 1024);
    assert_eq!(small.journal.write_back(rt::monotonic(), 0), Ok(0));
    assert_eq!(small.journal.write_back(rt::monotonic(), 10), Ok(1));
    assert!(small.buffer(10).is_clean());
    close(small);
}

#[test]
fn pinned_images_are_counted() {
    let mut small = small(120);
    assert_eq!(small.journal.pinned_bytes(), 0);
    small.write(1);
    small.write(1);
    small.write(2);
    assert_eq!(small.journal.pinned_bytes(), 2 * 1024);
    assert!(!small.buffer(1).is_clean());
    small.commit();
    assert_eq!(small.journal.pinned_bytes(), 2 * 1024);
    small.write(1);
    assert_eq!(
        small.journal.pinned_bytes(),
        3 * 1024,
        "running, and awaiting checkpoint"
    );
    small.journal.checkpoint_all().expect("it works");
    assert_eq!(small.journal.pinned_bytes(), 0);
    assert!(small.buffer(1).is_clean());
    close(small);
}

#[test]
fn the_client_hears_of_each_transaction_in_order() {
    let mut small = small(64);
    let mut tids: Vec<Tid> = Vec::new();
    for nr in 0..40 {
        small.write(nr);
        tids.extend(small.commit());
    }
    // A caller wakes when its transaction is durable; the client hears of it a moment later.
    small.journal.checkpoint_all().expect("it works");
    assert_eq!(*small.notes.begun.lock(), tids);
    assert_eq!(*small.notes.committed.lock(), tids);
    close(small);
}

#[test]
fn the_largest_handle_always_gets_in() {
    let small = small(64);
    let most = small.journal.max_credits();
    for _ in 0..20 {
        let credits = Credits {
            blocks: most,
            revokes: most,
        };
        let handle = small.journal.start(credits).expect("it fits");
        handle.finish().expect("it works");
    }
    close(small);
}
