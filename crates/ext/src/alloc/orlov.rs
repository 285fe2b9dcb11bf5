//! The placement of inodes in flex groups, for the `MultiBlock` profile.
//!
//! | inode | flex group |
//! |---|---|
//! | directory in the root | few directories, and at least average free inodes and blocks |
//! | other directory | the parent's or the next one that is not crowded |
//! | other file | the parent's or the next one with free inodes |
//!
//! Within a flex group, a directory in the root takes the group with fewest directories. For other
//! inodes the parent's group comes first, then the others in order: what lies below a directory in
//! the root fills the tables of its group from the start.
//!
//! Source: as for [`inodes`](super::inodes); ext4 does so with flex groups in place of groups.

use layout::{GroupNr, InodeNr};
use rt::atomic::Ordering;

use crate::cache::space::group::Group;
use crate::core::Core;

/// Divisor of the size of a flex group: one is crowded if its free inodes or blocks are below the
/// average by this share.
const CROWDED_SHARE: u64 = 4;
/// Divisor of the inodes of a flex group: one is crowded if its directories exceed the average by
/// this share.
const DIRECTORY_SHARE: u64 = 16;

/// Counts of a flex group, or averages over all.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    free_inodes: u64,
    free_clusters: u64,
    directories: u64,
}

impl Core {
    /// Returns the group for a new directory.
    pub(super) fn group_for_directory(&self, parent: InodeNr) -> Option<GroupNr> {
        let (home, _) = self.geometry().group_of_inode(parent);
        let count = self.space.areas().flex_count();
        let average = self.average_of_flex_groups();
        let has_average = |flex: &u32| {
            let counts = self.counts_of_flex_group(*flex);
            counts.free_inodes > 0
                && counts.free_inodes >= average.free_inodes
                && counts.free_clusters >= average.free_clusters
        };
        if parent == InodeNr::ROOT {
            let chance = if self.options.is_being_made {
                self.space.directories.load(Ordering::Relaxed)
            } else {
                rt::random_u64()
            };
            let start = (chance % u64::from(count)) as u32;
            let all = || (0..count).map(|step| (start + step) % count);
            let directories = |flex: &u32| self.counts_of_flex_group(*flex).directories;
            let has_inodes = |flex: &u32| {
                let free = self.counts_of_flex_group(*flex).free_inodes;
                free > 0 && free >= average.free_inodes
            };
            let best = all().filter(has_average).min_by_key(directories);
            let best = best.or_else(|| all().filter(has_inodes).min_by_key(directories));
            return best.and_then(|flex| self.group_for_top(flex, home));
        }
        let geometry = self.geometry();
        let groups = u64::from(self.space.areas().flex_groups().min(geometry.group_count));
        let inodes = u64::from(geometry.inodes_per_group) * groups;
        let clusters = u64::from(geometry.clusters_per_group()) * groups;
        let least = Counts {
            free_inodes: average.free_inodes.saturating_sub(inodes / CROWDED_SHARE),
            free_clusters: average
                .free_clusters
                .saturating_sub(clusters / CROWDED_SHARE),
            directories: average.directories + inodes / DIRECTORY_SHARE,
        };
        let is_uncrowded = |flex: &u32| {
            let counts = self.counts_of_flex_group(*flex);
            counts.free_inodes > 0
                && counts.free_inodes >= least.free_inodes
                && counts.free_clusters >= least.free_clusters
                && counts.directories < least.directories
        };
        let start = self.space.areas().flex_of(home);
        let near = || (0..count).map(|step| (start + step) % count);
        let found = near()
            .find(is_uncrowded)
            .or_else(|| near().find(has_average));
        found.and_then(|flex| self.group_with_inode(flex, home))
    }

    /// Returns the group of a flex group for a directory in the root: the one with fewest
    /// directories of those with at least average room. What lies below two such directories is
    /// rarely used together, and threads that work there at a time do not change the same bitmaps
    /// and tables. In a volume that is being made, tables are filled from the start instead.
    fn group_for_top(&self, flex: u32, home: GroupNr) -> Option<GroupNr> {
        if self.options.is_being_made {
            return self.group_with_inode(flex, home);
        }
        let groups = &self.space.groups()[self.space.areas().groups_of(flex)];
        let counts = self.counts_of_flex_group(flex);
        let count = groups.len() as u64;
        let has_room = |group: &&Group| {
            let free_inodes = u64::from(group.free_inodes.load(Ordering::Relaxed));
            let free_clusters = u64::from(group.usable_clusters.load(Ordering::Relaxed));
            free_inodes > 0
                && free_inodes >= counts.free_inodes / count
                && free_clusters >= counts.free_clusters / count
        };
        let with_room = groups.iter().filter(has_room);
        let best = with_room.min_by_key(|group| group.directories.load(Ordering::Relaxed));
        best.map(|group| group.nr)
            .or_else(|| self.group_with_inode(flex, home))
    }

    /// Returns the group for another new file.
    pub(super) fn group_for_file(&self, parent: InodeNr) -> Option<GroupNr> {
        let (home, _) = self.geometry().group_of_inode(parent);
        let areas = self.space.areas();
        let (start, count) = (areas.flex_of(home), areas.flex_count());
        let mut near = (0..count).map(|step| (start + step) % count);
        near.find_map(|flex| self.group_with_inode(flex, home))
    }

    /// Returns the first group of a flex group with a free inode, searching from `home` on if that
    /// is one of its groups.
    fn group_with_inode(&self, flex: u32, home: GroupNr) -> Option<GroupNr> {
        let groups = &self.space.groups()[self.space.areas().groups_of(flex)];
        let at = groups.iter().position(|group| group.nr == home);
        let (before, behind) = groups.split_at(at.unwrap_or(0));
        let mut all = behind.iter().chain(before);
        all.find(|group| group.free_inodes.load(Ordering::Relaxed) > 0)
            .map(|group| group.nr)
    }

    fn counts_of_flex_group(&self, flex: u32) -> Counts {
        let groups = &self.space.groups()[self.space.areas().groups_of(flex)];
        let add = |sum: Counts, group: &Group| Counts {
            free_inodes: sum.free_inodes + u64::from(group.free_inodes.load(Ordering::Relaxed)),
            free_clusters: sum.free_clusters
                + u64::from(group.usable_clusters.load(Ordering::Relaxed)),
            directories: sum.directories + u64::from(group.directories.load(Ordering::Relaxed)),
        };
        groups.iter().fold(Counts::default(), add)
    }

    fn average_of_flex_groups(&self) -> Counts {
        let count = u64::from(self.space.areas().flex_count());
        let mean = |total: &rt::atomic::AtomicU64| total.load(Ordering::Relaxed) / count;
        Counts {
            free_inodes: mean(&self.space.free_inodes),
            free_clusters: mean(&self.space.usable_clusters),
            directories: mean(&self.space.directories),
        }
    }
}
