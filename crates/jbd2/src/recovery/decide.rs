//! The decisions of the scan: the whole policy of recovery, as one table.
//!
//! The scan stands at a block of the log where the transaction with the expected number should
//! begin or go on. *Committed* says whether the log shows that this transaction was committed
//! before the crash. It is asked only when something is wrong, because it tells damage from
//! interruption.
//!
//! | head | its checksum | body so far | committed | decision |
//! |---|---|---|---|---|
//! | foreign | - | good | - | end: the log ends before this transaction |
//! | descriptor, revoke | good | any | - | go on |
//! | commit | good | good | - | complete: the transaction is to be replayed |
//! | anything else | | | no | drop: the crash interrupted this transaction |
//! | anything else | | | yes | damage: refuse |
//!
//! What shows that a transaction was committed:
//!
//! - a valid block of a later one, because that begins only when the one before is durable;
//! - where a block of it cannot be read, also its own commit block, because that is written only
//!   when all others are durable; unless the log's commits are asynchronous. (Damage that a
//!   checksum shows may come from a device that did not keep to that order.)
//! - where a block of it cannot be read, another one that cannot be read either and is not in the
//!   same physical sector. A power cut leaves one torn sector; the contents of the others are
//!   unknown, and the next attempt may read them.
//!
//! So a torn sector at the end of the log is no reason to refuse it, and what was acknowledged is
//! not dropped because of one that went bad in the middle.
//!
//! *Foreign* is a block without magic number, with another transaction's number, or of a type that
//! cannot be there. *Body* is bad when an image or a descriptor, revoke or tag of the transaction
//! was damaged or unreadable. A damaged descriptor or revoke block is decided on at once, because
//! it does not say where the transaction goes on; so is one that cannot be read.

/// The block at the position of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The device could not read it.
    Unreadable,
    /// Nothing of the expected transaction.
    Foreign,
    /// A descriptor block.
    Descriptor,
    /// A revoke block.
    Revoke,
    /// A commit block.
    Commit,
}

/// All that the decision depends on.
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
    /// Read on in this transaction.
    GoOn,
    /// The transaction is complete; go on with the next.
    Complete,
    /// The log ends before this transaction.
    End,
    /// The log ends before this transaction, which was torn.
    Drop,
    /// The log is damaged.
    Damage,
}

/// The table. `is_committed` is asked only where the answer matters.
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

    /// Rules that every row must keep, in other words than the table.
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
                // Whatever is good is never called damaged, whatever lies behind it.
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
