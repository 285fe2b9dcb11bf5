//! The gate of the running transaction: one word that counts its open handles and their credits, so
//! that handles start and end without the journal's central lock.
//!
//! ```text
//! bit 63   the gate is open
//! 48..63   open handles
//! 24..48   revokes that open handles have reserved and finished ones have added
//!  0..24   blocks, likewise
//! ```
//!
//! # Rules
//!
//! - The gate is open only while every handle that fits may join: a transaction is running, it is
//!   neither closing nor paused, the journal works, and the log has room for a transaction of the
//!   largest size. All of this changes under the central lock only, by methods of
//!   [`JournalState`](crate::state::JournalState), each of which then opens or shuts the gate.
//! - While the gate is open, any thread counts its handle in or out. While it is shut, only the
//!   holder of the central lock does, and a handle that a panic drops.
//! - The room in the log does not depend on the transaction: nothing but the end of a transaction
//!   takes log blocks. So the word alone decides, even if the same word has belonged to an earlier
//!   transaction a moment ago.
//! - A thread that has shut the gate and reads no open handle sees all that the handles have done.
//! - The holder of the central lock meets a scheduling point at each access to the word, so that
//!   hostile worlds let handles pass the gate between any two of them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use layout::Tid;

use crate::credits::Credits;
use crate::space::{CREDITS_MAX, Limits};
use crate::stats::Counter;

const OPEN: u64 = 1 << 63;
const HANDLE: u64 = 1 << HANDLE_SHIFT;
const HANDLE_SHIFT: u32 = 48;
const REVOKE_SHIFT: u32 = 24;
/// Largest number of open handles.
const HANDLES_MAX: u32 = (1 << 15) - 1;

/// The gate. Everything that a handle changes at its start and end is here, in cache lines that
/// hold nothing else.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Gate {
    word: AtomicU64,
    /// The number of the running transaction, or of the last one.
    tid: AtomicU32,
    /// Number of handles started.
    pub(crate) handles: Counter,
    /// Largest charge with which a handle joins without the lock.
    charge_max: u32,
    limits: Limits,
}

impl Gate {
    /// Creates the gate of a journal without a transaction. A handle that raises the charge above
    /// `charge_max` takes the central lock.
    pub(crate) fn new(limits: Limits, charge_max: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            tid: AtomicU32::new(0),
            handles: Counter::default(),
            charge_max,
            limits,
        }
    }

    /// Counts a handle in if the gate is open and it fits. Returns its transaction.
    #[inline]
    pub(crate) fn enter(&self, credits: Credits) -> Option<Tid> {
        self.change_if_open(|count| {
            let more = count.with_handle(credits)?;
            self.fits(more).then_some(more)
        })?;
        self.handles.add(1);
        // The transaction is not replaced as long as the handle is open.
        Some(Tid::new(self.tid.load(Ordering::Relaxed)))
    }

    /// Adds credits to an open handle if the gate is open and they fit. Returns false otherwise.
    pub(crate) fn extend(&self, more: Credits) -> bool {
        let extended = self.change_if_open(|count| {
            let more = count.with_credits(more)?;
            self.fits(more).then_some(more)
        });
        extended.is_some()
    }

    /// Counts a handle out if the gate is open, and returns its unused credits. Returns false
    /// otherwise.
    #[inline]
    pub(crate) fn leave(&self, unused: Credits) -> bool {
        self.change_if_open(|count| Some(count.without_handle(unused)))
            .is_some()
    }

    fn fits(&self, count: Count) -> bool {
        self.limits.charge(count.credits()) <= self.charge_max
    }

    #[inline]
    fn change_if_open(&self, change: impl Fn(Count) -> Option<Count>) -> Option<()> {
        rt::point();
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & OPEN == 0 && !rt::mutant!("handle/enters-shut-gate") {
                return None;
            }
            let changed = change(Count(word))?;
            let exchanged = self.word.compare_exchange_weak(
                word,
                changed.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return Some(()),
                Err(now) => word = now,
            }
        }
    }

    /// Opens the gate. The caller holds the central lock.
    pub(crate) fn open(&self) {
        rt::point();
        self.word.fetch_or(OPEN, Ordering::AcqRel);
    }

    /// Shuts the gate, and returns the count. From now on it grows only under the central lock, and
    /// shrinks there and when a panic drops a handle.
    pub(crate) fn shut(&self) -> Count {
        rt::point();
        Count(self.word.fetch_and(!OPEN, Ordering::AcqRel) & !OPEN)
    }

    /// Returns the count. It may change at any time unless the gate is shut.
    pub(crate) fn count(&self) -> Count {
        rt::point();
        Count(self.word.load(Ordering::Acquire) & !OPEN)
    }

    /// Counts the first handle of the next transaction in. The gate is shut, and the caller holds
    /// the central lock.
    pub(crate) fn begin(&self, tid: Tid, credits: Credits) {
        self.tid.store(tid.get(), Ordering::Relaxed);
        self.handles.add(1);
        rt::point();
        let before = self.word.swap(HANDLE | packed(credits), Ordering::AcqRel);
        assert_eq!(
            before, 0,
            "the last transaction has ended, its gate is shut"
        );
    }

    /// Counts a handle in whose credits fit. The gate is shut, and the caller holds the central
    /// lock.
    pub(crate) fn join(&self, credits: Credits) -> Tid {
        self.handles.add(1);
        self.add_to_word(HANDLE | packed(credits));
        Tid::new(self.tid.load(Ordering::Relaxed))
    }

    /// Adds credits that fit. The gate is shut, and the caller holds the central lock.
    pub(crate) fn add(&self, credits: Credits) {
        self.add_to_word(packed(credits));
    }

    fn add_to_word(&self, part: u64) {
        rt::point();
        let before = self.word.fetch_add(part, Ordering::AcqRel);
        assert!(
            self.limits.charge(Count(before + part).credits()) <= self.limits.transaction_max,
            "handles reserve no more than a transaction may hold"
        );
    }

    /// Counts a handle out, open or shut. The caller holds the central lock, or is unwinding.
    pub(crate) fn depart(&self, unused: Credits) {
        rt::point();
        self.word
            .fetch_sub(HANDLE | packed(unused), Ordering::AcqRel);
    }

    /// Ends the transaction. It has no open handle, and the caller holds the central lock.
    pub(crate) fn end(&self) {
        rt::point();
        let before = Count(self.word.swap(0, Ordering::AcqRel));
        assert_eq!(before.0 & OPEN, 0, "a closing transaction's gate is shut");
        assert_eq!(before.handles(), 0, "a closed transaction has no handle");
    }
}

/// Open handles and credits of the running transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(u64);

impl Count {
    /// Returns the number of open handles.
    pub(crate) fn handles(self) -> u32 {
        ((self.0 & !OPEN) >> HANDLE_SHIFT) as u32
    }

    /// Returns the credits that open handles have reserved and finished ones have used.
    pub(crate) fn credits(self) -> Credits {
        Credits {
            blocks: self.0 as u32 & CREDITS_MAX,
            revokes: (self.0 >> REVOKE_SHIFT) as u32 & CREDITS_MAX,
        }
    }

    /// Returns true if one more handle can be counted.
    pub(crate) fn has_room(self) -> bool {
        self.handles() < HANDLES_MAX
    }

    fn with_handle(self, credits: Credits) -> Option<Self> {
        let more = self.with_credits(credits)?;
        self.has_room().then(|| Self(more.0 + HANDLE))
    }

    /// Returns the count with more credits; none if there are too many for the word.
    fn with_credits(self, more: Credits) -> Option<Self> {
        let Credits { blocks, revokes } = self.credits().plus(more);
        let is_countable = blocks <= CREDITS_MAX && revokes <= CREDITS_MAX;
        is_countable.then(|| Self(self.0 + packed(more)))
    }

    fn without_handle(self, unused: Credits) -> Self {
        Self(self.0 - HANDLE - packed(unused))
    }
}

/// Returns the part of a word for these credits.
fn packed(credits: Credits) -> u64 {
    u64::from(credits.blocks) | u64::from(credits.revokes) << REVOKE_SHIFT
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Superblock;

    const TID: Tid = Tid::new(u32::MAX);

    fn gate() -> Gate {
        let superblock = Superblock::new(1024, 1025, 1, [0; 16]);
        let limits = Limits::new(&superblock, &superblock.format());
        Gate::new(limits, limits.transaction_max)
    }

    fn credits(blocks: u32, revokes: u32) -> Credits {
        Credits { blocks, revokes }
    }

    #[test]
    fn handles_are_counted_while_the_gate_is_open() {
        let gate = gate();
        assert_eq!(gate.enter(credits(1, 1)), None);
        gate.begin(TID, credits(5, 2));
        assert_eq!(gate.enter(credits(1, 1)), None);
        assert!(!gate.leave(credits(0, 0)) && !gate.extend(credits(1, 0)));
        gate.open();
        assert_eq!(gate.enter(credits(250, 7)), Some(TID));
        assert_eq!(gate.enter(credits(1, 1)), None, "it is full");
        assert!(gate.leave(credits(240, 3)));
        assert!(gate.extend(credits(1, 0)));
        assert!(!gate.extend(credits(240, 0)), "there is no room");
        let count = gate.shut();
        assert_eq!((count.handles(), count.credits()), (1, credits(16, 6)));
        assert_eq!(gate.join(credits(4, 0)), TID);
        gate.depart(credits(4, 0));
        gate.depart(credits(0, 0));
        assert_eq!(gate.count().credits(), credits(16, 6));
        gate.end();
        assert_eq!(gate.count().credits(), credits(0, 0));
        assert_eq!(gate.handles.get(), 3);
    }

    #[test]
    fn a_word_does_not_overflow() {
        let full = Count(packed(credits(CREDITS_MAX, CREDITS_MAX)));
        assert_eq!(full.credits(), credits(CREDITS_MAX, CREDITS_MAX));
        assert_eq!(full.with_credits(credits(1, 0)), None);
        assert_eq!(full.with_credits(credits(0, 1)), None);
        assert_eq!(full.with_credits(credits(u32::MAX, 0)), None);
        let crowded = Count(OPEN | u64::from(HANDLES_MAX) << HANDLE_SHIFT);
        assert_eq!(crowded.handles(), HANDLES_MAX);
        assert_eq!(crowded.with_handle(credits(1, 0)), None);
        assert_eq!(
            crowded.without_handle(credits(0, 0)).handles(),
            HANDLES_MAX - 1
        );
    }
}
