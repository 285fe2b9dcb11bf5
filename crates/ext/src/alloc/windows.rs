//! The allocator of the `Modern` profile: reservation windows.
//!
//! A growing file holds a *window*: blocks after its last one that other files avoid as long as
//! they find free blocks elsewhere, so that files that grow at the same time do not interleave. A
//! window lies in one group, and all of its blocks are free when it is created. Each window is
//! twice as long as the one before, up to a limit. Windows exist in memory only, and a file that
//! finds no other space may allocate from any window.
//!
//! The passes of the search:
//!
//! 1. the file's window, if the goal lies in it;
//! 2. the goal, then its group and a few groups after it, for an extent that is long enough;
//! 3. all groups, for any extent outside of windows;
//! 4. all groups, for any extent.

use rt::Mutex;
use rt::atomic::Ordering;

use super::blocks::Plan;
use crate::cache::space::Window;
use crate::cache::space::bitmap::{ClearRun, View};
use crate::cache::space::group::{BlockMap, Group};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::{Cluster, ClusterRun};
use crate::error::{Error, Result};

/// Number of blocks in a file's first window.
const WINDOW_MIN: u32 = 8;
/// Number of blocks in the longest window.
const WINDOW_MAX: u32 = 1024;
/// Number of groups searched for a long extent before any extent is accepted.
const NEAR_GROUPS: usize = 4;

impl Core {
    /// Allocates near the goal, with the file's window if it has one.
    pub(super) fn allocate_near(
        &self,
        handle: &mut Handle<'_>,
        window: Option<&Mutex<Window>>,
        goal: Cluster,
        count_max: u32,
    ) -> Result<ClusterRun> {
        // The window is taken out of its slot meanwhile: a thread that discards it now finds none.
        let Some(slot) = window else {
            return self
                .allocate_new(handle, count_max, 0, goal)
                .map(|(run, _)| run);
        };
        let mut window = core::mem::take(&mut *slot.lock());
        let result = self.allocate_windowed(handle, count_max, goal, &mut window);
        *slot.lock() = window;
        result
    }

    fn allocate_windowed(
        &self,
        handle: &mut Handle<'_>,
        count_max: u32,
        goal: Cluster,
        window: &mut Window,
    ) -> Result<ClusterRun> {
        if window.count > 0 {
            if let Some(run) = self.allocate_from_window(handle, count_max, goal, window)? {
                return Ok(run);
            }
            self.space.unreserve(window);
            let is_sequential = goal == window.first + u64::from(window.count);
            window.count = 0;
            if !is_sequential {
                window.next_count = 0;
            }
        }
        let length = window.next_count.clamp(WINDOW_MIN, WINDOW_MAX);
        let (run, end) = self.allocate_new(handle, count_max, length, goal)?;
        window.next_count = (length * 2).min(WINDOW_MAX);
        window.first = run.end();
        window.count = (end.get() - run.end().get()) as u32;
        Ok(run)
    }

    /// Allocates from the file's window, if the goal lies in it.
    pub(super) fn allocate_from_window(
        &self,
        handle: &mut Handle<'_>,
        count_max: u32,
        goal: Cluster,
        window: &mut Window,
    ) -> Result<Option<ClusterRun>> {
        let end = window.first + u64::from(window.count);
        if goal < window.first || goal >= end {
            return Ok(None);
        }
        let (group, first) = self.geometry().group_of_cluster(window.first);
        let group = self.space.group(group);
        let from = first + (goal.get() - window.first.get()) as u32;
        let window_end = first + window.count;
        let taken = self.allocate_in(handle, group, &mut |map: &BlockMap| {
            let own = View {
                taken: &map.taken,
                avoided: None,
            };
            let start = own.first_clear(from, window_end)?;
            let inside = own.run_length(start, count_max.min(window_end - start));
            // After the end of the file's own window, the windows of other files are avoided.
            let all = View {
                taken: &map.taken,
                avoided: Some(&map.reserved),
            };
            let is_longer = inside < count_max && start + inside == window_end;
            let behind = if is_longer {
                all.run_length(window_end, count_max - inside)
            } else {
                0
            };
            Some(Plan {
                take: ClearRun {
                    start,
                    count: inside + behind,
                },
                window_end,
            })
        })?;
        let Some((run, _)) = taken else {
            return Ok(None);
        };
        let start = (run.first.get() - group.first_cluster.get()) as u32;
        if start > first {
            group.unreserve(first, start - first);
        }
        window.first = run.end();
        window.count = end.get().saturating_sub(run.end().get()) as u32;
        if window.count == 0 {
            group.note_goal(start + run.count);
        }
        Ok(Some(run))
    }

    /// Allocates elsewhere, and creates a window of `length` clusters there unless `length` is 0.
    /// Also returns the end of the window.
    fn allocate_new(
        &self,
        handle: &mut Handle<'_>,
        count_max: u32,
        length: u32,
        goal: Cluster,
    ) -> Result<(ClusterRun, Cluster)> {
        let wanted = count_max.clamp(length.clamp(1, WINDOW_MIN), WINDOW_MAX);
        let (groups, index) = self.groups_from(goal);
        for (distance, group) in groups.take(NEAR_GROUPS).enumerate() {
            let from = if distance == 0 {
                index
            } else {
                group.goal_index()
            };
            let room = group.usable_clusters.load(Ordering::Relaxed);
            if room < wanted {
                continue;
            }
            let plan = &mut |map: &BlockMap| {
                let view = View {
                    taken: &map.taken,
                    avoided: Some(&map.reserved),
                };
                let found = long_run(view, from, wanted)?;
                Some(plan(view, found, count_max, length))
            };
            if let Some(found) = self.allocate_planned(handle, group, length, plan)? {
                return Ok(found);
            }
        }
        for may_steal in [false, true] {
            let (groups, index) = self.groups_from(goal);
            for (distance, group) in groups.enumerate() {
                let from = if distance == 0 { index } else { 0 };
                let plan = &mut |map: &BlockMap| {
                    let avoided = (!may_steal).then_some(&map.reserved);
                    let view = View {
                        taken: &map.taken,
                        avoided,
                    };
                    let found = any_run(view, from, wanted)?;
                    Some(plan(
                        view,
                        found,
                        count_max,
                        if may_steal { 0 } else { length },
                    ))
                };
                if let Some(found) = self.allocate_planned(handle, group, length, plan)? {
                    return Ok(found);
                }
            }
        }
        Err(Error::NoSpace)
    }

    fn allocate_planned(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        length: u32,
        plan: &mut dyn FnMut(&BlockMap) -> Option<Plan>,
    ) -> Result<Option<(ClusterRun, Cluster)>> {
        let found = self.allocate_in(handle, group, plan)?;
        Ok(found.map(|(run, window_end)| {
            if length > 0 {
                group.note_goal(window_end);
            }
            (run, group.cluster(window_end))
        }))
    }
}

/// Returns an extent of `wanted` clear blocks: at `from`, after it, or before it.
fn long_run(view: View<'_>, from: u32, wanted: u32) -> Option<ClearRun> {
    let bits = view.taken.bits();
    let is_long = |run: &ClearRun| run.count == wanted;
    view.find_run(from, bits, wanted)
        .filter(is_long)
        .or_else(|| view.find_run(0, from, wanted).filter(is_long))
}

/// Returns the longest extent that a short search finds.
fn any_run(view: View<'_>, from: u32, wanted: u32) -> Option<ClearRun> {
    let bits = view.taken.bits();
    view.find_run(from, bits, wanted)
        .or_else(|| view.find_run(0, from, wanted))
}

/// Returns the part of an extent to take, and the end of the window after it.
fn plan(view: View<'_>, found: ClearRun, count_max: u32, length: u32) -> Plan {
    let whole = view.run_length(found.start, count_max.max(length));
    let take = ClearRun {
        start: found.start,
        count: whole.min(count_max),
    };
    let window = if length == 0 { take.count } else { whole };
    Plan {
        take,
        window_end: found.start + window,
    }
}
