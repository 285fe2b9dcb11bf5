//! Programs that replay a log: the engine, e2fsck, the kernel.

use std::ffi::OsStr;

use ext::{MountOptions, Volume};
use testkit::tool;

use crate::image::Image;

/// Replays by opening the volume read-only, which changes nothing beyond the replay. Returns the
/// number of transactions.
pub fn by_engine(image: &Image) -> u32 {
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let (volume, report) =
        Volume::open_with_report(image.device(), image.journal_device(), options)
            .expect("the volume opens");
    volume.close().expect("close");
    report.replayed_transactions
}

/// Returns true if a list of orphans remains after a mere replay of the log: e2fsck, which finishes
/// them after its replay, reports each.
pub fn leaves_orphans(dirty: &Image) -> bool {
    let (code, said) = e2fsck(&["-y", "-E", "journal_only"], &dirty.copy());
    assert!(matches!(code, Some(0 | 1)), "e2fsck replays: {said}");
    said.contains("orphaned inode")
}

/// Replays with `e2fsck -fy`, which also corrects counts that are never trusted; see
/// [`super::compare`].
pub fn by_e2fsck(image: &Image) {
    let (code, said) = e2fsck(&["-fy"], image);
    assert!(matches!(code, Some(0 | 1)), "e2fsck replays: {said}");
    assert!(
        said.contains("recovering journal"),
        "e2fsck replays: {said}"
    );
}

/// Asserts that other programs accept the superblock, and see nothing to replay.
pub fn assert_recovered(image: &Image, what: &str) {
    let arguments = ["-h".as_ref(), image.path.as_os_str()];
    let said = tool::said(&tool::run("dumpe2fs", &arguments));
    let is_good = said.contains("Filesystem magic number:") && !said.contains("Checksum errors");
    assert!(is_good, "{what}: {said}");
    assert!(!said.contains("needs_recovery"), "{what}: {said}");
}

/// Returns the exit code of e2fsck and its output.
pub fn e2fsck(arguments: &[&str], image: &Image) -> (Option<i32>, String) {
    let mut arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    if let Some(journal) = &image.journal_path {
        arguments.extend(["-j".as_ref(), journal.as_os_str()]);
    }
    arguments.push(image.path.as_os_str());
    let output = tool::run("e2fsck", &arguments);
    (output.status.code(), tool::said(&output))
}

/// Replays by a read-only mount.
pub fn by_kernel(image: &Image) {
    let mounted = image.mount("ro,barrier=0");
    drop(mounted.unwrap_or_else(|why| panic!("the kernel replays: {why}")));
}
