//! The files of a new volume: the root directory, `lost+found`, the inode of the reserved GDT
//! blocks, the internal journal, and the orphan file; and the block of multiple mount protection.

use layout::directory::EntryHeader;
use layout::feature::{Compatible, Incompatible};
use layout::inode::InodeFlags;
use layout::mode::{self, FileType};
use layout::{Block, InodeNr};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::extents::Tree;
use super::image::{Image, NewInode};
use super::plan::{LOST_FOUND, Plan};
use super::{Options, descriptor_room, journal, multi_mount, orphan_file, quota};
use crate::disk::run::Run;
use crate::error::Result;

/// Size of `lost+found` in bytes, so that e2fsck finds room in it, and its limits in blocks.
const LOST_FOUND_BYTES: u32 = 16 << 10;
const LOST_FOUND_BLOCKS: core::ops::RangeInclusive<u32> = 3..=12;
/// Creates the first files.
pub(super) fn populate(plan: &mut Plan, options: &Options) -> Result<Image> {
    let mut image = Image {
        has_lazy_tables: options.lazy_inode_tables && plan.sums.has_group_flags(),
        ..Image::default()
    };
    root(plan, options, &mut image)?;
    lost_found(plan, &mut image)?;
    if plan.features.compatible.contains(Compatible::RESIZE_INODE) {
        descriptor_room::make(plan, &mut image)?;
    }
    if plan.features.compatible.contains(Compatible::HAS_JOURNAL) {
        journal::make(plan, options, &mut image)?;
    }
    if plan.features.incompatible.contains(Incompatible::MMP) {
        multi_mount::make(plan, options, &mut image)?;
    }
    quota::make(plan, &mut image)?;
    if plan.features.compatible.contains(Compatible::ORPHAN_FILE) {
        orphan_file::make(plan, &mut image)?;
    }
    Ok(image)
}

fn root(plan: &Plan, options: &Options, image: &mut Image) -> Result<()> {
    let geometry = &plan.geometry;
    let block = image.take(plan, 1)?[0].first;
    let mut bytes = Block::zeroed(geometry.block_bytes as usize);
    let names = [
        (InodeNr::ROOT, &b"."[..]),
        (InodeNr::ROOT, b".."),
        (LOST_FOUND, b"lost+found"),
    ];
    fill_directory(plan, InodeNr::ROOT, &mut bytes, &names);
    image.blocks.insert(block, bytes.into_arc());
    let (words, flags) = map_of(
        plan,
        &[Run {
            first: block,
            count: 1,
        }],
    );
    image.add_inode(
        plan,
        &NewInode {
            nr: InodeNr::ROOT,
            mode: mode::DIRECTORY | 0o755,
            owner: options.root_owner,
            links: 3,
            size: u64::from(geometry.block_bytes),
            clusters: 1,
            words,
            flags,
        },
    );
    Ok(())
}

fn lost_found(plan: &Plan, image: &mut Image) -> Result<()> {
    let geometry = &plan.geometry;
    let count = LOST_FOUND_BYTES / geometry.block_bytes;
    let count = count.clamp(*LOST_FOUND_BLOCKS.start(), *LOST_FOUND_BLOCKS.end());
    let runs = image.take(plan, u64::from(count))?;
    let blocks = runs
        .iter()
        .flat_map(|run| (0..run.count).map(|index| run.first + u64::from(index)));
    for (index, block) in blocks.enumerate() {
        let mut bytes = Block::zeroed(geometry.block_bytes as usize);
        let dots = [(LOST_FOUND, &b"."[..]), (InodeNr::ROOT, b"..")];
        let names: &[_] = if index == 0 { &dots } else { &[] };
        fill_directory(plan, LOST_FOUND, &mut bytes, names);
        image.blocks.insert(block, bytes.into_arc());
    }
    let (words, flags) = map_of(plan, &runs);
    image.add_inode(
        plan,
        &NewInode {
            nr: LOST_FOUND,
            mode: mode::DIRECTORY | 0o700,
            owner: (0, 0),
            links: 2,
            size: u64::from(count) * u64::from(geometry.block_bytes),
            clusters: u64::from(count.div_ceil(geometry.cluster_blocks())),
            words,
            flags,
        },
    );
    Ok(())
}

/// Returns the map of a small file in its inode, and the flags that say which kind of map it is.
fn map_of(plan: &Plan, runs: &[Run]) -> ([u32; 15], InodeFlags) {
    if !plan.has_extents() {
        return (direct(runs), InodeFlags::empty());
    }
    let tree = Tree::new(runs, plan.geometry.block_bytes);
    (tree.build(&[], None).0, InodeFlags::EXTENTS)
}

/// Returns the block map of a file of at most 12 blocks.
fn direct(runs: &[Run]) -> [u32; 15] {
    let mut words = [0; 15];
    let blocks = runs
        .iter()
        .flat_map(|run| (0..run.count).map(|index| run.first + u64::from(index)));
    for (word, block) in words.iter_mut().zip(blocks) {
        *word = block.get() as u32;
    }
    words
}

/// Fills a block of a directory with entries of directories; without any, it is one unused entry.
fn fill_directory(plan: &Plan, nr: InodeNr, bytes: &mut [u8], names: &[(InodeNr, &[u8])]) {
    let has_filetype = plan.features.incompatible.contains(Incompatible::FILETYPE);
    let length_of = |name: &[u8]| (size_of::<EntryHeader>() + name.len()).next_multiple_of(4);
    let end = bytes.len() - plan.sums.tail_bytes();
    if names.is_empty() {
        let header = EntryHeader {
            record_length: U16::new(end as u16),
            ..EntryHeader::default()
        };
        bytes[..size_of::<EntryHeader>()].copy_from_slice(header.as_bytes());
    }
    let mut at = 0;
    for (index, (inode, name)) in names.iter().enumerate() {
        let is_last = index + 1 == names.len();
        let length = if is_last { end - at } else { length_of(name) };
        let header = EntryHeader {
            inode: U32::new(inode.get()),
            record_length: U16::new(length as u16),
            name_length: name.len() as u8,
            file_type: if has_filetype {
                FileType::Directory.raw()
            } else {
                0
            },
        };
        let name_at = at + size_of::<EntryHeader>();
        bytes[at..name_at].copy_from_slice(header.as_bytes());
        bytes[name_at..name_at + name.len()].copy_from_slice(name);
        at += length;
    }
    plan.sums.seal_directory(nr, bytes);
}
