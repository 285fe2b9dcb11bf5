//! The checksums of directory blocks: of leaves in a tail that looks like an unused entry, of index
//! blocks after their entries.

use layout::checksum::metadata;
use layout::directory::{EntryTail, TAIL_SIZE};
use layout::htree::{self, CountLimit, RootInfo};
use zerocopy::FromBytes;

use super::entries::Block;
use crate::entry::entry_at;
use crate::kind::ProblemKind;
use crate::state::State;

/// Minimum length of a record; a shorter one is damage.
const RECORD_LENGTH_MIN: usize = 8;
/// Record length of `.` in the root of a tree.
const DOT_LENGTH: usize = 12;

/// The end of a block, as the lengths of its entries show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Tail,
    NoTail,
    /// The lengths are damaged.
    Unclear,
}

/// Checks the checksum of a block, if blocks have one. Returns the part of the block that holds
/// entries.
pub(super) fn check<'b>(
    state: &mut State<'_>,
    block: &Block<'b>,
    owner: Option<u32>,
    is_leaf: bool,
) -> &'b [u8] {
    let bytes = block.bytes;
    let Some(owner) = owner else {
        return bytes;
    };
    let end = end(bytes);
    let is_good = match end {
        End::Tail => is_leaf_good(bytes, owner),
        _ => is_index_good(bytes, owner),
    };
    if !is_leaf {
        let kind = if block.file_block == 0 {
            ProblemKind::HtreeRootChecksum
        } else {
            ProblemKind::HtreeNodeChecksum
        };
        if !is_good {
            state.problem(kind, block.place());
        }
        return bytes;
    }
    if end == End::NoTail && !is_good {
        state.problem(ProblemKind::DirectoryChecksumMissing, block.place());
        return bytes;
    }
    if !is_good {
        state.problem(ProblemKind::DirectoryChecksum, block.place());
    }
    &bytes[..bytes.len() - TAIL_SIZE]
}

/// Follows the lengths of the entries to the place of a tail.
fn end(bytes: &[u8]) -> End {
    let (mut at, place) = (0, bytes.len() - TAIL_SIZE);
    while at < place {
        let length = record_length(bytes, at);
        if length < RECORD_LENGTH_MIN || !length.is_multiple_of(4) {
            return End::Unclear;
        }
        at += length;
    }
    if at > bytes.len() {
        return End::Unclear;
    }
    if at == place && EntryTail::of_block(bytes).is_some() {
        End::Tail
    } else {
        End::NoTail
    }
}

fn record_length(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]))
}

fn is_leaf_good(bytes: &[u8], owner: u32) -> bool {
    let expected = metadata::directory_leaf(owner, bytes);
    EntryTail::of_block(bytes).is_some_and(|tail| tail.checksum.get() == expected)
}

/// True if a block has the form of an index block and the checksum of one.
fn is_index_good(bytes: &[u8], owner: u32) -> bool {
    let Some(offset) = entries_offset(bytes) else {
        return false;
    };
    let most = htree::limit(bytes.len(), offset, false);
    let head = CountLimit::ref_from_prefix(&bytes[offset..]);
    let is_sane = head.is_ok_and(|(head, _)| {
        usize::from(head.limit.get()) <= most && usize::from(head.count.get()) <= most
    });
    let sealed = metadata::index_block(owner, bytes, offset).filter(|_| is_sane);
    sealed.is_some_and(|(tail, expected)| tail.checksum.get() == expected)
}

/// Returns the offset of the index entries in a root or in another index block.
fn entries_offset(bytes: &[u8]) -> Option<usize> {
    let first = record_length(bytes, 0);
    if first == bytes.len() && bytes[6..8] == [0; 2] {
        return Some(htree::NODE_ENTRIES_OFFSET);
    }
    let second = entry_at(bytes, DOT_LENGTH)?;
    let (info, _) = RootInfo::ref_from_prefix(&bytes[htree::ROOT_INFO_OFFSET..]).ok()?;
    let is_root = first == DOT_LENGTH
        && second.record_length == bytes.len() - DOT_LENGTH
        && info.reserved_zero.get() == 0
        && info.info_length == htree::ROOT_INFO_LENGTH;
    is_root.then_some(htree::ROOT_ENTRIES_OFFSET)
}
