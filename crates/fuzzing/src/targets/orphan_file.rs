//! The orphan file: the input is its slots. Checksums are made right, and the superblock says that
//! there are orphans.

use layout::checksum::metadata;
use layout::feature::ReadOnlyCompatible;
use layout::orphan::{TAIL_SIZE, Tail};
use layout::superblock::{OFFSET, Superblock as Raw};
use zerocopy::{FromBytes, IntoBytes};

use super::{SUPERBLOCK, read, use_volume};
use crate::base::{Kind, base};
use crate::edits::put;

const BLOCK_BYTES: usize = 1024;
const SLOTS_BYTES: usize = BLOCK_BYTES - TAIL_SIZE;

pub(super) fn run(bytes: &[u8]) {
    let base = base(Kind::Ext4Orphans);
    let device = base.copy();
    let (mut raw, _) =
        Raw::read_from_prefix(&read(base, &[OFFSET], SUPERBLOCK)).expect("a superblock");
    let nr = raw.orphan_file_inode.get();
    let inode = read(base, &[base.inode_at(nr)], base.inode_bytes());
    let (inode, _) = layout::inode::Inode::ref_from_prefix(&inode).expect("an inode");
    let owner = metadata::owner(raw.checksum_seed.get(), nr, inode.generation.get());
    for (place, slots) in base.orphan_blocks_at.iter().zip(bytes.chunks(SLOTS_BYTES)) {
        let mut block = slots.to_vec();
        block.resize(BLOCK_BYTES, 0);
        let number = place / BLOCK_BYTES as u64;
        let sum = metadata::orphan_block(owner, number, &block);
        block[SLOTS_BYTES..].copy_from_slice(Tail::new(sum).as_bytes());
        put(&device, *place, &block);
    }
    let mut features = raw.features();
    features
        .read_only_compatible
        .insert(ReadOnlyCompatible::ORPHAN_PRESENT);
    raw.set_features(features);
    raw.checksum.set(layout::checksum::superblock(&raw));
    put(&device, OFFSET, raw.as_bytes());
    use_volume(device);
}

/// Returns slots with a file, a directory, and numbers that name none.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let base = base(Kind::Ext4Orphans);
    let numbers = [base.inode_of_file(), 2, 0, 8, 12, 13, u32::MAX];
    vec![
        Vec::new(),
        numbers.iter().flat_map(|nr| nr.to_le_bytes()).collect(),
    ]
}
