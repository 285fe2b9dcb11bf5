//! The order of locks, recorded in debug builds. A deadlock needs an unlucky schedule; two
//! contradicting orders are found on any schedule in which both occur.
//!
//! # Rules
//!
//! - A lock's *class* is the type that it protects. Asking for a lock of class B while holding one
//!   of class A adds the edge A → B to a graph of the process. An edge that closes a cycle panics
//!   with both chains, even if they come from two runs, two threads or two worlds.
//! - Locks of one class may be held together only if they have ranks
//!   ([`set_rank`](crate::sync::set_rank)), and are taken in rank order. Equal ranks state that
//!   their order is ensured elsewhere.
//! - A lock taken without waiting (`try_lock`) adds no edge; locks taken while it is held do.
//! - Worlds with a broken rule are checked against the graph and add nothing to it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use crate::world::{self, REAL_WORLD_ID, World};

/// A lock, as the record sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lock {
    /// Name of the type that it protects.
    pub(crate) class: &'static str,
    /// Address of the lock.
    pub(crate) address: usize,
    /// Rank among the locks of its class; zero if it has none.
    pub(crate) rank: u64,
}

/// A lock that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    owner: Owner,
    lock: Lock,
    place: &'static Location<'static>,
}

/// A task of a simulated world, or the thread itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    world: u64,
    task: u64,
}

/// The locks that a thread, or the tasks on it, hold.
#[derive(Default)]
struct Book {
    /// Simulated world of the entries, except those of the thread itself.
    world: u64,
    held: Vec<Held>,
    /// Edges already in the graph, by the addresses of the class names; avoids repeated queries of
    /// the graph.
    known: HashSet<(usize, usize)>,
}

/// Edges of lock order, each with a description of its first occurrence.
type Graph = HashMap<&'static str, HashMap<&'static str, String>>;

thread_local! {
    static BOOK: RefCell<Book> = RefCell::default();
}

static GRAPH: Mutex<Option<Graph>> = Mutex::new(None);

/// Checks and records that the caller is about to wait for a lock.
#[track_caller]
pub(crate) fn ask(lock: Lock) {
    let Some(owner) = owner() else { return };
    let place = Location::caller();
    let fault = BOOK.try_with(|book| book.borrow_mut().ask(owner, lock, place));
    if let Ok(Some(fault)) = fault {
        panic!("{fault}");
    }
}

/// Records that the caller holds a lock.
#[track_caller]
pub(crate) fn note(lock: Lock) {
    let Some(owner) = owner() else { return };
    let place = Location::caller();
    // A thread that is exiting has no book any more.
    let _ = BOOK.try_with(|book| book.borrow_mut().held.push(Held { owner, lock, place }));
}

/// Records that the caller is about to release a lock.
pub(crate) fn forget(address: usize) {
    let Some(owner) = owner() else { return };
    let _ = BOOK.try_with(|book| {
        let held = &mut book.borrow_mut().held;
        let is_it = |held: &Held| held.owner == owner && held.lock.address == address;
        if let Some(at) = held.iter().rposition(is_it) {
            held.remove(at);
        }
    });
}

/// Returns the calling task or thread; `None` if its world does not record.
fn owner() -> Option<Owner> {
    let Some(world) = world::current() else {
        let (world, task) = (REAL_WORLD_ID, 0);
        return Some(Owner { world, task });
    };
    world.records_lock_order().then(|| Owner {
        world: world.id(),
        task: world.task(),
    })
}

impl Book {
    /// Checks and adds the edges to a lock. Returns the fault, if any.
    fn ask(
        &mut self,
        owner: Owner,
        lock: Lock,
        place: &'static Location<'static>,
    ) -> Option<String> {
        if std::thread::panicking() {
            return None;
        }
        self.enter(owner.world);
        for at in 0..self.held.len() {
            let held = self.held[at];
            if held.owner != owner {
                continue;
            }
            let fault = if held.lock.class == lock.class {
                fault_within_class(&held, lock)
            } else {
                self.fault_between(&held, lock, place)
            };
            if let Some(fault) = fault {
                return Some(format!("{fault}: {}", self.chain(owner, lock.class, place)));
            }
        }
        None
    }

    /// Enters a world and drops entries left behind by worlds that have ended.
    fn enter(&mut self, world: u64) {
        if world != self.world && world != REAL_WORLD_ID {
            self.held.retain(|held| held.owner.world == REAL_WORLD_ID);
            self.world = world;
        }
    }

    /// Returns a fault if the graph leads back from the lock to one that is held.
    fn fault_between(
        &mut self,
        held: &Held,
        lock: Lock,
        place: &'static Location<'static>,
    ) -> Option<String> {
        let (from, to) = (held.lock.class, lock.class);
        let key = (from.as_ptr().addr(), to.as_ptr().addr());
        if self.known.contains(&key) {
            return None;
        }
        let mut graph = GRAPH.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = graph.get_or_insert_default();
        if !graph.get(from).is_some_and(|edges| edges.contains_key(to)) {
            if let Some(back) = way(graph, to, from) {
                return Some(format!("locks are taken in two orders: {back}; and now"));
            }
            if world::current().and_then(World::mutant).is_some() {
                return None;
            }
            let chain = self.chain(held.owner, to, place);
            graph.entry(from).or_default().insert(to, chain);
        }
        self.known.insert(key);
        None
    }

    /// Describes the held locks and the requested one.
    fn chain(
        &self,
        owner: Owner,
        class: &'static str,
        place: &'static Location<'static>,
    ) -> String {
        let mut text = String::new();
        for held in self.held.iter().filter(|held| held.owner == owner) {
            let _ = write!(text, "{} at {}, ", held.lock.class, held.place);
        }
        let _ = write!(text, "then {class} at {place}");
        text
    }
}

/// Returns the fault of taking a lock while holding another one of its class.
fn fault_within_class(held: &Held, lock: Lock) -> Option<String> {
    if held.lock.address == lock.address {
        return Some("a thread asks for a lock that it holds".to_owned());
    }
    let (before, after) = (held.lock.rank, lock.rank);
    if before == 0 || after == 0 {
        return Some("two locks of one class, which has no order".to_owned());
    }
    (before > after).then(|| format!("locks of one class out of order ({before}, {after})"))
}

/// Returns the path of edges from one class to another, if there is one.
fn way(graph: &Graph, from: &'static str, to: &'static str) -> Option<String> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut open = vec![from];
    while let Some(class) = open.pop() {
        for next in graph.get(class).into_iter().flat_map(HashMap::keys) {
            if *next != from && !came_from.contains_key(next) {
                came_from.insert(next, class);
                open.push(next);
            }
        }
    }
    let mut steps = Vec::new();
    let mut at = to;
    while at != from {
        let before = *came_from.get(at)?;
        steps.push(&*graph[before][at]);
        at = before;
    }
    steps.reverse();
    Some(steps.join("; "))
}
