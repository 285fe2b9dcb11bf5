//! The allocator of the `MultiBlock` profile: extents as long as a file needs.
//!
//! All lengths and places here are in clusters, which without `bigalloc` are blocks. A request is
//! answered by one extent if there is one. The caller says where the blocks lie in
//! their file ([`FilePlace`]), from which follows the length to look for
//! ([`Wanted`](wanted::Wanted)): a file that grows gets a window that ends at a power of two of its
//! size, and a file of at most 64 KiB a part of the locality group of its flex group
//! ([`Areas`](crate::cache::space::areas::Areas)), so that small files lie side by side. A
//! directory gets windows once it is larger than that.
//!
//! The passes of the search:
//!
//! 1. the file's window, or the locality group;
//! 2. the goal, if it continues the file, however few blocks are free there;
//! 3. the flex group of the goal, for an extent of the wanted length; if that is below 1 MiB, for
//!    less and less, down to the blocks that are allocated now;
//! 4. all groups, for an extent of the wanted length;
//! 5. all groups, for half of the longest free extent or more, as often as it takes;
//! 6. the same, after the locality groups were given up;
//! 7. all groups, for any extent, the windows of files included.
//!
//! A group whose longest free extent is known to be too short ([`Group::longest_max`]) is passed
//! over, and its bitmap is not read. Within a group the shortest extent of those that suffice is
//! taken ([`fit`]).
//!
//! Source: the kinds of preallocation and the order of criteria are those of ext4's multi-block
//! allocator, as described by A. Kumar et al., "Ext4 block and inode allocator improvements", OLS
//! 2008.

mod fit;
mod wanted;

use rt::atomic::Ordering;

use super::blocks::Plan;
use super::{BlockRequest, FilePlace};
use crate::cache::space::Window;
use crate::cache::space::bitmap::ClearRun;
use crate::cache::space::group::{BlockMap, Group};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::{Cluster, ClusterRun};
use crate::disk::geometry::Geometry;
use crate::error::{Error, Result};
use fit::Fit;
pub(super) use wanted::SMALL_BYTES;
use wanted::Wanted;

/// Size of a locality group in bytes.
const SMALL_AREA_BYTES: u32 = 2 << 20;

impl Core {
    /// Allocates one extent near the goal.
    pub(super) fn allocate_multi_block(
        &self,
        handle: &mut Handle<'_>,
        request: &BlockRequest<'_>,
        goal: Cluster,
        count: u32,
    ) -> Result<ClusterRun> {
        let Some(slot) = request.window else {
            let wanted = Wanted::near(count);
            return self.search(handle, goal, &wanted).map(|(run, _)| run);
        };
        // The window is taken out of its slot meanwhile: a thread that discards it now finds none.
        let mut window = core::mem::take(&mut *slot.lock());
        let result = self.allocate_for_file(handle, request, (goal, count), &mut window);
        *slot.lock() = window;
        result
    }

    fn allocate_for_file(
        &self,
        handle: &mut Handle<'_>,
        request: &BlockRequest<'_>,
        (goal, count): (Cluster, u32),
        window: &mut Window,
    ) -> Result<ClusterRun> {
        if window.count > 0
            && let Some(run) = self.allocate_from_window(handle, count, goal, window)?
        {
            return Ok(run);
        }
        let place = request
            .place
            .map(|place| place.in_clusters(self.geometry()));
        let place = match place {
            Some(place) if place.is_at_end(count) => place,
            place => {
                // Blocks amid a file or of its block map: the window waits for the end of the file.
                let wanted = match place {
                    Some(place) => Wanted::exact(count, place.from > 0),
                    None => Wanted::near(count),
                };
                return self.search(handle, goal, &wanted).map(|(run, _)| run);
            }
        };
        self.space.unreserve(&core::mem::take(window));
        let place = FilePlace {
            is_final: place.is_final || self.options.is_being_made,
            ..place
        };
        let wanted = Wanted::of(place, count, self.cluster_bytes());
        let (group, _) = self.geometry().group_of_inode(request.owner);
        let flex = self.space.areas().flex_of(group);
        // What follows the last blocks of a file is the end of the locality group, if no other file
        // has taken blocks from there since.
        let follows = (place.from > 0).then_some(goal);
        let mut goal = goal;
        if wanted.is_small || follows.is_some() {
            *window = self.space.areas().take_small(flex, follows, wanted.length);
            if window.count >= count {
                let first = window.first;
                if let Some(run) = self.allocate_from_window(handle, count, first, window)? {
                    return Ok(run);
                }
            }
            if window.count > 0 {
                goal = window.first;
                window.small = None;
                self.space.unreserve(&core::mem::take(window));
            }
        }
        if wanted.is_small && follows.is_none() {
            return self.allocate_small_area(handle, flex, goal, &wanted, window);
        }
        let (run, end) = self.search(handle, goal, &wanted)?;
        *window = window_between(run.end(), end);
        Ok(run)
    }

    /// Allocates from a new locality group.
    fn allocate_small_area(
        &self,
        handle: &mut Handle<'_>,
        flex: u32,
        goal: Cluster,
        wanted: &Wanted,
        window: &mut Window,
    ) -> Result<ClusterRun> {
        let area = (SMALL_AREA_BYTES / self.cluster_bytes()).max(1);
        let (run, end) = self.search(handle, goal, &wanted.with_length(area))?;
        let own_end = (run.first + u64::from(wanted.length))
            .min(end)
            .max(run.end());
        *window = Window {
            small: Some(flex),
            ..window_between(run.end(), own_end)
        };
        let before = self
            .space
            .areas()
            .put_small(flex, window_between(own_end, end));
        self.space.unreserve(&before);
        Ok(run)
    }

    /// Allocates at the goal or elsewhere. Returns the blocks, and the end of the window behind
    /// them.
    fn search(
        &self,
        handle: &mut Handle<'_>,
        goal: Cluster,
        wanted: &Wanted,
    ) -> Result<(ClusterRun, Cluster)> {
        let (home, index) = self.geometry().group_of_cluster(goal);
        if wanted.continues {
            let group = self.space.group(home);
            let plan = &mut |map: &BlockMap| {
                let free = map.open().run_length(index, wanted.length);
                (free > 0).then(|| wanted.plan(index, free))
            };
            if let Some(found) = self.take(handle, group, wanted, plan)? {
                return Ok(found);
            }
        }
        let areas = self.space.areas();
        let near = &self.space.groups()[areas.groups_of(areas.flex_of(home))];
        let at_home = home.index() - near[0].nr.index();
        let near = || near[at_home..].iter().chain(&near[..at_home]);
        for least in wanted.near_lengths() {
            if let Some(found) = self.search_groups(handle, near(), goal, wanted, least)? {
                return Ok(found);
            }
        }
        loop {
            if let Some(found) = self.search_all(handle, goal, wanted)? {
                return Ok(found);
            }
            if !self.give_up_small() {
                break;
            }
        }
        if rt::mutant!("allocation/windows-kept") {
            return Err(Error::NoSpace);
        }
        self.search_windows(handle, goal, wanted)
    }

    /// Searches all groups, for the wanted length and then for less and less.
    fn search_all(
        &self,
        handle: &mut Handle<'_>,
        goal: Cluster,
        wanted: &Wanted,
    ) -> Result<Option<(ClusterRun, Cluster)>> {
        let mut least = wanted.length;
        loop {
            let (groups, _) = self.groups_from(goal);
            let found = self.search_groups(handle, groups, goal, wanted, least)?;
            if found.is_some() || least == 1 {
                return Ok(found);
            }
            let longest = self.space.groups().iter().map(Group::longest_max).max();
            let most = longest.unwrap_or(0).min(least - 1);
            if most == 0 {
                return Ok(None);
            }
            least = 1 << most.ilog2();
        }
    }

    /// Searches groups for an extent of at least `least` blocks that are in no window.
    fn search_groups<'g>(
        &self,
        handle: &mut Handle<'_>,
        groups: impl Iterator<Item = &'g Group>,
        goal: Cluster,
        wanted: &Wanted,
        least: u32,
    ) -> Result<Option<(ClusterRun, Cluster)>> {
        for group in groups.filter(|group| group.longest_max() >= least) {
            let fit = self.fit(group, goal, wanted, least);
            let plan = &mut |map: &BlockMap| match fit.find(map.open()) {
                Ok(found) => Some(wanted.plan(found.start, found.count)),
                Err(longest) => {
                    group.longest.store(longest, Ordering::Relaxed);
                    None
                }
            };
            if let Some(found) = self.take(handle, group, wanted, plan)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Searches all groups for any block, those in windows included.
    fn search_windows(
        &self,
        handle: &mut Handle<'_>,
        goal: Cluster,
        wanted: &Wanted,
    ) -> Result<(ClusterRun, Cluster)> {
        let exact = Wanted::exact(wanted.count, false);
        let (groups, _) = self.groups_from(goal);
        for group in groups {
            let fit = self.fit(group, goal, &exact, 1);
            let plan = &mut |map: &BlockMap| {
                let found: Option<ClearRun> = fit.find(map.free()).ok();
                found.map(|found| exact.plan(found.start, found.count))
            };
            if let Some(found) = self.take(handle, group, &exact, plan)? {
                return Ok(found);
            }
        }
        Err(Error::NoSpace)
    }

    /// Returns the search within a group.
    fn fit(&self, group: &Group, goal: Cluster, wanted: &Wanted, least: u32) -> Fit {
        let (home, index) = self.geometry().group_of_cluster(goal);
        let from = match group.nr == home {
            true => index,
            false => group.goal_index(),
        };
        Fit {
            from,
            lengths: wanted.lengths(least),
            is_first: wanted.is_first_fit,
            first: group.first_cluster.get(),
            stripe: u64::from(self.space.areas().stripe),
        }
    }

    /// Returns the size of a cluster in bytes.
    fn cluster_bytes(&self) -> u32 {
        self.geometry().block_bytes << self.geometry().cluster_log
    }

    fn take(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        wanted: &Wanted,
        plan: &mut dyn FnMut(&BlockMap) -> Option<Plan>,
    ) -> Result<Option<(ClusterRun, Cluster)>> {
        let found = self.allocate_in(handle, group, plan)?;
        Ok(found.map(|(run, window_end)| {
            if !wanted.is_first_fit {
                group.note_goal(window_end);
            }
            (run, group.cluster(window_end))
        }))
    }

    /// Gives up all locality groups, so that every file can have their blocks. Returns false if
    /// there was none.
    pub(super) fn give_up_small(&self) -> bool {
        let areas = self.space.areas();
        let mut has_any = false;
        for flex in 0..areas.flex_count() {
            let rest = areas.put_small(flex, Window::default());
            has_any |= rest.count > 0;
            self.space.unreserve(&rest);
        }
        has_any
    }
}

impl FilePlace {
    /// Returns the place in clusters.
    fn in_clusters(self, geometry: &Geometry) -> Self {
        Self {
            from: self.from >> geometry.cluster_log,
            size_blocks: self.size_blocks.div_ceil(geometry.cluster_blocks().into()),
            ..self
        }
    }

    /// Returns true if `count` clusters there reach the end of the file.
    fn is_at_end(&self, count: u32) -> bool {
        self.from + u64::from(count) >= self.size_blocks
    }
}

fn window_between(first: Cluster, end: Cluster) -> Window {
    Window {
        first,
        count: (end.get() - first.get()) as u32,
        ..Window::default()
    }
}
