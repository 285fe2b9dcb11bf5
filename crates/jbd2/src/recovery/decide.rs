//! The decisions of the scan, as one table.
//!
//! The scan is at a block of the log at which the transaction with the expected number should start
//! or continue. *Committed* means that the log shows that this transaction was committed before the
//! crash. It is checked only when something is wrong, to distinguish damage from interruption.
//!
//! | head | its checksum | body so far | committed | decision |
//! |---|---|---|---|---|
//! | foreign | - | good | - | end: the log ends before this transaction |
//! | descriptor, revoke | good | any | - | continue |
//! | commit | good | good | - | complete: the transaction is to be replayed |
//! | anything else | | | no | drop: the crash interrupted this transaction |
//! | anything else | | | yes | damage: refuse |
//!
//! Evidence that a transaction was committed:
//!
//! - a valid block of a later transaction, which starts only when the one before is durable;
//! - if a block of it cannot be read, also its own commit block, which is written only when all
//!   others are durable; unless the log's commits are asynchronous. (Damage found by a checksum may
//!   come from a device that did not keep to that order.)
//! - if a block of it cannot be read, another unreadable block outside the same physical sector. A
//!   power cut leaves one torn sector; the contents of the others are unknown, and the next attempt
//!   may read them.
//!
//! So a torn sector at the end of the log is no reason to refuse the log, and acknowledged
//! transactions are not dropped because of a bad sector in the middle.
//!
//! *Foreign* is a block without magic number, with another transaction's number, or of a type that
//! is not possible there. *Body* is bad if an image or a descriptor, revoke block or tag of the
//! transaction is damaged or unreadable. A damaged descriptor or revoke block is decided on at
//! once, because the continuation of the transaction is unknown; so is an unreadable block.

/// The block at the position of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The device could not read it.
    Unreadable,
    /// No block of the expected transaction.
    Foreign,
    /// A descriptor block.
    Descriptor,
    /// A revoke block.
    Revoke,
    /// A commit block.
    Commit,
}

/// The input of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) head: Head,
    /// True if the head's own checksum matches, or if it has none.
    pub(super) is_head_good: bool,
    /// True if all of the transaction before it is good.
    pub(super) is_body_good: bool,
}

/// A decision of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Continue with the next block of this transaction.
    GoOn,
    /// The transaction is complete: continue with the next one.
    Complete,
    /// The log ends before this transaction.
    End,
    /// The log ends before this transaction, which was torn.
    Drop,
    /// The log is damaged.
    Damage,
}

/// Applies the table. `is_committed` is called only if the result depends on it.
pub(super) fn decide(finding: Finding, is_committed: impl FnOnce() -> bool) -> Decision {
    if rt::mutant!("recovery/checksums-ignored") && finding.head == Head::Commit {
        return Decision::Complete;
    }
    match finding {
        Finding {
            head: Head::Foreign,
            is_body_good: true,
            ..
        } => Decision::End,
        Finding {
            head: Head::Descriptor | Head::Revoke,
            is_head_good: true,
            ..
        } => Decision::GoOn,
        Finding {
            head: Head::Commit,
            is_head_good: true,
            is_body_good: true,
        } => Decision::Complete,
        _ if is_committed() => Decision::Damage,
        _ => Decision::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [Head; 5] = [
        Head::Unreadable,
        Head::Foreign,
        Head::Descriptor,
        Head::Revoke,
        Head::Commit,
    ];

    /// Rules that every row must keep, independent of the table.
    #[test]
    fn all_rows() {
        for head in HEADS {
            for bits in 0..8 {
                let (is_head_good, is_body_good, later) =
                    (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                let mut was_asked = false;
                let decision = decide(
                    Finding {
                        head,
                        is_head_good,
                        is_body_good,
                    },
                    || {
                        was_asked = true;
                        later
                    },
                );
                let row = format!("{head:?} {is_head_good} {is_body_good} {later}");
                // Only a good commit block after a good body is replayed.
                let is_whole = head == Head::Commit && is_head_good && is_body_good;
                assert_eq!(decision == Decision::Complete, is_whole, "{row}");
                // A good block is never treated as damaged, whatever follows it.
                let is_part = matches!(head, Head::Descriptor | Head::Revoke) && is_head_good;
                let is_clean_end = head == Head::Foreign && is_body_good;
                assert_eq!(was_asked, !is_whole && !is_part && !is_clean_end, "{row}");
                assert_eq!(decision == Decision::Damage, was_asked && later, "{row}");
                assert_eq!(decision == Decision::Drop, was_asked && !later, "{row}");
                assert_eq!(decision == Decision::GoOn, is_part, "{row}");
                assert_eq!(decision == Decision::End, is_clean_end, "{row}");
            }
        }
    }
}
