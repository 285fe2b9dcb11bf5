//! [`Processor`]: one processor for a guest and the thread that serves it.
//!
//! A guest and its thread take turns: one always waits for the other. On one processor a turn costs
//! a change of context; on two it wakes a processor that sleeps, which takes several times as long,
//! most of all in a virtual machine. So every guest is bound to a processor, and guests are spread
//! evenly over all of them.
//!
//! A processor is claimed by a socket in the abstract namespace, which belongs to no file and
//! disappears with its process: several processes on one machine claim different processors.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Maximum number of guests on a processor; one more is not bound.
const GUESTS_MAX: usize = 16;

/// A claimed processor: the calling thread, and what it starts, runs there only. Dropping it in
/// that thread restores what was before.
pub struct Processor {
    before: CpuSet,
    _claim: UnixListener,
}

impl Processor {
    /// Claims the processor with the fewest guests for the calling thread, the present one if it is
    /// among these; `None` if all are full or the system does not allow it.
    #[must_use]
    pub fn claim() -> Option<Self> {
        let before = sched_getaffinity(None).ok()?;
        let present = sched_getcpu();
        let others = (0..CpuSet::MAX_CPU).filter(|number| *number != present);
        let all = std::iter::once(present).chain(others);
        let allowed: Vec<usize> = all.filter(|number| before.is_set(*number)).collect();
        let (number, claim) = (0..GUESTS_MAX).find_map(|guest| {
            let mut allowed = allowed.iter();
            allowed.find_map(|number| Some((*number, claim(*number, guest)?)))
        })?;
        let mut only = CpuSet::new();
        only.set(number);
        sched_setaffinity(None, &only).ok()?;
        Some(Self {
            before,
            _claim: claim,
        })
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        // Without it the thread stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Claims a place for a guest on a processor; `None` if it is taken.
fn claim(processor: usize, guest: usize) -> Option<UnixListener> {
    let name = format!("jext-processor-{processor}-{guest}");
    let address = SocketAddr::from_abstract_name(name);
    UnixListener::bind_addr(&address.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_spread_over_the_processors_and_give_them_back() {
        let allowed = || sched_getaffinity(None).expect("Linux has it");
        let before = allowed();
        let claim = || {
            let claimed = Processor::claim();
            (claimed.is_some(), allowed().count(), claimed)
        };
        // A second thread, because this one may only choose among its own processors.
        let (is_claimed, count, claimed) = claim();
        if is_claimed {
            assert_eq!(count, 1);
        }
        let other = std::thread::spawn(move || Processor::claim().is_some());
        assert_eq!(other.join().expect("it does not panic"), is_claimed);
        drop(claimed);
        assert!(allowed() == before);
    }
}
