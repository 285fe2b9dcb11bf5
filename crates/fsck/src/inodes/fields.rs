//! The fields of an inode in use.

use layout::encryption;
use layout::feature::{Compatible, ReadOnlyCompatible};
use layout::inode::{DIRECT_BLOCKS, Inode, InodeFlags, MAP_WORDS};
use layout::mode::FileType;
use zerocopy::IntoBytes;

use super::Slot;
use super::inline::{self, is_inline};
use crate::error::Error;
use crate::extents;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;
use crate::visit::Mapped;

/// Flags that forbid changes.
const FORBIDDING_FLAGS: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);
/// Maximum size of a file without the feature `large_file`, in bytes.
const SMALL_SIZE_MAX: u64 = (1 << 31) - 1;
/// Number of words of `i_block` that device files may use.
const DEVICE_WORDS: usize = 4;

/// Checks the fields. Returns `false` if the inode does not match its type.
pub(super) fn check(
    state: &mut State<'_>,
    slot: &Slot<'_>,
    file_type: FileType,
) -> Result<bool, Error> {
    check_flags(state, slot, file_type);
    check_words(state, slot, file_type);
    check_type(state, slot, file_type)
}

/// True if `i_block` is a block map or the root of an extent tree. For a symbolic link it is if the
/// link has a block.
pub(super) fn has_map(state: &State<'_>, raw: &Inode, file_type: FileType) -> bool {
    if raw.flags().contains(InodeFlags::INLINE_DATA) {
        return false;
    }
    match file_type {
        FileType::Regular | FileType::Directory => true,
        // Its blocks are those of its values, too.
        FileType::Symlink if state.has_ea_inode() => !is_fast_symlink(raw),
        FileType::Symlink => {
            let has_attributes = raw.attribute_block(state.is_64bit()) != 0;
            raw.blocks_low.get() != 0 && !(has_attributes && is_fast_symlink(raw))
        }
        _ => false,
    }
}

/// True if a symbolic link's target fits into `i_block` and is stored there.
pub(super) fn is_fast_symlink(raw: &Inode) -> bool {
    let size = raw.size_low.get() as usize;
    size != 0 && size < MAP_WORDS * 4 && raw.size_high.get() == 0
}

fn check_flags(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    let place = || Location::inode(slot.number);
    let flags = slot.raw.flags();
    let mut foreign = InodeFlags::empty();
    if flags.contains(InodeFlags::AFS_DIRECTORY) {
        match state
            .features
            .compatible
            .contains(Compatible::IMAGIC_INODES)
        {
            true => _ = state.nameless.insert(slot.number),
            false => foreign |= InodeFlags::AFS_DIRECTORY,
        }
    }
    let is_directory = file_type == FileType::Directory;
    let has_index = state.features.compatible.contains(Compatible::DIR_INDEX);
    if flags.contains(InodeFlags::INDEX) && is_directory && !has_index {
        foreign |= InodeFlags::INDEX;
    }
    if !state.has_extents() {
        foreign |= flags & InodeFlags::EXTENTS;
    }
    if !state.has_inline_data() {
        foreign |= flags & InodeFlags::INLINE_DATA;
    }
    if !state.has_folding() {
        foreign |= flags & InodeFlags::CASEFOLD;
    }
    if flags.contains(InodeFlags::CASEFOLD) && !is_directory {
        state.problem(ProblemKind::FoldedNotDirectory, place());
    }
    if !foreign.is_empty() {
        let kind = ProblemKind::FlagOfMissingFeature;
        state.report.add_found(kind, place(), foreign.bits().into());
    }
    if flags.contains(InodeFlags::INDEX) && !is_directory {
        state.problem(ProblemKind::IndexFlagNotDirectory, place());
    }
    check_extents_flag(state, slot, file_type);
    let is_special = !matches!(
        file_type,
        FileType::Regular | FileType::Directory | FileType::Unknown
    );
    if is_special && flags.intersects(FORBIDDING_FLAGS) {
        state.problem(ProblemKind::SpecialFileFlags, place());
    }
}

/// Checks that the flag of extents matches what `i_block` holds.
fn check_extents_flag(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    if !state.has_extents() {
        return;
    }
    let is_set = slot.raw.flags().contains(InodeFlags::EXTENTS);
    let kind = match file_type {
        FileType::Regular | FileType::Directory
            if !is_set && extents::is_root(slot.raw.map_words.as_bytes()) =>
        {
            ProblemKind::ExtentsFlagMissing
        }
        FileType::Symlink if is_set && !has_map(state, slot.raw, file_type) => {
            ProblemKind::SymlinkExtents
        }
        _ => return,
    };
    state.problem(kind, Location::inode(slot.number));
}

fn check_type(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) -> Result<bool, Error> {
    let place = || Location::inode(slot.number);
    let raw = slot.raw;
    match file_type {
        FileType::Regular | FileType::Directory => {}
        FileType::Symlink => {
            let is_good = match is_inline(state, raw) {
                true => !is_fast_symlink(raw) && inline::is_symlink_good(state, slot),
                false => is_symlink_good(state, raw)?,
            };
            if !is_good {
                state.problem(ProblemKind::SymlinkInvalid, place());
                return Ok(false);
            }
        }
        FileType::Unknown => {
            let mode = raw.mode.get();
            let kind = ProblemKind::InodeMode;
            state.report.add_found(kind, place(), mode.into());
            return Ok(false);
        }
        _ => {
            if raw.flags().contains(InodeFlags::INLINE_DATA) {
                state.problem(ProblemKind::SpecialFileInline, place());
            }
            if !is_special_good(raw) {
                state.problem(ProblemKind::SpecialFileInvalid, place());
                return Ok(false);
            }
            let size = whole_size(raw);
            if size != 0 {
                let kind = ProblemKind::SpecialFileSize;
                state.report.add_differing(kind, place(), size, 0);
            }
        }
    }
    Ok(true)
}

/// True if a device, fifo or socket has no tree. The rest of `i_block` must be clear only if a flag
/// is set that these types never have: old kernels left garbage there.
fn is_special_good(raw: &Inode) -> bool {
    let flags = raw.flags();
    if flags.intersects(InodeFlags::INDEX | InodeFlags::EXTENTS) {
        return false;
    }
    let is_clear = raw.map()[DEVICE_WORDS..].iter().all(|word| *word == 0);
    is_clear || !flags.intersects(FORBIDDING_FLAGS)
}

/// True if the target ends at the size, and within its block or `i_block`.
fn is_symlink_good(state: &mut State<'_>, raw: &Inode) -> Result<bool, Error> {
    let size = raw.size_low.get() as usize;
    if size == 0 || raw.size_high.get() != 0 || raw.flags().contains(InodeFlags::INDEX) {
        return Ok(false);
    }
    let has_tree = raw.flags().contains(InodeFlags::EXTENTS);
    let is_encrypted = raw.flags().contains(InodeFlags::ENCRYPT);
    if is_fast_symlink(raw) {
        let words = raw.map_words.as_bytes();
        return Ok(!has_tree && has_length(words, size, is_encrypted));
    }
    let words = raw.map();
    let block = if has_tree {
        extents::only_block(raw.map_words.as_bytes())
    } else {
        let has_more = words[1..].iter().any(|word| *word != 0);
        (!has_more).then_some(u64::from(words[0]))
    };
    let block = block.filter(|block| state.geometry.contains(*block));
    match block {
        Some(block) if size < state.geometry.block_bytes => {
            Ok(has_length(&state.block(block)?, size, is_encrypted))
        }
        _ => Ok(false),
    }
}

/// True if a target has a length. An encrypted one may have any bytes, after its own length.
fn has_length(bytes: &[u8], length: usize, is_encrypted: bool) -> bool {
    if is_encrypted {
        let target = encryption::symlink_target(bytes);
        return target.is_some_and(|target| target.len() + size_of::<u16>() == length);
    }
    bytes.iter().position(|byte| *byte == 0) == Some(length)
}

/// Checks words that must be zero.
fn check_words(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    let raw = slot.raw;
    let has_huge_file = state
        .features
        .read_only_compatible
        .contains(ReadOnlyCompatible::HUGE_FILE);
    let has_no_size_high = file_type == FileType::Directory && !state.has_large_directories();
    let words = [
        (
            ProblemKind::FragmentAddressNotZero,
            raw.fragment_address.get(),
            true,
        ),
        (
            ProblemKind::BlocksHighNotZero,
            raw.blocks_high.get().into(),
            !has_huge_file,
        ),
        (
            ProblemKind::AttributeBlockHighNotZero,
            raw.attribute_block_high.get().into(),
            !state.is_64bit(),
        ),
        (
            ProblemKind::DirectorySizeHighNotZero,
            raw.size_high.get(),
            has_no_size_high,
        ),
    ];
    for (kind, word, applies) in words {
        if word != 0 && applies {
            let place = Location::inode(slot.number);
            state.report.add_differing(kind, place, word.into(), 0);
        }
    }
}

/// Returns the size from both halves, for any type.
fn whole_size(raw: &Inode) -> u64 {
    u64::from(raw.size_low.get()) | (u64::from(raw.size_high.get()) << 32)
}

/// Checks size and allocated blocks against the block map.
pub(super) fn check_sizes(
    state: &mut State<'_>,
    slot: &Slot<'_>,
    file_type: FileType,
    mapped: &Mapped,
    attribute_clusters: u64,
) {
    let place = || Location::inode(slot.number);
    let block_bytes = state.geometry.block_bytes as u64;
    let size = whole_size(slot.raw);
    let end = mapped.last.map_or(0, |last| last + 1);
    match file_type {
        FileType::Directory if is_inline(state, slot.raw) => inline::check_size(state, slot, size),
        FileType::Directory => {
            if mapped.clusters == 0 {
                state.problem(ProblemKind::DirectoryWithoutBlocks, place());
            }
            let spare = u64::from(state.raw.preallocated_directory_blocks) * block_bytes;
            let expected = end * block_bytes;
            let is_good = size.is_multiple_of(block_bytes)
                && (size == expected || (size < expected && expected - size <= spare));
            if !is_good {
                let kind = ProblemKind::DirectorySizeWrong;
                state.report.add_differing(kind, place(), size, expected);
            }
        }
        FileType::Symlink => {}
        _ => {
            // Blocks behind the end may be allocated, if they are not written.
            let last = if state.has_extents() {
                mapped.last_written
            } else {
                mapped.last
            };
            // Those behind the end of a file with verity are its hashes.
            let has_hashes = slot.raw.flags().contains(InodeFlags::VERITY);
            if !has_hashes && last.is_some_and(|last| size < last * block_bytes) {
                let kind = ProblemKind::FileSizeTooSmall;
                let expected = end * block_bytes;
                state.report.add_differing(kind, place(), size, expected);
            } else if size > size_max(state, slot.raw) {
                let kind = ProblemKind::FileSizeTooLarge;
                state.report.add_found(kind, place(), size);
            }
        }
    }
    // e2fsck does not count the blocks of such a link.
    if file_type == FileType::Symlink && is_inline(state, slot.raw) {
        return;
    }
    state.has_large_file |= file_type == FileType::Regular && size > SMALL_SIZE_MAX;
    check_held(state, slot, mapped.clusters + attribute_clusters);
}

/// Checks the allocated clusters, counted in sectors.
pub(super) fn check_held(state: &mut State<'_>, slot: &Slot<'_>, clusters: u64) {
    let block_bytes = state.geometry.block_bytes as u64;
    let has_huge_file = state
        .features
        .read_only_compatible
        .contains(ReadOnlyCompatible::HUGE_FILE);
    let found = slot.raw.sectors(has_huge_file, block_bytes as u32);
    let expected = (clusters << state.geometry.cluster_log) * (block_bytes / 512);
    // A count in blocks has no upper half, as in e2fsck.
    let in_blocks = has_huge_file && slot.raw.flags().contains(InodeFlags::HUGE_FILE);
    if found != expected || (in_blocks && slot.raw.blocks_high.get() != 0) {
        let kind = ProblemKind::BlockCountWrong;
        let place = Location::inode(slot.number);
        state.report.add_differing(kind, place, found, expected);
    }
}

/// Returns the maximum number of bytes that a file's map can address.
fn size_max(state: &State<'_>, raw: &Inode) -> u64 {
    if state.has_extents() && raw.flags().contains(InodeFlags::EXTENTS) {
        return (state.geometry.block_bytes as u64) << 32;
    }
    let pointers = state.geometry.pointers_per_block() as u64;
    let blocks = DIRECT_BLOCKS as u64 + pointers + pointers.pow(2) + pointers.pow(3);
    blocks * state.geometry.block_bytes as u64
}
