//! The in-memory state of an open volume, and the operations that need nothing else. Code that
//! reads a block map or starts a handle belongs to the layers above.

pub(crate) mod absent_names;
pub(crate) mod attribute_blocks;
pub(crate) mod buffers;
pub(crate) mod damage_log;
pub(crate) mod dirty_list;
pub(crate) mod fast_changes;
pub(crate) mod file_pages;
pub(crate) mod flushes;
pub(crate) mod folio;
pub(crate) mod inode;
pub(crate) mod inodes;
pub(crate) mod kept_nodes;
pub(crate) mod leaf_names;
pub mod multi_mount;
pub(crate) mod names_index;
pub(crate) mod ordered;
pub(crate) mod orphan_slots;
pub(crate) mod orphans;
pub(crate) mod page_counts;
pub(crate) mod pages;
pub(crate) mod quotas;
pub(crate) mod read_ahead;
mod resident_files;
pub(crate) mod space;
pub(crate) mod stalls;
pub(crate) mod submitted;
pub(crate) mod wake;

/// Returns the shard of a number, of `count`, a power of two above one. Numbers at equal distances,
/// as those of the first blocks of groups, are spread, too.
///
/// Source: multiplicative hashing, D. E. Knuth, "The Art of Computer Programming", vol. 3, 6.4.
pub(crate) fn shard_of(number: u64, count: usize) -> usize {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - count.ilog2())) as usize
}

/// Makes the shards of a cache, one after the other in their place: an array would be moved there.
fn shards<T, const COUNT: usize>(mut new: impl FnMut() -> T) -> Box<[T; COUNT]> {
    let shards: Box<[T]> = (0..COUNT).map(|_| new()).collect();
    let Ok(shards) = shards.try_into() else {
        unreachable!("there are as many");
    };
    shards
}
