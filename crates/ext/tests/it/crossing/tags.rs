//! Fast commits made by hand: tags that agree with a volume, and tags that contradict it. The log
//! before them is the engine's.

use std::collections::BTreeMap;
use std::sync::Arc;

use ext::options::DataMode;
use ext::volume::NewInode;
use ext::{Corrupt, Error, MountOptions, Volume};
use layout::checksum;
use layout::checksum::fast_commit::seal;
use layout::extent::Extent;
use layout::fast_commit::{AddRange, DelRange, EntryHeader, Head, InodeHeader, TagType, encode};
use layout::inode::Inode;
use layout::inode_flags::InodeFlags;
use layout::journal::{JournalIncompatible, JournalSuperblock};
use layout::{Block, InodeNr};
use testkit::Random;
use zerocopy::{FromBytes, IntoBytes};

use super::fast_commits::assert_clean;
use super::log_format::{inspect, location};
use super::{readers, writers};
use crate::image::Image;
use crate::oracle;
use crate::rig::take_free_blocks;
use crate::tree::Tree;

const BLOCK: usize = 1024;
/// Numbers of inodes that are free, and of the file of the image; the directory before it is 12.
const FREE: u32 = 100;
const FILE: u32 = 13;
/// A block that is free, far behind the files.
const FREE_BLOCK: u64 = 6500;

/// A list of tags.
type Tags = Vec<Vec<u8>>;

/// Returns an image with a file, a directory and transactions in its log.
fn dirty(features: &str) -> Image {
    let features = ["-O", "fast_commit,^orphan_file", "-O", features];
    let image = Image::with_arguments("ext4", BLOCK as u32, 8 << 20, false, &features);
    writers::by_engine(&image, DataMode::Ordered, |volume| {
        volume.create_directory("/d").expect("mkdir");
        volume.write_file("/file", &[7; 5000]).expect("write");
        volume.sync().expect("sync");
    });
    image
}

/// Adds a fast commit to the log of an image.
fn add(image: &Image, tags: &[Vec<u8>]) {
    let tid = inspect(image).end.expect("the log is dirty").expected.get();
    let device = image.device();
    let blocks: Vec<u64> = location(image)
        .extents
        .iter()
        .flat_map(|extent| extent.first.get()..extent.first.get() + u64::from(extent.count))
        .map(|block| block * BLOCK as u64)
        .collect();
    let block = device
        .read_block(blocks[0], BLOCK as u32)
        .expect("it is there");
    let (mut raw, _) = JournalSuperblock::read_from_prefix(&block).expect("as many bytes");
    let features = raw.incompatible() | JournalIncompatible::FAST_COMMIT;
    raw.incompatible_bits = features.bits().into();
    raw.checksum = checksum::journal_superblock(&raw).into();
    let superblock = Block::copy_from(raw.as_bytes()).into_arc();
    device
        .write_blocks(blocks[0], vec![superblock])
        .expect("it is written");
    let first = raw.length.get() - raw.fast_commit_blocks.get() + 1;
    let mut bytes = encode(TagType::Head, Head::default().as_bytes(), &[]);
    for tag in tags {
        let left = BLOCK - bytes.len() % BLOCK;
        if left < tag.len() + 16 {
            bytes.extend(encode(TagType::Pad, &vec![0; left - 4], &[]));
        }
        bytes.extend(tag);
    }
    let left = BLOCK - bytes.len() % BLOCK;
    bytes.extend(encode(TagType::Tail, &vec![0; left - 4], &[]));
    let mut crc = 0;
    for (place, block) in blocks[first as usize..].iter().zip(bytes.chunks_mut(BLOCK)) {
        crc = seal(block, tid, crc);
        let block = Block::copy_from(block).into_arc();
        device
            .write_blocks(*place, vec![block])
            .expect("it is written");
    }
}

/// Returns the tag of an inode.
fn inode(nr: u32, mode: u16, size: u64, links: u16, generation: u32) -> Vec<u8> {
    inode_with(nr, mode, size, (links, generation), InodeFlags::EXTENTS)
}

fn inode_with(
    nr: u32,
    mode: u16,
    size: u64,
    (links, generation): (u16, u32),
    flags: InodeFlags,
) -> Vec<u8> {
    let mut base = Inode::default();
    base.mode.set(mode);
    base.links_count.set(links);
    base.generation.set(generation);
    base.change_time.set(1_700_000_000);
    base.set_flags(flags);
    assert!(base.set_size(size, false), "a small size");
    let header = InodeHeader { inode: nr.into() };
    let bytes = [base.as_bytes(), &[32, 0, 0, 0, 0, 0, 0, 0]].concat();
    encode(TagType::Inode, header.as_bytes(), &bytes)
}

fn range(nr: u32, from: u32, count: u32, block: u64) -> Vec<u8> {
    let range = AddRange {
        inode: nr.into(),
        extent: Extent::new(from, count, block, false),
    };
    encode(TagType::AddRange, range.as_bytes(), &[])
}

fn hole(nr: u32, from: u32, count: u32) -> Vec<u8> {
    let range = DelRange {
        inode: nr.into(),
        file_block: from.into(),
        count: count.into(),
    };
    encode(TagType::DelRange, range.as_bytes(), &[])
}

fn name(tag_type: TagType, parent: u32, nr: u32, name: &str) -> Vec<u8> {
    let header = EntryHeader {
        parent: parent.into(),
        inode: nr.into(),
    };
    encode(tag_type, header.as_bytes(), name.as_bytes())
}

/// Replays the tags, and returns the tree. Nothing is wrong afterwards.
fn replay(features: &str, tags: &[Vec<u8>]) -> Tree {
    let image = dirty(features);
    add(&image, tags);
    let opened = Volume::open_with_report(image.device(), None, MountOptions::default());
    let (volume, report) = opened.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.replayed_fast_commits, 1);
    let tree = image.own_tree(&volume);
    volume.close().expect("close");
    oracle::assert_fsck_clean(&image, "after fast commits");
    let (_, said) = readers::e2fsck(&["-fn"], &image);
    assert!(!said.contains("? no"), "{said}");
    tree
}

/// Returns the length of a file and its number of links.
fn file(tree: &Tree, path: &str) -> Option<(usize, u32)> {
    let node = tree.get(path.as_bytes())?;
    Some((node.contents.as_ref()?.len(), node.links?))
}

const FEATURES: [&str; 3] = [
    "metadata_csum",
    "^metadata_csum,^64bit",
    "^metadata_csum,^64bit,^extent",
];

#[test]
fn tags_become_files() {
    let tags = [
        inode(FREE, 0o100_644, 3000, 1, 1),
        range(FREE, 0, 3, FREE_BLOCK),
        name(TagType::Create, 2, FREE, "new"),
        name(TagType::Link, 12, FREE, "second"),
        inode(FREE, 0o100_644, 3000, 2, 1),
        inode(FREE + 1, 0o40_755, 1024, 2, 2),
        name(TagType::Create, 12, FREE + 1, "below"),
        inode(FREE + 2, 0o40_755, 1024, 2, 3),
        name(TagType::Create, 2, FREE + 2, "gone"),
        name(TagType::Unlink, 2, FREE + 2, "gone"),
        name(TagType::Unlink, 2, FILE, "file"),
    ];
    for features in &FEATURES[..2] {
        let tree = replay(features, &tags);
        assert_eq!(file(&tree, "/new"), Some((3000, 2)));
        assert_eq!(file(&tree, "/d/second"), Some((3000, 2)));
        assert_eq!(file(&tree, "/d/below"), Some((0, 2)));
        assert_eq!(file(&tree, "/d"), Some((0, 3)));
        assert!(file(&tree, "/file").is_none() && file(&tree, "/gone").is_none());
    }
}

/// Ranges far apart: a tree of two levels below the root, and all kinds of indirect blocks.
#[test]
fn ranges_become_block_maps() {
    const FAR: u32 = 66_000;
    for features in FEATURES {
        let flags = match features.contains("^extent") {
            true => InodeFlags::empty(),
            false => InodeFlags::EXTENTS,
        };
        let size = u64::from(FAR + 1) * BLOCK as u64;
        let mut tags: Tags = vec![inode_with(FREE, 0o100_644, size, (1, 1), flags)];
        for number in 0..400 {
            tags.push(range(
                FREE,
                20 + number * 8,
                1,
                FREE_BLOCK + u64::from(number) * 2,
            ));
        }
        tags.push(range(FREE, FAR, 1, FREE_BLOCK + 1000));
        tags.push(range(FREE, 3, 5, FREE_BLOCK + 1010));
        tags.push(hole(FREE, 28, 1));
        tags.push(hole(FREE, 0, 4));
        tags.push(name(TagType::Create, 2, FREE, "new"));
        let tree = replay(features, &tags);
        let expected = Some((size as usize, 1));
        assert_eq!(file(&tree, "/new"), expected, "{features}");
    }
}

/// The number of the file in pieces, and the number of its pieces.
const PIECES: u32 = 12;
const PIECE_COUNT: u32 = 1000;

/// Returns an image with a file in pieces, at every second block, in full nodes.
fn in_pieces(is_full: bool) -> Image {
    let features = ["-O", "fast_commit,^orphan_file"];
    let image = Image::with_arguments("ext4", BLOCK as u32, 8 << 20, false, &features);
    writers::by_engine(&image, DataMode::Ordered, move |volume| {
        let file = volume.create_file("/pieces", &NewInode::default());
        let file = file.expect("create");
        for at in 0..u64::from(PIECE_COUNT) {
            file.write_at(at * 2 * BLOCK as u64, &[1; BLOCK])
                .expect("write");
        }
        file.close().expect("close");
        volume.sync().expect("sync");
        if is_full {
            take_free_blocks(volume);
            volume.sync().expect("sync");
        }
    });
    image
}

/// The file in pieces after a replay.
struct Pieces {
    /// The block of each of its blocks.
    map: BTreeMap<u64, u64>,
    /// The contents of the nodes.
    nodes: BTreeMap<u64, Arc<Block>>,
}

/// Replays the tags. Nothing is wrong afterwards.
fn pieces_after(image: &Image, tags: &[Vec<u8>]) -> Pieces {
    let image = image.copy();
    add(&image, tags);
    let volume = Volume::open(image.device(), None, MountOptions::default());
    let volume = volume.unwrap_or_else(|error| panic!("{error}"));
    let found = volume.blocks_of(InodeNr::new(PIECES)).expect("a map");
    volume.close().expect("close");
    assert_clean(&image, "after fast commits");
    let mut pieces = Pieces {
        map: BTreeMap::new(),
        nodes: BTreeMap::new(),
    };
    for extent in found {
        if let Some(first) = extent.file_block {
            pieces.map.extend((first.get()..).zip(extent.blocks()));
            continue;
        }
        for nr in extent.blocks() {
            let node = image.device().read_block(nr * BLOCK as u64, BLOCK as u32);
            pieces.nodes.insert(nr, node.expect("a node"));
        }
    }
    pieces
}

/// A range changes the leaf that it lies in, and not the whole tree.
#[test]
fn other_nodes_stay_as_they_are() {
    let image = in_pieces(false);
    let before = pieces_after(&image, &[]).nodes;
    assert!(before.len() > 10, "{} nodes", before.len());
    for file_block in [1, PIECE_COUNT + 1, 2 * PIECE_COUNT - 3] {
        let after = pieces_after(&image, &[range(PIECES, file_block, 1, FREE_BLOCK)]).nodes;
        let is_changed = |(nr, node): &(&u64, &_)| before.get(nr) != Some(*node);
        let changed = after.iter().filter(is_changed).count();
        // The leaf, what does not fit it, and the node above them.
        assert!(changed <= 3, "{changed} nodes of {}", after.len());
    }
}

/// A leaf that overflows takes a block more. On a full volume the tree is built of full nodes.
#[test]
fn a_full_volume_gets_full_nodes() {
    let image = in_pieces(true);
    let Pieces { mut map, nodes } = pieces_after(&image, &[]);
    let last = 2 * PIECE_COUNT - 2;
    let block = map.remove(&last.into()).expect("it is mapped");
    map.insert(1, block);
    let tags = [hole(PIECES, last, 1), range(PIECES, 1, 1, block)];
    let after = pieces_after(&image, &tags);
    assert!(after.map == map);
    assert_eq!(after.nodes.len(), nodes.len());
}

/// Holes and ranges, over parts of leaves and over many.
#[test]
fn trees_map_what_the_tags_say() {
    let image = in_pieces(false);
    let before = pieces_after(&image, &[]).map;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (mut tags, mut map) = (Vec::new(), before.clone());
        for number in 0..1 + random.below(8) {
            let at = random.below(2 * u64::from(PIECE_COUNT) - 8);
            if random.below(2) == 0 {
                let most = [2, 40, 700][random.below(3) as usize];
                let count = 1 + random.below(most);
                tags.push(hole(PIECES, at as u32, count as u32));
                map.retain(|nr, _| !(at..at + count).contains(nr));
                continue;
            }
            let (block, count) = (FREE_BLOCK + number * 8, 1 + random.below(6));
            tags.push(range(PIECES, at as u32, count as u32, block));
            map.extend((at..at + count).zip(block..));
        }
        assert!(pieces_after(&image, &tags).map == map, "seed {seed}");
    }
}

/// A file that is deleted, whose number is used again, and one without a name.
#[test]
fn numbers_are_used_again() {
    let tags = [
        name(TagType::Unlink, 2, FILE, "file"),
        inode(FILE, 0o100_600, 100, 1, 0xABCD),
        range(FILE, 0, 1, FREE_BLOCK),
        name(TagType::Create, 12, FILE, "again"),
        inode(FREE, 0o100_600, 1000, 0, 1),
        range(FREE, 0, 2, FREE_BLOCK + 9),
    ];
    let tree = replay(FEATURES[0], &tags);
    assert_eq!(file(&tree, "/d/again"), Some((100, 1)));
    assert!(file(&tree, "/file").is_none());
}

/// A file that was made without a name and got one: Linux writes the name and the ranges before the
/// fields.
#[test]
fn a_name_may_come_before_its_inode() {
    let tags = [
        name(TagType::Link, 2, FREE, "named"),
        range(FREE, 0, 2, FREE_BLOCK),
        inode(FREE, 0o100_600, 2000, 1, 1),
    ];
    let tree = replay(FEATURES[0], &tags);
    assert_eq!(file(&tree, "/named"), Some((2000, 1)));
}

/// Another generation, as that of `chattr -v`, makes no other file.
#[test]
fn a_new_generation_leaves_the_contents_alone() {
    for features in &FEATURES[..2] {
        let tree = replay(features, &[inode(FILE, 0o100_600, 5000, 1, 0xABCD)]);
        assert_eq!(file(&tree, "/file"), Some((5000, 1)));
        let contents = tree[b"/file".as_slice()].contents.as_ref().expect("bytes");
        assert!(contents.iter().all(|byte| *byte == 7));
    }
}

/// Tags of inodes that are not in use, and names that are there or not there, change nothing.
#[test]
fn tags_of_deleted_inodes_are_skipped() {
    let shape = |tree: Tree| -> Vec<_> {
        let nodes = tree.into_iter();
        nodes
            .map(|(path, node)| (path, node.links, node.contents))
            .collect()
    };
    let before = shape(replay(FEATURES[0], &[]));
    let tags = [
        range(FREE, 0, 3, FREE_BLOCK),
        hole(FREE, 0, 3),
        name(TagType::Link, 2, FREE, "x"),
        name(TagType::Unlink, 2, FREE, "x"),
        name(TagType::Unlink, 2, FILE, "x"),
        name(TagType::Unlink, 2, FILE, "d"),
        name(TagType::Link, FREE, FILE, "x"),
        name(TagType::Create, 2, FILE, "file"),
    ];
    assert!(shape(replay(FEATURES[0], &tags)) == before);
}

#[test]
fn contradictions_are_errors() {
    let last = u32::MAX;
    let cases: &[(Tags, &str)] = &[
        (vec![inode(last, 0o100_644, 0, 1, 1)], "cannot change it"),
        (vec![inode(0, 0o100_644, 0, 1, 1)], "cannot change it"),
        (vec![inode(8, 0o100_644, 0, 1, 1)], "cannot change it"),
        (vec![inode(FREE, 0o644, 0, 1, 1)], "mode"),
        (vec![inode(12, 0o100_644, 0, 1, 1)], "becomes a file"),
        (
            vec![
                inode(FREE, 0o40_755, 0, 2, 1),
                inode(FREE, 0o100_644, 0, 1, 1),
            ],
            "becomes a file",
        ),
        (vec![inode(FILE, 0o20_644, 0, 1, 9)], "another kind"),
        (vec![range(FILE, 0, 1, 1)], "outside"),
        (vec![range(FILE, 0, 1, 1 << 40)], "outside"),
        (vec![range(FILE, last, 2, FREE_BLOCK)], "range"),
        (vec![range(12, 0, 1, FREE_BLOCK)], "like a file"),
        (vec![hole(2, 0, 1)], "cannot change it"),
        (vec![name(TagType::Link, 2, FILE, "a/b")], "name"),
        (vec![name(TagType::Link, 2, FILE, "..")], "name"),
        (vec![name(TagType::Link, FILE, FILE, "x")], "no directory"),
        (vec![name(TagType::Link, 2, 12, "x")], "another name"),
        (vec![name(TagType::Create, 2, FREE, "x")], "not in use"),
        (
            vec![name(TagType::Link, last, FILE, "x")],
            "cannot change it",
        ),
        (
            vec![
                inode(FREE, 0o40_755, 1024, 2, 1),
                name(TagType::Create, FREE, FREE, "self"),
            ],
            "name of another file",
        ),
        (
            vec![
                name(TagType::Link, 12, FILE, "x"),
                name(TagType::Unlink, 2, 12, "d"),
            ],
            "with entries",
        ),
    ];
    for (tags, expected) in cases {
        let image = dirty(FEATURES[0]);
        add(&image, tags);
        let error = Volume::open(image.device(), None, MountOptions::default());
        let error = error.map(drop).expect_err(expected);
        assert!(
            matches!(error, Error::Corrupt(Corrupt::FastCommit { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(expected), "{error}: {expected}");
    }
}

/// Names of a directory that ignores case, and of an encrypted one, are not replayed: the first
/// need Unicode, and Linux logs none of the second.
#[test]
fn names_that_cannot_be_replayed_are_refused() {
    for (feature, flag) in [
        ("casefold", InodeFlags::CASEFOLD),
        ("encrypt", InodeFlags::ENCRYPT),
    ] {
        let flags = InodeFlags::EXTENTS | flag;
        let tags = [
            inode_with(FREE, 0o40_755, 1024, (2, 2), flags),
            name(TagType::Create, 12, FREE, "special"),
            name(TagType::Link, FREE, FILE, "x"),
        ];
        let image = dirty(feature);
        add(&image, &tags);
        // The log stays, and so does the reason.
        for _ in 0..2 {
            let opened = Volume::open(image.device(), None, MountOptions::default());
            match opened.map(drop).expect_err(feature) {
                Error::CaseFolded => assert_eq!(feature, "casefold"),
                error => assert!(error.to_string().contains("encrypted directory"), "{error}"),
            }
        }
        add(&image, &tags[..2]);
        let volume = Volume::open(image.device(), None, MountOptions::default());
        let volume = volume.unwrap_or_else(|error| panic!("{feature}: {error}"));
        assert!(volume.resolve("/d/special", false).is_ok());
        volume.close().expect("close");
    }
}
