//! Directories within their inodes (`inline_data`): the parent's number, and entries in two areas,
//! those of `i_block` and of the attribute. `.` and `..` have no entries there.

use layout::directory::{EntryHeader, HEADER_SIZE};
use layout::feature::Incompatible;
use layout::inode::MAP_WORDS;
use layout::mode::FileType;
use zerocopy::IntoBytes;

use super::check_block;
use super::entries::Block;
use super::names::Names;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Number of bytes of the parent's number.
const PARENT_BYTES: usize = 4;
/// Number of bytes in `i_block`.
const WORDS_BYTES: usize = MAP_WORDS * 4;
/// Length of the records of `.` and `..`, which is also that of the shortest entry.
const DOT_LENGTH: usize = 12;

/// Checks a directory, given by its index in [`State::directories`] and its inode.
pub(super) fn check(
    state: &mut State<'_>,
    (index, inode): (usize, u32),
    bytes: &[u8],
    names: &mut Names,
) {
    let value = bytes.len() - WORDS_BYTES;
    if !value.is_multiple_of(4) || (1..DOT_LENGTH).contains(&value) {
        let (kind, place) = (ProblemKind::InlineDirectoryLength, Location::inode(inode));
        state.report.add_found(kind, place, value as u64);
    }
    let (head, entries) = bytes.split_at(PARENT_BYTES);
    let parent = head.iter().rev();
    let parent = parent.fold(0, |number, byte| number << 8 | u32::from(*byte));
    let (first, second) = entries.split_at(WORDS_BYTES - PARENT_BYTES);
    // As in e2fsck, names are compared within this block.
    let first = [&dots(state, inode, parent), first].concat();
    for (file_block, position, bytes) in [(0, 0, &first[..]), (1, 2, second)] {
        let block = Block {
            directory: index,
            inode,
            file_block,
            block: 0,
            bytes,
        };
        check_block(state, &block, names, (None, position));
    }
}

/// Returns the entries that the directory would have for itself and its parent.
fn dots(state: &State<'_>, inode: u32, parent: u32) -> [u8; 2 * DOT_LENGTH] {
    let has_types = state.features.incompatible.contains(Incompatible::FILETYPE);
    let mut bytes = [0; 2 * DOT_LENGTH];
    for (length, number) in [(1, inode), (2, parent)] {
        let mut header = EntryHeader {
            name_length: length,
            ..EntryHeader::default()
        };
        if has_types {
            header.file_type = FileType::Directory.raw();
        }
        header.inode.set(number);
        header.record_length.set(DOT_LENGTH as u16);
        let (start, length) = ((usize::from(length) - 1) * DOT_LENGTH, usize::from(length));
        bytes[start..start + HEADER_SIZE].copy_from_slice(header.as_bytes());
        bytes[start + HEADER_SIZE..][..length].fill(b'.');
    }
    bytes
}
