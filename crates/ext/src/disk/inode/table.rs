//! Inodes in the table: 128 bytes, and the extra part of larger ones.
//!
//! The extra part has nanoseconds, the epoch bits and the time of birth; `i_extra_isize` is the
//! part of it that is present. A new inode has all of it. Decoding checks only what the rest of the
//! crate relies on.

use layout::inode::{BASE_SIZE, EXTRA_SIZE, Inode as Base, InodeExtra};
use layout::inode_flags::InodeFlags;
use layout::mode::{FileType, PERMISSION_MASK};
use layout::time::InodeTime;
use layout::{BlockNr, InodeNr};
use zerocopy::FromBytes;

use super::{Claims, InodeState, growth};
use crate::disk::extents;
use crate::disk::file_size::{size_max, size_reached};
use crate::disk::geometry::Geometry;
use crate::disk::kind::FileKind;
use crate::disk::superblock::Superblock;
use crate::disk::words::Words;
use crate::error::{Corrupt, Error, Result};

/// Number of blocks that the 48 bits of an inode on a volume with `huge_file` cannot count.
const HUGE_FILE_BLOCKS: u64 = 1 << 48;
/// End of a field of the extra part, in bytes of `i_extra_isize`.
const END_OF_CTIME: usize = 8;
const END_OF_MTIME: usize = 12;
const END_OF_ATIME: usize = 16;
const END_OF_CRTIME: usize = 24;
const END_OF_PROJECT: usize = 32;

/// Decodes an inode of the table. `geometry` is the current geometry; the superblock holds that at
/// open.
///
/// # Errors
/// - [`Error::NotFound`] for an inode without a mode and links.
/// - [`Corrupt::Inode`] for an invalid field, [`Corrupt::Checksum`] for a checksum that does not
///   match.
pub(crate) fn decode(
    superblock: &Superblock,
    geometry: &Geometry,
    nr: InodeNr,
    bytes: &[u8],
) -> Result<InodeState> {
    superblock.checksums.check_inode(nr, bytes)?;
    let (base, rest) = Base::read_from_prefix(bytes).expect("an inode has at least its base");
    let corrupt = |field, value| {
        Error::from(Corrupt::Inode {
            inode: nr,
            field,
            value,
        })
    };
    let mode = base.mode.get();
    let Some(kind) = FileKind::from_entry_type(FileType::from_mode(mode)) else {
        if base.links_count.get() == 0 {
            return Err(Error::NotFound);
        }
        return Err(corrupt("i_mode", u64::from(mode)));
    };
    let flags = base.flags();
    let has_extents = flags.contains(InodeFlags::EXTENTS);
    let is_inline = flags.contains(InodeFlags::INLINE_DATA);
    let may_be_inline = superblock.has_inline_data() && !has_extents && has_contents(kind);
    if is_inline && !may_be_inline || has_extents && !superblock.has_extents() {
        return Err(corrupt("i_flags", u64::from(flags.bits())));
    }
    let size = base.size(superblock.has_large_dir());
    let most = match has_extents || is_inline && superblock.has_extents() {
        true => extents::FILE_BLOCKS * u64::from(geometry.block_bytes),
        false if superblock.has_large_blocks() => size_reached(geometry.block_bytes),
        false => size_max(geometry.block_bytes),
    };
    if kind == FileKind::Regular && size > most {
        return Err(corrupt("i_size", size));
    }
    // A directory has no holes.
    let end_of_volume = BlockNr::new(geometry.block_count);
    if kind == FileKind::Directory && size > geometry.byte_offset(end_of_volume) {
        return Err(corrupt("i_size", size));
    }
    let attribute_block = BlockNr::new(base.attribute_block(superblock.is_64bit()));
    let extra_bytes = extra_size(rest);
    if extra_bytes > rest.len() || !extra_bytes.is_multiple_of(4) {
        return Err(corrupt("i_extra_isize", extra_bytes as u64));
    }
    let extra = Extra::read(rest, extra_bytes);
    let (atime, mtime, ctime) = (
        base.access_time.get(),
        base.modification_time.get(),
        base.change_time.get(),
    );
    Ok(InodeState {
        kind,
        permissions: mode & PERMISSION_MASK,
        uid: base.uid(),
        gid: base.gid(),
        size,
        size_on_disk: None,
        claims: Claims {
            sectors: base.sectors(superblock.has_huge_file(), geometry.block_bytes),
            words: Words::from_raw(base.map()),
            attribute_block,
            ..Claims::new(base.links_count.get())
        },
        flags,
        generation: base.generation.get(),
        project: match superblock.has_project() && extra.bytes >= END_OF_PROJECT {
            true => extra.fields.project.get(),
            false => 0,
        },
        atime: extra.time(atime, extra.fields.access_time_extra.get(), END_OF_ATIME),
        mtime: extra.time(
            mtime,
            extra.fields.modification_time_extra.get(),
            END_OF_MTIME,
        ),
        ctime: extra.time(ctime, extra.fields.change_time_extra.get(), END_OF_CTIME),
        crtime: (extra.bytes >= END_OF_CRTIME).then(|| {
            let (word, more) = (
                extra.fields.creation_time.get(),
                extra.fields.creation_time_extra.get(),
            );
            InodeTime::decode_extra(word, more)
        }),
        dtime: base.deletion_time.get(),
        last_tid: None,
        data_tid: None,
        has_moved: false,
        is_orphan: false,
        is_cut: false,
        is_replaced: false,
        is_fresh: false,
    })
}

/// Returns true if inodes of this kind have contents.
fn has_contents(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Regular | FileKind::Directory | FileKind::Symlink
    )
}

/// Returns true if size and block count can be stored.
pub(crate) fn fits(superblock: &Superblock, state: &InodeState) -> bool {
    let has_size = match state.kind {
        FileKind::Regular => true,
        FileKind::Directory if superblock.has_large_dir() => true,
        _ => state.size <= u64::from(u32::MAX),
    };
    has_size && fits_sectors(superblock, state.sectors)
}

/// Returns true if a block count in units of 512 bytes can be stored.
pub(crate) fn fits_sectors(superblock: &Superblock, sectors: u64) -> bool {
    if !superblock.has_huge_file() {
        return sectors <= u64::from(u32::MAX);
    }
    let per_block = u64::from(superblock.geometry.block_bytes / 512);
    sectors / per_block < HUGE_FILE_BLOCKS
}

/// Encodes an inode into its place in the table.
pub(crate) fn encode(superblock: &Superblock, state: &InodeState, bytes: &mut [u8]) {
    let next_orphan = state.is_orphan.then(|| base_of(bytes).deletion_time);
    if state.is_fresh {
        bytes.fill(0);
    }
    let base = base_of(bytes);
    base.mode.set(state.kind.mode() | state.permissions);
    base.set_uid(state.uid);
    base.set_gid(state.gid);
    let has_size = base.set_size(state.stored_size(), superblock.has_large_dir());
    assert!(has_size, "the size was checked before");
    match next_orphan {
        Some(next) => base.deletion_time = next,
        None if rt::mutant!("delete/time-not-stored") => base.deletion_time.set(0),
        None => base.deletion_time.set(state.dtime),
    }
    base.links_count.set(state.links);
    base.set_flags(state.flags);
    let has_sectors = base.set_sectors(
        state.sectors,
        superblock.has_huge_file(),
        superblock.geometry.block_bytes,
    );
    assert!(has_sectors, "the block count was checked before");
    base.set_map(state.words.to_raw());
    base.generation.set(state.generation);
    base.set_attribute_block(state.attribute_block.get(), superblock.is_64bit());
    let extra = encode_extra(superblock, state, &mut bytes[BASE_SIZE..]);
    let word = |time: InodeTime, end| {
        if extra >= end {
            time.encode_extra().0
        } else {
            time.encode()
        }
    };
    let base = base_of(bytes);
    base.access_time.set(word(state.atime, END_OF_ATIME));
    base.change_time.set(word(state.ctime, END_OF_CTIME));
    base.modification_time.set(word(state.mtime, END_OF_MTIME));
}

/// Returns `i_extra_isize` of an inode once it is stored again.
pub(crate) fn grown_extra_size(bytes: &[u8], state: &InodeState) -> usize {
    let size = extra_size(&bytes[BASE_SIZE..]);
    if size >= EXTRA_SIZE || state.is_inline() {
        return size;
    }
    let mut rest = bytes[BASE_SIZE..].to_vec();
    growth::grow(&mut rest, size);
    extra_size(&rest)
}

/// Grows the extra part of an inode to a size, if it is short and its attributes leave room.
pub(crate) fn grow_extra(bytes: &mut [u8], wanted: usize) {
    let rest = &mut bytes[BASE_SIZE..];
    growth::grow_to(rest, extra_size(rest), wanted);
}

/// Encodes the fields that the extra part has room for. Returns its size in bytes.
fn encode_extra(superblock: &Superblock, state: &InodeState, rest: &mut [u8]) -> usize {
    if state.is_fresh && rest.len() >= EXTRA_SIZE {
        rest[..2].copy_from_slice(&(EXTRA_SIZE as u16).to_le_bytes());
    } else if !state.is_inline() {
        growth::grow(rest, extra_size(rest));
    }
    let mut extra = Extra::read(rest, extra_size(rest));
    if extra.bytes < END_OF_CTIME {
        return extra.bytes;
    }
    extra
        .fields
        .change_time_extra
        .set(state.ctime.encode_extra().1);
    extra
        .fields
        .modification_time_extra
        .set(state.mtime.encode_extra().1);
    extra
        .fields
        .access_time_extra
        .set(state.atime.encode_extra().1);
    if let Some(crtime) = state.crtime {
        let (word, more) = crtime.encode_extra();
        extra.fields.creation_time.set(word);
        extra.fields.creation_time_extra.set(more);
    }
    if superblock.has_project() {
        extra.fields.project.set(state.project);
    }
    extra.write(rest);
    extra.bytes
}

/// The extra part, as far as it is present.
struct Extra {
    fields: InodeExtra,
    bytes: usize,
}

impl Extra {
    fn read(rest: &[u8], bytes: usize) -> Self {
        let bytes = bytes.min(EXTRA_SIZE).min(rest.len());
        let mut raw = [0; EXTRA_SIZE];
        raw[..bytes].copy_from_slice(&rest[..bytes]);
        let fields = InodeExtra::read_from_bytes(&raw).expect("the sizes are equal");
        Self { fields, bytes }
    }

    fn write(&self, rest: &mut [u8]) {
        let raw = zerocopy::IntoBytes::as_bytes(&self.fields);
        rest[..self.bytes].copy_from_slice(&raw[..self.bytes]);
    }

    fn time(&self, word: u32, more: u32, end: usize) -> InodeTime {
        if self.bytes >= end {
            InodeTime::decode_extra(word, more)
        } else {
            InodeTime::decode(word)
        }
    }
}

/// Returns `i_extra_isize`, or 0 for an inode of 128 bytes.
pub(crate) fn extra_size(rest: &[u8]) -> usize {
    match rest {
        [low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    }
}

fn base_of(bytes: &mut [u8]) -> &mut Base {
    let (base, _) = Base::mut_from_prefix(bytes).expect("an inode has at least its base");
    base
}

#[cfg(test)]
mod tests;
