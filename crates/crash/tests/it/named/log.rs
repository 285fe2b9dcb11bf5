//! The journal itself: old transactions that were replayed, revokes that were lost, logs that wrap.

use crash::rule::Rule::{F1, F4, J1, J3, J4, T1, T2, T3, T4, T5, T6, T7, U3, U4, U6};

use super::{check, check_on};

/// A nearly full volume gives freed blocks out again at once.
const NEARLY_FULL: &str = ",free=24";
/// The shortest log that the largest operation fits into.
const SHORT_LOG: &str = ",log=224";

/// lwext4 86: numbers began anew after a clean mount, and what older mounts had left in the log was
/// replayed behind it.
#[test]
fn log_of_an_earlier_mount() {
    check(
        &[U3, U4, F4],
        "mkdir(d); sync; create(d/a); sync; create(d/b); sync; unlink(d/a); sync; rename(d/b,d/a); sync; create(d/c); sync |
         create(d/x); sync; unlink(d/c); sync; create(d/c)",
    );
}

/// rsext4 398, 2298: several transactions in one log; recovery is needed from the first
/// acknowledged commit on.
#[test]
fn several_transactions() {
    check(
        &[T1, T7, U6, F4],
        "| mkdir(d); sync; create(d/f); append(d/f,2); sync; unlink(d/f); sync; rmdir(d); sync; mkdir(e)",
    );
}

/// generic/388, jbd2: a directory's block is freed and used for data; its old image must not be
/// replayed over it.
#[test]
fn directory_that_becomes_data() {
    check_on(
        NEARLY_FULL,
        &[J3, T4],
        "mkdir(d) | create(d/f); sync; unlink(d/f); rmdir(d); sync; create(g); append(g,20); fsync(g); write(g,0,4); fdatasync(g)",
    );
}

/// jbd2: freed and used again as ordered data within one transaction.
#[test]
fn directory_that_becomes_data_within_a_transaction() {
    check_on(
        NEARLY_FULL,
        &[J3],
        "mkdir(d); create(d/f) | create(d/g); unlink(d/f); sync; unlink(d/g); rmdir(d); create(h); append(h,30); fsync(h)",
    );
}

/// jbd2: a block that was revoked and logged again must be replayed: its revoke is void.
#[test]
fn directory_that_becomes_a_directory() {
    check_on(
        NEARLY_FULL,
        &[J3, U3],
        "mkdir(d) | create(d/f); sync; unlink(d/f); rmdir(d); mkdir(e); create(e/f); sync; create(e/g); sync; unlink(e/f); sync",
    );
}

/// jbd2: made, freed and made again before any commit.
#[test]
fn directory_that_never_was() {
    check(
        &[U3, F4],
        "| mkdir(d); create(d/f); unlink(d/f); rmdir(d); mkdir(d); create(d/g); syncdir(d)",
    );
}

/// ext3: blocks of a file's map are metadata; when the file is deleted they become data of another
/// file.
#[test]
fn map_that_becomes_data() {
    check_on(
        NEARLY_FULL,
        &[J3],
        "create(f) | append(f,28); write(f,600,2); sync; truncate(f,0); sync; create(g); append(g,36); fsync(g); unlink(g); sync",
    );
}

/// ext3 with journaled data: data that was logged is freed, and its block used for metadata and
/// other data.
#[test]
fn journaled_data_that_is_freed() {
    check_on(
        NEARLY_FULL,
        &[J1, J3],
        "| create(f); append(f,24); sync; unlink(f); sync; mkdir(d); create(d/g); append(d/g,30); fsync(d/g)",
    );
}

/// jbd2: data that begins like a block of the journal has to be escaped in the log, and to come
/// back.
#[test]
fn data_that_looks_like_the_journal() {
    // Every other write begins with the journal's magic number; see `crash::tag`.
    check(
        &[J4, F1],
        "create(f); create(g) | append(f,4); append(g,4); fsync(f); write(f,0,4); write(g,0,4); fsync(g); write(f,2,2); sync",
    );
}

/// ext3: a large file goes in several steps; what was begun is finished after a crash.
#[test]
fn orphans() {
    check(
        &[U3, U4],
        "create(f); append(f,60); write(f,700,4); create(g); append(g,40) | unlink(f); sync; truncate(g,600); fsync(g); unlink(g)",
    );
}

/// jbd2: a log that wraps, with its tail moved again and again.
#[test]
fn log_that_wraps() {
    let round = "append(f,2); fsync(f); create(d/g); unlink(d/g); syncdir(d);".repeat(14);
    let script = format!("mkdir(d); create(f) | {round}");
    check_on(SHORT_LOG, &[T2, T3, T6, F1], &script);
}

/// jbd2: numbers of transactions are compared around their end.
#[test]
fn numbers_that_wrap() {
    check_on(
        ",tid=4294967293",
        &[U3, U6, F4],
        "mkdir(d) | create(d/a); sync; create(d/b); sync; unlink(d/a); sync; rename(d/b,d/a); sync; create(d/c); fsync(d/c)",
    );
}

/// jbd2 on devices that cannot force a write: the commit record is flushed instead.
#[test]
fn devices_without_forced_writes() {
    check_on(
        ",fua=0",
        &[T1, F1],
        "create(f) | append(f,4); fsync(f); write(f,0,2); fdatasync(f); rename(f,g); sync; unlink(g)",
    );
}

/// jbd2: with the journal on a device of its own the other was not flushed before the commit, nor
/// before the tail moved.
#[test]
fn two_devices_with_caches() {
    check(
        &[T5, T7, F1],
        "create(f); append(f,4) | append(f,4); create(g); append(g,6); fsync(g); truncate(f,1000); fsync(f); write(g,0,2); sync",
    );
}
