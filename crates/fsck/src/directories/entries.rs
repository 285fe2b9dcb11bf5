//! Checks of one directory entry: its offset, name, inode and type.

use layout::directory::HEADER_SIZE;
use layout::encryption;
use layout::feature::Incompatible;
use layout::group::GroupFlags;
use layout::mode::FileType;

use super::find;
use crate::entry::Entry;
use crate::inode_states::{InodeState, Usage};
use crate::inodes;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::ROOT;
use crate::state::State;

/// Bit of `s_encoding_flags`: names of directories that ignore case are in the character set.
const ENCODING_STRICT: u16 = 1;
/// Maximum record length of `.`: twice the minimum.
const DOT_RECORD_MAX: usize = 24;

/// A block of a directory.
pub(super) struct Block<'b> {
    /// Index in [`State::directories`].
    pub(super) directory: usize,
    pub(super) inode: u32,
    pub(super) file_block: u32,
    pub(super) block: u64,
    pub(super) bytes: &'b [u8],
}

impl Block<'_> {
    pub(super) fn place(&self) -> Location {
        Location::inode(self.inode)
            .at_block(self.block)
            .at_file_block(self.file_block.into())
    }

    fn place_of(&self, entry: &Entry<'_>) -> Location {
        self.place().at_entry(entry.offset, entry.name)
    }
}

/// Checks the `position`th entry of a directory (0 and 1 are special) and adds its reference.
/// Returns true if its name counts.
pub(super) fn check(
    state: &mut State<'_>,
    block: &Block<'_>,
    entry: &Entry<'_>,
    position: u32,
) -> bool {
    match position {
        0 => check_dot(state, block, entry),
        1 => check_dotdot(state, block, entry),
        _ if entry.inode == block.inode => {
            state.problem(ProblemKind::EntryOfDirectoryItself, block.place_of(entry));
        }
        _ => {}
    }
    if entry.inode == 0 {
        return false;
    }
    let (kinds, is_possible) = judge(state, entry, position);
    for kind in kinds.into_iter().flatten() {
        let inode = entry.inode.into();
        state.report.add_found(kind, block.place_of(entry), inode);
    }
    if !is_possible {
        return false;
    }
    check_group(state, block, entry);
    check_name(state, block, entry, position);
    if state.inodes[entry.inode].usage != Usage::Lost {
        check_file_type(state, block, entry);
    }
    if position > 1 {
        check_policy(state, block, entry);
        check_parent(state, block, entry);
    }
    state.inodes[entry.inode].references += 1;
    true
}

/// Checks the bytes of a name; ciphertext has any, and is not short.
fn check_name(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>, position: u32) {
    let kind = if state.directories[block.directory].is_encrypted && position > 1 {
        let is_short = entry.name.len() < encryption::NAME_BYTES_MIN;
        is_short.then_some(ProblemKind::EncryptedNameTooShort)
    } else {
        let is_wrong = entry.name.iter().any(|byte| matches!(byte, 0 | b'/'));
        is_wrong.then_some(ProblemKind::EntryName)
    };
    if let Some(kind) = kind {
        state.problem(kind, block.place_of(entry));
    }
    let is_strict = state.raw.encoding_flags.get() & ENCODING_STRICT != 0;
    let directory = &state.directories[block.directory];
    if is_strict && directory.is_folded && !directory.is_encrypted {
        // Code points that the version of Unicode does not have are not known here.
        if core::str::from_utf8(entry.name).is_err() {
            state.problem(ProblemKind::NameNotUtf8, block.place_of(entry));
        }
    }
}

/// Checks that an inode with contents or names has the policy of its encrypted directory.
fn check_policy(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    let Some(own) = state.policies.of(block.inode) else {
        return;
    };
    let types = [FileType::Regular, FileType::Directory, FileType::Symlink];
    let code = state.inodes[entry.inode].file_type;
    if !types.iter().any(|file_type| file_type.raw() == code) {
        return;
    }
    let kind = match state.policies.of(entry.inode) {
        None => ProblemKind::EntryOfPlainInode,
        Some(other) if own != other => ProblemKind::EntryOfOtherPolicy,
        _ => return,
    };
    let inode = entry.inode.into();
    state.report.add_found(kind, block.place_of(entry), inode);
}

/// Checks that the group of an entry's inode does not mark the inode as never used.
fn check_group(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    let per_group = state.geometry.inodes_per_group;
    let number = state.geometry.group_of_inode(entry.inode);
    let group = state.groups[number as usize];
    if group.flags.contains(GroupFlags::INODE_UNINIT) {
        if state.entered_groups.insert(number) {
            state.problem(ProblemKind::GroupUninitialized, Location::group(number));
        }
        return;
    }
    let index = (entry.inode - 1) % per_group;
    if index >= per_group.saturating_sub(group.unused_inodes) {
        let (kind, inode) = (ProblemKind::EntryOfUnusedInode, entry.inode.into());
        state.report.add_found(kind, block.place_of(entry), inode);
    }
}

/// Returns the faults of the inode that an entry refers to and of the entry, and true if the
/// reference counts.
fn judge(state: &State<'_>, entry: &Entry<'_>, position: u32) -> ([Option<ProblemKind>; 2], bool) {
    let is_reserved = entry.inode < state.geometry.first_inode && entry.inode != ROOT;
    let is_own =
        entry.inode == state.raw.orphan_file_inode.get() || state.is_quota_file(entry.inode);
    if is_reserved || is_own || !state.geometry.has_inode(entry.inode) {
        return ([Some(ProblemKind::EntryInodeOutOfRange), None], false);
    }
    let inode = state.inodes[entry.inode];
    if inode.usage == Usage::Lost {
        return ([Some(ProblemKind::EntryOfLostInode), None], true);
    }
    let is_free = !inode.is_used();
    let of_entry = if position <= 1 {
        None
    } else if entry.name == b"." || entry.name == b".." {
        Some(ProblemKind::SecondDot)
    } else if entry.inode == ROOT {
        Some(ProblemKind::EntryOfRoot)
    } else if entry.name.is_empty() {
        Some(ProblemKind::EntryWithoutName)
    } else {
        None
    };
    let of_inode = is_free.then_some(ProblemKind::EntryOfFreeInode);
    ([of_inode, of_entry], true)
}

fn check_dot(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    if entry.inode == 0 || entry.name != b"." {
        state.problem(ProblemKind::DotMissing, block.place_of(entry));
    } else if !is_terminated(block, entry) {
        state.problem(ProblemKind::DotNotTerminated, block.place_of(entry));
    }
    if entry.inode != block.inode {
        let (found, expected) = (entry.inode.into(), block.inode.into());
        let kind = ProblemKind::DotWrong;
        state
            .report
            .add_differing(kind, block.place_of(entry), found, expected);
    }
    if entry.record_length > DOT_RECORD_MAX {
        let length = entry.record_length as u64;
        let kind = ProblemKind::DotTooLong;
        state.report.add_found(kind, block.place_of(entry), length);
    }
}

fn check_dotdot(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    if entry.inode == 0 || entry.name != b".." {
        state.problem(ProblemKind::DotDotMissing, block.place_of(entry));
    } else if !is_terminated(block, entry) {
        // As in e2fsck, the entry then leads to no parent.
        state.problem(ProblemKind::DotNotTerminated, block.place_of(entry));
    } else {
        state.directories[block.directory].dotdot = entry.inode;
    }
}

/// True if a zero byte follows the name of `.` or `..`: Linux compares these names as strings.
fn is_terminated(block: &Block<'_>, entry: &Entry<'_>) -> bool {
    let end = entry.offset + HEADER_SIZE + entry.name.len();
    block.bytes.get(end).is_none_or(|byte| *byte == 0)
}

fn check_file_type(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    let known = known_type(state, entry.inode);
    let has_types = state.features.incompatible.contains(Incompatible::FILETYPE);
    let expected = match known {
        _ if !has_types => 0,
        InodeState::BAD => 0,
        known => known,
    };
    if entry.file_type != expected {
        let is_missing = entry.file_type == 0;
        let (found, expected) = (entry.file_type.into(), expected.into());
        let kind = if is_missing {
            ProblemKind::EntryFileTypeMissing
        } else {
            ProblemKind::EntryFileType
        };
        state
            .report
            .add_differing(kind, block.place_of(entry), found, expected);
    }
}

/// Returns the type code of an inode. One that was not read, because its group marks it as never
/// used, is read now; if it is unreadable, its type is unknown.
fn known_type(state: &mut State<'_>, number: u32) -> u8 {
    let known = state.inodes[number];
    if known.is_used() || known.file_type != 0 {
        return known.file_type;
    }
    let inode = inodes::read(state, number).ok().flatten();
    inode.map_or(0, |inode| FileType::from_mode(inode.mode.get()).raw())
}

/// Sets or checks the parent of a directory: the directory of the first entry that refers to it.
fn check_parent(state: &mut State<'_>, block: &Block<'_>, entry: &Entry<'_>) {
    let Some(child) = find(state, entry.inode) else {
        return;
    };
    let parent = state.directories[child].parent;
    if parent == 0 {
        state.directories[child].parent = block.inode;
    } else {
        let kind = ProblemKind::SecondParent;
        let place = block.place_of(entry);
        state.report.add_found(kind, place, entry.inode.into());
    }
}
