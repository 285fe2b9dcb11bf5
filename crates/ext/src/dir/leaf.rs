//! The split of a full htree leaf: its entries and a new one, in hash order, over two blocks.

use layout::{Block, InodeNr};

use crate::disk::entry::{self, Bad, BlockForm, NewEntry, size_of_name};

/// A directory entry with its hash and an owned name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) hash: u32,
    pub(super) minor: u32,
    pub(super) inode: u32,
    pub(super) type_byte: u8,
    pub(super) name: Vec<u8>,
}

/// A split leaf.
pub(super) struct Split {
    /// The lower half.
    pub(super) lower: Block,
    /// The upper half.
    pub(super) upper: Block,
    /// The lowest hash of the upper half; its lowest bit is set if the lower half has names with
    /// this hash, too.
    pub(super) hash: u32,
}

/// Returns the used entries of a block with their hashes.
pub(super) fn hashed(bytes: &[u8], hash: &dyn Fn(&[u8]) -> (u32, u32)) -> Result<Vec<Hashed>, Bad> {
    match sound(bytes, hash) {
        (all, None) => Ok(all),
        (_, Some(bad)) => Err(bad),
    }
}

/// Returns the used entries of a block up to the first damage, with their hashes.
pub(super) fn sound(
    bytes: &[u8],
    hash: &dyn Fn(&[u8]) -> (u32, u32),
) -> (Vec<Hashed>, Option<Bad>) {
    let (mut all, mut damage) = (Vec::new(), None);
    for found in entry::entries(bytes) {
        let found = match found {
            Ok(found) => found,
            Err(bad) => {
                damage = Some(bad);
                break;
            }
        };
        if found.inode != 0 {
            let (major, minor) = hash(found.name);
            let (inode, type_byte) = (found.inode, found.type_byte);
            all.push(Hashed {
                hash: major,
                minor,
                inode,
                type_byte,
                name: found.name.to_vec(),
            });
        }
    }
    rt::charge(rt::Cost::Search {
        lookups: 0,
        entries: all.len() as u64,
    });
    (all, damage)
}

/// Returns a block with all of these entries, if they fit: the free room of a full block may be too
/// scattered for one more entry.
pub(super) fn compacted(form: BlockForm, entries: &[Hashed]) -> Option<Block> {
    let sizes = entries.iter().map(|entry| size_of_name(entry.name.len()));
    (sizes.sum::<usize>() <= form.end()).then(|| pack(form, entries))
}

/// Splits entries (the new one among them) over two blocks, at half of their bytes, in hash order.
///
/// Both halves fit: together they take at most one block and one entry, so that half of that and
/// one more entry take less than a block.
///
/// # Panics
/// Panics with fewer than two entries, which always fit one block: see [`compacted`].
pub(super) fn split(form: BlockForm, mut entries: Vec<Hashed>) -> Split {
    entries.sort_by(|a, b| (a.hash, a.minor, &a.name).cmp(&(b.hash, b.minor, &b.name)));
    let total: usize = entries
        .iter()
        .map(|entry| size_of_name(entry.name.len()))
        .sum();
    let mut bytes = 0;
    let mut at = 0;
    for (index, entry) in entries.iter().enumerate() {
        if bytes * 2 >= total {
            break;
        }
        bytes += size_of_name(entry.name.len());
        at = index + 1;
    }
    let at = at.clamp(1, entries.len() - 1);
    let (lower, upper) = entries.split_at(at);
    let continues = u32::from(lower[at - 1].hash == upper[0].hash);
    Split {
        hash: upper[0].hash | continues,
        lower: pack(form, lower),
        upper: pack(form, upper),
    }
}

fn pack(form: BlockForm, entries: &[Hashed]) -> Block {
    let entries: Vec<NewEntry<'_>> = entries
        .iter()
        .map(|entry| NewEntry {
            name: &entry.name,
            inode: InodeNr::new(entry.inode),
            type_byte: entry.type_byte,
        })
        .collect();
    entry::packed(form, &entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: BlockForm = BlockForm {
        size: 1024,
        has_tail: true,
    };

    fn entries(count: u32, hash: impl Fn(u32) -> u32, name_bytes: usize) -> Vec<Hashed> {
        (0..count)
            .map(|i| Hashed {
                hash: hash(i),
                minor: 0,
                inode: i + 1,
                type_byte: 1,
                name: format!("{i:0name_bytes$}").into_bytes(),
            })
            .collect()
    }

    #[test]
    fn halves_are_in_hash_order_and_hold_everything() {
        let split = split(FORM, entries(85, |i| (i * 7919) % 1000 * 2, 4));
        let plain = |_: &[u8]| (0, 0);
        let lower = hashed(&split.lower, &plain).expect("sound").len();
        let upper = hashed(&split.upper, &plain).expect("sound").len();
        assert_eq!(lower + upper, 85);
        assert!(lower.abs_diff(upper) <= 2);
    }

    #[test]
    fn equal_hashes_on_both_sides_are_marked() {
        assert_eq!(split(FORM, entries(10, |_| 40, 90)).hash, 41);
        assert_eq!(split(FORM, entries(10, |i| i * 2, 90)).hash & 1, 0);
    }

    #[test]
    fn the_longest_names_fit_the_smallest_block() {
        let split = split(FORM, entries(4, |i| i * 2, 255));
        let plain = |_: &[u8]| (0, 0);
        assert_eq!(hashed(&split.lower, &plain).expect("sound").len(), 2);
        assert_eq!(hashed(&split.upper, &plain).expect("sound").len(), 2);
    }
}
