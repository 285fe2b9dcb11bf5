//! [`Tasks`]: the tasks of a world, by number.

use std::backtrace::Backtrace;
use std::ptr;

use corosensei::Yielder;
use rt::Nanos;
use rt::world::{Wait, WaitPoint};

use crate::watch::Role;

/// The slot number that means no task.
pub(crate) const NONE: u32 = u32::MAX;

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) status: Status,
    /// Distinguishes successive tasks of a slot.
    generation: u32,
    /// The coroutine's handle for switching; null until it first runs.
    pub(crate) yielder: *const Yielder<(), ()>,
    /// Address of the guard page below the stack.
    pub(crate) guard: usize,
    /// Host work not yet settled, in nanoseconds.
    pub(crate) debt: u64,
    /// [`rt::tag`] of the task.
    pub(crate) tag: u64,
    /// Task that waits for the end of this one.
    pub(crate) joiner: u32,
    /// Token with which the task was woken; `None` if its deadline passed.
    pub(crate) token: Option<usize>,
    /// True if [`Watch`](crate::watch::Watch) counts it as waiting without a timeout.
    pub(crate) is_stuck: bool,
    /// Epoch, and number of times in a row that the timer fired without waking a host task.
    pub(crate) fired: (u64, u32),
    /// Start of the wait.
    pub(crate) since: Nanos,
    /// Backtrace of the wait, if captured.
    pub(crate) backtrace: Option<Backtrace>,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The slot is free.
    Absent,
    /// Ready to run.
    Ready,
    /// Running.
    Running,
    /// Waits for a moment.
    Sleeping,
    /// Settles its debt.
    Computing,
    /// Parked.
    Parked(WaitPoint),
    /// Waits for the end of another task.
    Joining(u32),
    /// Has ended; its coroutine is about to.
    Ended,
}

/// All tasks. Slots are reused, ids are not.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    slots: Vec<Task>,
    free: Vec<u32>,
}

impl Tasks {
    /// Creates a task that is ready, and returns its slot.
    pub(crate) fn add(&mut self, name: &str, role: Role) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Task::absent());
            u32::try_from(self.slots.len() - 1).expect("fewer tasks than 2^32")
        });
        let task = &mut self.slots[slot as usize];
        let generation = task.generation;
        *task = Task {
            name: name.to_owned(),
            role,
            status: Status::Ready,
            generation,
            ..Task::absent()
        };
        slot
    }

    /// Frees the slot of a task that has ended.
    pub(crate) fn remove(&mut self, slot: u32) {
        let task = &mut self.slots[slot as usize];
        let generation = task.generation + 1;
        *task = Task {
            generation,
            ..Task::absent()
        };
        self.free.push(slot);
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Task {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Task {
        &mut self.slots[slot as usize]
    }

    /// Returns the task's id, which is never reused in this world.
    pub(crate) fn id(&self, slot: u32) -> u64 {
        u64::from(self.get(slot).generation) << 32 | u64::from(slot)
    }

    /// Returns the slot of a task that has not ended.
    pub(crate) fn find(&self, id: u64) -> Option<u32> {
        let slot = id as u32;
        let task = self.slots.get(slot as usize)?;
        let is_there = u64::from(task.generation) == id >> 32
            && !matches!(task.status, Status::Absent | Status::Ended);
        is_there.then_some(slot)
    }

    /// Returns all present tasks with their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, task)| task.status != Status::Absent)
    }
}

impl Task {
    fn absent() -> Self {
        Self {
            name: String::new(),
            role: Role::Host,
            status: Status::Absent,
            generation: 0,
            yielder: ptr::null(),
            guard: 0,
            debt: 0,
            tag: 0,
            joiner: NONE,
            token: None,
            is_stuck: false,
            fired: (0, 0),
            since: Nanos::ZERO,
            backtrace: None,
        }
    }
}

/// Returns the number of a wait in the trace.
pub(crate) fn wait_number(wait: Wait) -> u64 {
    match wait {
        Wait::Mutex => 1,
        Wait::Read => 2,
        Wait::Write => 3,
        Wait::Condvar => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_outlive_slots() {
        let mut tasks = Tasks::default();
        let first = tasks.add("first", Role::Host);
        let id = tasks.id(first);
        assert_eq!(tasks.find(id), Some(first));
        tasks.remove(first);
        let second = tasks.add("second", Role::Daemon);
        assert_eq!(second, first);
        assert_eq!(tasks.find(id), None);
        assert_eq!(tasks.iter().count(), 1);
    }
}
