//! The tools that the selected sides need, checked before anything is started.

use anyhow::{Context, Result};
use lab::file_system::Described;
use lab::system::tool::{self, Needed};

use super::loads::Load;
use super::opened::memory_setup;
use super::place::{MemoryForm, Place};
use super::side::Side;
use super::work::Work;
use crate::compared_type::ComparedType;
use crate::disk_image::Format;

const MOUNT: [Needed; 3] = [
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];
const MKE2FS: Needed = ("mke2fs", "e2fsprogs");
const E2FSCK: Needed = ("e2fsck", "e2fsprogs");
const MKFS_XFS: Needed = ("mkfs.xfs", "xfsprogs");
const POSTMARK: Needed = ("postmark", "postmark");
/// Form of a file system that is only described.
const FORM: MemoryForm = MemoryForm {
    file_system: ComparedType::Ext4,
    size_bytes: 1 << 30,
    bytes_per_inode: None,
    options: "rw",
};

/// Checks the tools of all works. Changes nothing.
///
/// # Errors
/// Fails with the first missing tool, its side, and how to install it.
pub(super) fn check(works: &[Work]) -> Result<()> {
    tool::check(&MOUNT)?;
    for work in works {
        for side in work.sides.iter().copied() {
            let checked = check_side(work, side);
            checked.with_context(|| {
                format!("{} on {} (--side leaves it out)", work.name, side.name())
            })?;
        }
    }
    Ok(())
}

fn check_side(work: &Work, side: Side) -> Result<()> {
    if side.is_mounted() {
        memory_setup(side, FORM)?.check_system()?;
    }
    tool::check(&needed(work, side))
}

fn needed(work: &Work, side: Side) -> Vec<Needed> {
    let mut all = Vec::new();
    if matches!(work.place, Place::Disk) {
        match side.disk_format() {
            Some(Format::Xfs) => all.push(MKFS_XFS),
            Some(_) => all.extend([MKE2FS, E2FSCK]),
            None => {}
        }
    }
    let loads = || work.cases.iter().map(|case| case.load);
    if side.is_mounted() && loads().any(|load| matches!(load, Load::PostMark(_))) {
        all.push(POSTMARK);
    }
    if side == Side::Mke2fs {
        all.push(MKE2FS);
    }
    // The images of programs are checked on every side.
    if work.is_of_programs() {
        all.push(E2FSCK);
    }
    all
}
