//! An independent checker of ext2, ext3 and ext4 images. It shares only the on-disk layout with the
//! file system's own implementation, and none of its code, so that the two can disagree.
//!
//! # Passes
//!
//! | module | checks |
//! |---|---|
//! | `superblock`, `groups`, `backups` | sizes, features, group descriptors; their backups |
//! | `multi_mount` | the block of multiple mount protection |
//! | `journal` | its location, its superblock, the log as far as it would be replayed |
//! | `inodes`, `map`, `extents`, `attributes` | every inode, its map and its attributes |
//! | `orphans` | the orphan list |
//! | `claims` | blocks claimed more than once |
//! | `directories`, `htree` | entries, and the inodes that they refer to; hash trees |
//! | `connections` | parents, `..`, unreachable directories and inodes, link counts |
//! | `bitmaps` | bitmaps and counts |
//! | `quotas` | quota files |
//!
//! # Rules
//!
//! - Nothing is ever written.
//! - Any bytes are accepted: memory and time are bounded by the size of the device and by named
//!   constants, and nothing panics.
//! - Problems are judged as `e2fsck -fn` judges them; `docs/fsck.md` names the differences.
//! - Checks of small images are fast, because crash tests run millions of them: few reads, no
//!   allocation for each block.
//! - Memory is proportional to the used part: an empty file system of 16 TiB takes a few megabytes.

#![forbid(unsafe_code)]
mod attributes;
mod backups;
mod bitmaps;
mod bitset;
mod blocks;
mod claims;
mod connections;
mod descriptor;
mod directories;
mod entry;
mod error;
mod extents;
mod geometry;
mod groups;
mod htree;
mod image;
mod inode_states;
mod inodes;
mod journal;
mod kind;
mod map;
mod multi_mount;
mod orphans;
mod owners;
mod policies;
mod problem;
mod quotas;
mod report;
mod reserved_inodes;
mod state;
mod superblock;
mod visit;

use block::BlockDevice;

pub use error::{Error, SuperblockFault};
pub use kind::{ProblemKind, Severity};
pub use problem::{Location, Problem};
pub use report::{PROBLEMS_MAX, Report, Statistics};

use image::Image;
use state::State;

/// Options of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Current time in seconds since 1970: later times are problems. `None` accepts all times.
    pub now: Option<i64>,
}

/// Checks a file system on a device, with the device of its external journal if it has one.
///
/// # Errors
/// - [`Error`] if nothing could be checked. Faults of the file system are in the report.
pub fn check(
    device: &dyn BlockDevice,
    journal: Option<&dyn BlockDevice>,
    options: &Options,
) -> Result<Report, Error> {
    run(
        Image::of_device(device),
        journal.map(Image::of_device),
        options,
    )
}

/// Checks a file system in memory, without copying it.
///
/// # Errors
/// - As for [`check`].
pub fn check_bytes(
    image: &[u8],
    journal: Option<&[u8]>,
    options: &Options,
) -> Result<Report, Error> {
    run(
        Image::of_bytes(image),
        journal.map(Image::of_bytes),
        options,
    )
}

fn run<'a>(
    mut image: Image<'a>,
    journal: Option<Image<'a>>,
    options: &'a Options,
) -> Result<Report, Error> {
    let decoded = superblock::find(&mut image)?;
    let mut state = State::new(image, options, decoded);
    let mut has_tables = superblock::check::check(&mut state) && groups::check(&mut state)?;
    if state.copy.is_none()
        && groups::are_bad(&state)
        && let Some(copy) = superblock::find_copy(&mut state.image, &state.raw)
    {
        state = State::new(state.image, options, copy);
        has_tables = superblock::check::check(&mut state) && groups::check(&mut state)?;
    }
    if has_tables {
        backups::check(&mut state)?;
        multi_mount::check(&mut state)?;
        journal::check(&mut state, journal)?;
        state.map_visits = 0;
        inodes::check(&mut state)?;
        inodes::check_resize(&mut state)?;
        orphans::check(&mut state)?;
        superblock::check::check_large_files(&mut state);
        claims::check(&mut state)?;
        attributes::check_references(&mut state);
        directories::check(&mut state)?;
        connections::check(&mut state);
        bitmaps::check(&mut state)?;
        quotas::check(&mut state)?;
    }
    Ok(state.report)
}
