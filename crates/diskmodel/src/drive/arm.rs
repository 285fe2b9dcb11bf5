//! The arm: the choice of the next access, and its execution.

use super::{Action, Command, Drive, Waiting};
use crate::firmware::Order;
use crate::mechanics::Access;
use crate::write_cache::WriteCache;

/// Maximum number of sectors destaged at once, so that a long extent neither holds the arm nor
/// keeps its room for long.
const DESTAGE_SECTORS_MAX: u64 = 512;

/// Number of dirty extents considered on either side of the head.
const DESTAGE_CHOICES: usize = 16;

/// The current job of the arm.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    Read { start: u64, end: u64 },
    Write,
    Destage,
}

/// A candidate for the next access.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// Command at this place of the queue.
    Command(usize),
    /// Dirty extent that starts at this sector.
    Destage(u64),
}

impl Drive {
    /// Starts the next access, unless reads can be served from the buffer first.
    pub(super) fn begin_something(&mut self, at: u64) {
        if self.serve_from_buffer(at) {
            return;
        }
        self.stop_reading_ahead(at);
        match self.choose(at) {
            Some(Choice::Command(index)) => {
                let waiting = self.waiting.remove(index);
                self.begin_command(at, waiting);
            }
            Some(Choice::Destage(start)) => self.begin_destage(at, start),
            None => {}
        }
    }

    /// Serves the ready reads that are in the buffer or about to enter it. Returns true if there
    /// was one.
    fn serve_from_buffer(&mut self, at: u64) -> bool {
        let mut has_served = false;
        let mut index = 0;
        while let Some(Waiting { command, ready, .. }) = self.waiting.get(index).copied() {
            if ready > at {
                break;
            }
            if command.action == Action::Read
                && let Some(buffered) = self.buffered_when(at, command.sector, command.end())
            {
                self.waiting.remove(index);
                let bus = self.timing.bus(command.sectors);
                self.stats.read_hits += 1;
                self.finish((at + bus).max(buffered + self.timing.bus(1)), command.tag);
                has_served = true;
            } else {
                index += 1;
            }
        }
        has_served
    }

    fn choose(&self, at: u64) -> Option<Choice> {
        let is_starved = |arrived: u64| at.saturating_sub(arrived) > self.starvation;
        if let Some(first) = self.waiting.first()
            && first.ready <= at
            && is_starved(first.arrived)
        {
            return Some(Choice::Command(0));
        }
        if self
            .flushes
            .front()
            .is_some_and(|flush| is_starved(flush.arrived))
            && let Some(oldest) = self.cache.as_ref().and_then(WriteCache::oldest)
        {
            return Some(Choice::Destage(oldest));
        }
        self.next_access(at)
    }

    /// Returns the next access in the order of the firmware.
    fn next_access(&self, at: u64) -> Option<Choice> {
        let command = self.next_command(at);
        if let Some((_, index)) = command
            && !self.must_destage()
        {
            return Some(Choice::Command(index));
        }
        match (command, self.next_destage(at)) {
            (Some((waiting, index)), Some(start)) => {
                let order = self.firmware.reorder;
                let (sector, is_write) = (waiting.sector, waiting.is_write());
                let is_destage = match order {
                    Order::Fifo => !self.has_destaged_last,
                    _ => self.cost(order, at, start, true) < self.cost(order, at, sector, is_write),
                };
                Some(match is_destage {
                    true => Choice::Destage(start),
                    false => Choice::Command(index),
                })
            }
            (Some((_, index)), None) => Some(Choice::Command(index)),
            (None, destage) => destage.map(Choice::Destage),
        }
    }

    /// Returns the next command and its place in the queue; the older one of two equal ones.
    fn next_command(&self, at: u64) -> Option<(Command, usize)> {
        let order = self.firmware.reorder;
        let ready = self.waiting.iter().take(self.window());
        ready
            .take_while(|waiting| waiting.ready <= at)
            .enumerate()
            .map(|(index, waiting)| (waiting.command, index))
            .min_by_key(|(command, _)| self.cost(order, at, command.sector, command.is_write()))
    }

    /// Returns the place of the next waiting write for which the cache has room. None passes an
    /// overdue one.
    pub(super) fn next_admitted(&self, now: u64) -> Option<usize> {
        let cache = self.cache.as_ref()?;
        let has_room = |command: &Command| cache.has_room(command.sector, command.end());
        let first = self.throttled.front()?;
        if now.saturating_sub(first.arrived) > self.starvation {
            return has_room(&first.command).then_some(0);
        }
        let order = self.firmware.reorder;
        let at = now.max(self.arm_free);
        let window = self.throttled.iter().take(self.window());
        window
            .enumerate()
            .filter(|(_, waiting)| has_room(&waiting.command))
            .min_by_key(|(_, waiting)| self.cost(order, at, waiting.command.sector, true))
            .map(|(index, _)| index)
    }

    /// Returns the number of commands among which the firmware chooses.
    fn window(&self) -> usize {
        self.firmware.window.unwrap_or(self.queue_depth) as usize
    }

    /// Returns the start of the next dirty extent to write.
    fn next_destage(&self, at: u64) -> Option<u64> {
        let cache = self.cache.as_ref()?;
        let order = self.firmware.destage();
        match order {
            Order::Sptf | Order::Sstf => cache
                .nearest(self.track.first, DESTAGE_CHOICES)
                .min_by_key(|start| self.cost(order, at, *start, true)),
            Order::Clook => cache.next_from(self.position),
            Order::Fifo => cache.oldest(),
        }
    }

    /// Returns a number by which accesses are compared; the smallest one goes first.
    fn cost(&self, order: Order, at: u64, sector: u64, is_write: bool) -> u64 {
        let approach = || self.mechanics.approach(&self.track, at, sector, is_write);
        match order {
            Order::Sptf => approach().starts,
            Order::Sstf => approach().cylinders.into(),
            // Sectors behind the arm are those of the next sweep.
            Order::Clook => sector.wrapping_sub(self.position),
            Order::Fifo => 0,
        }
    }

    fn begin_command(&mut self, at: u64, waiting: Waiting) {
        let command = waiting.command;
        self.has_destaged_last = false;
        let access = self.begin_access(at, &command);
        let bus = self.timing.bus(command.sectors);
        match command.action {
            Action::Read => {
                let first_sent = access.starts + bus;
                self.finish(
                    first_sent.max(access.ends + self.timing.bus(1)),
                    command.tag,
                );
                self.job = Some(Job::Read {
                    start: command.sector,
                    end: command.end(),
                });
            }
            Action::Write { .. } => {
                if let Some(cache) = &mut self.cache {
                    cache.forget(command.sector, command.end());
                }
                self.finish(access.ends.max(waiting.ready + bus), command.tag);
                self.job = Some(Job::Write);
            }
            Action::Flush => unreachable!("a flush does not wait for the arm"),
        }
    }

    fn begin_destage(&mut self, at: u64, start: u64) {
        let cache = self.cache.as_mut().expect("dirty runs are in a cache");
        let sectors = cache.send(start, DESTAGE_SECTORS_MAX);
        let action = Action::Write { is_through: true };
        self.has_destaged_last = true;
        self.begin_access(
            at,
            &Command {
                tag: 0,
                action,
                sector: start,
                sectors,
            },
        );
        self.stats.destages += 1;
        self.destaging = Some((start, start + sectors));
        self.job = Some(Job::Destage);
    }

    /// Moves the arm and counts the time.
    fn begin_access(&mut self, at: u64, command: &Command) -> Access {
        let is_write = command.is_write();
        let access =
            self.mechanics
                .access(&self.track, at, command.sector, command.sectors, is_write);
        self.track = access.track;
        self.position = command.end();
        self.arm_free = access.ends;
        let stats = &mut self.stats;
        stats.accesses += 1;
        stats.seeks += u64::from(access.cylinders > 0);
        stats.seek_cylinders += u64::from(access.cylinders);
        stats.seek_time += rt::Nanos::new(access.seek);
        stats.rotation_time += rt::Nanos::new(access.rotation);
        stats.transfer_time += rt::Nanos::new(access.ends - access.starts);
        access
    }

    /// Completes a job and starts its consequences.
    pub(super) fn end_job(&mut self, at: u64, job: Job) {
        match job {
            Job::Read { start, end } => {
                self.buffer.insert(start, end);
                self.read_on(at, start, end);
            }
            Job::Write => {}
            Job::Destage => {
                self.cache
                    .as_mut()
                    .expect("dirty runs are in a cache")
                    .complete();
                let completed = self.destaging.take();
                if let Some(destaged) = &mut self.destaged {
                    destaged.extend(completed);
                }
                self.finish_flushes(at);
                self.admit_writes(at);
            }
        }
    }
}
