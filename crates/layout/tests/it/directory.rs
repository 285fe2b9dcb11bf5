//! Directories, linear and indexed: created by debugfs, indexed by e2fsck.

use std::collections::BTreeMap;

use layout::directory::{self, entries};
use layout::hash::{HashVersion, dx_hash};
use layout::htree::{self, CountLimit, RootInfo};
use layout::inode::{Inode, InodeFlags};
use layout::mode::FileType;
use layout::superblock::MiscFlags;
use layout::{InodeNr, hash};
use zerocopy::FromBytes;

use crate::image::{Image, Volume, run};

const FILES: u32 = 2000;

fn name(index: u32) -> String {
    let length = index % 60 + 60;
    format!(
        "{index}{}",
        if index.is_multiple_of(7) { "é" } else { "x" }.repeat(length as usize)
    )
}

/// Creates a file system whose directory 12 holds [`FILES`] links to one file.
fn image(options: &str) -> Image {
    let image = Image::make(16, &format!("-b 1024 {options}"));
    let mut commands = String::from("mkdir d\nwrite /dev/null f\ncd d\n");
    for index in 0..FILES {
        commands += &format!("ln <13> {}\n", name(index));
    }
    // debugfs does not extend a directory by itself.
    let commands = commands.replace("cd d\n", &format!("cd d\n{}", "expand_dir .\n".repeat(320)));
    image.debugfs(&commands);
    image
}

/// Returns all names of a directory and their inodes, block by block; index blocks are skipped.
fn names(volume: &Volume, inode: &Inode, blocks: &[u64]) -> BTreeMap<Vec<u8>, u32> {
    let inode_count = volume.superblock.inodes_count.get();
    let mut names = BTreeMap::new();
    for block in blocks {
        let mut covered = 0;
        for entry in entries(volume.file_block(inode, *block), inode_count) {
            let entry = entry.unwrap();
            covered += entry.record_length;
            if let Some(inode) = entry.inode {
                assert!(directory::is_valid_name(entry.name));
                assert_ne!(entry.file_type, FileType::Unknown);
                assert!(names.insert(entry.name.to_vec(), inode.get()).is_none());
            }
        }
        assert_eq!(covered, volume.block_size());
    }
    names
}

fn expected(with_dots: bool) -> BTreeMap<Vec<u8>, u32> {
    let mut names: BTreeMap<Vec<u8>, u32> = (0..FILES)
        .map(|index| (name(index).into_bytes(), 13))
        .collect();
    if with_dots {
        names.insert(b".".to_vec(), 12);
        names.insert(b"..".to_vec(), 2);
    }
    names
}

#[test]
fn linear() {
    let volume = image("-t ext3 -O ^dir_index").read();
    let inode = volume.inode(12);
    let blocks: Vec<u64> = (0..inode.size(false) / 1024).collect();
    assert_eq!(names(&volume, &inode, &blocks), expected(true));
    let root = volume.inode(InodeNr::ROOT.get());
    let root_names = names(&volume, &root, &[0]);
    assert_eq!(root_names[&b"lost+found"[..]], 11);
    assert_eq!(root_names[&b"d"[..]], 12);
}

/// Returns the leaves of a tree as (first hash with its collision bit, block), in order.
fn leaves(volume: &Volume, inode: &Inode, block: u64, at: usize, levels: u8) -> Vec<(u32, u64)> {
    let bytes = volume.file_block(inode, block);
    let (counts, _) = CountLimit::ref_from_prefix(&bytes[at..]).unwrap();
    let (limit, count) = (
        usize::from(counts.limit.get()),
        usize::from(counts.count.get()),
    );
    assert_eq!(limit, htree::limit(bytes.len(), at, false));
    assert!((1..=limit).contains(&count));
    let (index, _) = <[htree::Entry]>::ref_from_prefix_with_elems(&bytes[at..], count).unwrap();
    let mut all = Vec::new();
    for (i, entry) in index.iter().enumerate() {
        let hash = if i == 0 { 0 } else { entry.hash.get() };
        let block = u64::from(entry.block.get() & htree::BLOCK_MASK);
        if levels == 0 {
            all.push((hash, block));
        } else {
            let mut below = leaves(volume, inode, block, htree::NODE_ENTRIES_OFFSET, levels - 1);
            below[0].0 = hash;
            all.extend(below);
        }
    }
    all
}

/// Checks directory 12 of an image, indexed by e2fsck with this hash. Some names have bytes above
/// 0x7F, so that signedness matters.
fn check_indexed(version: HashVersion) {
    let image = image("-t ext3");
    let is_unsigned = version as u8 != version.raw_on_disk();
    let flags = if is_unsigned {
        MiscFlags::UNSIGNED_HASH
    } else {
        MiscFlags::SIGNED_HASH
    };
    let algorithm = ["legacy", "half_md4", "tea"][usize::from(version.raw_on_disk())];
    let flags = flags.bits();
    image.debugfs(&format!(
        "ssv def_hash_version {algorithm}\nssv flags {flags}\n"
    ));
    run("e2fsck", &["-fyD", &image.path_text()], b"", &[0, 1]);
    let volume = image.read();
    let inode = volume.inode(12);
    assert!(inode.flags().contains(InodeFlags::INDEX));
    let root = volume.file_block(&inode, 0);
    let inode_count = volume.superblock.inodes_count.get();
    let dots: Vec<&[u8]> = entries(root, inode_count)
        .map(|entry| entry.unwrap().name)
        .collect();
    assert_eq!(dots, [&b"."[..], b".."]);

    let (info, _) = RootInfo::ref_from_prefix(&root[htree::ROOT_INFO_OFFSET..]).unwrap();
    assert_eq!(info.info_length, htree::ROOT_INFO_LENGTH);
    assert_eq!(info.hash_version, version.raw_on_disk());
    assert_eq!(
        info.indirect_levels, 1,
        "the directory is large enough for two levels"
    );
    let flags = volume.superblock.misc_flags();
    assert_eq!(flags.contains(MiscFlags::UNSIGNED_HASH), is_unsigned);
    let on_disk = HashVersion::from_raw(info.hash_version).unwrap();
    assert_eq!(on_disk.with_signedness(is_unsigned), version);

    let leaves = leaves(
        &volume,
        &inode,
        0,
        htree::ROOT_ENTRIES_OFFSET,
        info.indirect_levels,
    );
    let seed = volume.superblock.hash_seed();
    let mut all = BTreeMap::new();
    for (i, (first, block)) in leaves.iter().enumerate() {
        let end = leaves
            .get(i + 1)
            .map_or(hash::MAJOR_END, |(first, _)| *first);
        let names = names(&volume, &inode, &[*block]);
        for name in names.keys() {
            let major = dx_hash(version, seed, name).major;
            // If the lowest bit of the next hash is set, names with that hash also start in this
            // block.
            let range = first & !1..if end & 1 == 1 { end } else { end.max(1) };
            assert!(range.contains(&major), "{name:?} {major:x} {range:x?}");
        }
        all.extend(names);
    }
    assert_eq!(all, expected(false));
}

#[test]
fn indexed_with_signed_bytes() {
    check_indexed(HashVersion::Legacy);
    check_indexed(HashVersion::HalfMd4);
    check_indexed(HashVersion::Tea);
}

#[test]
fn indexed_with_unsigned_bytes() {
    check_indexed(HashVersion::LegacyUnsigned);
    check_indexed(HashVersion::HalfMd4Unsigned);
    check_indexed(HashVersion::TeaUnsigned);
}
