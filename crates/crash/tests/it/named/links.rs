//! Names and links that were lost, came back, or left directories that could not be removed.

use crash::rule::Rule::{F1, F4, U1, U3, U4, U7};

use super::check;

/// generic/321: fsync of a new directory did not keep it.
#[test]
fn fsync_of_a_new_directory() {
    check(&[F4], "| mkdir(d); syncdir(d)");
}

/// CrashMonkey, btrfs 3, 4; generic/498: fsync of a directory lost the directories and links below
/// it.
#[test]
fn link_in_a_new_tree_and_fsync_of_its_top() {
    check(
        &[F1, F4],
        "mkdir(B) | mkdir(A); mkdir(A/C); create(B/foo); fsync(B/foo); link(B/foo,A/C/foo); syncdir(A)",
    );
}

/// generic/782: the same, where the file had changed and been synced between.
#[test]
fn new_directory_and_a_link_of_a_synced_file() {
    check(
        &[F1, F4],
        "create(foo) | mkdir(dir); append(foo,8); fsync(foo); link(foo,dir/bar); syncdir()",
    );
}

/// generic/785: a directory and its file were lost when a synced file beside them had been renamed.
#[test]
fn new_directory_beside_a_renamed_file() {
    check(
        &[F1, F4],
        "create(f1) | append(f1,2); fsync(f1); mkdir(d); create(d/foo); rename(f1,f2); syncdir()",
    );
}

/// generic/348: a symbolic link was empty.
#[test]
fn symbolic_link_and_fsync_of_its_directory() {
    check(&[F4], "mkdir(d) | symlink(somewhere/else,d/s); syncdir(d)");
}

/// The same for one whose text needs a block.
#[test]
fn long_symbolic_link() {
    let text = "somewhere/".repeat(12);
    let script = format!(
        "mkdir(d) | symlink({text},d/s); syncdir(d); unlink(d/s); create(d/f); append(d/f,4); sync"
    );
    check(&[F4], &script);
}

/// generic/690, generic/779: a symbolic link that was renamed was empty, or had its old name.
#[test]
fn renamed_symbolic_link() {
    check(
        &[F4],
        "mkdir(d) | create(d/foo); symlink(d/foo,d/old); syncdir(d); rename(d/old,d/new); syncdir(d)",
    );
}

/// generic/479: a symbolic link, renamed and linked under its old name, stopped the replay.
#[test]
fn symbolic_link_that_is_linked_under_its_old_name() {
    check(
        &[U1, F1],
        "mkdir(t); symlink(xxx,t/foo) |
         create(t/f1); fsync(t/f1); rename(t/foo,t/bar); link(t/bar,t/foo); create(f2); fsync(f2)",
    );
}

/// CrashMonkey, btrfs 5, 7; generic/520: fsync of a file did not keep all of its names.
#[test]
fn fsync_keeps_all_names() {
    check(
        &[F1, U4],
        "mkdir(a); mkdir(b); create(a/f) | link(a/f,b/g); link(a/f,a/h); fsync(a/f); unlink(a/f); fsync(b/g)",
    );
}

/// generic/040, generic/041: fsync of a file with many names.
#[test]
fn many_names() {
    let links: String = (0..24)
        .map(|number| format!("link(d/f,d/name-{number});"))
        .collect();
    let script = format!(
        "mkdir(d); create(d/f) | {links} fsync(d/f); unlink(d/name-3); unlink(d/f); fsync(d/name-7)"
    );
    check(&[F1, U4], &script);
}

/// generic/034: after the replay a directory could not be removed.
#[test]
fn directory_with_an_old_and_a_new_file() {
    check(
        &[F1, F4, U7],
        "mkdir(t); create(t/foo) | create(t/bar); syncdir(t); fsync(t/bar)",
    );
}

/// generic/039, generic/106: the name that was removed came back, and with it a directory that was
/// never empty.
#[test]
fn removed_name_and_fsync_of_the_other() {
    check(
        &[F1, U4, U7],
        "mkdir(t); create(t/foo); link(t/foo,t/bar) | unlink(t/bar); fsync(t/foo)",
    );
}

/// generic/104: link counts were wrong when one of two linked files was synced.
#[test]
fn links_of_two_files_and_fsync_of_one() {
    check(
        &[F1, U4, U7],
        "mkdir(t); create(t/foo); create(t/bar) | link(t/bar,t/bar_link); link(t/foo,t/foo_link); fsync(t/bar)",
    );
}

/// generic/107: the same with names in several directories.
#[test]
fn removed_name_in_another_directory() {
    check(
        &[F1, U4, U7],
        "mkdir(t); create(foo); link(foo,t/foo2); link(foo,t/foo3) | unlink(t/foo3); fsync(foo)",
    );
}

/// generic/480: the log could not be replayed after a name had passed from a link to a new file.
#[test]
fn new_file_under_the_name_of_a_removed_link() {
    check(
        &[F1, U1, U4],
        "mkdir(t); create(t/foo); link(t/foo,t/bar) | unlink(t/bar); create(t/bar); fsync(t/bar)",
    );
}

/// generic/502: the same after two links had changed their names.
#[test]
fn new_file_under_the_name_of_a_renamed_link() {
    check(
        &[F1, U1, U4],
        "mkdir(t); create(t/foo); link(t/foo,t/bar) |
         rename(t/foo,t/qwerty); rename(t/bar,t/foo); create(t/bar); fsync(t/bar)",
    );
}

/// generic/481: after the replay no file could be created, because inode numbers were given out
/// again.
#[test]
fn new_files_after_the_replay() {
    check(&[F1, U7], "| create(foo); fsync(foo)");
}

/// An inode's number is used again at once: nothing of the old file may show in the new one.
#[test]
fn inode_that_is_used_again() {
    check(
        &[U3, U4, F1],
        "create(a); append(a,6) | unlink(a); create(b); append(b,2); fsync(b); unlink(b); mkdir(c); create(c/d); sync",
    );
}

/// generic/479: the log could not be replayed after a special file had taken the name of one whose
/// other link was synced.
#[test]
fn special_file_under_the_name_of_a_removed_link() {
    for special in ["fifo", "socket", "char.4.66", "block.8.300"] {
        check(
            &[F1, U1, U4],
            &format!(
                "mkdir(t); mknod({special},t/foo); link(t/foo,t/bar) |
                 unlink(t/bar); mknod({special},t/bar); create(t/file); append(t/file,2); fsync(t/file)"
            ),
        );
    }
}

/// generic/505, 506, 507: times, owners and modes were not there after an fsync that had nothing
/// else to write.
#[test]
fn attributes_of_a_synced_file() {
    for change in ["chmod(foo,600)", "chown(foo,1000,70000)", "utimes(foo,7)"] {
        check(
            &[F1, U3],
            &format!("create(foo); append(foo,4) | {change}; fsync(foo)"),
        );
    }
}
