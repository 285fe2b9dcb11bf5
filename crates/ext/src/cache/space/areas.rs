//! The areas that the multi-block allocator keeps together: flex groups, with an area for small
//! files each, and the stripes of an array.
//!
//! # Flex groups
//!
//! The bitmaps and inode tables of a flex group lie in its first group. Directories get blocks
//! there, regular files in the groups behind it. Without `flex_bg` each group is a flex group of
//! its own.
//!
//! # Small files
//!
//! The small files of a flex group take their blocks side by side from a *locality group*: a window
//! that belongs to no file. A file gets a part of it as its own window, and gives back the end of
//! that part when it is closed, if no other file has taken blocks behind it meanwhile.

use core::ops::Range;

use layout::{GroupNr, InodeNr};
use rt::Mutex;

use super::Window;
use crate::disk::cluster::Cluster;
use crate::disk::geometry::Geometry;
use crate::disk::superblock::Superblock;

/// Smallest flex group whose regular files start behind its first group.
const DATA_APART_MIN: u32 = 4;
/// Largest logarithm of the number of groups in a flex group.
const LOG_MAX: u32 = 31;

/// Flex groups and stripes of a volume.
pub(crate) struct Areas {
    /// Logarithm of the number of groups in a flex group.
    log: u32,
    group_count: u32,
    /// Number of clusters in a stripe; 1 if there are none.
    pub(crate) stripe: u32,
    /// The rest of each flex group's locality group. // leaf
    small: Box<[Mutex<Window>]>,
}

impl Areas {
    /// Returns the areas of a volume. `stripe` replaces the stripe of the superblock.
    pub(crate) fn of(superblock: &Superblock, stripe: Option<u32>) -> Self {
        let geometry = &superblock.geometry;
        let raw = &superblock.raw;
        let log = match geometry.has_flexible_groups {
            true => u32::from(raw.log_groups_per_flex).min(LOG_MAX),
            false => 0,
        };
        let found = [
            stripe,
            Some(raw.raid_stripe_width.get()),
            Some(u32::from(raw.raid_stride.get())),
        ];
        let is_sound = |blocks: &u32| {
            let is_whole = blocks.is_multiple_of(geometry.cluster_blocks());
            *blocks > 0 && *blocks <= geometry.blocks_per_group && is_whole
        };
        let stripe = found.into_iter().flatten().find(is_sound);
        let stripe = stripe.map(|blocks| blocks >> geometry.cluster_log);
        let flex_count = geometry.group_count.div_ceil(1 << log);
        Self {
            log,
            group_count: geometry.group_count,
            stripe: stripe.unwrap_or(1),
            small: (0..flex_count).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the number of flex groups.
    pub(crate) fn flex_count(&self) -> u32 {
        self.small.len() as u32
    }

    /// Returns the number of groups in each flex group except the last.
    pub(crate) fn flex_groups(&self) -> u32 {
        1 << self.log
    }

    /// Returns the flex group of a group.
    pub(crate) fn flex_of(&self, group: GroupNr) -> u32 {
        group.get() >> self.log
    }

    /// Returns the groups of a flex group, as indices.
    pub(crate) fn groups_of(&self, flex: u32) -> Range<usize> {
        let end = (u64::from(flex) + 1) << self.log;
        (flex << self.log) as usize..end.min(self.group_count.into()) as usize
    }

    /// Returns the group in which the blocks of a new file or directory are searched first.
    pub(crate) fn first_group(
        &self,
        geometry: &Geometry,
        inode: InodeNr,
        is_file: bool,
    ) -> GroupNr {
        let (home, _) = geometry.group_of_inode(inode);
        if self.flex_groups() < DATA_APART_MIN {
            return home;
        }
        let groups = self.groups_of(self.flex_of(home));
        let behind = usize::from(is_file && groups.len() > 1);
        GroupNr::new((groups.start + behind) as u32)
    }

    /// Takes `count` clusters from the front of a flex group's locality group, or all that there
    /// are. If `at` is given, takes none unless they start there. Returns a window that remembers
    /// its origin.
    pub(crate) fn take_small(&self, flex: u32, at: Option<Cluster>, count: u32) -> Window {
        let mut rest = self.small[flex as usize].lock();
        if at.is_some_and(|at| at != rest.first) || rest.count == 0 {
            return Window::default();
        }
        let taken = Window {
            first: rest.first,
            count: count.min(rest.count),
            small: Some(flex),
            ..Window::default()
        };
        rest.first = rest.first + u64::from(taken.count);
        rest.count -= taken.count;
        taken
    }

    /// Puts clusters into a flex group's locality group. Returns those that it had.
    pub(crate) fn put_small(&self, flex: u32, window: Window) -> Window {
        core::mem::replace(&mut *self.small[flex as usize].lock(), window)
    }

    /// Gives the end of a window back to the locality group that it was taken from. Returns false
    /// if other clusters were taken from there meanwhile.
    pub(super) fn give_back_small(&self, geometry: &Geometry, window: &Window) -> bool {
        let Some(flex) = window.small else {
            return false;
        };
        let mut rest = self.small[flex as usize].lock();
        let is_next = window.first + u64::from(window.count) == rest.first;
        // No window lies in two groups.
        let is_here =
            || geometry.group_of_cluster(window.first).0 == geometry.group_of_cluster(rest.first).0;
        let is_taken = is_next && (rest.count == 0 || is_here());
        if is_taken {
            rest.first = window.first;
            rest.count += window.count;
        }
        is_taken
    }
}
