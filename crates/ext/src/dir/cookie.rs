//! Reading a directory in hash order, with cookies that stay valid while it changes.
//!
//! This applies to indexed directories, and to those of one block that would become indexed when
//! full. A name's cookie depends on the name alone, so that neither the conversion to an htree nor
//! the split of a leaf moves it.
//!
//! A cookie is 3 + the entry's key: 31 bits of the major hash, 28 of a second hash, and 4 that
//! count names which share both. 1 and 2 stand for `.` and `..`. All fit a positive `off_t` of 64
//! bits.
//!
//! The last 4 bits depend on the other names of the directory and may move with a change. Among ten
//! million names two share 59 bits with a probability of 1 in 10,000; the second hash depends on
//! the volume's seed, too.

use layout::FileBlock;
use layout::hash::{HashVersion, dx_hash};

use super::htree::{CHAIN_MAX, Tree, endless_chain, leaf_met_twice};
use super::leaf::{self, Hashed};
use super::search::Search;
use super::{Readable, Visit, block_count, linear, readable};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::entry::Entry;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};

/// The cookie of the first key.
const FIRST: u64 = 3;
/// Number of bits of a key that count names which share all other bits.
const SHARED_BITS: u32 = 4;
/// Largest such count. More names than that share a cookie, which requires a directory with many
/// copies of one name.
const SHARED_MAX: u64 = (1 << SHARED_BITS) - 1;

/// Visits the entries of an htree in hash order.
pub(super) fn read_indexed(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    tree: &Tree,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    if !visit_dots(core, directory, state, cookie, visit)? {
        return Ok(());
    }
    let hash = |name: &[u8]| hash_of(core, tree.version(), name);
    let start = behind(cookie).map_or(0, |key| ((key >> 32) as u32) << 1);
    let mut path = tree.probe(core, directory, state, start)?;
    let mut first_damage = None;
    let mut leaf_count = 0;
    loop {
        let mut entries = Vec::new();
        let mut leaves = 0;
        let next = loop {
            if leaves > CHAIN_MAX {
                return Err(endless_chain(core, directory, path.leaf));
            }
            leaves += 1;
            leaf_count += 1;
            if leaf_count > block_count(core, state) {
                return Err(leaf_met_twice(core, directory, path.leaf));
            }
            let (sound, damage) = entries_of(core, directory, state, path.leaf, &hash)?;
            entries.extend(sound);
            first_damage = first_damage.or(damage);
            let next = path.advance(core, directory, state)?;
            if next.is_none_or(|hash| hash & 1 == 0) {
                break next;
            }
        };
        let goes_on = visit_sorted(entries, cookie, visit);
        if goes_on && next.is_some() {
            continue;
        }
        return first_damage.map_or(Ok(()), Err);
    }
}

/// Visits the entries of a directory of one block in hash order, as if it were an htree already.
pub(super) fn read_one_block(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    version: HashVersion,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    if !visit_dots(core, directory, state, cookie, visit)? {
        return Ok(());
    }
    let hash = |name: &[u8]| hash_of(core, version, name);
    let (mut entries, damage) = entries_of(core, directory, state, FileBlock::new(0), &hash)?;
    entries.retain(|entry| entry.name != b"." && entry.name != b"..");
    visit_sorted(entries, cookie, visit);
    damage.map_or(Ok(()), Err)
}

/// Returns the key before a cookie; none at the start.
fn behind(cookie: u64) -> Option<u64> {
    cookie.checked_sub(FIRST)
}

/// Visits `.` and `..`; returns false if the visit stopped.
fn visit_dots(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> Result<bool> {
    for (own, name) in [(1, b".".as_slice()), (2, b"..".as_slice())] {
        if cookie >= own {
            continue;
        }
        let start = FileBlock::new(0);
        let mut search = Search::default();
        let place = linear::find_in_block(core, directory, state, start, name, &mut search)?;
        let Some(place) = place else {
            continue;
        };
        let entry = Entry {
            inode: place.inode,
            kind: Some(FileKind::Directory),
            name: name.to_vec(),
        };
        if !visit(own, entry) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a name's position in the order: the hash of the tree, and a second hash that orders
/// equal ones.
fn hash_of(core: &Core, version: HashVersion, name: &[u8]) -> (u32, u32) {
    let seed = core.superblock.hash_seed;
    let hash = dx_hash(version, seed, name);
    let second = match version {
        // The legacy hash has no minor hash.
        HashVersion::Legacy | HashVersion::LegacyUnsigned => {
            dx_hash(HashVersion::HalfMd4Unsigned, seed, name).minor
        }
        _ => hash.minor,
    };
    (hash.major, second)
}

/// Returns the valid entries of a block, and the damage after them.
fn entries_of(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    file_block: FileBlock,
    hash: &dyn Fn(&[u8]) -> (u32, u32),
) -> Result<(Vec<Hashed>, Option<Error>)> {
    let Readable { buffer, bad } = match readable(core, directory, state, file_block) {
        Ok(found) => found,
        Err(Error::Corrupt(damage)) => return Ok((Vec::new(), Some(damage.into()))),
        Err(error) => return Err(error),
    };
    let (sound, damage) = leaf::sound(&buffer.image(), hash);
    Ok((
        sound,
        damage
            .or(bad)
            .map(|damage| damage.at(core, directory.nr, file_block)),
    ))
}

/// Visits entries after a cookie in the order of their keys; returns false if the visit stopped.
fn visit_sorted(entries: Vec<Hashed>, cookie: u64, visit: &mut Visit<'_>) -> bool {
    for (key, entry) in keyed(entries) {
        let is_behind = behind(cookie).is_none_or(|behind| key > behind);
        if is_behind && !visit(key + FIRST, entry) {
            return false;
        }
    }
    true
}

/// Returns entries in the order of their keys.
fn keyed(mut entries: Vec<Hashed>) -> Vec<(u64, Entry)> {
    entries.sort_by(|a, b| (base_of(a), &a.name).cmp(&(base_of(b), &b.name)));
    let mut keyed: Vec<(u64, Entry)> = Vec::with_capacity(entries.len());
    let mut shared = 0;
    let mut last_base = None;
    for entry in entries {
        let base = base_of(&entry);
        shared = if last_base == Some(base) {
            (shared + 1).min(SHARED_MAX)
        } else {
            0
        };
        last_base = Some(base);
        let kind = FileKind::from_entry_type(layout::mode::FileType::from_raw(entry.type_byte));
        let inode = layout::InodeNr::new(entry.inode);
        let name = entry.name;
        keyed.push((base | shared, Entry { inode, kind, name }));
    }
    keyed
}

/// Returns a key without its count.
fn base_of(entry: &Hashed) -> u64 {
    let second = u64::from(entry.minor) >> SHARED_BITS << SHARED_BITS;
    u64::from(entry.hash >> 1) << 32 | second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, hash: u32, minor: u32) -> Hashed {
        Hashed {
            hash,
            minor,
            inode: 12,
            type_byte: 1,
            name: name.as_bytes().to_vec(),
        }
    }

    #[test]
    fn names_that_share_their_hashes_have_cookies_of_their_own() {
        let all = ["d", "b", "a", "c"].map(|name| named(name, 40, 0x0123_4567));
        let keys = keyed(all.to_vec());
        let names: Vec<&[u8]> = keys
            .iter()
            .map(|(_, entry)| entry.name.as_slice())
            .collect();
        assert_eq!(names, [b"a", b"b", b"c", b"d"]);
        assert!(keys.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for stop in 0..4 {
            let mut rest = Vec::new();
            visit_sorted(all.to_vec(), keys[stop].0 + FIRST, &mut |_, entry| {
                rest.push(entry.name);
                true
            });
            assert_eq!(rest, names[stop + 1..]);
        }
    }

    #[test]
    fn the_last_cookie_is_a_positive_offset() {
        let last = named("z", layout::hash::MAJOR_END - 2, u32::MAX);
        let last = keyed(vec![last; 20]).pop().expect("it is there").0;
        assert!(last + FIRST < i64::MAX as u64);
    }
}
