//! Ranges that are allocated, punched, zeroed, collapsed and inserted.

use super::{check, check_extents};
use crash::rule::Rule::{F1, F2, J1, O1, O5, U3};

/// generic/059: a punch that reached into one block only was lost in spite of fsync.
#[test]
fn punch_within_a_block() {
    check(
        &[F1, O5],
        "create(f); append(f,16); fsync(f); sync | punch(f,5,1); punch(f,13,1); fsync(f)",
    );
}

/// generic/177: punches that overlap, one of them beyond the end of the file.
#[test]
fn overlapping_punches() {
    check(
        &[F1, O5],
        "create(f); append(f,64); fsync(f) | punch(f,48,16); punch(f,32,64); punch(f,16,48); fsync(f)",
    );
}

/// A punch of what is a hole already changes zeroes and times only: fdatasync need not keep the
/// times.
#[test]
fn the_same_punch_twice() {
    check(
        &[F2],
        "create(f); append(f,4) | punch(f,0,3); fsync(f); punch(f,0,3); fdatasync(f)",
    );
}

/// generic/695: holes that were punched beside holes were lost in spite of fsync.
#[test]
fn punches_beside_holes() {
    check(
        &[F1, O5],
        "create(f); write(f,4,16); truncate(f,12288); sync | punch(f,4,4); punch(f,16,4); fsync(f)",
    );
}

/// generic/468, generic/483, generic/512: blocks that were allocated were lost, or the size was
/// wrong. Behind the end of a file ext3 has no blocks: the file grows with them.
#[test]
fn allocation_that_lets_the_file_grow() {
    check(
        &[F1, F2, U3],
        "create(f); append(f,8); fsync(f); create(g); append(g,3) |
         allocate(f,8,6); fdatasync(f); allocate(g,1,9); fsync(g); append(g,2)",
    );
}

/// The map blocks of what is punched stay, and what comes into the hole again is new.
#[test]
fn punch_behind_the_direct_blocks() {
    check(
        &[F1, U3],
        "create(f); append(f,60) | punch(f,20,30); write(f,30,3); fsync(f); allocate(f,18,20); zero(f,2,9); fsync(f)",
    );
}

/// Journaled data that is punched and whose block becomes another file's: its old image must not be
/// replayed.
#[test]
fn punched_blocks_that_become_anothers() {
    super::check_on(
        ",free=24",
        &[J1, O1],
        "create(f); append(f,24); create(g); sync | write(f,0,24); sync; punch(f,0,24); sync; append(g,24); fsync(g)",
    );
}

/// Blocks behind a range that is removed or inserted move, and are written to later.
#[test]
fn blocks_that_move() {
    for special in ["", ",restart=1"] {
        check_extents(
            special,
            &[J1, O1],
            "create(f); append(f,40); fsync(f); sync | collapse(f,4,8); fsync(f); insert(f,10,4); write(f,6,12); fsync(f)",
        );
        check_extents(
            special,
            &[J1, O1],
            "create(f); append(f,24); sync | write(f,3,9); insert(f,0,2); write(f,1,5); collapse(f,8,6); append(f,3); sync",
        );
    }
}
