//! Extended attributes: sorted entries, and values that lie within their area and do not overlap.

use layout::attribute::Entry;
use zerocopy::FromBytes;

use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Maximum number of attributes in one area; no more fit a block of 64 KiB.
const ENTRIES_MAX: usize = 4096;

/// An entry whose value lies in an inode of its own.
#[derive(Debug, Clone)]
pub(crate) struct NamedValue {
    /// The name without its prefix.
    pub(crate) name: Vec<u8>,
    /// The number of the inode.
    pub(crate) inode: u32,
    /// Size of the value in bytes.
    pub(crate) size: u32,
    /// Hash of the entry.
    pub(crate) hash: u32,
}

/// Returns the entries with values in inodes of their own, if the entries and their values are
/// valid apart from those. `entries` starts at the first entry and reaches to the end of the area;
/// value offsets count from `skipped` bytes before it.
pub(crate) fn read(entries: &[u8], skipped: usize, has_ea_inode: bool) -> Option<Vec<NamedValue>> {
    let mut at = 0;
    let mut values: Vec<(usize, usize)> = Vec::new();
    let mut named = Vec::new();
    for _ in 0..ENTRIES_MAX {
        let word = entries.get(at..at + 4)?;
        if word == [0; 4] {
            return are_apart(&mut values, at + 4 + skipped).then_some(named);
        }
        let (entry, _) = Entry::ref_from_prefix(&entries[at..]).ok()?;
        let length = usize::from(entry.name_length);
        let end = at + (size_of::<Entry>() + length).next_multiple_of(4);
        // Access control lists have a prefix and no name after it.
        let has_prefix = skipped == 0 || entry.name_index != 0;
        let is_in_inode = entry.value_inode.get() != 0;
        if !has_prefix || end > entries.len() || is_in_inode && !has_ea_inode {
            return None;
        }
        let name = &entries[at + size_of::<Entry>()..][..length];
        if is_in_inode {
            named.push(NamedValue {
                name: name.to_vec(),
                inode: entry.value_inode.get(),
                size: entry.value_size.get(),
                hash: entry.hash.get(),
            });
            at = end;
            continue;
        }
        let (start, size) = (
            usize::from(entry.value_offset.get()),
            entry.value_size.get() as usize,
        );
        if size > entries.len() || (size != 0 && start + size > entries.len() + skipped) {
            return None;
        }
        if size != 0 {
            if start < skipped {
                return None;
            }
            values.push((start, start + size));
        }
        let value = if size == 0 {
            &[]
        } else {
            // The hash covers whole words, including the bytes after the value.
            let value = &entries[start - skipped..];
            &value[..size.next_multiple_of(4).min(value.len())]
        };
        if !is_hash_good(entry.hash.get(), name, value, skipped == 0) {
            return None;
        }
        at = end;
    }
    None
}

/// Returns the value of an attribute, if it does not lie in an inode of its own. The attributes are
/// valid; value offsets count from `skipped` bytes before the first entry.
pub(crate) fn value_of<'e>(
    (entries, skipped): (&'e [u8], usize),
    index: u8,
    name: &[u8],
) -> Option<&'e [u8]> {
    let mut at = 0;
    for _ in 0..ENTRIES_MAX {
        let rest = entries.get(at..)?;
        if rest.get(..4)? == [0; 4] {
            return None;
        }
        let (entry, rest) = Entry::ref_from_prefix(rest).ok()?;
        let length = usize::from(entry.name_length);
        let is_found = entry.name_index == index && rest.get(..length)? == name;
        if is_found && entry.value_inode.get() == 0 {
            let start = match entry.value_size.get() {
                0 => 0,
                _ => usize::from(entry.value_offset.get()).checked_sub(skipped)?,
            };
            return entries.get(start..start + entry.value_size.get() as usize);
        }
        at += (size_of::<Entry>() + length).next_multiple_of(4);
    }
    None
}

/// True if every value that does not lie in an inode of its own ends within the area of an inode,
/// also if it is empty. The attributes are valid.
pub(crate) fn are_values_within(entries: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = entries.get(at..).filter(|rest| !rest.starts_with(&[0; 4])) {
        let Ok((entry, _)) = Entry::ref_from_prefix(rest) else {
            return true;
        };
        let (start, size) = (
            entry.value_offset.get().into(),
            entry.value_size.get() as usize,
        );
        let end = usize::saturating_add(start, size);
        if entry.value_inode.get() == 0 && end > entries.len() {
            return false;
        }
        at += (size_of::<Entry>() + usize::from(entry.name_length)).next_multiple_of(4);
    }
    true
}

/// True if a hash matches a name and a value, with name bytes as unsigned or, as some machines
/// wrote it, as signed. Within an inode the hash may be missing.
fn is_hash_good(hash: u32, name: &[u8], value: &[u8], may_be_missing: bool) -> bool {
    if may_be_missing && hash == 0 {
        return true;
    }
    let mix = |hash: u32, word: u32, shift: u32| hash.rotate_left(shift) ^ word;
    let of_value = |hash: u32| {
        value.chunks(4).fold(hash, |hash, bytes| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            mix(hash, u32::from_le_bytes(word), 16)
        })
    };
    let unsigned = name
        .iter()
        .fold(0, |hash, byte| mix(hash, u32::from(*byte), 5));
    let signed = name
        .iter()
        .fold(0, |hash, byte| mix(hash, *byte as i8 as u32, 5));
    of_value(unsigned) == hash || of_value(signed) == hash
}

/// True if the values overlap neither each other nor the entries, which end at `entries_end`.
fn are_apart(values: &mut [(usize, usize)], entries_end: usize) -> bool {
    values.sort_unstable();
    let mut last = entries_end;
    values.iter().all(|(start, end)| {
        let is_apart = *start >= last;
        last = *end;
        is_apart
    })
}

/// Checks the reference count of every attribute block, after all inodes were read.
pub(crate) fn check_references(state: &mut State<'_>) {
    for (block, area) in std::mem::take(&mut state.attribute_blocks) {
        let found = area.references;
        if let Some(said) = area.said
            && found != said
        {
            let kind = ProblemKind::AttributeReferencesWrong;
            let place = Location::block(block);
            state
                .report
                .add_differing(kind, place, said.into(), found.into());
        }
    }
}
