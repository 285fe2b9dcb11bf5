//! Deletions and truncations that a crash has interrupted: the engine, the kernel and e2fsck
//! complete them, to the same image.
//!
//! | program | orphans, opened read-only | orphans, opened for writing |
//! |---|---|---|
//! | the engine | stay: such a volume is not changed beyond the replay | completed |
//! | the kernel | completed | completed |
//! | e2fsck | completed, even if it is only to replay the log | completed |
//!
//! So they are compared after an open for writing. The engine and the kernel then agree except for
//! the time of completion. e2fsck leaves the sizes and block maps of the inodes that it deletes,
//! does not clear the indirect blocks that it frees, and leaves the old bytes in the last block of
//! a truncated file beyond its new end.

use core::ops::Range;

use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use testkit::{Mount, Shutdown, privilege, tool};

use super::compare::{self, Allowed};
use super::content::Hands;
use super::log_format::{LARGE, PLAIN};
use super::{readers, writers};
use crate::image::Image;

/// The size in bytes to which a file is truncated, which ends within a block.
const SHORTER: u64 = 5000;

/// Inodes whose deletion or truncation was interrupted.
#[derive(Default)]
struct Cut {
    deleted: &'static [u32],
    truncated: &'static [u32],
    /// Byte range of the image beyond the end of the truncated file, in its last block.
    tail: Option<Range<usize>>,
}

/// Returns the offset of an inode in bytes of the image.
fn inode_offset(image: &Image, inode: u32) -> usize {
    let path = image.path.to_str().expect("UTF-8");
    let said = tool::run_well("debugfs", &["-R", &format!("imap <{inode}>"), path]);
    let place = said
        .split("located at block ")
        .nth(1)
        .and_then(|rest| rest.trim().split_once(", offset 0x"))
        .unwrap_or_else(|| panic!("debugfs imap said {said:?}"));
    let block: usize = place.0.parse().expect("a block number");
    let offset = usize::from_str_radix(place.1, 16).expect("an offset");
    block * image.block_bytes as usize + offset
}

fn open(image: &Image, read_only: bool) -> OpenReport {
    let options = MountOptions {
        read_only,
        ..MountOptions::default()
    };
    let (volume, report) =
        Volume::open_with_report(image.device(), image.journal_device(), options)
            .expect("the volume opens");
    volume.close().expect("close");
    report
}

/// Asserts that all programs complete the operations to the same image.
fn check(dirty: &Image, cut: &Cut, what: &str) {
    let ours = dirty.copy();
    let report = open(&ours, true);
    assert_eq!(
        (report.orphans_deleted, report.orphans_truncated),
        (0, 0),
        "{what}: read-only"
    );
    let report = open(&ours, false);
    assert_eq!(
        (report.orphans_deleted, report.orphans_truncated),
        (cut.deleted.len(), cut.truncated.len()),
        "{what}: deleted and truncated"
    );
    let offsets = |inodes: &[u32]| -> Vec<usize> {
        let inodes = inodes.iter();
        inodes.map(|inode| inode_offset(dirty, *inode)).collect()
    };
    let (deleted, truncated) = (offsets(cut.deleted), offsets(cut.truncated));
    let mut allowed = Allowed {
        log: true,
        finished: [deleted.clone(), truncated].concat(),
        ..Allowed::default()
    };
    for options in ["ro", "rw"] {
        let kernel = dirty.copy();
        let mounted = kernel.mount(&format!("{options},barrier=0"));
        drop(mounted.unwrap_or_else(|why| panic!("{what}: the kernel finishes: {why}")));
        let who = format!("{what}: the engine and the kernel, {options}");
        compare::assert_same(&ours, &kernel, &allowed, &who);
    }
    allowed.deleted = deleted;
    allowed.free_blocks = true;
    allowed.tail.clone_from(&cut.tail);
    for arguments in [&["-fy"][..], &["-y", "-E", "journal_only"]] {
        let theirs = dirty.copy();
        let (code, said) = readers::e2fsck(arguments, &theirs);
        assert!(
            matches!(code, Some(0 | 1)),
            "{what}: e2fsck finishes: {said}"
        );
        let who = format!("{what}: the engine and e2fsck {arguments:?}");
        compare::assert_same(&ours, &theirs, &allowed, &who);
    }
    let (code, said) = readers::e2fsck(&["-fn"], &ours);
    assert_eq!(code, Some(0), "{what}: e2fsck after the engine: {said}");
}

fn mount(image: &Image) -> Mount {
    let mounted = image.mount("data=ordered,commit=1000,barrier=0");
    mounted.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn files_unlinked_while_open() {
    if !privilege::is_granted() {
        return;
    }
    for format in [PLAIN, LARGE] {
        for is_external in [false, true] {
            for how in [Shutdown::FlushesLog, Shutdown::CutsLog] {
                let image = writers::blank(format, is_external, false);
                let mounted = mount(&image);
                mounted.write("/kept", &[1; 5000]);
                mounted.write("/large", &[2; 300_000]);
                mounted.write("/small", &[3; 300]);
                mounted.sync();
                let open = ["/large", "/small"]
                    .map(|path| std::fs::File::open(mounted.at(path)).expect("open"));
                mounted.remove("/large");
                mounted.remove("/small");
                mounted.sync();
                mounted.write("/later", &[4; 5000]);
                mounted.shut_down(how);
                drop(open);
                drop(mounted);
                let what = format!("{format:?}, external: {is_external}, {how:?}");
                let cut = Cut {
                    deleted: &[13, 14],
                    ..Cut::default()
                };
                check(&image, &cut, &what);
            }
        }
    }
}

/// Files that the kernel was removing are removed or intact, and nothing in between.
#[test]
fn removals_are_cut() {
    if !privilege::is_granted() {
        return;
    }
    for how in [Shutdown::FlushesLog, Shutdown::CutsLog] {
        let image = writers::blank(PLAIN, false, false);
        let mounted = mount(&image);
        let names: Vec<String> = (0..40).map(|number| format!("/file{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            mounted.write(name, &vec![1; 3000 + number * 97]);
            mounted.make_directory(&format!("/directory{number}"));
        }
        mounted.sync();
        for (number, name) in names.iter().enumerate() {
            mounted.remove(name);
            mounted.remove_directory(&format!("/directory{number}"));
        }
        mounted.shut_down(how);
        drop(mounted);
        check(&image, &Cut::default(), &format!("{how:?}"));
    }
}

/// A half-done truncation and deletion, written with debugfs: the size is changed and the blocks
/// are still there.
#[test]
fn half_done() {
    if !privilege::is_granted() {
        return;
    }
    for format in [PLAIN, LARGE] {
        for is_external in [false, true] {
            let image = writers::blank(format, is_external, false);
            let mounted = mount(&image);
            mounted.write("/truncated", &[2; 400_000]);
            mounted.write("/deleted", &[3; 300_000]);
            mounted.sync();
            drop(mounted);
            let commands = [
                &format!("sif /truncated size {SHORTER}"),
                "sif /truncated dtime 13",
                "sif /deleted links_count 0",
                "unlink /deleted",
                "ssv last_orphan 12",
            ];
            let block_bytes = u64::from(format.block_bytes);
            let last = format!("bmap /truncated {}", SHORTER / block_bytes);
            let said = tool::run_well(
                "debugfs",
                &["-R", &last, image.path.to_str().expect("UTF-8")],
            );
            let last: u64 = said.trim().parse().expect("a block number");
            let tail = last * block_bytes + SHORTER % block_bytes..(last + 1) * block_bytes;
            writers::debugfs(&image, &commands.join("\n"));
            let cut = Cut {
                deleted: &[13],
                truncated: &[12],
                tail: Some(tail.start as usize..tail.end as usize),
            };
            check(
                &image,
                &cut,
                &format!("{format:?}, external: {is_external}"),
            );
        }
    }
}
