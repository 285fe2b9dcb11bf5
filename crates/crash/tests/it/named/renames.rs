//! Renames that lost a file, or left it in two places.

use crash::rule::Rule::{F1, F4, O4, U3, U4, U5};

use super::check;

/// ext4 in 2009 (Ubuntu bug 317781): a file that was replaced by rename came back empty. It is what
/// editors and databases do.
#[test]
fn replace_by_rename() {
    check(
        &[U5, O4],
        "create(f); append(f,3) |
         create(f.new); append(f.new,5); rename(f.new,f)",
    );
}

/// The same as it should be written: fsync, rename, fsync of the directory.
#[test]
fn replace_by_rename_with_all_sync_calls() {
    check(
        &[U5, F1, F4],
        "create(f); append(f,3) |
         create(f.new); append(f.new,5); fsync(f.new); rename(f.new,f); syncdir()",
    );
}

/// CrashMonkey, btrfs 1: a rename over a file lost both.
#[test]
fn replaced_file_and_its_successor() {
    check(
        &[U5, F1],
        "mkdir(a); create(a/f); append(a/f,2); create(g) |
         append(g,2); fsync(g); rename(g,a/f); create(h); fsync(h)",
    );
}

/// CrashMonkey, btrfs 2; generic/335: after fsync of its old directory, a file that was moved was
/// in both or in neither.
#[test]
fn move_and_sync_of_the_old_directory() {
    check(
        &[U4, U5, F4],
        "mkdir(a); mkdir(a/b); mkdir(c); create(a/b/f) |
         rename(a/b/f,c/f); create(a/g); syncdir(a)",
    );
}

/// Changes of a directory with `chattr +D` are durable when they return, and those of directories
/// that inherit it: also a rename into a directory without it.
#[test]
fn changes_of_a_synchronous_directory() {
    check(
        &[U5, F4],
        "mkdir(a); mkdir(c); create(a/f); create(a/g); chattr(+D,a) |
         rename(a/f,c/f); exchange(c/f,a/g); mkdir(a/s); create(a/s/x); link(c/f,a/l);
         whiteout(a/l,c/l); unlink(a/s/x); rmdir(a/s); rename(c/f,a/f); symlink(a/f,a/m)",
    );
}

/// generic/321: a rename into a new directory was lost.
#[test]
fn move_into_a_new_directory() {
    check(
        &[U5, F1, F4],
        "| create(f); mkdir(d); fsync(f); rename(f,d/f); syncdir(d); fsync(d/f)",
    );
}

/// generic/322: data that was written between fsync and rename was lost.
#[test]
fn write_fsync_write_rename_fsync() {
    check(
        &[U5, F1],
        "| create(f); append(f,4); fsync(f); write(f,8,4); rename(f,g); fsync(g)",
    );
}

/// generic/336: a file was lost when another, of which a link had been removed beside it, was
/// synced.
#[test]
fn move_beside_a_link_that_is_removed() {
    check(
        &[U5, F1],
        "mkdir(a); mkdir(b); mkdir(c); create(a/foo); link(a/foo,b/foo_link); create(b/bar) |
         unlink(b/foo_link); rename(b/bar,c/bar); fsync(a/foo)",
    );
}

/// generic/341: a directory that was renamed was lost with its files when another took its name.
#[test]
fn new_directory_under_the_old_name() {
    check(
        &[U5, F4],
        "mkdir(a); mkdir(a/x); create(a/x/f); create(a/x/g) |
         rename(a/x,a/y); mkdir(a/x); syncdir(a/x)",
    );
}

/// generic/342: a file that was renamed was lost when another took its name and was synced.
#[test]
fn new_file_under_the_old_name() {
    check(
        &[U5, F1],
        "mkdir(a); create(a/f); append(a/f,4); fsync(a/f) |
         rename(a/f,a/g); create(a/f); append(a/f,2); fsync(a/f)",
    );
}

/// generic/376: the same, but the renamed one is synced.
#[test]
fn new_file_under_the_old_name_and_sync_of_the_renamed() {
    check(
        &[U5, F1],
        "mkdir(d); create(d/foo) | rename(d/foo,d/bar); create(d/foo); fsync(d/bar)",
    );
}

/// generic/510: a file had two parents after its new directory had replaced its old one.
#[test]
fn directory_that_replaces_the_old_one() {
    check(
        &[U4, U5, F1],
        "mkdir(t); mkdir(t/A); mkdir(t/B); create(t/B/bar) |
         rename(t/B/bar,t/A/bar); rename(t/A,t/B); fsync(t/B/bar)",
    );
}

/// generic/526: renames, a link and a new file under each other's names.
#[test]
fn names_that_change_owners() {
    check(
        &[U4, U5, F1],
        "mkdir(t); create(t/f1); append(t/f1,1); create(t/f2); append(t/f2,2) |
         rename(t/f1,t/f3); rename(t/f2,t/f4); link(t/f3,t/f2); create(t/f1); append(t/f1,1); fsync(t/f1)",
    );
}

/// generic/784: the log could not be replayed when a file under a moved directory's name was moved
/// after it.
#[test]
fn file_under_the_name_of_a_moved_directory() {
    check(
        &[U5, F1],
        "mkdir(a); mkdir(b) |
         rename(a,b/a); create(a); fsync(a); rename(a,b/foo); fsync(b/foo)",
    );
}

/// A directory that moves changes its `..` and the link counts of both parents.
#[test]
fn move_of_a_directory() {
    check(
        &[U3, U4, U5, F4],
        "mkdir(a); mkdir(b); mkdir(a/x); create(a/x/f) | rename(a/x,b/y); syncdir(b); rmdir(a); sync",
    );
}

/// Both names are there whatever happens, with one or the other.
#[test]
fn exchange_of_a_directory_and_a_file() {
    check(
        &[U4, U5, F4],
        "mkdir(a); mkdir(b); mkdir(a/x); create(b/f); append(b/f,2) | exchange(a/x,b/f); syncdir(a); exchange(a,b)",
    );
}
