//! The files that a new volume has: the root directory, `lost+found`, the inode that holds the room for descriptors, and the
//! internal journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::directory::EntryHeader;
use layout::feature::{Compatible, Incompatible};
use layout::inode::{EXTRA_SIZE, Inode, InodeExtra};
use layout::mode::{self, FileType};
use layout::time::InodeTime;
use layout::{Block, BlockNr, InodeNr};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::place::{Places, metadata_blocks};
use super::plan::Plan;
use super::{Options, descriptor_room, journal};
use crate::alloc::Run;
use crate::disk::geometry::Geometry;
use crate::error::Result;

/// The inode of `lost+found`: the first that is not reserved.
pub(super) const LOST_FOUND: InodeNr = InodeNr::new(11);
/// How long `lost+found` is, in bytes, so that e2fsck finds room in it; and in blocks, if those are small.
const LOST_FOUND_BYTES: u32 = 16 << 10;
const LOST_FOUND_BLOCKS: core::ops::RangeInclusive<u32> = 3..=12;
/// The sectors that inodes count in.
const SECTOR: u64 = 512;

/// What is written beside the groups' own metadata.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// Which blocks are taken.
    pub(super) places: Places,
    /// Inodes as they lie in the table.
    pub(super) inodes: BTreeMap<InodeNr, Vec<u8>>,
    /// Blocks of directories and maps.
    pub(super) blocks: BTreeMap<BlockNr, Arc<Block>>,
    /// Where the internal journal lies.
    pub(super) journal: Vec<Run>,
    /// The journal inode's map words, then the two halves of its size: the copy in the superblock.
    pub(super) journal_backup: Option<[u32; 17]>,
}

/// What an inode of a new volume says.
pub(super) struct NewInode {
    pub(super) nr: InodeNr,
    pub(super) mode: u16,
    pub(super) owner: (u32, u32),
    pub(super) links: u16,
    pub(super) size: u64,
    /// Blocks held, map blocks included.
    pub(super) blocks: u64,
    pub(super) words: [u32; 15],
}

/// Makes the first files.
pub(super) fn populate(plan: &mut Plan, options: &Options) -> Result<Image> {
    let mut image = Image::default();
    root(plan, options, &mut image)?;
    lost_found(plan, &mut image)?;
    if plan.features.compatible.contains(Compatible::RESIZE_INODE) {
        descriptor_room::make(plan, &mut image)?;
    }
    if plan.features.compatible.contains(Compatible::HAS_JOURNAL) {
        journal::make(plan, options, &mut image)?;
    }
    Ok(image)
}

fn root(plan: &Plan, options: &Options, image: &mut Image) -> Result<()> {
    let geometry = &plan.geometry;
    let block = image.take(geometry, 1)?[0].first;
    let mut bytes = Block::zeroed(geometry.block_bytes as usize);
    let names = [
        (InodeNr::ROOT, &b"."[..]),
        (InodeNr::ROOT, b".."),
        (LOST_FOUND, b"lost+found"),
    ];
    fill_directory(plan, &mut bytes, &names);
    image.blocks.insert(block, bytes.into_arc());
    image.add_inode(
        plan,
        &NewInode {
            nr: InodeNr::ROOT,
            mode: mode::DIRECTORY | 0o755,
            owner: options.root_owner,
            links: 3,
            size: u64::from(geometry.block_bytes),
            blocks: 1,
            words: direct(&[Run {
                first: block,
                count: 1,
            }]),
        },
    );
    Ok(())
}

fn lost_found(plan: &Plan, image: &mut Image) -> Result<()> {
    let geometry = &plan.geometry;
    let count = LOST_FOUND_BYTES / geometry.block_bytes;
    let count = count.clamp(*LOST_FOUND_BLOCKS.start(), *LOST_FOUND_BLOCKS.end());
    let runs = image.take(geometry, u64::from(count))?;
    let blocks = runs
        .iter()
        .flat_map(|run| (0..run.count).map(|index| run.first + u64::from(index)));
    for (index, block) in blocks.enumerate() {
        let mut bytes = Block::zeroed(geometry.block_bytes as usize);
        let dots = [(LOST_FOUND, &b"."[..]), (InodeNr::ROOT, b"..")];
        fill_directory(plan, &mut bytes, if index == 0 { &dots } else { &[] });
        image.blocks.insert(block, bytes.into_arc());
    }
    image.add_inode(
        plan,
        &NewInode {
            nr: LOST_FOUND,
            mode: mode::DIRECTORY | 0o700,
            owner: (0, 0),
            links: 2,
            size: u64::from(count) * u64::from(geometry.block_bytes),
            blocks: u64::from(count),
            words: direct(&runs),
        },
    );
    Ok(())
}

/// The map words of a file of at most 12 blocks.
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

/// Fills a block with the names of directories; without any, it is one unused entry.
fn fill_directory(plan: &Plan, bytes: &mut [u8], names: &[(InodeNr, &[u8])]) {
    let has_filetype = plan.features.incompatible.contains(Incompatible::FILETYPE);
    let length_of = |name: &[u8]| (size_of::<EntryHeader>() + name.len()).next_multiple_of(4);
    let end = bytes.len();
    if names.is_empty() {
        let header = EntryHeader {
            rec_len: U16::new(end as u16),
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
            rec_len: U16::new(length as u16),
            name_len: name.len() as u8,
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
}

impl Image {
    /// Takes blocks near the start of the volume.
    pub(super) fn take(&mut self, geometry: &Geometry, count: u64) -> Result<Vec<Run>> {
        self.places.take(geometry, geometry.first_data_block, count)
    }

    /// Adds an inode to the table.
    pub(super) fn add_inode(&mut self, plan: &Plan, new: &NewInode) {
        let mut bytes = vec![0; usize::from(plan.geometry.inode_bytes)];
        let time = InodeTime::new(plan.seconds, 0);
        let word = U32::new(time.encode());
        let mut inode = Inode {
            i_mode: U16::new(new.mode),
            i_atime: word,
            i_ctime: word,
            i_mtime: word,
            i_links_count: U16::new(new.links),
            ..Inode::default()
        };
        inode.set_uid(new.owner.0);
        inode.set_gid(new.owner.1);
        inode.set_map(new.words);
        let sectors = new.blocks * (u64::from(plan.geometry.block_bytes) / SECTOR);
        let fits = inode.set_size(new.size, false)
            && inode.set_sectors(sectors, false, plan.geometry.block_bytes);
        assert!(fits, "the first files are far from the limits");
        let (base, extra) = bytes.split_at_mut(size_of::<Inode>());
        base.copy_from_slice(inode.as_bytes());
        if let Ok((extra, _)) = InodeExtra::mut_from_prefix(extra) {
            let (word, epoch) = time.encode_extra();
            extra.i_extra_isize.set(EXTRA_SIZE as u16);
            extra.i_ctime_extra.set(epoch);
            extra.i_mtime_extra.set(epoch);
            extra.i_atime_extra.set(epoch);
            extra.i_crtime.set(word);
            extra.i_crtime_extra.set(epoch);
        }
        self.inodes.insert(new.nr, bytes);
    }

    /// Free blocks of the whole volume.
    pub(super) fn free_blocks(&self, geometry: &Geometry) -> u64 {
        let metadata = |group| u64::from(metadata_blocks(geometry, group));
        let overhead: u64 = geometry.groups().map(metadata).sum();
        geometry.block_count - geometry.first_data_block.get() - overhead - self.places.count()
    }

    /// Blocks of the internal journal.
    pub(super) fn journal_block_count(&self) -> u32 {
        self.journal.iter().map(|run| run.count).sum()
    }
}
