//! The second pass: the blocks that must not be replayed, and up to which transaction.

use std::collections::BTreeMap;

use layout::{BlockNr, Tid};

use super::scan::Found;

/// The revoked blocks.
#[derive(Default)]
pub(super) struct Revokes {
    /// The last transaction that revoked the block.
    last: BTreeMap<BlockNr, Tid>,
}

impl Revokes {
    /// Collects the revokes of all transactions, which are given oldest first.
    pub(super) fn of(transactions: &[Found]) -> Self {
        let records = transactions
            .iter()
            .flat_map(|found| found.revokes.iter().map(move |block| (*block, found.tid)));
        Self {
            last: records.collect(),
        }
    }

    /// Returns true if a transaction's image of a block is hidden by a revoke of that transaction
    /// or of a later one.
    pub(super) fn hide(&self, block: BlockNr, tid: Tid) -> bool {
        if rt::mutant!("revoke/ignored-by-recovery") {
            return false;
        }
        self.last.get(&block).is_some_and(|revoked| {
            if rt::mutant!("tid/compared-without-wrapping") {
                return revoked.get() >= tid.get();
            }
            revoked.is_at_or_after(tid) || rt::mutant!("revoke/hides-later-images")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoke_hides_its_own_and_earlier_transactions_across_the_wrap() {
        let last = BTreeMap::from([(BlockNr::new(5), Tid::new(0))]);
        let revokes = Revokes { last };
        for (tid, expect) in [(0xFFFF_FFFF, true), (0, true), (1, false)] {
            assert_eq!(revokes.hide(BlockNr::new(5), Tid::new(tid)), expect);
            assert!(!revokes.hide(BlockNr::new(6), Tid::new(tid)));
        }
    }
}
