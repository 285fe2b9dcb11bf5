//! Tests of the table of kinds.

use layout::attribute::BLOCK_HEADER_SIZE;
use layout::orphan;
use zerocopy::IntoBytes;

use super::*;
use crate::error::Corrupt;

const OWNER: InodeNr = InodeNr::new(12);
const BLOCK: BlockNr = BlockNr::new(100);

/// Returns the checks of a volume of one group with 4096 blocks.
pub(crate) fn checks(block_bytes: u32) -> Checks {
    Checks::new(
        &geometry(block_bytes),
        Checksums::None,
        4096 * u64::from(block_bytes),
    )
}

/// Returns the geometry of a volume of one group with 4096 blocks.
pub(crate) fn geometry(block_bytes: u32) -> Geometry {
    Geometry {
        block_bytes,
        block_count: 4096,
        first_data_block: BlockNr::new(u64::from(block_bytes == 1024)),
        cluster_log: 0,
        blocks_per_group: 8 * block_bytes,
        group_count: 1,
        inodes_per_group: 256,
        inode_bytes: 256,
        inode_count: 256,
        first_inode: InodeNr::new(11),
        descriptor_bytes: 32,
        reserved_descriptor_blocks: 0,
        backups: layout::superblock::Backups::Sparse,
        first_meta_group: None,
        has_flexible_groups: false,
    }
}

fn why(checks: &Checks, label: Label, bytes: &[u8]) -> &'static str {
    match checks.verify(label, BLOCK, bytes) {
        Err(Damage::File(bad)) => bad.why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_is_in_the_order_of_the_kinds() {
    for (index, (kind, _)) in TABLE.iter().enumerate() {
        assert_eq!(*kind as usize, index);
    }
}

#[test]
fn directory_blocks_have_entries() {
    let checks = checks(1024);
    let label = Kind::Directory.of_inode(OWNER, 7);
    let form = entry::BlockForm {
        size: 1024,
        has_tail: false,
    };
    let mut block = entry::first_block(form, OWNER, InodeNr::ROOT, 2);
    assert!(checks.verify(label, BLOCK, &block).is_ok());
    entry::set_length(&mut block, 12, 13);
    let found = why(&checks, label, &block);
    assert_eq!(found, "an entry's length is not a multiple of 4");
}

#[test]
fn indirect_blocks_have_pointers_into_the_volume() {
    let checks = checks(1024);
    let label = Kind::Indirect.of_inode(OWNER, 7);
    let mut block = Block::zeroed(1024);
    for (pointer, is_sound) in [
        (0_u32, true),
        (4095, true),
        (4096, false),
        (u32::MAX, false),
    ] {
        block[40..44].copy_from_slice(&pointer.to_le_bytes());
        let verdict = checks.verify(label, BLOCK, &block);
        assert_eq!(verdict.is_ok(), is_sound, "{pointer}");
        if let Err(Damage::File(bad)) = verdict {
            assert_eq!(bad.offset, 40);
        }
    }
}

#[test]
fn attribute_blocks_have_a_header() {
    let checks = checks(1024);
    let label = Kind::Attributes.of_volume();
    let image = |magic: u32, blocks: u32, users: u32| {
        let mut header = BlockHeader::default();
        header.magic.set(magic);
        header.block_count.set(blocks);
        header.reference_count.set(users);
        let mut block = Block::zeroed(1024);
        block[..BLOCK_HEADER_SIZE].copy_from_slice(header.as_bytes());
        block
    };
    assert!(checks.verify(label, BLOCK, &image(MAGIC, 1, 1)).is_ok());
    for (magic, blocks, users) in [
        (0, 1, 1),
        (MAGIC, 2, 1),
        (MAGIC, 1, 0),
        (MAGIC, 1, REFCOUNT_MAX + 1),
    ] {
        why(&checks, label, &image(magic, blocks, users));
    }
}

#[test]
fn descriptors_stay_in_their_group() {
    let checks = checks(1024);
    let label = Kind::Descriptors.of_group(GroupNr::new(0));
    let mut block = Block::zeroed(1024);
    for (at, value) in [(0, 3_u32), (4, 4), (8, 5)] {
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    assert!(checks.verify(label, BLOCK, &block).is_ok());
    let cases: [(usize, &[u8], &str); 3] = [
        (4, &[1, 0], "bg_inode_bitmap"),
        (8, &[0xFF, 0x0F], "bg_inode_table"),
        (16, &[0xFF, 0x0F], "bg_used_dirs_count"),
    ];
    for (at, value, name) in cases {
        let mut block = block.clone();
        block[at..at + value.len()].copy_from_slice(value);
        let Err(Damage::Volume(Error::Corrupt(Corrupt::Group { field, .. }))) =
            checks.verify(label, BLOCK, &block)
        else {
            panic!("{name}")
        };
        assert_eq!(field, name);
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_damaged_block_is_not_written() {
    let checks = checks(1024);
    let label = Kind::Directory.of_inode(OWNER, 7);
    let seal = || {
        let mut image = Block::zeroed(1024).into_arc();
        checks.seal(label, BlockNr::new(9), &mut image);
    };
    assert!(std::panic::catch_unwind(seal).is_err());
}

/// Returns the checks of a volume with checksums of all metadata.
fn summed() -> Checks {
    let checksums = Checksums::Metadata(0x1234_5678);
    Checks::new(&geometry(1024), checksums, 4096 * 1024)
}

/// Asserts that a block is refused before it is sealed, and accepted afterwards; that sealing it
/// again leaves it alone; and that it belongs to its owner.
fn assert_seals(label: Label, block: Block) {
    let checks = summed();
    let mut image = block.into_arc();
    assert!(checks.verify(label, BLOCK, &image).is_err(), "{label:?}");
    checks.seal(label, BLOCK, &mut image);
    assert!(checks.verify(label, BLOCK, &image).is_ok(), "{label:?}");
    let shared = Arc::clone(&image);
    checks.seal(label, BLOCK, &mut image);
    assert!(Arc::ptr_eq(&shared, &image), "it is not copied");
    let (other_block, other_label) = match label.generation {
        0 => (BLOCK + 1, label),
        generation => (
            BLOCK,
            Label {
                generation: generation + 1,
                ..label
            },
        ),
    };
    assert!(checks.verify(other_label, other_block, &image).is_err());
}

#[test]
fn blocks_are_sealed_by_their_kind() {
    let directory = Kind::Directory.of_inode(OWNER, 7);
    let form = entry::BlockForm {
        size: 1024,
        has_tail: true,
    };
    assert_seals(directory, entry::first_block(form, OWNER, InodeNr::ROOT, 2));
    assert_seals(directory, entry::packed(form, &[]));
    let plain = entry::BlockForm {
        has_tail: false,
        ..form
    };
    let mut root = entry::first_block(plain, OWNER, InodeNr::ROOT, 2);
    root[29] = layout::htree::ROOT_INFO_LENGTH;
    root[32..36].copy_from_slice(&[123, 0, 2, 0]);
    assert_seals(directory, root);
    let mut node = Block::zeroed(1024);
    entry::set_length(&mut node, 0, 1024);
    node[8..12].copy_from_slice(&[126, 0, 1, 0]);
    assert_seals(directory, node);

    let mut extents = Block::zeroed(1024);
    let header = layout::extent::Header {
        magic: layout::extent::MAGIC.into(),
        entry_max: layout::extent::capacity(1024).into(),
        ..Default::default()
    };
    extents[..12].copy_from_slice(header.as_bytes());
    assert_seals(Kind::Extents.of_inode(OWNER, 7), extents);

    let mut attributes = Block::zeroed(1024);
    let header = BlockHeader {
        magic: MAGIC.into(),
        reference_count: 1.into(),
        block_count: 1.into(),
        ..BlockHeader::default()
    };
    attributes[..BLOCK_HEADER_SIZE].copy_from_slice(header.as_bytes());
    assert_seals(Kind::Attributes.of_volume(), attributes);

    let mut orphans = Block::zeroed(1024);
    orphans[8] = 12;
    orphans[1016..].copy_from_slice(orphan::Tail::new(0).as_bytes());
    assert_seals(Kind::Orphans.of_inode(OWNER, 7), orphans);
}

#[cfg(debug_assertions)]
#[test]
fn entries_in_the_place_of_a_tail_are_not_sealed() {
    let form = entry::BlockForm {
        size: 1024,
        has_tail: false,
    };
    let mut image = entry::first_block(form, OWNER, InodeNr::ROOT, 2).into_arc();
    let label = Kind::Directory.of_inode(OWNER, 7);
    let seal = core::panic::AssertUnwindSafe(|| summed().seal(label, BLOCK, &mut image));
    assert!(std::panic::catch_unwind(seal).is_err());
}
