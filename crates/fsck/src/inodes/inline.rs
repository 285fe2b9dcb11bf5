//! Contents within an inode (`inline_data`): the first 60 bytes in `i_block`, the rest in the
//! attribute `system.data`.

use layout::inode::{Inode, InodeFlags};
use layout::mode::FileType;
use zerocopy::IntoBytes;

use super::{Slot, extra};
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// True if the contents lie within the inode, as the features allow.
pub(super) fn is_inline(state: &State<'_>, raw: &Inode) -> bool {
    state.has_inline_data() && raw.flags().contains(InodeFlags::INLINE_DATA)
}

/// Checks that an inode with the flag has the attribute and no extents. Keeps the contents of a
/// directory for later.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    if !is_inline(state, slot.raw) {
        return;
    }
    let place = || Location::inode(slot.number);
    let Some(value) = extra::contents(state, slot) else {
        state.problem(ProblemKind::InlineDataMissing, place());
        return;
    };
    let has_contents = matches!(file_type, FileType::Regular | FileType::Directory);
    if has_contents && slot.raw.flags().contains(InodeFlags::EXTENTS) {
        state.problem(ProblemKind::InlineDataAndExtents, place());
    }
    if file_type == FileType::Directory {
        let bytes = [slot.raw.map_words.as_bytes(), value].concat();
        state.inline_directories.insert(slot.number, bytes);
    }
}

/// Returns the number of bytes of the contents; none without the attribute.
fn length(state: &State<'_>, slot: &Slot<'_>) -> Option<u64> {
    let value = extra::contents(state, slot)?;
    Some((slot.raw.map_words.as_bytes().len() + value.len()) as u64)
}

/// Checks the size of a directory.
pub(super) fn check_size(state: &mut State<'_>, slot: &Slot<'_>, size: u64) {
    let expected = length(state, slot);
    if expected != Some(size) {
        let (kind, place) = (
            ProblemKind::DirectorySizeWrong,
            Location::inode(slot.number),
        );
        let expected = expected.unwrap_or_default();
        state.report.add_differing(kind, place, size, expected);
    }
}

/// True if the target of a symbolic link fills the contents.
pub(super) fn is_symlink_good(state: &State<'_>, slot: &Slot<'_>) -> bool {
    length(state, slot) == Some(slot.raw.size_low.get().into())
}
