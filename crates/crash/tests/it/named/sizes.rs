//! Sizes and contents: what was written and synced was lost, or a size came without its data.

use crash::rule::Rule::{F1, F2, J1, J2, O1, O2, O3, O5, U3, W2};

use super::check;

/// generic/056: a synced file was empty after a link to it and the fsync of another.
#[test]
fn link_after_fsync() {
    check(
        &[F1],
        "| create(foo); append(foo,8); fsync(foo); link(foo,foo_link); create(bar); fsync(bar)",
    );
}

/// generic/090: what was appended after a link was lost in spite of fsync.
#[test]
fn append_after_link() {
    check(
        &[F1],
        "create(foo); append(foo,8) | link(foo,bar); sync; append(foo,8); fsync(foo)",
    );
}

/// generic/534: a file that was cut and renamed had its old size in spite of fsync.
#[test]
fn truncate_rename_fsync() {
    check(
        &[F1],
        "create(foo); append(foo,16) | truncate(foo,3000); rename(foo,bar); fsync(bar)",
    );
}

/// generic/552, with a buffered write: the data of a file that was renamed before its fsync was
/// lost.
#[test]
fn write_rename_fsync() {
    check(
        &[F1],
        "mkdir(d); create(d/foo); create(d/bar) |
         append(d/bar,8); append(d/foo,1); fsync(d/foo); rename(d/bar,d/baz); fsync(d/baz)",
    );
}

/// generic/552, generic/325, ext4 4.15: a direct write that extends a file while what was written
/// through the cache waits; size or data was lost in spite of fsync.
#[test]
fn direct_write_that_extends() {
    check(
        &[F1],
        "create(f); append(f,4) | append(f,3); write-direct(f,8,4); fsync(f); write-direct(f,14,2); rename(f,g); fsync(g)",
    );
}

/// ext4 before 2.6.36 and others: fdatasync did not commit a size that had grown.
#[test]
fn fdatasync_of_a_file_that_has_grown() {
    check(
        &[F2],
        "create(f); append(f,2) | append(f,2); fdatasync(f); write(f,9,3); fdatasync(f)",
    );
}

/// generic/535 and its like: fsync keeps the times of the inode, too; after fdatasync of an
/// overwrite they may be old.
#[test]
fn overwrite_with_either_sync_call() {
    check(
        &[F1, F2, O3],
        "create(f); append(f,8) | write(f,2,4); fdatasync(f); write(f,0,3); fsync(f)",
    );
}

/// generic/325: an overwrite and an append, one sync call for both.
#[test]
fn overwrite_and_append() {
    check(
        &[F1],
        "create(f); append(f,16) | write(f,4,2); append(f,5); fsync(f); write(f,5,2); append(f,1)",
    );
}

/// generic/043: files that were written and never synced had sizes and zeroes ("NULL files").
#[test]
fn sizes_without_data() {
    check(
        &[O1, O2, W2, J1],
        "mkdir(d) | create(d/f); append(d/f,3); create(d/g); append(d/g,6); create(h); sync; append(h,2); append(d/f,4)",
    );
}

/// generic/044, generic/045, generic/046: files that were cut and written again.
#[test]
fn sizes_without_data_after_truncation() {
    check(
        &[O1, O2, O5],
        "create(f); append(f,12) | truncate(f,0); append(f,4); truncate(f,6000); write(f,6,2); truncate(f,2500); append(f,2)",
    );
}

/// generic/047, generic/048, generic/049: the same files, synced one by one.
#[test]
fn sizes_with_data_after_fsync() {
    check(
        &[F1],
        "mkdir(d); create(d/f); append(d/f,3); create(d/g) |
         truncate(d/f,0); append(d/f,4); fsync(d/f); append(d/g,4); fsync(d/g); truncate(d/g,100); fsync(d/g)",
    );
}

/// generic/388, POSIX: what lies between an old end and a new one is zero, whatever the block held.
#[test]
fn shrink_and_grow() {
    check(
        &[O5, U3],
        "create(f); append(f,8) | truncate(f,700); truncate(f,3500); sync; truncate(f,1500); write(f,6,2); fsync(f)",
    );
}

/// A hole that is filled, and a write beyond the blocks that the inode maps itself.
#[test]
fn holes_and_indirect_blocks() {
    check(
        &[F1, F2, U3],
        "create(f); write(f,30,2) | write(f,4,2); fdatasync(f); write(f,600,3); fsync(f); write(f,28,3); truncate(f,9000)",
    );
}

/// A write over several blocks is cut at blocks, if at all; journaled data is of one state.
#[test]
fn data_of_several_files() {
    check(
        &[J1, J2, O3],
        "create(f); append(f,4); create(g); append(g,4) | write(f,0,4); write(g,0,4); write(f,1,2); sync; write(g,1,2); write(f,0,4)",
    );
}

/// A truncation to the size that a file has changes its times only: fdatasync need not keep these,
/// and costs nothing.
#[test]
fn fdatasync_after_a_truncation_to_the_same_size() {
    check(
        &[F2],
        "create(f) | truncate(f,700); fsync(f); truncate(f,700); fdatasync(f)",
    );
}
