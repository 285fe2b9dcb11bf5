//! Stripes in flight. The caller may have writes to different sectors of one stripe in flight
//! together, but they change the same parity: the second must wait until the first is done.
//!
//! A *group* holds the stripes that one batch has in flight. The next batch that needs one of its
//! stripes waits for it, even if the holder of its ticket never does; the results are kept for that
//! holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use rt::{Condvar, Mutex};

use crate::ticket::{DetachedErrors, Results, Ticket, Work};

/// Number of stripes above which finished groups are searched for and released.
const STRIPES_KEPT: usize = 256;

/// The stripes in flight.
#[derive(Default)]
pub(super) struct Busy {
    stripes: Mutex<BTreeMap<u64, Arc<Group>>>,
}

/// The stripes of one batch in flight.
pub(super) struct Group {
    stripes: Vec<u64>,
    state: Mutex<State>,
    changed: Condvar,
    detached: Arc<DetachedErrors>,
}

struct State {
    phase: Phase,
    is_abandoned: bool,
}

enum Phase {
    /// Old contents are being read; waiters wait for a change of this phase.
    Preparing,
    InFlight(Ticket),
    /// A thread waits for the ticket.
    Reaping,
    Done(Option<Results>),
}

impl Busy {
    /// Locks stripes, all at once; waits for those that other batches have in flight.
    pub(super) fn hold(&self, stripes: Vec<u64>, detached: &Arc<DetachedErrors>) -> Arc<Group> {
        loop {
            let mut busy = self.stripes.lock();
            if busy.len() > STRIPES_KEPT {
                drop(busy);
                self.reap_ready();
                busy = self.stripes.lock();
            }
            let holder = stripes.iter().find_map(|stripe| busy.get(stripe).cloned());
            let Some(holder) = holder else {
                let group = Arc::new(Group {
                    stripes,
                    state: Mutex::new(State {
                        phase: Phase::Preparing,
                        is_abandoned: false,
                    }),
                    changed: Condvar::new(),
                    detached: Arc::clone(detached),
                });
                busy.extend(
                    group
                        .stripes
                        .iter()
                        .map(|stripe| (*stripe, Arc::clone(&group))),
                );
                return group;
            };
            drop(busy);
            self.reap(&holder);
        }
    }

    /// Releases all finished groups, without waiting.
    pub(super) fn reap_ready(&self) {
        let groups: Vec<Arc<Group>> = self.stripes.lock().values().cloned().collect();
        for group in groups.iter().filter(|group| group.is_ready()) {
            self.reap(group);
        }
    }

    /// Waits until a group is done and releases its stripes.
    pub(super) fn reap(&self, group: &Arc<Group>) {
        group.finish();
        let mut busy = self.stripes.lock();
        for stripe in &group.stripes {
            if busy
                .get(stripe)
                .is_some_and(|holder| Arc::ptr_eq(holder, group))
            {
                busy.remove(stripe);
            }
        }
    }
}

impl Group {
    /// Records that the writes are in flight. Other threads may need the stripes before one waits.
    pub(super) fn start(&self, ticket: Ticket) {
        ticket.start();
        self.state.lock().phase = Phase::InFlight(ticket);
        self.changed.notify_all();
    }

    fn finish(&self) {
        let mut state = self.state.lock();
        loop {
            match core::mem::replace(&mut state.phase, Phase::Reaping) {
                Phase::InFlight(ticket) => {
                    drop(state);
                    let results = ticket.wait();
                    state = self.state.lock();
                    let is_wanted = !state.is_abandoned;
                    if !is_wanted {
                        self.detached.keep(&results);
                    }
                    state.phase = Phase::Done(is_wanted.then_some(results));
                    self.changed.notify_all();
                    return;
                }
                Phase::Done(results) => {
                    state.phase = Phase::Done(results);
                    return;
                }
                other => state.phase = other,
            }
            self.changed.wait(&mut state);
        }
    }

    fn is_ready(&self) -> bool {
        match &self.state.lock().phase {
            Phase::Done(_) => true,
            Phase::InFlight(ticket) => ticket.is_ready(),
            Phase::Preparing | Phase::Reaping => false,
        }
    }
}

/// The content of a batch's ticket.
pub(super) struct GroupWork {
    pub(super) busy: Arc<Busy>,
    pub(super) group: Arc<Group>,
}

impl Work for GroupWork {
    fn is_ready(&self) -> bool {
        self.group.is_ready()
    }

    fn wait(&self) -> Results {
        self.busy.reap(&self.group);
        match &mut self.group.state.lock().phase {
            Phase::Done(results) => results.take().unwrap_or_default(),
            _ => Results::new(),
        }
    }

    fn abandon(&self) {
        let mut state = self.group.state.lock();
        state.is_abandoned = true;
        if let Phase::Done(results) = &mut state.phase
            && let Some(results) = results.take()
        {
            drop(state);
            self.group.detached.keep(&results);
        }
    }
}
