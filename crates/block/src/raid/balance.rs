//! The choice of the member of a mirror that reads: the first of these rules that decides.
//!
//! 1. A read that starts at the end of a member's last transfer stays there: the arm is in place
//!    and the read-ahead has the data.
//! 2. The member with the fewest reads in flight.
//! 3. The member whose last transfer ended nearest, so that each arm keeps to its part of the disk.
//!
//! With random reads one at a time, two arms move 5/24 of the stroke on average where one moves
//! 8/24, and less once they have divided the disk (D. Bitton, J. Gray, "Disk shadowing", VLDB
//! 1988).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rt::Mutex;

/// The positions of the members and their reads in flight.
pub(super) struct Balance {
    /// Sector after each member's last transfer.
    ends: Mutex<Vec<u64>>,
    /// Number of reads in flight of each member.
    reads: Vec<AtomicU32>,
}

/// A read in flight; dropped when it is done or its ticket is dropped.
pub(super) struct Reading {
    pub(super) member: usize,
    balance: Arc<Balance>,
}

impl Balance {
    pub(super) fn new(members: usize) -> Arc<Self> {
        Arc::new(Self {
            ends: Mutex::new(vec![0; members]),
            reads: (0..members).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// Chooses one of the given members to read `first..end`; the first member if none is given.
    pub(super) fn choose(self: &Arc<Self>, members: &[usize], first: u64, end: u64) -> Reading {
        let mut ends = self.ends.lock();
        let rank = |member: usize| {
            let reads = self.reads[member].load(Ordering::Relaxed);
            let distance = ends[member].abs_diff(first);
            (distance != 0, reads, distance)
        };
        let best = members.iter().copied().min_by_key(|member| rank(*member));
        let member = best.unwrap_or(0);
        ends[member] = end;
        self.reads[member].fetch_add(1, Ordering::Relaxed);
        Reading {
            member,
            balance: Arc::clone(self),
        }
    }

    /// Records that all members have written up to a sector.
    pub(super) fn write(&self, end: u64) {
        self.ends.lock().fill(end);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.balance.reads[self.member].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_stay_on_their_members() {
        let balance = Balance::new(2);
        let first = balance.choose(&[0, 1], 1_000, 1_008);
        let second = balance.choose(&[0, 1], 9_000, 9_008);
        assert_eq!((first.member, second.member), (0, 1), "one is busy");
        drop((first, second));
        for step in 1..20 {
            for (member, from) in [(0, 1_000), (1, 9_000)] {
                let at = from + step * 8;
                let reading = balance.choose(&[0, 1], at, at + 8);
                assert_eq!(reading.member, member, "step {step}");
            }
        }
    }

    #[test]
    fn reads_go_to_who_has_least_to_do_and_then_to_who_is_nearest() {
        let balance = Balance::new(3);
        let chosen: Vec<Reading> = [500, 100, 900, 110]
            .map(|sector| balance.choose(&[0, 1, 2], sector, sector + 8))
            .into();
        let members: Vec<usize> = chosen.iter().map(|reading| reading.member).collect();
        assert_eq!(
            members,
            [0, 1, 2, 1],
            "all have one, and 110 is nearest to 108"
        );
        drop(chosen);
        assert_eq!(balance.choose(&[0, 1, 2], 800, 808).member, 2);
        assert_eq!(balance.choose(&[0, 1], 800, 808).member, 0, "2 has left");
        balance.write(300);
        assert_eq!(balance.choose(&[1, 2], 301, 302).member, 1);
    }
}
