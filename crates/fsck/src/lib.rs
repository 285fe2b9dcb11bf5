//! An independent checker of ext2 and ext3 images. It shares with the file system's own implementation only the layout of
//! bytes, never its code, so that it can disagree with it.
//!
//! # Passes
//!
//! | module | what it checks |
//! |---|---|
//! | `superblock`, `groups`, `backups` | sizes, features, places of bitmaps and tables; their copies |
//! | `journal` | where it is, its superblock, the log as far as it would be replayed |
//! | `inodes`, `map`, `attributes` | every inode in use, its map and its attributes |
//! | `orphans` | the orphan list |
//! | `claims` | blocks that belong to more than one |
//! | `directories`, `htree` | entries, and what they lead to; hash trees |
//! | `connections` | parents, `..`, unreachable directories and inodes, link counts |
//! | `bitmaps` | bitmaps and counts |
//!
//! # Rules
//!
//! - Nothing is ever written.
//! - Any bytes may be given: memory and time are bounded by the size of the device and by named constants, and nothing panics.
//! - What is a problem and what is not is judged as `e2fsck -fn` judges it; `docs/fsck.md` names the differences.
//! - It is fast on small images, because crash tests call it by the million: few reads, no allocation for each block.
//! - What it keeps follows what is in use: an empty file system of 16 TiB takes a few megabytes.

#![forbid(unsafe_code)]

mod attributes;
mod backups;
mod bitmaps;
mod bitset;
mod blocks;
mod claims;
mod connections;
mod directories;
mod error;
mod geometry;
mod groups;
mod htree;
mod image;
mod inode_states;
mod inodes;
mod journal;
mod kind;
mod map;
mod orphans;
mod problem;
mod report;
mod state;
mod superblock;

use block::BlockDevice;

pub use error::{Error, SuperblockFault};
pub use kind::{ProblemKind, Severity};
pub use problem::{Place, Problem};
pub use report::{PROBLEMS_MAX, Report, Statistics};

use image::Image;
use state::State;

/// How to check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The time, in seconds since 1970: times after it are problems. `None` believes every time.
    pub now: Option<i64>,
}

/// Checks a file system on a device, with its external journal's device if it has one.
///
/// # Errors
/// - [`Error`] says why nothing could be checked. What is wrong in the file system is in the report.
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

/// Checks a file system that lies in memory. Nothing is copied.
///
/// # Errors
/// - As [`check`].
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
    let mut has_tables = superblock::check(&mut state) && groups::check(&mut state)?;
    if state.copy.is_none()
        && groups::are_bad(&state)
        && let Some(copy) = superblock::find_copy(&mut state.image, &state.raw)
    {
        state = State::new(state.image, options, copy);
        has_tables = superblock::check(&mut state) && groups::check(&mut state)?;
    }
    if has_tables {
        backups::check(&mut state)?;
        journal::check(&mut state, journal)?;
        state.map_visits = 0;
        inodes::check(&mut state)?;
        inodes::check_resize(&mut state)?;
        orphans::check(&mut state)?;
        superblock::check_large_files(&mut state);
        claims::check(&mut state)?;
        attributes::check_references(&mut state);
        directories::check(&mut state)?;
        connections::check(&mut state);
        bitmaps::check(&mut state)?;
    }
    Ok(state.report)
}
