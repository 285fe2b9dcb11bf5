//! Encrypted inodes (`encrypt`): the flag, and the attribute with the context, whose policy the
//! entries of a directory share with it.

use layout::encryption;
use layout::inode::InodeFlags;

use super::{Slot, extra};
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::policies::Policy;
use crate::problem::Location;
use crate::state::State;

/// Version of the newest known policy.
const VERSION_LAST: u8 = 2;

/// Checks the context of an inode with the flag, and keeps its policy. As in e2fsck, whether the
/// feature is set does not matter.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>) -> Result<(), Error> {
    if !slot.raw.flags().contains(InodeFlags::ENCRYPT) {
        return Ok(());
    }
    let place = Location::inode(slot.number);
    let Some(context) = extra::context(state, slot)? else {
        state.problem(ProblemKind::EncryptionContextMissing, place);
        return Ok(());
    };
    let policy = match encryption::policy(&context) {
        Some(policy) => Policy::Known(state.policies.number_of(policy)),
        None if context
            .first()
            .is_some_and(|version| *version > VERSION_LAST) =>
        {
            Policy::Unknown
        }
        None => {
            state.problem(ProblemKind::EncryptionContextInvalid, place);
            return Ok(());
        }
    };
    state.policies.insert(slot.number, policy);
    Ok(())
}
